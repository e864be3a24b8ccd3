"""Engines that copy what lies outside the accelerator: when it is due, or all of it ahead."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.memory.tiers import copied_in_turn
from service.estimation.inference.estimate import (
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest


def asked(engine: str, tiers: list[Any], model: str = "facebook/opt-30b", **offload: Any):
    serving: dict[str, Any] = {"engine": engine, "memory_tiers": tiers}
    if offload:
        serving["offload"] = offload
    return {
        "model": model,
        "accelerator": "nvidia-t4-16gb",
        "precision": {"weights": "fp16"},
        "workload": {"input_tokens": 512, "output_tokens": 32},
        "serving": serving,
    }


def token_s(snapshot: Any, *given: Any, **more: Any) -> dict[str, float]:
    request = LatencyInferenceRequest(**asked(*given, **more))
    found: dict[str, float] = inference_latency_answer(request, snapshot)["tpot_s"]
    return found


def tiers_of(snapshot: Any, *given: Any, **more: Any) -> list[dict[str, Any]]:
    request = MemoryInferenceRequest(**asked(*given, **more))
    found: list[dict[str, Any]] = inference_memory_answer(request, snapshot)["placement"]["tiers"]
    return found


def test_bytes_that_pass_a_core_and_a_link_in_turn_take_the_time_of_both():
    """No faster than the slower of the two, and half as fast where they are alike."""
    assert copied_in_turn(1e12, 12e9, mapped=False) == pytest.approx(6e9)
    # A link that needs no time leaves the core, and memory that is slower than it itself.
    assert copied_in_turn(5e9, float("inf"), mapped=False) == pytest.approx(5e9)
    # A faster link gains less and less.
    pcie = [copied_in_turn(2e11, link, mapped=False) for link in (16e9, 32e9, 64e9)]
    assert pcie[0] < pcie[1] < pcie[2] < 12e9
    assert pcie[1] / pcie[0] > pcie[2] / pcie[1]
    # Pages of a mapped file are read into memory first, whatever the drive could do.
    fast, faster = (copied_in_turn(own, 16e9, mapped=True) for own in (7e9, 14e9))
    assert fast == faster < 3e9
    assert copied_in_turn(1e9, 16e9, mapped=True) < 1e9


def test_layers_copied_in_turn_hide_nothing(packaged_snapshot):
    """Where an engine fetches ahead, nobody knows how much; where it waits, nothing is hidden."""
    in_turn = token_s(packaged_snapshot, "transformers", ["ddr4-6ch"])
    ahead = token_s(packaged_snapshot, "flexgen", ["ddr4-6ch"])
    assert in_turn["value"] > 1.5 * ahead["value"]
    # Who knows what prefetching hides, or what arrives, is believed.
    told = token_s(packaged_snapshot, "transformers", ["ddr4-6ch"], overlap_ratio=1.0)
    assert told["value"] < in_turn["value"]
    stated = {"tier": "ddr4-6ch", "link_bytes_per_s": 13e9}
    assert token_s(packaged_snapshot, "transformers", [stated])["value"] < in_turn["value"]


def test_all_weights_lie_outside_where_an_engine_streams_them(packaged_snapshot):
    own, host = tiers_of(packaged_snapshot, "deepspeed-zero-inference", ["ddr4-6ch"])
    assert host["used_bytes"]["value"] == pytest.approx(60e9, rel=0.05)
    # Others keep what has room, as that one does where it is told to.
    for found in (
        tiers_of(packaged_snapshot, "flexgen", ["ddr4-6ch"]),
        tiers_of(packaged_snapshot, "deepspeed-zero-inference", ["ddr4-6ch"], weights_ratio=0.0),
    ):
        assert found[0]["used_bytes"]["value"] > own["used_bytes"]["value"] + 5e9


def test_a_memory_before_another_holds_what_is_usual(packaged_snapshot):
    """Who names drives behind the host's memory says that this is not enough."""
    model = "facebook/opt-175b"
    alone = tiers_of(packaged_snapshot, "flexgen", ["ddr4-6ch"], model)
    assert alone[1]["used_bytes"]["value"] > 300e9
    both = tiers_of(packaged_snapshot, "flexgen", ["ddr4-6ch", "nvme-gen4"], model)
    assert both[1]["used_bytes"]["value"] == pytest.approx(192e9)
    assert both[2]["used_bytes"]["value"] > 100e9
    more = {"tier": "ddr4-6ch", "capacity_bytes": 256e9}
    stated = tiers_of(packaged_snapshot, "flexgen", [more, "nvme-gen4"], model)
    assert stated[1]["used_bytes"]["value"] == pytest.approx(256e9)
