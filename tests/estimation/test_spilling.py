"""Engines that leave to the host, without being told, what the accelerators have no room for."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.estimate import inference_estimate, inference_latency_answer
from service.estimation.inference.requests import InferenceRequest
from service.estimation.requests import LatencyInferenceRequest


def asked(engine: str = "ollama", **given: Any) -> dict[str, Any]:
    return {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "rtx-4090",
        "precision": {"weights": "gguf-q4_k_m"},
        "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 1},
        **given,
        "serving": {"engine": engine, **given.get("serving", {})},
    }


def answer(snapshot: Any, **given: Any) -> dict[str, Any]:
    return inference_latency_answer(LatencyInferenceRequest(**asked(**given)), snapshot)


def codes(found: dict[str, Any]) -> set[str]:
    return {one["code"] for one in found["warnings"]}


@pytest.mark.parametrize("engine", ["ollama", "lm-studio", "koboldcpp", "llama.cpp"])
def test_what_has_no_room_is_computed_by_the_host(packaged_snapshot, engine):
    found = answer(packaged_snapshot, engine=engine)
    assert found["fits"]
    assert "spilled_to_host" in codes(found)
    # As it is where the request says so itself.
    told = answer(packaged_snapshot, engine=engine, serving={"offload": {}})
    assert found["tpot_s"]["value"] == pytest.approx(told["tpot_s"]["value"], rel=0.05)


@pytest.mark.parametrize(
    "given",
    [
        {"engine": "vllm"},  # it ends for lack of memory
        {"serving": {"engine_version": "2025"}, "engine": "llama.cpp"},  # before it fitted itself
        {"accelerator": "apple-m1-pro-32gb"},  # the host has the same memory
        {"model": "deepseek-ai/DeepSeek-V3"},  # no desktop holds it
    ],
)
def test_what_nothing_takes_does_not_fit(packaged_snapshot, given):
    found = answer(packaged_snapshot, **given)
    assert not found["fits"]
    assert "spilled_to_host" not in codes(found)


def test_what_fits_stays_where_it_is(packaged_snapshot):
    found = answer(packaged_snapshot, model="meta-llama/Llama-3.1-8B")
    assert found["fits"]
    assert not codes(found) & {"spilled_to_host", "layers_on_host"}


def test_whole_layers_leave_the_accelerator_less_to_do_than_experts_alone(packaged_snapshot):
    """Routed experts are most of the bytes, and few of those that a token touches."""
    given = {"model": "openai/gpt-oss-120b", "precision": {"weights": "gguf-mxfp4"}}
    layers = answer(packaged_snapshot, engine="ollama", **given)["tpot_s"]["value"]
    experts = answer(packaged_snapshot, engine="llama.cpp", **given)["tpot_s"]["value"]
    assert layers > 1.3 * experts


def test_an_accelerator_that_waits_for_its_host_draws_less(packaged_snapshot):
    """Most of a token's time is the processors', in which no kernel runs on the card."""

    def power_w(model: str) -> float:
        found = inference_estimate(InferenceRequest(**asked(model=model)), packaged_snapshot)
        drawn: float = found["energy"]["accelerator_decode_power_w"]["value"]
        return drawn

    assert power_w("meta-llama/Llama-3.1-70B") < 0.5 * power_w("meta-llama/Llama-3.1-8B")


def test_a_laptop_reads_no_more_than_its_two_channels(packaged_snapshot):
    found = answer(packaged_snapshot, accelerator="rtx-4090-laptop")
    outside_bytes = 20e9
    assert found["tpot_s"]["value"] > outside_bytes / 120e9


@pytest.mark.parametrize(
    ("model", "accelerator", "count"),
    [
        ("Qwen/Qwen3-32B", "rtx-3090", 1),
        ("meta-llama/Llama-3.1-8B", "rtx-3060-12gb", 1),
        ("meta-llama/Llama-3.3-70B-Instruct", "rtx-3090", 2),
        ("openai/gpt-oss-20b", "rtx-4060-ti-16gb", 1),  # of the same width, beside less
    ],
)
def test_what_has_no_room_as_it_ships_is_run_quantised_on_a_machine_of_ones_own(
    packaged_snapshot, model, accelerator, count
):
    """Whoever names a card for a desktop and a model alone asks what it can do with it."""
    request = {"model": model, "accelerator": accelerator, "accelerator_count": count}
    found = inference_latency_answer(LatencyInferenceRequest(**request), packaged_snapshot)
    assert found["fits"]
    assert "quantised_to_fit" in codes(found)
    files = "gguf-mxfp4" if "gpt-oss" in model else "gguf-q4_k_m"
    told = {"serving": {"engine": "llama.cpp"}, "precision": {"weights": files}}
    same = inference_latency_answer(LatencyInferenceRequest(**request, **told), packaged_snapshot)
    assert found["tpot_s"]["value"] == same["tpot_s"]["value"]


@pytest.mark.parametrize(
    "given",
    [
        {"serving": {"engine": "vllm"}},
        {"precision": {"weights": "bf16"}},
        {"accelerator": "l40s", "model": "meta-llama/Llama-3.3-70B-Instruct"},  # a server's
        {"model": "meta-llama/Llama-3.1-405B"},  # no format of one card's size
    ],
)
def test_what_a_request_says_is_kept_though_it_has_no_room(packaged_snapshot, given):
    request = {"model": "Qwen/Qwen3-32B", "accelerator": "rtx-3090", **given}
    found = inference_latency_answer(LatencyInferenceRequest(**request), packaged_snapshot)
    assert not found["fits"]
    assert "quantised_to_fit" not in codes(found)


@pytest.mark.parametrize(
    "request_",
    [
        asked(),  # some layers are the host's
        {"model": "Qwen/Qwen3-32B", "accelerator": "rtx-3090"},  # run quantised
    ],
)
def test_impacts_are_of_the_same_run_as_estimates(packaged_snapshot, request_):
    estimate = inference_estimate(InferenceRequest(**request_, region="FR"), packaged_snapshot)
    impacts = impacts_answer(ImpactsRequest(**request_, region="FR"), packaged_snapshot)
    of_estimate, of_impacts = estimate["energy"], impacts["energy"]
    for name in ("it_power_w", "it_energy_per_request_wh"):
        assert of_impacts[name] == of_estimate[name]
