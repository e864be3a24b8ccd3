"""Engines that leave routed experts to the processors of the host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.core.performance.inference.phases import Phase
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.inference.estimate import (
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
from service.estimation.resolution import Problems
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest

_SERVER = {"tier": "ddr5-8ch", "units": 2}
_ROUTED, _DENSE = "Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B"


def asked(model: str = _ROUTED, engine: str = "ktransformers", **given: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "accelerator": "rtx-4090",
        "precision": {"weights": "gguf-q4_k_m"},
        "workload": {"input_tokens": 1024, "output_tokens": 128},
        "serving": {"engine": engine, **given.pop("serving", {})},
    }
    return body | given


def times(snapshot: Any, **given: Any) -> tuple[float, float]:
    answer = inference_latency_answer(LatencyInferenceRequest(**asked(**given)), snapshot)
    return answer["ttft_s"]["value"], answer["tpot_s"]["value"]


def test_experts_lie_in_the_memory_of_the_host_and_the_rest_in_the_card(packaged_snapshot):
    request = MemoryInferenceRequest(**asked("deepseek-ai/DeepSeek-R1", platform="server-pcie-8"))
    answer = inference_memory_answer(request, packaged_snapshot)
    own, host = answer["placement"]["tiers"]
    assert answer["fits"]
    assert "expert_weights" not in own["parts_bytes"]
    assert set(host["parts_bytes"]) == {"expert_weights"}
    assert host["used_bytes"]["value"] > 10 * own["used_bytes"]["value"]
    codes = {one["code"] for one in answer["warnings"]}
    assert {"experts_on_host", "overheads_not_measured"} <= codes


def test_memory_of_the_host_decides_how_fast_tokens_come(packaged_snapshot):
    platform, half = "server-pcie-8", {**_SERVER, "units": 1}
    _, tpot_s = times(packaged_snapshot, platform=platform, serving={"memory_tiers": [_SERVER]})
    _, longer_s = times(packaged_snapshot, platform=platform, serving={"memory_tiers": [half]})
    assert 1.2 * tpot_s < longer_s < 2.0 * tpot_s
    # As the platform itself tells.
    assert times(packaged_snapshot, platform=platform)[1] == pytest.approx(tpot_s)
    # The link would be slower by far.
    _, read_s = times(
        packaged_snapshot,
        platform=platform,
        serving={"memory_tiers": [_SERVER], "offload": {"weights_ratio": 0.9}},
        engine="vllm",
        precision={"weights": "gptq-int4"},
    )
    assert read_s > 2.0 * tpot_s


def test_experts_that_no_desktop_holds_are_computed_by_a_workstation(packaged_snapshot):
    def placed(model, **given):
        request = LatencyInferenceRequest(**asked(model, **given))
        return inference_latency_answer(request, packaged_snapshot)["deployment"]["platform"]

    assert placed(_ROUTED) == "desktop"
    assert placed("deepseek-ai/DeepSeek-R1") == "workstation"
    # What a request says stands.
    assert placed("deepseek-ai/DeepSeek-R1", platform="desktop") == "desktop"
    own = {"memory_tiers": [_SERVER]}
    assert placed("deepseek-ai/DeepSeek-R1", serving=own) == "desktop"
    # Engines that keep experts in the card leave it where it is.
    assert placed("deepseek-ai/DeepSeek-R1", engine="vllm", precision={}) == "desktop"


def test_processors_of_the_host_decide_how_fast_prompts_are_computed(packaged_snapshot):
    slow = {"like": "server-pcie-8", "figures": {"host_matrix_flops_per_s": 2e12}}
    fast, slower = (
        times(packaged_snapshot, platform=platform) for platform in ("server-pcie-8", slow)
    )
    assert slower[0] > 5.0 * fast[0]
    assert slower[1] < 2.0 * fast[1]


def test_models_without_experts_stay_in_the_card(packaged_snapshot):
    ours, theirs = (
        times(packaged_snapshot, model=_DENSE, engine=engine)[1]
        for engine in ("ktransformers", "llama.cpp")
    )
    assert ours == pytest.approx(theirs, rel=0.05)


def test_what_the_host_computes_is_no_work_of_the_accelerator(packaged_snapshot):
    def decode(engine: str) -> Phase:
        request = LatencyInferenceRequest(**asked(engine=engine))
        resolved = resolve_deployment(request, packaged_snapshot, Problems())
        return compute_deployment(resolved).estimate.latency.decode

    beside_host, alone = decode("ktransformers"), decode("llama.cpp")
    assert beside_host.memory_bytes < 0.7 * alone.memory_bytes
    assert beside_host.flops < 0.7 * alone.flops
    assert beside_host.step_s > alone.step_s


def test_a_host_of_which_nobody_knows_is_refused_with_what_to_state(packaged_snapshot):
    body = asked(accelerator="gb200")
    with pytest.raises(Rejected) as refused:
        inference_latency_answer(LatencyInferenceRequest(**body), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == "/platform"
    assert "host_matrix_flops_per_s" in error.detail


def test_searches_do_not_try_it(packaged_snapshot):
    search = RecommendationRequest(
        model=_ROUTED, workload_kind="real-time-inference", serving={"engine": "ktransformers"}
    )
    with pytest.raises(Rejected) as refused:
        recommendation_answer(search, packaged_snapshot)
    assert "processors of the host" in json.dumps([one.detail for one in refused.value.errors])
    sweep = SweepRequest(
        models=[_ROUTED],
        workload={"input_tokens": 1024, "output_tokens": 128},
        serving={"engine": "ktransformers"},
    )
    with pytest.raises(Rejected) as refused:
        resolve_study(sweep, packaged_snapshot)
    assert "/serving/engine" in {one.pointer for one in refused.value.errors}
