"""Techniques as clients read them, and the plans that use them."""

from __future__ import annotations

import pytest

from tests.api.conftest import UNPLACED
from tests.api.estimates.test_inference import answer

#: What the list is expected to cover, by the names that the literature uses.
COVERED = [
    "gradient-checkpointing",
    "gradient-accumulation",
    "mixed-precision",
    "lora",
    "qlora",
    "8-bit-optimizer",
    "paged-optimizer",
    "zero-offload",
    "zero-infinity",
    "flash-attention",
    "data-parallelism",
    "zero-1",
    "zero-2",
    "fsdp",
    "tensor-parallelism",
    "pipeline-parallelism",
    "unified-memory-paging",
    "gqa",
    "sliding-window-attention",
    "linear-attention",
    "kv-quantisation",
    "paged-attention",
    "prefix-caching",
    "weight-quantisation",
    "pruning",
    "distillation",
    "context-limit",
    "chunked-prefill",
    "weight-offload",
    "speculative-decoding",
]


async def test_the_list_tells_formula_saving_cost_and_use(client):
    items = (await client.get("/v1/techniques")).json()["items"]
    assert len(items) > 40
    known = {name for item in items for name in (item["id"], *item["aliases"])}
    assert set(COVERED) <= known
    [paged] = [item for item in items if item["id"] == "paged-optimizer"]
    assert paged["saves"] == [{"part": "optimizer", "storage_class": "deferrable"}]
    assert paged["planned_for"] == ["training"]


async def test_the_list_is_narrowed_by_all_that_is_asked(client):
    found = await client.get("/v1/techniques?applies_to=inference&reach=near-same-result")
    ids = [item["id"] for item in found.json()["items"]]
    assert ids == ["kv-cache-quantisation", "weight-quantisation"]
    saving = (await client.get("/v1/techniques?saves=logits&category=kernel")).json()["items"]
    assert [item["id"] for item in saving] == ["fused-cross-entropy"]


async def test_single_techniques_have_names_tags_and_neighbours(client):
    one = await client.get("/v1/techniques/zero-offload")
    assert one.json()["id"] == "optimizer-offload"
    again = await client.get(
        "/v1/techniques/optimizer-offload", headers={"If-None-Match": one.headers["etag"]}
    )
    assert again.status_code == 304
    missing = await client.get("/v1/techniques/zero-4")
    assert missing.status_code == 404
    assert "zero-3" in missing.json()["detail"]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("?reach=anything", "near-same-result"),
        ("?kind=training", "applies_to"),
        ("?reach=same-result&reach=same-result", "more than once"),
    ],
)
async def test_what_the_list_does_not_know_is_refused(client, query, hint):
    response = await client.get(f"/v1/techniques{query}")
    assert response.status_code == 422
    assert hint in response.json()["errors"][0]["detail"]


async def test_what_fits_needs_no_plan(client):
    body = await answer(client, "/v1/memory/inference", UNPLACED)
    assert body["fits"] is True
    assert body["would_help"] == body["plans"] == []


async def test_inference_plans_end_where_everything_fits(client):
    asked = UNPLACED | {
        "accelerator_count": 4,
        "workload": {"input_tokens": 8192, "output_tokens": 512, "concurrency": 256},
    }
    body = await answer(client, "/v1/memory/inference", asked)
    reaches = [plan["reach"] for plan in body["plans"]]
    assert reaches == ["same-result", "near-same-result", "more-accelerators", "other-recipe"]
    known = {item["id"] for item in (await client.get("/v1/techniques")).json()["items"]}
    for plan in body["plans"]:
        assert plan["fits"] is True
        assert plan["steps"][-1]["fits"] is True
        assert not any(step["fits"] for step in plan["steps"][:-1])
        before = body["total_bytes"]["value"]
        for step in plan["steps"]:
            assert step["technique"] in known
            after = step["total_bytes"]["value"]
            assert step["saved_bytes"] == pytest.approx(before - after)
            before = after
        assert plan["accelerator_time_ratio"] == pytest.approx(
            plan["time_ratio"] * plan["accelerator_count"] / 4
        )
    # Letting requests wait costs time; a narrower cache gains it.
    assert body["plans"][0]["time_ratio"] > 1
    assert body["plans"][1]["time_ratio"] < 1


async def test_a_planned_change_does_to_a_request_what_the_plan_says(client):
    asked = UNPLACED | {
        "accelerator_count": 1,
        "workload": {"concurrency": 1},
        # Ranges of plans leave nothing open.
        "serving": {"engine_version": "newest", "usage_context": "server"},
    }
    body = await answer(client, "/v1/memory/inference", asked)
    by_change = {step["change"]: step for step in body["would_help"]}
    wider = by_change["use 2 accelerators with tensor parallelism 2"]
    again = await answer(
        client,
        "/v1/memory/inference",
        asked | {"parallelism": {"tensor": 2}, "accelerator_count": 2},
    )
    assert again["total_bytes"] == wider["total_bytes"]
    assert again["fits"] == wider["fits"]


