"""Training that offloads to a memory tier of the catalog: its time, its share, and its size."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer, training_memory_answer
from service.estimation.training.requests import LatencyTrainingRequest, MemoryTrainingRequest

CXL, DRAM = "cxl-2.0-ddr5-direct", "ddr5-8ch"
PARAMETERS = 8.03e9
CXL_BYTES_PER_S, CXL_BYTES = 36e9, 256e9


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(offload: dict[str, Any], count: int = 1, **training: Any) -> tuple[Any, Any]:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": count,
            "training": {
                "zero_stage": 2,
                "activation_checkpointing": "full",
                "offload": offload,
                **training,
            },
        }
        memory = training_memory_answer(
            MemoryTrainingRequest.model_validate(body), packaged_snapshot
        )
        speed = training_latency_answer(
            LatencyTrainingRequest.model_validate(body), packaged_snapshot
        )
        return memory, speed

    return answered


def stall(speed: Any) -> float:
    return float(speed["parts"]["offload_stall_s"])


def test_states_go_to_the_tier_at_its_bandwidth(ask):
    memory, speed = ask({"optimizer": "tier", "memory_tier": CXL})
    states = PARAMETERS * 12
    assert memory["tier_bytes"]["value"] == pytest.approx(states, rel=0.01)
    assert memory["optimizer_bytes"]["value"] == 0.0
    assert memory["host_bytes"]["value"] == pytest.approx(PARAMETERS * 2, rel=0.01)  # gradients
    assert stall(speed) == pytest.approx(2 * states / CXL_BYTES_PER_S, rel=0.01)
    entries = {(used["collection"], used["id"]) for used in memory["provenance"]["entries"]}
    assert ("memory-tiers", CXL) in entries


def test_an_update_behind_cxl_takes_about_four_times_that_in_memory_as_published(ask):
    # Liaw and Chen, 2025, https://arxiv.org/abs/2507.03305: about 4 times for large tensors; a
    # card of 16 lanes is two modules of 8.
    behind = stall(ask({"optimizer": "tier", "memory_tier": {"tier": CXL, "units": 2}})[1])
    inside = stall(ask({"optimizer": "tier", "memory_tier": DRAM})[1])
    assert behind / inside == pytest.approx(4.0, rel=0.25)


def test_accelerators_share_it(ask):
    _, shared = ask({"optimizer": "tier", "memory_tier": {"tier": CXL}}, count=8)
    _, own = ask({"optimizer": "tier", "memory_tier": {"tier": CXL, "shared_by": 1}}, count=8)
    assert stall(shared) == pytest.approx(8 * stall(own), rel=0.01)


def test_its_size_is_enforced(ask):
    memory, _ = ask(
        {"optimizer": "tier", "memory_tier": {"tier": CXL, "shared_by": 4}, "parameters": "none"}
    )
    assert not memory["fits"]
    assert memory["fits_certainty"] == "no"
    [warning] = [one for one in memory["warnings"] if one["code"] == "memory_tier_short"]
    assert f"{CXL_BYTES / 4 / 1e9:.1f} GB" in warning["message"]
    assert memory["headroom_bytes"]["value"] > 0.0


def test_weights_and_activations_come_through_link_or_tier(ask):
    offload = {"parameters": "tier", "memory_tier": {"tier": CXL, "units": 8}}
    _, by_link = ask(offload | {"memory_tier": {"tier": CXL, "units": 8}}, zero_stage=3)
    _, slower = ask(
        offload | {"memory_tier": {"tier": CXL, "units": 8, "link_bytes_per_s": 4e9}},
        zero_stage=3,
    )
    moved = 2 * PARAMETERS * 2
    computed = sum(
        by_link["parts"][part] for part in ("matrix_products_s", "attention_s", "elementwise_s")
    )
    assert stall(slower) == pytest.approx(moved / 4e9 - computed, rel=0.02)
    assert stall(by_link) < stall(slower)
    memory, _ = ask({"activations": "tier", "memory_tier": CXL})
    host, _ = ask({"activations": "cpu"})
    assert memory["tier_bytes"] == host["host_bytes"]
    assert memory["activations_bytes"] == host["activations_bytes"]


def test_plans_use_it_where_the_host_is_too_small(ask):
    tier = {"memory_tier": {"tier": CXL, "units": 4}, "host_memory_bytes": 50e9}
    memory, _ = ask(tier)
    changes = {one["change"] for one in memory["would_help"]}
    assert f"keep optimizer states in {CXL}" in changes


@pytest.mark.parametrize(
    ("offload", "said"),
    [
        ({"optimizer": "tier"}, "name the memory tier"),
        ({"optimizer": "tier", "memory_tier": "hbm3"}, "device memory"),
        ({"optimizer": "tier", "memory_tier": "cxl-pond"}, "bandwidth of cxl"),
        ({"optimizer": "tier", "memory_tier": "nothing"}, "unknown id"),
    ],
)
def test_what_is_no_tier_is_refused(ask, offload, said):
    with pytest.raises(Rejected) as refused:
        ask(offload)
    [error] = refused.value.errors
    assert error.pointer == "/training/offload/memory_tier"
    assert said in error.detail


def test_a_link_that_nothing_crosses_is_told(ask):
    tier = {"tier": DRAM, "link_efficiency_ratio": 0.1}
    usual = ask({"optimizer": "tier", "memory_tier": DRAM})[1]
    memory, speed = ask({"optimizer": "tier", "memory_tier": tier})
    assert speed["step_s"] == usual["step_s"]
    assert "setting_unused" in {warning["code"] for warning in memory["warnings"]}
    fetched = {"optimizer": "tier", "parameters": "tier", "memory_tier": tier}
    memory, slower = ask(fetched, zero_stage=3)
    assert "setting_unused" not in {warning["code"] for warning in memory["warnings"]}
    assert slower["step_s"]["value"] > usual["step_s"]["value"]
