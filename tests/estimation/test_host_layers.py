"""Engines whose host computes what has no room in the accelerator."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import (
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest


def asked(
    engine: str = "llama.cpp", concurrency: int = 1, input_tokens: int = 1024, **given: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "rtx-3090",
        "precision": {"weights": "gguf-q4_k_m"},
        "workload": {
            "input_tokens": input_tokens,
            "output_tokens": 128,
            "concurrency": concurrency,
        },
        "serving": {"engine": engine, "offload": {}, **given.pop("serving", {})},
    }
    return body | given


def answer(snapshot: Any, **given: Any) -> dict[str, Any]:
    return inference_latency_answer(LatencyInferenceRequest(**asked(**given)), snapshot)


def value(snapshot: Any, figure: str, **given: Any) -> float:
    found: float = answer(snapshot, **given)[figure]["value"]
    return found


def machine(figure: str, per_s: float) -> dict[str, Any]:
    return {"like": "desktop", "figures": {figure: per_s}}


def test_layers_outside_are_read_from_memory_of_the_host(packaged_snapshot):
    memory = inference_memory_answer(MemoryInferenceRequest(**asked()), packaged_snapshot)
    own, host = memory["placement"]["tiers"]
    seconds = host["touched_bytes_per_step"] / host["bandwidth_bytes_per_s"]
    seconds += own["touched_bytes_per_step"] / own["bandwidth_bytes_per_s"]
    tpot_s = value(packaged_snapshot, "tpot_s")
    assert seconds < tpot_s < 1.3 * seconds
    # A desktop has two channels, and its processors do not reach all of them.
    assert host["bandwidth_bytes_per_s"] < 77e9
    found = answer(packaged_snapshot)
    codes = {one["code"] for one in found["warnings"]}
    assert "layers_on_host" in codes
    assert "host_memory_assumed" not in codes


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama", "lm-studio"])
def test_memory_of_the_host_decides_how_fast_tokens_come_and_the_link_does_not(
    packaged_snapshot, engine
):
    fast, slow = (
        value(
            packaged_snapshot,
            "tpot_s",
            engine=engine,
            platform=machine("host_memory_bandwidth_bytes_per_s", per_s),
        )
        for per_s in (100e9, 50e9)
    )
    assert 1.7 * fast < slow < 2.1 * fast


def test_prompts_copy_what_lies_outside_unless_they_are_short(packaged_snapshot):
    def ttft_s(input_tokens: int) -> float:
        return value(packaged_snapshot, "ttft_s", input_tokens=input_tokens)

    # A short one is computed by the host, which reads its memory faster than the link.
    assert ttft_s(16) < 0.7 * ttft_s(40)
    assert ttft_s(40) > 19e9 / 31.5e9


def test_processors_that_multiply_slowly_bound_several_sequences(packaged_snapshot):
    def slower(concurrency: int) -> float:
        weak = machine("host_matrix_flops_per_s", 1e12)
        given = {"concurrency": concurrency, "input_tokens": 64}
        alone = value(packaged_snapshot, "tpot_s", **given)
        return value(packaged_snapshot, "tpot_s", platform=weak, **given) / alone

    assert slower(1) == pytest.approx(1.0)
    assert slower(4) > 1.1


def test_named_tiers_of_other_kinds_and_other_engines_are_read_by_the_accelerator(
    packaged_snapshot,
):
    given = {"precision": {"weights": "gptq-int4"}, "engine": "vllm"}
    codes = {one["code"] for one in answer(packaged_snapshot, **given)["warnings"]}
    assert "host_memory_assumed" in codes
    assert "layers_on_host" not in codes


def test_rows_of_sweeps_are_computed_alike(packaged_snapshot):
    sweep = SweepRequest(
        models=["meta-llama/Llama-3.1-70B"],
        workload={"input_tokens": 1024, "output_tokens": 128},
        space={
            "accelerators": ["nvidia-rtx-3090-24gb", "nvidia-rtx-4090-24gb", "nvidia-l40s-48gb"],
            "precisions": ["gguf-q4_k_m"],
            "kv_caches": ["bf16"],
            "regions": ["aws/eu-north-1"],
            "parallelisms": [{"tensor": 1}],
            "concurrencies": [1, 4],
            "accelerator_counts": [1],
            "placement": "anywhere",
        },
        serving={"engine": "llama.cpp", "engine_version": "2025", "offload": {}},
        keep="candidates",
    )
    study = resolve_study(sweep, packaged_snapshot)
    (chunk,) = study.chunks
    found_rows = evaluate_chunk(study, chunk)
    columns, texts = found_rows.columns, found_rows.texts
    names = [texts["accelerator"][at] for at in columns["accelerator"]]
    rows = list(zip(names, columns["concurrency_per_replica"], strict=True))
    assert len(rows) == 6
    for row, (accelerator, concurrency) in enumerate(rows):
        single = answer(
            packaged_snapshot,
            accelerator=accelerator,
            concurrency=int(concurrency),
            precision={"weights": "gguf-q4_k_m", "kv_cache": "bf16"},
            serving={"engine_version": "2025"},
        )
        for name in ("ttft_s", "tpot_s"):
            for end, key in (("", "value"), ("_low", "low"), ("_high", "high")):
                found = columns[f"{name}{end}"][row]
                assert found == pytest.approx(single[name][key], rel=1e-9), (accelerator, name)


@pytest.mark.parametrize("ratio", [0.0, 0.7])
def test_an_accelerator_holds_no_more_than_its_memory(packaged_snapshot, ratio):
    asked_for = asked(concurrency=2, serving={"offload": {"weights_ratio": ratio}})
    found = inference_memory_answer(MemoryInferenceRequest(**asked_for), packaged_snapshot)
    own, host = found["placement"]["tiers"]
    assert found["fits"]
    assert found["total_bytes"]["value"] > found["capacity_bytes"]
    assert found["process_bytes"]["high"] <= found["capacity_bytes"]
    assert found["process_bytes"]["value"] == pytest.approx(
        found["total_bytes"]["value"] - host["used_bytes"]["value"]
    )
    # The room that is left is that of the accelerator, and what was asked for has room.
    free = own["room_bytes"] - own["used_bytes"]["value"]
    assert found["headroom_bytes"]["value"] == pytest.approx(free, abs=1.0)
    assert (free > 1e9) == (ratio > 0.5)
    assert found["shortfall_bytes"]["value"] == 0.0
    assert found["max_concurrency"]["value"] >= 2.0
    assert found["kv_cache_capacity_tokens"]["value"] >= 2 * (1024 + 128)


def test_what_has_no_place_in_any_memory_is_what_lacks(packaged_snapshot):
    small = [{"tier": "ddr4-2ch", "capacity_bytes": 1e9}]
    asked_for = asked(serving={"memory_tiers": small})
    found = inference_memory_answer(MemoryInferenceRequest(**asked_for), packaged_snapshot)
    lacking = found["placement"]["unplaced_bytes"]["value"]
    assert lacking > 1e9
    assert found["shortfall_bytes"]["value"] == -found["headroom_bytes"]["value"] == lacking
