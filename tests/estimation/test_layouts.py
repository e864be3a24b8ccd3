"""The layout of a request that leaves it open, and what is said of others."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import (
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest

H100 = "nvidia-h100-sxm-80gb"


def answer(snapshot, model: str, accelerator: str, count: int, **others: Any) -> dict[str, Any]:
    body = {"model": model, "accelerator": accelerator, "accelerator_count": count} | others
    return inference_memory_answer(MemoryInferenceRequest.model_validate(body), snapshot)


def timed(snapshot, model: str, accelerator: str, count: int, **others: Any) -> dict[str, Any]:
    """The same with times, of which remarks on speed are told."""
    body = {"model": model, "accelerator": accelerator, "accelerator_count": count} | others
    return inference_latency_answer(LatencyInferenceRequest.model_validate(body), snapshot)


def degrees(answered: dict[str, Any]) -> dict[str, int]:
    return {name: n for name, n in answered["deployment"]["parallelism"].items() if n > 1}


def said(answered: dict[str, Any], code: str) -> list[str]:
    return [one["message"] for one in answered["warnings"] if one["code"] == code]


BUSY = {"workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}}
CROWDED = {"workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 256}}
OFFLINE = {"workload": {"input_tokens": 294, "output_tokens": 293, "concurrency": "max"}}


def test_70b_in_fp8_runs_as_eight_copies_on_eight_mi300x(packaged_snapshot):
    # AMD's submission to MLPerf Inference v4.1, llama2-70b, offline: one copy each.
    weights = {"precision": {"weights": "fp8", "kv_cache": "fp8"}}
    model = "meta-llama/Llama-2-70b-hf"
    answered = answer(packaged_snapshot, model, "amd-mi300x-192gb", 8, **OFFLINE, **weights)
    assert degrees(answered) == {"data": 8}


@pytest.mark.parametrize(
    ("model", "count", "load", "expected"),
    [
        ("meta-llama/Llama-3.1-8B", 8, CROWDED, {"data": 8}),
        ("meta-llama/Llama-3.1-8B", 8, {}, {"tensor": 8}),
        ("meta-llama/Llama-3.1-70B", 8, BUSY, {"tensor": 4, "data": 2}),
        ("meta-llama/Llama-3.1-405B", 16, BUSY, {"tensor": 8, "pipeline": 2}),
        ("meta-llama/Llama-3.1-70B", 3, BUSY, {"pipeline": 3}),
    ],
)
def test_replicas_come_before_wide_groups_and_stages_beyond_fast_links(
    packaged_snapshot, model, count, load, expected
):
    answered = answer(packaged_snapshot, model, H100, count, **load)
    assert degrees(answered) == expected
    assert not said(answered, "accelerators_left_over")


@pytest.mark.parametrize(
    ("count", "expected"),
    [(3, {"tensor": 2}), (5, {"tensor": 2, "data": 2}), (7, {"tensor": 2, "data": 3})],
)
def test_three_five_and_seven_accelerators_leave_as_few_over_as_possible(
    packaged_snapshot, count, expected
):
    formats = {"precision": {"weights": "fp8"}}
    model = "meta-llama/Llama-3.1-70B"
    answered = answer(packaged_snapshot, model, H100, count, **BUSY, **formats)
    assert degrees(answered) == expected
    assert said(answered, "accelerators_left_over")


@pytest.mark.parametrize("concurrency", [1, 32, 128])
def test_better_hardware_is_not_slower_by_the_layout_that_stands_in(packaged_snapshot, concurrency):
    """Of a comparison that leaves layouts open: 70B in BF16 on eight of each."""
    load = {"workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": concurrency}}

    def tpot_s(accelerator: str) -> float:
        body = {"model": "meta-llama/Llama-3.1-70B", "accelerator": accelerator} | load
        request = LatencyInferenceRequest.model_validate(body | {"accelerator_count": 8})
        found = inference_latency_answer(request, packaged_snapshot)
        return float(found["tpot_s"]["value"])

    h100, h200 = tpot_s(H100), tpot_s("nvidia-h200-sxm-141gb")
    assert tpot_s("nvidia-b200-sxm-180gb") < h200 < h100
    assert tpot_s("amd-mi300x-192gb") < h100


def test_few_requests_make_groups_wide_and_many_make_copies(packaged_snapshot):
    def tensor(concurrency: int | str) -> int:
        load = BUSY["workload"] | {"concurrency": concurrency}
        model = "meta-llama/Llama-3.1-8B"
        return degrees(answer(packaged_snapshot, model, H100, 8, workload=load)).get("tensor", 1)

    found = [tensor(1), tensor(8), tensor(32), tensor(512), tensor("max")]
    assert found[0] == 8
    assert found == sorted(found, reverse=True)
    assert found[-1] == 1


def test_a_rate_of_arrivals_is_a_load_too(packaged_snapshot):
    def tensor(rate: float) -> int:
        load = {"input_tokens": 2048, "output_tokens": 256, "requests_per_s": rate}
        model = "meta-llama/Llama-3.1-70B"
        accelerator = "nvidia-h200-sxm-141gb"
        return degrees(answer(packaged_snapshot, model, accelerator, 8, workload=load))["tensor"]

    assert tensor(0.5) > tensor(9.0)
    # A load that no layout carries is left to the one that carries most.
    assert tensor(100.0) == 2


def test_what_is_left_over_is_said(packaged_snapshot):
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 5, **BUSY)
    assert degrees(answered) == {"tensor": 4}
    assert answered["deployment"]["accelerator_count"] == 4
    [message] = said(answered, "accelerators_left_over")
    assert message.startswith("1 of 5 accelerators is left over")
    assert message.endswith("pipeline 5 would take all")


def test_experts_are_shared_by_no_more_cards_than_there_are(packaged_snapshot):
    card = "nvidia-rtx-pro-6000-blackwell-server-96gb"
    for count in (1, 2, 3):
        answered = answer(packaged_snapshot, "deepseek-ai/DeepSeek-V3", card, count)
        assert answered["deployment"]["accelerator_count"] <= count
        assert not answered["fits"]


def test_tensor_parallelism_across_slow_links_names_what_does_without(packaged_snapshot):
    asked = BUSY | {"parallelism": {"tensor": 8}}
    model = "meta-llama/Llama-3.1-8B"
    [message] = said(
        timed(packaged_snapshot, model, "nvidia-l40s-48gb", 8, **asked),
        "tensor_across_slow_links",
    )
    assert "links through the host; data 8 needs fewer" in message
    asked = BUSY | {"parallelism": {"tensor": 16}}
    model = "meta-llama/Llama-3.1-405B"
    [message] = said(timed(packaged_snapshot, model, H100, 16, **asked), "tensor_across_slow_links")
    assert "beyond the 8 accelerators that fast links join" in message
    assert "tensor 8 × pipeline 2 needs fewer" in message


def test_tensor_parallelism_over_fast_links_or_that_has_to_be_is_not_remarked_on(packaged_snapshot):
    asked = BUSY | {"parallelism": {"tensor": 8}}
    answered = timed(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 8, **asked)
    assert not said(answered, "tensor_across_slow_links")
    asked = BUSY | {"parallelism": {"tensor": 4}}
    answered = timed(packaged_snapshot, "meta-llama/Llama-3.1-70B", "nvidia-l40s-48gb", 4, **asked)
    assert not said(answered, "tensor_across_slow_links")


def test_heads_that_do_not_divide_are_refused_with_the_nearest_layouts(packaged_snapshot):
    asked = {"parallelism": {"tensor": 12}}
    with pytest.raises(Rejected) as refused:
        answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 12, **asked)
    [error] = refused.value.errors
    assert error.pointer == "/parallelism/tensor"
    assert "the nearest degrees that work: 8, 16; tensor 4 × pipeline 3" in error.detail


def test_layouts_share_heads_of_keys_and_values_evenly(packaged_snapshot):
    # 28 heads of queries, which seven ranks divide, and four of keys and values.
    usual = answer(packaged_snapshot, "qwen2.5-7b", "nvidia-h100-sxm-80gb", 7)
    assert degrees(usual)["tensor"] in (1, 2, 4)
    told = {"parallelism": {"tensor": 7}}
    seven = answer(packaged_snapshot, "qwen2.5-7b", "nvidia-h100-sxm-80gb", 7, **told)
    [message] = said(seven, "kv_heads_uneven")
    assert message.startswith("vLLM starts only if")
    assert message.endswith("work: 2, 4")
    even = {"parallelism": {"tensor": 4}}
    four = answer(packaged_snapshot, "qwen2.5-7b", "nvidia-h100-sxm-80gb", 4, **even)
    assert not said(four, "kv_heads_uneven")


def test_disaggregated_pools_get_a_replica_each(packaged_snapshot):
    serving = {"serving": {"disaggregated": {}}}
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-8B", H100, 2, **serving)
    assert degrees(answered) == {"data": 2}


def test_native_engines_and_eager_ones_give_each_accelerator_some_layers(packaged_snapshot):
    for engine, weights in (("llama.cpp", "gguf-q4_k_m"), ("transformers", "bf16")):
        answered = answer(
            packaged_snapshot,
            "meta-llama/Llama-3.1-70B",
            "nvidia-a100-sxm-80gb",
            4,
            serving={"engine": engine},
            precision={"weights": weights},
            workload={"input_tokens": 512, "output_tokens": 128, "concurrency": 1},
        )
        assert degrees(answered) == {"pipeline": 4}, engine


def test_the_working_set_of_metal_may_be_filled(packaged_snapshot):
    """Four bits of DeepSeek-R1 are what people run on 512 GB."""
    request = MemoryInferenceRequest(
        model="deepseek-ai/DeepSeek-R1",
        accelerator="apple-m3-ultra-512gb",
        precision={"weights": "gguf-q4_k_m"},
        workload={"input_tokens": 512, "output_tokens": 256, "concurrency": 1},
    )
    memory = inference_memory_answer(request, packaged_snapshot)
    assert memory["fits"]
    assert memory["usable_bytes"] == memory["capacity_bytes"]
