"""Searches tell how far they are, and end when whoever is told says so."""

import pytest

from service.estimation.progress import watched_by
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest

SEARCH = {"accelerators": ["nvidia-h100-sxm-80gb"], "regions": ["country/SE"]}
SERVING = RecommendationRequest.model_validate({"model": "llama-3.1-8b", "search": SEARCH})
TRAINING = TrainingRecommendationRequest.model_validate(
    {"model": "llama-3.2-1b", "training": {"tokens": 1e9}, "search": SEARCH}
)
BOTH = pytest.mark.parametrize(
    ("answer", "request_"),
    [(recommendation_answer, SERVING), (training_recommendation_answer, TRAINING)],
)


@BOTH
def test_the_share_that_is_done_grows_and_moves_no_answer(answer, request_, packaged_snapshot):
    ratios = []
    with watched_by(ratios.append):
        found = answer(request_, packaged_snapshot)
    assert ratios == sorted(ratios)
    assert len(set(ratios)) > 3
    assert 0.0 <= ratios[0] < ratios[-1] < 1.0
    assert found == answer(request_, packaged_snapshot)


class LeftError(Exception):
    """Nobody waits any more."""


@BOTH
def test_a_search_ends_with_what_it_is_answered(answer, request_, packaged_snapshot):
    def told(done_ratio):
        if done_ratio > 0.1:
            raise LeftError

    with pytest.raises(LeftError), watched_by(told):
        answer(request_, packaged_snapshot)
    assert answer(request_, packaged_snapshot)["choices"]
