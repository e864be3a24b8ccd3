"""Memory beyond the accelerator, near memory and stores, through HTTP."""

from __future__ import annotations

import pytest

from service.estimation.inference.answers import MemoryInferenceAnswer
from service.estimation.storage.answers import NearMemoryAnswer, StoreAnswer
from tests.api.conftest import UNPLACED
from tests.api.shapes import validated

ONE = UNPLACED | {
    "accelerator_count": 1,
    "workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 4},
}


async def asked(client, path, body):
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def serving(**settings):
    return ONE | {"serving": settings}


async def test_what_has_no_room_goes_outside_and_slows_steps_down(client):
    alone = await asked(client, "/v1/memory/inference", ONE)
    assert alone["fits"] is False
    assert "placement" not in alone
    tiered = serving(memory_tiers=["ddr5-8ch"])
    memory = await asked(client, "/v1/memory/inference", tiered)
    validated(MemoryInferenceAnswer, memory)
    assert memory["fits"] is True
    here, host = memory["placement"]["tiers"]
    needed = memory["weights_bytes"]["value"] + memory["kv_cache_bytes"]["value"]
    assert here["used_bytes"]["value"] + host["used_bytes"]["value"] == pytest.approx(needed)
    # An H100 SXM reaches the host over 16 lanes of PCIe 5.0.
    assert host["bandwidth_bytes_per_s"] == pytest.approx(63e9, rel=0.01)
    assert memory["placement"]["host_bytes"]["value"] == pytest.approx(host["used_bytes"]["value"])
    latency = await asked(client, "/v1/latency/inference", tiered)
    assert latency["fits"] is True
    slowest = host["touched_bytes_per_step"] / host["bandwidth_bytes_per_s"]
    assert latency["tpot_s"]["value"] > slowest
    without = await asked(client, "/v1/latency/inference", ONE)
    assert latency["tpot_s"]["value"] > 5 * without["tpot_s"]["value"]
    codes = {warning["code"] for warning in latency["warnings"]}
    assert "tiers_slow_steps" in codes
    assert "does_not_fit" not in codes


async def test_prefetching_hides_and_contention_slows(client):
    async def tpot(**settings):
        answer = await asked(client, "/v1/latency/inference", serving(**settings))
        return answer["tpot_s"]["value"]

    tier = {"tier": "ddr5-8ch", "shared_by": 1, "capacity_bytes": 64e12}
    serial = await tpot(memory_tiers=[tier], offload={"overlap_ratio": 0.0})
    hidden = await tpot(memory_tiers=[tier], offload={"overlap_ratio": 1.0})
    shared = await tpot(memory_tiers=[tier | {"shared_by": 64}], offload={"overlap_ratio": 0.0})
    assert hidden < serial < shared


async def test_pages_fetched_by_faults_come_slower_than_planned_copies(client):
    async def tpot(tier):
        settings = {"memory_tiers": [tier], "offload": {"overlap_ratio": 0.0}}
        answer = await asked(client, "/v1/latency/inference", serving(**settings))
        return answer["tpot_s"]["value"]

    tier = {"tier": "ddr5-8ch", "shared_by": 1}
    planned, faults, slow = [
        await tpot(tier | fields)
        for fields in ({}, {"link_efficiency_ratio": 0.5}, {"link_efficiency_ratio": 0.1})
    ]
    assert planned < faults < slow
    # Nearly all of the step is the link's time.
    assert slow / faults == pytest.approx(5.0, rel=0.25)


async def test_parked_conversations_take_room_but_no_time(client):
    body = UNPLACED | {"serving": {"memory_tiers": ["ddr5-8ch"]}}
    parked = UNPLACED | {
        "serving": {"memory_tiers": ["ddr5-8ch"], "offload": {"parked_sequences": 1000}}
    }
    free, full = [await asked(client, "/v1/latency/inference", each) for each in (body, parked)]
    assert full["tpot_s"]["value"] == pytest.approx(free["tpot_s"]["value"])
    memory = await asked(client, "/v1/memory/inference", parked)
    # Whoever is parked keeps all of a conversation, whoever runs what there is of it so far.
    load = memory["deployment"]["workload"]
    tokens = load["input_tokens"] + load["output_tokens"]
    replicas = memory["deployment"]["parallelism"]["data"]
    sequence = memory["kv_cache_bytes_per_token"] * tokens / replicas
    held = sum(
        tier["parts_bytes"].get("parked_kv_cache", 0.0) for tier in memory["placement"]["tiers"]
    )
    assert held == pytest.approx(1000 * sequence)


