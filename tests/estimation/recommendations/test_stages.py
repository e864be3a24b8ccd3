"""Pipeline stages in searches: as many as memory needs, and what leaves no room for bursts."""

import numpy as np

from service.core.search.batch_evaluation import evaluate_batches
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest

T4, H100 = "nvidia-t4-16gb", "nvidia-h100-sxm-80gb"


def asked(model="meta-llama/Llama-3.1-70B", tokens=1024, **load):
    return RecommendationRequest.model_validate(
        {
            "model": model,
            "workload": {
                "input_tokens": tokens,
                "output_tokens": 256,
                **(load or {"requests_per_s": 2.0}),
            },
            "limits": {"implied": False},
            "search": {
                "accelerators": [T4, H100],
                "regions": ["country/US"],
                "placement": "anywhere",
                "precisions": ["bf16"],
            },
        }
    )


def stages(request, snapshot):
    """Pipeline stages that are tried on each accelerator."""
    search = resolve_search(request, snapshot)
    found = {entry.id: set() for entry in search.accelerators}
    space, around = search.spaces[0], search.environments[0]
    for each in evaluate_batches(search.models[0].value, space, search.demand, around):
        for batch in each.batches:
            for at in batch.accelerator:
                found[search.accelerators[at].id].add(space.layouts[batch.layout].pipeline)
    return found


def test_layers_are_divided_where_a_machine_does_not_hold_them(packaged_snapshot):
    # 141 GB in BF16: a machine of eight H100 has 640 GB, one of eight T4 128 GB, two of them 256.
    assert stages(asked(), packaged_snapshot) == {H100: {1}, T4: {2, 4}}


def test_long_sequences_ask_for_stages_too(packaged_snapshot):
    # A sequence of a million tokens takes 328 GB beside the weights.
    search = resolve_search(asked(tokens=1_000_000), packaged_snapshot)
    assert search.spaces[0].needed_stages_only
    assert stages(asked(tokens=1_000_000), packaged_snapshot)[H100] == {1, 2}


def test_more_stages_than_memory_needs_are_counted(packaged_snapshot):
    answer = recommendation_answer(asked(), packaged_snapshot)
    said = {one["limit"]: one for one in answer["excluded"]}
    assert said["needs_its_pipeline_stages"]["candidates"] > 0
    counted = sum(one["candidates"] for one in answer["excluded"] if one["stage"] != "place")
    searched = answer["searched"]
    assert counted == searched["combinations"] - searched["within_limits"]


def test_what_has_no_room_for_bursts_lacks_as_much_as_they_take(packaged_snapshot):
    request = asked("meta-llama/Llama-3.1-8B", 4096, concurrency=512)
    search = resolve_search(request, packaged_snapshot)
    (rows,) = search_candidates(search).by_model
    lacking = rows.headroom_ratio[rows.headroom_ratio < 0.0]
    # A sequence takes 0.5 GB; nothing that is one too many lacks less than a share of it.
    assert len(lacking) > 3
    assert np.max(lacking) < -1e-5
