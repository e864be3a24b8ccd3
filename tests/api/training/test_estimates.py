"""Everything about a training run in one answer."""

from __future__ import annotations

import pytest

from service.estimation.training.requests import EXAMPLE_RUN
from tests.api.estimates.test_inference import answer, walk
from tests.api.training.test_memory import RUN

PATH = "/v1/estimates/training"
PLACED = RUN | {"region": "country/FR", "training": RUN["training"] | {"tokens": 1e10}}


async def test_it_holds_what_the_single_questions_answer(client):
    body = await answer(client, PATH, PLACED)
    asked = {name: value for name, value in PLACED.items() if name != "region"}
    memory = await answer(client, "/v1/memory/training", asked)
    speed = await answer(client, "/v1/latency/training", asked)
    for name, value in body["memory"].items():
        assert memory[name] == value, name
    for name, value in body["latency"].items():
        assert speed[name] == value, name
    assert body["deployment"]["region"] == "country/FR"
    assert {constraint["name"] for constraint in body["constraints"]} >= {
        "memory_per_accelerator",
        "context_length",
    }


async def test_energy_is_power_over_time(client):
    body = await answer(client, PATH, PLACED)
    energy, run = body["energy"], body["latency"]["run"]
    hours = run["days"]["value"] * 24
    assert energy["it_energy_run_kwh"]["value"] == pytest.approx(
        energy["it_power_w"]["value"] * hours / 1000
    )
    assert energy["accelerator_power_w"]["high"] <= 400.0
    per_token = energy["it_energy_per_step_kwh"]["value"] / body["latency"]["tokens_per_step"]
    assert energy["it_energy_per_1k_tokens_wh"]["value"] == pytest.approx(per_token * 1e6)


async def test_impacts_follow_energy_and_time(client):
    body = await answer(client, PATH, PLACED)
    impacts, run = body["impacts"], body["latency"]["run"]
    whole, step = impacts["run"], impacts["per_step"]
    assert whole["it_energy_kwh"] == body["energy"]["it_energy_run_kwh"]
    assert whole["accelerator_hours"]["value"] == pytest.approx(run["accelerator_hours"]["value"])
    assert step["it_energy_kwh"]["value"] * run["steps"] == pytest.approx(
        whole["it_energy_kwh"]["value"] * run["goodput_ratio"]["value"]
    )
    day = impacts["per_day"]["accelerator_hours"]["value"]
    assert day == pytest.approx(24 * body["deployment"]["accelerator_count"])
    for basis in (step, whole, impacts["per_day"], impacts["per_1k_tokens"]):
        carbon = basis["carbon"]
        assert carbon["operational_location_gco2e"]["value"] > 0
        assert carbon["embodied_gco2e"]["value"] > 0
    for part in walk(body):
        if set(part) == {"value", "low", "high"}:
            assert part["low"] <= part["value"] <= part["high"]


async def test_a_published_run_emits_about_what_was_published(client):
    # Meta: 8,930 t by thermal design power of the accelerators alone; hosts and building add.
    body = await answer(client, PATH, EXAMPLE_RUN | {"region": "country/US"})
    carbon = body["impacts"]["run"]["carbon"]["operational_location_gco2e"]
    assert 8.93e9 < carbon["value"] < 2.5 * 8.93e9


async def test_figures_of_the_answer_are_figures_of_the_steps(client):
    body = await answer(client, PATH, PLACED | {"explain": True})
    values = [step["value"] for step in body["explanation"]]
    assert body["memory"]["total_bytes"]["value"] in values
    assert body["latency"]["step_s"]["value"] in values
    assert body["energy"]["it_energy_run_kwh"]["value"] in values
    assert body["impacts"]["run"]["carbon"]["operational_location_gco2e"]["value"] in values
    entries = {entry["id"] for entry in body["provenance"]["entries"]}
    assert entries >= {"country/FR", "power/hbm/nvidia-ampere"}


async def test_without_tokens_there_are_no_figures_of_a_run(client):
    body = await answer(client, PATH, RUN | {"region": "country/FR"})
    assert "run" not in body["impacts"]
    assert "it_energy_run_kwh" not in body["energy"]
    endless = {"per_accelerator_day": 1000, "restart_s": 1e6}
    hopeless = PLACED | {"training": PLACED["training"] | {"failures": endless}}
    body = await answer(client, PATH, hopeless)
    assert "run" not in body["impacts"]
    assert "it_energy_run_kwh" not in body["energy"]


async def test_hardware_of_unknown_power_has_speed_but_no_energy(client):
    prototype = {
        "name": "Prototype",
        "family": "nvidia-hopper",
        "figures": {
            "memory_bytes": 200e9,
            "memory_bandwidth_bytes_per_s": 4e12,
            "peak_bf16_flops_per_s": 1e15,
            "scale_up_bandwidth_bytes_per_s": 450e9,
        },
    }
    body = await answer(client, PATH, PLACED | {"accelerator": prototype})
    assert body["latency"]["step_s"]["value"] > 0
    assert (body["energy"], body["impacts"]) == (None, None)
    assert "power_unknown" in {warning["code"] for warning in body["warnings"]}