async def test_tiers_that_are_too_small_are_an_answer(client):
    small = {"tier": "ddr5-8ch", "capacity_bytes": 1e9, "shared_by": 1}
    memory = await asked(client, "/v1/memory/inference", serving(memory_tiers=[small]))
    assert memory["fits"] is False
    placement = memory["placement"]
    assert placement["unplaced_bytes"]["value"] > 60e9
    assert placement["effective_bandwidth_bytes_per_s"] is None
    assert "tiers_too_small" in {warning["code"] for warning in memory["warnings"]}
    estimate = await asked(
        client,
        "/v1/estimates/inference",
        serving(memory_tiers=[small]) | {"region": "country/SE"},
    )
    verdicts = {row["name"]: row["verdict"] for row in estimate["constraints"]}
    assert verdicts["bytes_without_a_place"] == "fail"


async def test_tiers_in_a_link(client):
    response = await client.get(
        "/v1/memory/inference?model=llama-3.1-70b&accelerator=nvidia-h100-sxm-80gb"
        "&memory_tiers=ddr5-8ch,nvme-gen5&offload_weights_ratio=0.25"
    )
    answer = response.json()
    assert [tier["tier"] for tier in answer["placement"]["tiers"]] == [
        "accelerator",
        "ddr5-8ch",
        "nvme-gen5",
    ]
    assert answer["deployment"]["serving"]["offload"]["weights_ratio"] == 0.25


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"memory_tiers": ["ddr9"]}, "/serving/memory_tiers/0"),
        ({"memory_tiers": [{"tier": "ddr5-8ch", "units": 0}]}, "/serving/memory_tiers/0/units"),
        ({"memory_tiers": ["ddr5-8ch"] * 9}, "/serving/memory_tiers"),
        ({"offload": {"weights_ratio": 1.5}}, "/serving/offload/weights_ratio"),
    ],
)
async def test_what_is_wrong_with_tiers_is_said(client, settings, pointer):
    response = await client.post("/v1/memory/inference", json=serving(**settings))
    assert response.status_code == 422
    assert pointer in {error["pointer"] for error in response.json()["errors"]}