async def test_host_memory_is_planned_and_then_asked_for(client):
    asked = UNPLACED | {"accelerator_count": 1, "workload": {"concurrency": 1}}
    body = await answer(client, "/v1/memory/inference", asked)
    same = body["plans"][0]
    assert same["reach"] == "same-result"
    assert same["steps"][-1]["technique"] == "memory-tiers"
    # Most weights come over the host link at every token.
    assert same["time_ratio"] > 5
    held = same["steps"][-1]["host_bytes"]
    assert 50e9 < held < 80e9
    placed = await answer(
        client, "/v1/memory/inference", asked | {"serving": {"memory_tiers": ["ddr5-8ch"]}}
    )
    assert placed["fits"] is True
    assert placed["would_help"] == placed["plans"] == []


LEFT_OPEN = ("micro_batch_size", "zero_stage", "activation_checkpointing")
TOO_LARGE = {
    "model": "meta-llama/Llama-2-7b-hf",
    "accelerator": "nvidia-a100-sxm-80gb",
    "training": {"sequence_length": 4096},
}


async def test_training_plans_end_where_everything_fits(client):
    body = await answer(client, "/v1/memory/training", TOO_LARGE)
    assert body["fits"] is False
    plans = {plan["reach"]: plan for plan in body["plans"]}
    assert list(plans) == ["same-result", "near-same-result", "more-accelerators", "other-recipe"]
    for plan in plans.values():
        assert plan["fits"] is True
        assert plan["steps"][-1]["total_bytes"]["value"] <= body["capacity_bytes"]
    # What stays the same on one accelerator costs time; 8-bit states and adapters do not.
    assert plans["same-result"]["time_ratio"] > 1.5
    assert plans["near-same-result"]["time_ratio"] < 1.1
    narrow = [step["technique"] for step in plans["near-same-result"]["steps"]]
    assert "8-bit-optimizer" in narrow
    assert plans["more-accelerators"]["accelerator_count"] == 2
    alone = {step["technique"]: step for step in body["would_help"]}
    # No more is computed again than lowers the peak: here norms and activations, not whole layers.
    assert 1.0 < alone["activation-checkpointing"]["time_ratio"] < 1.1
    assert alone["optimizer-offload"]["host_bytes"] == 12 * body["trained_parameters"]


async def test_a_training_plan_does_to_a_request_what_it_says(client):
    body = await answer(client, "/v1/memory/training", TOO_LARGE)
    wanted = {
        "optimizer-offload": {"offload": {"optimizer": "cpu"}},
        "activation-checkpointing": {"activation_checkpointing": "full"},
        "8-bit-optimizer": {"optimizer": "adamw-8bit"},
        "lora": {"method": "lora"},
    }
    for step in body["would_help"]:
        changed = wanted.pop(step["technique"], None)
        if changed is not None:
            # What the request leaves open stays as it was taken.
            taken = {name: body["deployment"]["training"][name] for name in LEFT_OPEN}
            asked = TOO_LARGE | {"training": taken | TOO_LARGE["training"] | changed}
            again = await answer(client, "/v1/memory/training", asked)
            value = again["total_bytes"]["value"]
            assert value == step["total_bytes"]["value"], step["technique"]
    assert not wanted


async def test_plans_keep_to_the_host_memory_there_is(client):
    def with_host(size):
        offload = {"optimizer": "cpu", "host_memory_bytes": size}
        return TOO_LARGE | {"training": TOO_LARGE["training"] | {"offload": offload}}

    asked = TOO_LARGE | {
        "training": TOO_LARGE["training"] | {"offload": {"host_memory_bytes": 1e9}}
    }
    body = await answer(client, "/v1/memory/training", asked)
    changes = body["would_help"] + [step for plan in body["plans"] for step in plan["steps"]]
    assert all(step["host_bytes"] <= 1e9 for step in changes)
    for size, short in ((50e9, True), (100e9, False)):
        body = await answer(client, "/v1/memory/training", with_host(size))
        codes = {warning["code"] for warning in body["warnings"]}
        assert ("host_memory_short" in codes) is short


async def test_training_that_fits_needs_no_plan(client):
    asked = TOO_LARGE | {"training": {"method": "lora", "sequence_length": 512}}
    body = await answer(client, "/v1/memory/training", asked)
    assert body["fits"] is True
    assert body["would_help"] == body["plans"] == []
