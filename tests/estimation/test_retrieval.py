from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import Rejected
from service.estimation.retrieval.estimate import retrieval_answer
from service.estimation.retrieval.requests import RetrievalRequest

GENERATION = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "region": "aws/eu-north-1",
    "workload": {"input_tokens": 300, "output_tokens": 200, "requests_per_s": 2.0},
}
WHOLE = GENERATION | {
    "embedding": {"model": "BAAI/bge-large-en-v1.5"},
    "search": {"vectors": 1e7, "dimensions": 1024},
    "retrieved_chunks": 10,
    "chunk_tokens": 512,
}


@pytest.fixture(scope="module")
def asked(packaged_snapshot):
    def ask(**fields: Any) -> Any:
        request = RetrievalRequest.model_validate(WHOLE | fields)
        return retrieval_answer(request, packaged_snapshot)

    return ask


@pytest.fixture(scope="module")
def whole(asked):
    return asked()


def stages(answer: Any) -> dict[str, Any]:
    return {stage["name"]: stage for stage in answer["stages"]}


def test_what_is_retrieved_takes_cache_and_time(whole, packaged_snapshot):
    assert whole["injected_tokens"] == 5120
    assert whole["injected_kv_cache_bytes"] == pytest.approx(0.671e9, rel=0.005)
    # 10 million vectors of 1024 elements of 4 B.
    assert whole["store_bytes"] == pytest.approx(40.96e9)
    longer = GENERATION | {"workload": GENERATION["workload"] | {"input_tokens": 5420}}
    times = [
        inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)["latency"]
        for body in (GENERATION, longer)
    ]
    added = times[1]["e2e_s"]["value"] - times[0]["e2e_s"]["value"]
    assert stages(whole)["injection"]["seconds_s"]["value"] == pytest.approx(added)


def test_context_is_added_to_the_deployment_and_load_that_serve_it(asked):
    # Longer prompts leave room for fewer requests, and for fewer copies.
    full = {"input_tokens": 2048, "output_tokens": 10, "concurrency": "max"}
    machines = {"accelerator": "apple-m1-pro-32gb", "accelerator_count": 5}
    answer = asked(model="BSC-LT/salamandra-2b", workload=full, **machines)
    injected = stages(answer)["injection"]
    assert all(injected[name]["value"] > 0.0 for name in ("seconds_s", "it_energy_wh", "gco2e"))


def test_a_task_is_all_stages_and_a_year_all_tasks(whole):
    found = stages(whole)
    every = ("embedding", "search", "injection", "generation")
    energy = [found[name]["it_energy_wh"]["value"] for name in every]
    assert whole["per_task"]["it_energy_wh"]["value"] == pytest.approx(sum(energy))
    tasks = whole["per_year"]["tasks"]
    assert tasks == pytest.approx(2.0 * 8766 * 3600)
    per_year = whole["per_year"]["it_energy_kwh"]["value"]
    assert per_year == pytest.approx(sum(energy) * tasks / 1e3)
    waits = [found[name]["seconds_s"]["value"] for name in ("embedding", "search")]
    assert whole["ttft_s"]["value"] > sum(waits)
    waits += [found[name]["seconds_s"]["value"] for name in ("injection", "generation")]
    assert whole["per_task"]["seconds_s"]["value"] == pytest.approx(sum(waits))


def test_the_search_reads_everything_or_walks_a_graph(whole, asked):
    scan = stages(whole)["search"]["seconds_s"]["value"]
    assert scan == pytest.approx(40.96e9 / 307.2e9, rel=1e-4)
    graph = asked(search=WHOLE["search"] | {"links_per_vector": 32, "tier": "gddr6"})
    assert stages(graph)["search"]["seconds_s"]["value"] < 0.01 * scan
    # 40.96 GB out of DDR5 at 11.8 pJ a bit.
    read_wh = stages(whole)["search"]["it_energy_wh"]["value"]
    assert read_wh == pytest.approx(40.96e9 * 8 * 11.8e-12 / 3600)
    assert 0.0 < stages(graph)["search"]["it_energy_wh"]["value"] < read_wh
    unknown = asked(search=WHOLE["search"] | {"tier": "hbm3"})
    assert stages(unknown)["search"]["it_energy_wh"] is None
    assert "search_energy_unknown" in {one["code"] for one in unknown["warnings"]}


def test_stages_may_be_left_out_and_errors_name_their_fields(asked):
    alone = asked(embedding=None, search=None)
    assert set(stages(alone)) == {"injection", "generation"}
    with pytest.raises(Rejected) as refused:
        asked(embedding={"model": "no-such-model"})
    assert [error.pointer for error in refused.value.errors] == ["/embedding/model"]
    with pytest.raises(Rejected):
        asked(search=WHOLE["search"] | {"tier": "cxl-pond"})