async def test_groq_chips_of_a_70b_model(client):
    body = {"model": "meta-llama/Llama-2-70b-hf", "tier": "groq-sram", "explain": True}
    answer = await asked(client, "/v1/memory/near-memory", body)
    validated(NearMemoryAnswer, answer)
    # 140 GB over 230 MB a chip are 609; the model has 69 billion parameters, not 70.
    chips = answer["on_chip"]["chips"]
    assert chips == -(-answer["stored_bytes"] // 230e6)
    assert chips == pytest.approx(609, rel=0.02)
    assert answer["bytes_per_parameter"] == pytest.approx(2.0)
    assert answer["on_chip"]["power_w"] == 300.0 * chips
    exact = await asked(
        client, "/v1/memory/near-memory", {"stored_bytes": 140e9, "tier": "sram-groq-lpu-v1"}
    )
    assert exact["on_chip"]["chips"] == 609
    half = await asked(
        client, "/v1/memory/near-memory", {"stored_bytes": 70e9, "tier": "sram-groq-lpu-v1"}
    )
    assert half["on_chip"]["chips"] == 305


async def test_memory_that_computes(client):
    pim = await asked(
        client,
        "/v1/memory/near-memory",
        {"model": "meta-llama/Llama-2-7b-hf", "tier": "sangam-cxl-pim"},
    )
    found = pim["processing_in_memory"]
    p, s = found["memory_bound_time_ratio"]["value"], found["kernel_speedup_ratio"]["value"]
    assert found["decode_speedup_ratio"]["value"] == pytest.approx(1 / (1 - p + p / s))
    assert pim["on_chip"] is None
    search = await asked(
        client, "/v1/memory/near-memory", {"stored_bytes": 768e6, "tier": "reram-dirc-rag"}
    )
    assert search["compute_in_memory"]["search_s"]["value"] == pytest.approx(1.08e-3, rel=0.005)
    assert search["compute_in_memory"]["area_mm2"] == pytest.approx(1186, rel=0.005)
    ordinary = await client.post(
        "/v1/memory/near-memory", json={"stored_bytes": 1e9, "tier": "ddr5-8ch"}
    )
    assert ordinary.status_code == 422
    assert "does not compute" in ordinary.json()["detail"]
    computing = await client.post(
        "/v1/memory/near-memory", json={"stored_bytes": 1e9, "tier": "hbm-pim"}
    )
    assert computing.status_code == 422
    assert "not published" in computing.json()["detail"]
    wafers = await asked(
        client, "/v1/memory/near-memory", {"stored_bytes": 140e9, "tier": "wse-3-sram"}
    )
    # 140 GB over 44 GB a wafer, each in a system of 23 kW.
    assert (wafers["on_chip"]["chips"], wafers["on_chip"]["power_w"]) == (4, 92_000.0)
    for fields in ({}, {"model": "meta-llama/Llama-2-7b-hf", "stored_bytes": 1e9}):
        unclear = await client.post(
            "/v1/memory/near-memory", json={"tier": "reram-dirc-rag"} | fields
        )
        assert unclear.status_code == 422
        assert "either a model or stored_bytes" in unclear.json()["detail"]


async def test_memory_that_computes_gains_less_as_batches_grow(client):
    body = {
        "model": "meta-llama/Llama-2-7b-hf",
        "tier": "sangam-cxl-pim",
        "accelerator": "nvidia-h100-sxm-80gb",
    }

    async def found(**fields):
        answer = await asked(client, "/v1/memory/near-memory", body | fields)
        part = answer["processing_in_memory"]
        return part["memory_bound_time_ratio"]["value"], part["decode_speedup_ratio"]["value"]

    shares, gains = zip(*[await found(sequences=count) for count in (1, 64, 512)], strict=True)
    assert list(shares) == sorted(shares, reverse=True)
    assert list(gains) == sorted(gains, reverse=True)
    # Reading 13.5 GB at 3.35 TB/s against 2 · 6.7e9 operations at 989 TFLOP/s.
    assert shares[0] == pytest.approx(1.0 / (1.0 + 3350 / 989e3), rel=1e-3)
    longer = await found(sequences=512, tokens=4000)
    assert longer[0] > shares[2]
    narrow = await found(sequences=64, precision={"weights": "int4"})
    assert narrow[0] < shares[1]
    stated = await found(memory_bound_time_ratio=0.7)
    assert stated[1] == pytest.approx(2.7, rel=0.02)
    alone = {"tier": body["tier"], "stored_bytes": 1e9, "accelerator": body["accelerator"]}
    refused = await client.post("/v1/memory/near-memory", json=alone)
    assert refused.status_code == 422


async def test_stores_of_vectors(client):
    body = {"vectors": 1_000_000, "dimensions": 1536}
    answer = await asked(client, "/v1/memory/stores", body)
    validated(StoreAnswer, answer)
    assert answer["at_start"]["total_bytes"] == pytest.approx(6.144e9)
    indexed = await asked(
        client,
        "/v1/memory/stores",
        body
        | {
            "links_per_vector": 32,
            "added_per_day": 1000,
            "retention_days": 30,
            "days": 365,
            "retrieved_chunks": 8,
            "chunk_tokens": 512,
            "model": "llama-3.1-8b",
            "embedding_model": "llama-3.1-8b",
            "tier": "ddr5-8ch",
        },
    )
    assert indexed["at_start"]["index_bytes"] == 1e6 * 256
    assert indexed["after"]["vectors"] == 1_030_000
    assert indexed["injected_tokens"] == 4096
    # 32 layers × 8 KV heads × 128 × keys and values × 2 bytes.
    assert indexed["injected_kv_cache_bytes"] == pytest.approx(4096 * 131_072)
    assert indexed["search_s"]["value"] == pytest.approx(6.144e9 / 307.2e9, rel=0.05)
