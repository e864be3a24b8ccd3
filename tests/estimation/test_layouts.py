"""The layout of a request that leaves it open, and what is said of others."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import MemoryInferenceRequest

H100 = "nvidia-h100-sxm-80gb"


def answer(snapshot, model: str, accelerator: str, count: int, **others: Any) -> dict[str, Any]:
    body = {"model": model, "accelerator": accelerator, "accelerator_count": count} | others
    return inference_memory_answer(MemoryInferenceRequest.model_validate(body), snapshot)


def degrees(answered: dict[str, Any]) -> dict[str, int]:
    return {name: n for name, n in answered["deployment"]["parallelism"].items() if n > 1}


def said(answered: dict[str, Any], code: str) -> list[str]:
    return [one["message"] for one in answered["warnings"] if one["code"] == code]


BUSY = {"workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}}
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
        ("meta-llama/Llama-3.1-8B", 8, BUSY, {"data": 8}),
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


def test_what_is_left_over_is_said(packaged_snapshot):
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 5, **BUSY)
    assert degrees(answered) == {"tensor": 4}
    assert answered["deployment"]["accelerator_count"] == 4
    [message] = said(answered, "accelerators_left_over")
    assert message.startswith("1 of 5 accelerators is left over")
    assert message.endswith("pipeline 5 would take all")


def test_tensor_parallelism_across_slow_links_names_what_does_without(packaged_snapshot):
    asked = BUSY | {"parallelism": {"tensor": 8}}
    model = "meta-llama/Llama-3.1-8B"
    [message] = said(
        answer(packaged_snapshot, model, "nvidia-l40s-48gb", 8, **asked),
        "tensor_across_slow_links",
    )
    assert "links through the host; data 8 does" in message
    asked = BUSY | {"parallelism": {"tensor": 16}}
    model = "meta-llama/Llama-3.1-405B"
    [message] = said(
        answer(packaged_snapshot, model, H100, 16, **asked), "tensor_across_slow_links"
    )
    assert "beyond the 8 accelerators that fast links join; tensor 8 × pipeline 2 does" in message


def test_tensor_parallelism_over_fast_links_or_that_has_to_be_is_not_remarked_on(packaged_snapshot):
    asked = BUSY | {"parallelism": {"tensor": 8}}
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 8, **asked)
    assert not said(answered, "tensor_across_slow_links")
    asked = {"parallelism": {"tensor": 4}}
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", "nvidia-l40s-48gb", 4, **asked)
    assert not said(answered, "tensor_across_slow_links")


def test_heads_that_do_not_divide_are_refused_with_the_nearest_layouts(packaged_snapshot):
    asked = {"parallelism": {"tensor": 12}}
    with pytest.raises(Rejected) as refused:
        answer(packaged_snapshot, "meta-llama/Llama-3.1-70B", H100, 12, **asked)
    [error] = refused.value.errors
    assert error.pointer == "/parallelism/tensor"
    assert "the nearest degrees that work: 8, 16; tensor 4 × pipeline 3" in error.detail


def test_disaggregated_pools_get_a_replica_each(packaged_snapshot):
    serving = {"serving": {"disaggregated": {}}}
    answered = answer(packaged_snapshot, "meta-llama/Llama-3.1-8B", H100, 2, **serving)
    assert degrees(answered) == {"data": 2}
