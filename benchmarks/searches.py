"""What searches for the best choice take: part of ``./headroom bench sweeps``.

Three questions by processor time: serving one model on everything that can be rented, training it,
and a search of millions of candidates, a candidate being a configuration in a place.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest

SERVING = {
    "model": "meta-llama/Llama-3.1-70B",
    "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 2.0},
}
TRAINING = {
    "model": "meta-llama/Llama-3.1-8B",
    "training": {"tokens": 2e9, "sequence_length": 8192},
    "search": {"max_accelerators": 64},
}
#: Millions of configurations that are for rent where they are counted.
LARGE = {
    "models": [
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-70B",
        "mistralai/Mixtral-8x7B-v0.1",
        "Qwen/Qwen3-30B-A3B",
    ],
    "training": {"tokens": 2e9, "sequence_length": 4096},
}
MOST_ACCELERATORS = 1024

#: Candidates to which the time of the large search is scaled.
CANDIDATES = 10_000_000
#: What the service promises itself [s].
LIMITS = {"serving_search_s": 0.8, "training_search_s": 2.0, "ten_million_candidates_s": 10.0}


def searches(
    snapshot: CatalogSnapshot, rounds: int, most_accelerators: int = MOST_ACCELERATORS
) -> dict[str, Any]:
    """Processor time of each search, the median of the rounds [s].

    The large one goes up to ``most_accelerators``.
    """
    large = LARGE | {"search": {"max_accelerators": most_accelerators}}

    def serving() -> Any:
        return recommendation_answer(RecommendationRequest.model_validate(SERVING), snapshot)

    def training(body: Any) -> Any:
        asked = TrainingRecommendationRequest.model_validate(body)
        return training_recommendation_answer(asked, snapshot)

    large_s, found = _timed(lambda: training(large), rounds)
    candidates = found["searched"]["candidates"]
    figures = {
        "serving_search_s": round(_timed(serving, rounds)[0], 3),
        "training_search_s": round(_timed(lambda: training(TRAINING), rounds)[0], 3),
        "ten_million_candidates_s": round(large_s * CANDIDATES / candidates, 3),
    }
    return {
        **figures,
        "large_search_candidates": candidates,
        "candidates_per_s": round(candidates / large_s),
        "limits": [
            {"figure": name, "value": figures[name], "most": most, "kept": figures[name] <= most}
            for name, most in LIMITS.items()
        ],
    }


def _timed(search: Any, rounds: int) -> tuple[float, Any]:
    search()
    taken_s = []
    for _ in range(rounds):
        began_s = time.process_time()
        found = search()
        taken_s.append(time.process_time() - began_s)
    return statistics.median(taken_s), found
