"""One model of power behind every question: what each answers agrees with the others."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.years import HOURS_PER_YEAR
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

REGION = "country/FR"
LOADS: dict[str, dict[str, Any]] = {
    "one at a time": {"input_tokens": 200, "output_tokens": 200, "concurrency": 1},
    "many": {"input_tokens": 1000, "output_tokens": 300, "concurrency": 64},
    "now and then": {"input_tokens": 500, "output_tokens": 300, "requests_per_s": 0.05},
}
#: A server, a rack, a card, a chip with its host in it, and a model whose experts are spread.
SERVED: dict[str, dict[str, Any]] = {
    "server": {"model": "Qwen/Qwen3-8B", "accelerator": "nvidia-h100-sxm-80gb"},
    "rack": {"model": "Qwen/Qwen3-8B", "accelerator": "nvidia-gb200-186gb"},
    "desktop": {"model": "meta-llama/Llama-3.2-3B", "accelerator": "nvidia-rtx-4090-24gb"},
    "whole machine": {"model": "meta-llama/Llama-3.2-3B", "accelerator": "apple-m3-ultra-512gb"},
    "experts": {
        "model": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "accelerator": "nvidia-h100-sxm-80gb",
        "parallelism": {"tensor": 8, "expert": 8},
    },
}


def hours(snapshot, accelerator: str, spent: float = 1000.0) -> dict[str, Any]:
    asked = {"region": REGION, "accelerator": accelerator, "accelerator_hours": spent}
    answer = impacts_answer(ImpactsRequest.model_validate(asked), snapshot)
    return dict(answer["energy"]["it_energy_kwh"])


def served(snapshot, what: str, load: str) -> Any:
    asked = SERVED[what] | {"workload": LOADS[load], "region": REGION}
    return inference_estimate(InferenceRequest.model_validate(asked), snapshot)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("what", SERVED)
def test_a_year_and_a_request_are_power_over_time(packaged_snapshot, what, load):
    answer = served(packaged_snapshot, what, load)
    power_w = answer["energy"]["it_power_w"]["value"]
    year_kwh = answer["impacts"]["per_year"]["it_energy_kwh"]["value"]
    assert year_kwh == pytest.approx(power_w * HOURS_PER_YEAR / 1000.0, rel=1e-6)
    request_wh = answer["energy"]["it_energy_per_request_wh"]["value"]
    seconds = request_wh * 3600.0 / power_w
    if "requests_per_s" in LOADS[load]:
        assert seconds == pytest.approx(1.0 / LOADS[load]["requests_per_s"], rel=1e-6)
    else:
        rate = answer["latency"]["requests_per_s"]["value"]
        assert seconds == pytest.approx(1.0 / rate, rel=1e-6)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("what", SERVED)
def test_impacts_of_a_deployment_are_those_of_its_estimate(packaged_snapshot, what, load):
    asked = SERVED[what] | {"workload": LOADS[load], "region": REGION}
    impacts: Any = impacts_answer(ImpactsRequest.model_validate(asked), packaged_snapshot)
    answer = served(packaged_snapshot, what, load)
    assert impacts["energy"]["it_power_w"] == answer["energy"]["it_power_w"]
    used = impacts["impacts"]["per_request"]["it_energy_kwh"]
    assert used == answer["impacts"]["per_request"]["it_energy_kwh"]


@pytest.mark.parametrize("load", ["one at a time", "many"])
@pytest.mark.parametrize("what", SERVED)
def test_power_of_hours_holds_that_of_what_runs_in_them(packaged_snapshot, what, load):
    answer = served(packaged_snapshot, what, load)
    count = answer["deployment"]["accelerator_count"]
    each_w = answer["energy"]["it_power_w"]["value"] / count
    of_hours = hours(packaged_snapshot, SERVED[what]["accelerator"])
    assert of_hours["low"] <= each_w <= of_hours["high"]


def test_power_of_hours_goes_with_the_hours(packaged_snapshot):
    once, twice = (hours(packaged_snapshot, "nvidia-h100-sxm-80gb", one) for one in (1e3, 2e3))
    assert twice["value"] == pytest.approx(2.0 * once["value"])


@pytest.mark.parametrize(
    ("accelerator", "count"), [("nvidia-h100-sxm-80gb", 8), ("nvidia-rtx-4090-24gb", 1)]
)
def test_training_draws_its_power_through_all_its_time(packaged_snapshot, accelerator, count):
    asked = {
        "model": "meta-llama/Llama-3.2-1B",
        "accelerator": accelerator,
        "accelerator_count": count,
        "training": {"method": "lora", "tokens": 1e8, "sequence_length": 2048},
        "region": REGION,
    }
    answer: Any = training_estimate(
        EstimateTrainingRequest.model_validate(asked), packaged_snapshot
    )
    power_w = answer["energy"]["it_power_w"]["value"]
    step_s = answer["latency"]["step_s"]["value"]
    step_kwh = answer["energy"]["it_energy_per_step_kwh"]["value"]
    assert step_kwh == pytest.approx(power_w * step_s / 3.6e6, rel=1e-6)
    run_h = answer["latency"]["run"]["days"]["value"] * 24.0
    run_kwh = answer["energy"]["it_energy_run_kwh"]["value"]
    assert run_kwh == pytest.approx(power_w * run_h / 1000.0, rel=1e-6)
    of_hours = hours(packaged_snapshot, accelerator)
    assert of_hours["low"] <= power_w / count <= of_hours["high"]
