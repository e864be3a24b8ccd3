"""Engines that leave to the host, without being told, what the accelerators have no room for."""

from __future__ import annotations

from typing import Any

import pytest

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
