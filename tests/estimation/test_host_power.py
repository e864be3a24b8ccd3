"""Power of hosts whose processors compute: layers, experts and updates of an optimizer."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from service.estimation.use_cases import USE_CASES

LAYERS: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "accelerator": "rtx-3090",
    "platform": "desktop-265k",
    "precision": {"weights": "gguf-q4_k_m"},
    "workload": {"input_tokens": 128, "output_tokens": 512},
    "serving": {"engine": "llama.cpp", "offload": {}},
}
EXPERTS: dict[str, Any] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "accelerator": "nvidia-l40s-48gb",
    "platform": "server-pcie-8",
    "precision": {"weights": "gguf-q4_k_m"},
    "workload": {"input_tokens": 128, "output_tokens": 512},
    "serving": {"engine": "ktransformers"},
}
TRAINED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "training": {"micro_batch_size": 1, "sequence_length": 2048, "offload": {"optimizer": "cpu"}},
}


def served(snapshot: Any, asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return inference_estimate(InferenceRequest.model_validate(asked | changes), snapshot)["energy"]


def trained(snapshot: Any, asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    request = EstimateTrainingRequest.model_validate(asked | changes)
    return training_estimate(request, snapshot)["energy"]


def machine(like: str, watts: float) -> dict[str, Any]:
    return {"like": like, "figures": {"host_processors_w": watts}}


def drawn_w(snapshot: Any, ask: Any, asked: dict[str, Any], platform: Any) -> float:
    return float(ask(snapshot, asked, platform=platform)["it_power_w"]["value"])


@pytest.mark.parametrize(
    ("ask", "asked", "like", "least"),
    [
        (served, LAYERS, "desktop-265k", 0.8),
        (served, EXPERTS, "server-pcie-8", 0.3),
        (trained, TRAINED, "nvidia-dgx-h100", 0.5),
    ],
    ids=["layers", "experts", "updates"],
)
def test_processors_draw_their_power_for_as_long_as_they_compute(
    packaged_snapshot, ask, asked, like, least
):
    without, with_them = (
        drawn_w(packaged_snapshot, ask, asked, machine(like, watts)) for watts in (0.0, 100.0)
    )
    supply = packaged_snapshot.platforms[like].value.platform.supply_efficiency_ratio
    # One of eight cards has all processors of its host, as nobody else computes with them.
    assert least < (with_them - without) * supply / 100.0 <= 1.0
    assert drawn_w(packaged_snapshot, ask, asked, like) > with_them


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        (served, LAYERS | {"model": "meta-llama/Llama-3.1-8B", "serving": {}}),
        (
            served,
            LAYERS
            | {
                "precision": {"weights": "exl2-4.25bpw"},
                "serving": {"engine": "exllamav2", "offload": {}},
            },
        ),
        (trained, TRAINED | {"training": {"micro_batch_size": 1, "sequence_length": 2048}}),
    ],
    ids=["all in the card", "copied", "updated on accelerators"],
)
def test_processors_that_do_not_compute_draw_nothing_more(packaged_snapshot, ask, asked):
    none, much = (
        drawn_w(packaged_snapshot, ask, asked, machine("desktop", watts)) for watts in (0.0, 1e3)
    )
    assert none == much


def test_processors_wait_while_drives_bring_states(packaged_snapshot):
    def ratio(place: str) -> float:
        training = TRAINED["training"] | {"zero_stage": 3, "offload": {"optimizer": place}}
        none, some = (
            drawn_w(
                packaged_snapshot,
                trained,
                TRAINED | {"training": training},
                machine("nvidia-dgx-h100", watts),
            )
            for watts in (0.0, 100.0)
        )
        return some - none

    assert 0.0 < ratio("nvme") < 0.8 * ratio("cpu")


def test_searches_and_estimates_draw_the_same(packaged_snapshot):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "training": {"tokens": 1e9, "sequence_length": 2048, "offload": True},
        "search": {
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["country/DE"],
            "max_accelerators": 1,
            "precisions": ["bf16"],
        },
    }
    use_case = USE_CASES["recommendations/training"]
    found = use_case.compute(use_case.request.model_validate(asked), packaged_snapshot)
    candidate = found["choices"][0]["candidate"]
    assert candidate["training"]["offload_optimizer"] == "cpu"
    request = EstimateTrainingRequest.model_validate(found["choices"][0]["request"])
    energy = training_estimate(request, packaged_snapshot)["energy"]
    assert found["choices"][0]["estimate"]["energy"]["it_power_w"] == energy["it_power_w"]
    run_kwh = energy["it_energy_run_kwh"]["value"]
    pue = packaged_snapshot.platforms["nvidia-dgx-h100"].value.platform.site_pue_ratio.value
    # What a search ranks by contains the processors, as what it answers does.
    assert candidate["metrics"]["energy"] == pytest.approx(run_kwh * pue, rel=1e-6)
