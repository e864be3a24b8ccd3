"""Sequences of runs whose requests do not say how long they are end where positions end."""

from __future__ import annotations

import pytest

from service.estimation.post_training.estimate import post_training_answer
from service.estimation.post_training.requests import PostTrainingRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.sweeps.training import resolve_training_study
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from service.portal.training_questions import TrainingPageRequest

ASSUMED, BEYOND = "sequence_length_assumed", "context_beyond_model"
ONE = {"accelerator": "nvidia-a100-sxm-80gb", "accelerator_count": 8}


def _codes(answer):
    return {one["code"] for one in answer["warnings"]}


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("gpt2", 1024), ("EleutherAI/pythia-160m", 2048), ("meta-llama/Llama-3.1-8B", 4096)],
)
def test_a_run_whose_length_nobody_tells_stays_within_positions(packaged_snapshot, model, tokens):
    request = EstimateTrainingRequest.model_validate({"model": model, **ONE})
    answer = training_estimate(request, packaged_snapshot)
    assert answer["deployment"]["training"]["sequence_length"] == tokens
    assert (ASSUMED in _codes(answer)) is (tokens < 4096)
    assert BEYOND not in _codes(answer)


def test_a_length_that_is_told_is_taken(packaged_snapshot):
    told = {"model": "gpt2", **ONE, "training": {"sequence_length": 4096}}
    answer = training_estimate(EstimateTrainingRequest.model_validate(told), packaged_snapshot)
    assert answer["deployment"]["training"]["sequence_length"] == 4096
    assert BEYOND in _codes(answer)
    assert ASSUMED not in _codes(answer)


def test_searches_try_what_the_model_has_positions_for(packaged_snapshot):
    body = {"model": "gpt2", "training": {"tokens": 1e9}, "search": {"max_accelerators": 8}}
    request = TrainingRecommendationRequest.model_validate(body)
    answer = training_recommendation_answer(request, packaged_snapshot)
    assert answer["choices"]
    assert ASSUMED in _codes(answer)
    study = resolve_training_study(TrainingSweepRequest.model_validate(body), packaged_snapshot)
    assert study.search.demand.sequence_tokens == 1024.0


def test_a_teacher_reads_the_sequences_of_its_student(packaged_snapshot):
    body = {
        "model": "gpt2",
        **ONE,
        "distillation": {"teacher": {"model": "gpt2-xl"}},
    }
    request = PostTrainingRequest.model_validate(body)
    answer = post_training_answer(request, packaged_snapshot)
    assert answer["deployment"]["training"]["sequence_length"] == 1024
    assert BEYOND not in _codes(answer)


def test_a_page_leaves_the_length_to_the_model_unless_it_is_changed():
    untold = TrainingPageRequest.model_validate({"model": "gpt2"})
    told = TrainingPageRequest.model_validate({"model": "gpt2", "sequence_length": 512})
    assert "sequence_length" not in untold.estimate.training.model_fields_set
    assert told.estimate.training.sequence_length == 512
