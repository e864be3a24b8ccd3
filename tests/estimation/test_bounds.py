"""What hardware allows at most: it answers for all of it, and nothing measured is faster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.core.performance.inference.bounds import LeastWork, least_time
from service.estimation.bounds.estimate import bounds_answer
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.requests import LatencyInferenceRequest

MEASURED = Path("hardware_catalog/measurements")
GROQ = {"model": "meta-llama/Llama-2-70b-hf", "accelerator": "groq-lpu-v1"}


@pytest.fixture(scope="module")
def asked(packaged_snapshot):
    def ask(**fields: Any) -> Any:
        return bounds_answer(BoundsRequest.model_validate(fields), packaged_snapshot)

    return ask


def codes(answer: Any) -> set[str]:
    return {warning["code"] for warning in answer["warnings"]}


def test_a_model_lies_on_as_many_chips_as_hold_it(asked):
    answer = asked(**GROQ, region="country/US")
    memory, speed = answer["memory"], answer["speed"]
    # 68.98e9 weights of two bytes in 230 MB each; caches of 1,280 tokens take two chips more.
    assert memory["weights_bytes"] == pytest.approx(137.95e9, rel=1e-3)
    assert memory["least_accelerator_count"] == answer["accelerator_count"] == 602
    assert memory["fits"]
    assert answer["engines"] == []
    assert "bounds_only" in codes(answer)
    # Chip after chip, each at 80 TB/s, reads the weights in 1.7 ms: 580 tokens/s at the very most.
    assert speed["least_tpot_in_turn_s"] == pytest.approx(137.8e9 / 80e12, rel=0.01)
    assert speed["tpot_limit"] == "memory_bandwidth"
    assert speed["least_tpot_s"] * 602 == pytest.approx(speed["least_tpot_in_turn_s"])
    halved = asked(**GROQ, precision={"weights": "int8"})
    assert halved["memory"]["least_accelerator_count"] == pytest.approx(602 / 2, abs=5)
    short = asked(**GROQ, accelerator_count=576)
    assert not short["memory"]["fits"]
    assert "does_not_fit" in codes(short)


def test_power_and_footprint_are_those_of_so_much_accelerator_time(asked, packaged_snapshot):
    answer = asked(**GROQ, region="country/US")
    hours = {"accelerator": "groq-lpu-v1", "accelerator_hours": 602 * 8766, "region": "country/US"}
    request = ImpactsRequest.model_validate(hours)
    period = impacts_answer(request, packaged_snapshot)["impacts"]["period"]
    for place in (("facility_energy_kwh",), ("carbon", "total_gco2e"), ("water", "total_l")):
        told, same = answer["per_year"], period
        for name in place:
            told, same = told[name], same[name]
        assert told == pytest.approx(same, rel=1e-6)
    # Of this wafer the making is unpublished, of that socket the power.
    wafer = asked(model="llama-3.1-8b", accelerator="cerebras-wse-3", region="country/US")
    assert wafer["per_year"]["carbon"]["embodied_gco2e"] is None
    socket = asked(model="llama-3.1-8b", accelerator="sambanova-sn40l", region="country/US")
    assert socket["it_power_w"] is None
    assert socket["per_year"] is None
    assert "power_unknown" in codes(socket)


def test_a_peak_that_is_uncertain_bounds_by_its_upper_end(asked):
    # The dense peak of the wafer is assumed, an eighth of the 125 PFLOP/s that are printed.
    speed = asked(model="llama-3.1-8b", accelerator="cerebras-wse-3")["speed"]
    assert speed["ttft_limit"] == "compute"
    assert speed["least_ttft_s"] == pytest.approx(2 * 7.5e9 * 1024 / 125e15, rel=0.1)


def test_what_no_peak_is_published_of_is_bounded_by_memory(asked):
    answer = asked(model="llama-3.1-8b", accelerator="nvidia-rubin-cpx-128gb")
    assert answer["speed"]["ttft_limit"] == "memory_bandwidth"
    assert "peak_unknown" in codes(answer)


def test_an_encoder_generates_nothing(asked):
    answer = asked(model="BAAI/bge-m3", accelerator="nvidia-h100-sxm-80gb")
    assert answer["speed"]["least_tpot_s"] is None
    assert answer["memory"]["kv_cache_bytes"] == 0.0
    assert "estimates/inference" in str(answer["warnings"])


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"])
def test_estimates_lie_above_the_bounds(asked, packaged_snapshot, model):
    deployed = {"model": model, "accelerator": "nvidia-h200-sxm-141gb"}
    workload = {"input_tokens": 2000, "output_tokens": 100, "concurrency": 4}
    request = LatencyInferenceRequest.model_validate(deployed | {"workload": workload})
    estimate = inference_latency_answer(request, packaged_snapshot)
    speed = asked(**deployed, accelerator_count=1, sequences=4, input_tokens=2000)["speed"]
    assert estimate["ttft_s"]["low"] > speed["least_ttft_s"]
    assert estimate["tpot_s"]["low"] > speed["least_tpot_s"]


@pytest.mark.parametrize("source", ["autoawq-readme", "aws-neuron-inf2"])
def test_nothing_measured_is_faster(asked, source):
    rows = [json.loads(line) for line in (MEASURED / f"{source}.jsonl").read_text().splitlines()]
    timed = [row for row in rows if "tpot_s" in row["measured"]]
    assert timed
    for row in timed:
        request = row["request"]
        workload = request["workload"]
        bound = asked(
            model=request["model"],
            accelerator=request["accelerator"],
            accelerator_count=request.get("accelerator_count", 1),
            precision=request["precision"],
            sequences=workload.get("concurrency", 1),
            input_tokens=workload["input_tokens"],
            output_tokens=workload["output_tokens"],
        )
        assert row["measured"]["tpot_s"] > bound["speed"]["least_tpot_s"], row["id"]


def test_the_slower_of_reading_and_computing_bounds():
    work = LeastWork(flops=1e12, memory_bytes=1e9)
    assert least_time(work, 1e12, 2e15, 1).least_s == pytest.approx(1e-3)
    computing = least_time(work, 1e12, 1e14, 2)
    assert computing.least_s == pytest.approx(5e-3)
    assert computing.is_compute
    assert not least_time(work, 1e12, None, 1).is_compute
