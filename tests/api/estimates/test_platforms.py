"""Machines, limits of power and sites: what answers about energy say of them, by every door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.estimates.test_inference import answer

L8B = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload": {"input_tokens": 512, "output_tokens": 256, "concurrency": 8},
    "region": "country/SE",
}
H100 = L8B | {"accelerator": "nvidia-h100-sxm-80gb", "precision": {"weights": "bf16"}}
RTX_4090 = L8B | {"accelerator": "nvidia-rtx-4090-24gb", "precision": {"weights": "bf16"}}
TRAINING = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "training": {"zero_stage": 3, "tokens": 1e9},
    "region": "country/SE",
}
INFERENCE = "/v1/estimates/inference"


async def refused(client: Any, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = await client.post(path, json=body)
    assert response.status_code == 422
    errors: list[dict[str, Any]] = json.loads(response.content)["errors"]
    return errors


@pytest.mark.parametrize(
    "changes",
    [
        {"accelerator": "nvidia-h100-sxm-80gb", "accelerator_count": 8},
        {"accelerator": "nvidia-rtx-4090-24gb"},
        {"accelerator": "nvidia-jetson-agx-orin-64gb", "serving": {"engine": "llama.cpp"}},
        {"accelerator": "apple-m2-ultra-192gb", "serving": {"engine": "llama.cpp"}},
        {"accelerator": "nvidia-rtx-4090-24gb", "power_limit_w": 250.0},
        {"accelerator": "nvidia-l4-24gb", "platform": "workstation"},
        {"accelerator": "nvidia-l4-24gb", "workload": {"requests_per_s": 0.2}},
    ],
)
async def test_power_times_time_is_energy_and_stays_below_its_limits(client, changes):
    body = await answer(client, INFERENCE, L8B | changes)
    energy, latency = body["energy"], body["latency"]
    rate, power = latency["requests_per_s"]["value"], energy["it_power_w"]["value"]
    of_request = energy["it_energy_per_request_wh"]["value"]
    assert of_request == pytest.approx(power / rate / 3600.0)
    assert of_request == pytest.approx(
        energy["accelerator_energy_per_request_wh"]["value"]
        + energy["host_energy_per_request_wh"]["value"]
    )
    count = body["deployment"]["accelerator_count"]
    each = energy["accelerator_mean_power_w"]["value"]
    host = energy["host_power_per_accelerator_w"]["value"]
    assert power == pytest.approx(count * (each + host))
    year = body["impacts"]["per_year"]
    assert year["it_energy_kwh"]["value"] == pytest.approx(power * 8.766)
    facility = body["facility"]["pue_ratio"]["value"]
    assert year["facility_energy_kwh"]["value"] == pytest.approx(power * 8.766 * facility)
    limit = changes.get("power_limit_w", 1e6)
    for name in (
        "accelerator_busy_power_w",
        "accelerator_prefill_power_w",
        "accelerator_mean_power_w",
    ):
        assert energy[name]["high"] <= limit


async def test_training_energy_is_power_times_time_of_the_same_model(client):
    body = await answer(client, "/v1/estimates/training", TRAINING)
    energy, speed = body["energy"], body["latency"]
    power = energy["it_power_w"]["value"]
    assert energy["it_energy_per_step_kwh"]["value"] == pytest.approx(
        power * speed["step_s"]["value"] / 3.6e6
    )
    assert energy["it_energy_run_kwh"]["value"] == pytest.approx(
        power * speed["run"]["days"]["value"] * 0.024
    )
    assert power < 10_200.0
    assert 300.0 < energy["accelerator_power_w"]["value"] < 700.0


async def test_a_chip_that_is_a_whole_machine_is_charged_no_host(client):
    mac = L8B | {"accelerator": "apple-m2-ultra-192gb", "serving": {"engine": "llama.cpp"}}
    body = await answer(client, INFERENCE, mac)
    assert body["deployment"]["platform"] == "mac-studio-m2-ultra"
    assert body["energy"]["host_power_per_accelerator_w"]["value"] == 0.0
    (error,) = await refused(client, INFERENCE, mac | {"platform": "desktop"})
    assert error["pointer"] == "/platform"
    assert "whole machine" in error["detail"]
    (error,) = await refused(client, INFERENCE, RTX_4090 | {"platform": "mac-studio"})
    assert "has no slot" in error["detail"]


async def test_hosts_are_those_of_their_machines(client):
    """A Jetson or a laptop is charged a few watts, a server's accelerator a few hundred."""

    async def host_w(**changes: Any) -> float:
        body = await answer(client, INFERENCE, L8B | changes)
        return float(body["energy"]["host_power_per_accelerator_w"]["value"])

    jetson = {"accelerator": "nvidia-jetson-agx-orin-64gb", "serving": {"engine": "llama.cpp"}}
    laptop = {
        "accelerator": "nvidia-rtx-4090-laptop-16gb",
        "precision": {"weights": "int8"},
        "serving": {"engine": "llama.cpp"},
    }
    assert await host_w(**jetson) < 15.0
    assert 20.0 < await host_w(**laptop) < 80.0
    assert 50.0 < await host_w(accelerator="nvidia-rtx-4090-24gb") < 160.0
    assert 150.0 < await host_w(accelerator="nvidia-h100-sxm-80gb") < 350.0


async def test_a_platform_that_was_asked_for_takes_the_place_of_the_usual_one(client):
    usual = await answer(client, INFERENCE, RTX_4090)
    asked = await answer(client, INFERENCE, RTX_4090 | {"platform": "workstation"})
    own = {"like": "workstation", "figures": {"host_idle_w": 10.0, "host_load_w": 15.0}}
    given = await answer(client, INFERENCE, RTX_4090 | {"platform": own})
    assert [one["deployment"]["platform"] for one in (usual, asked, given)] == [
        "desktop",
        "workstation",
        "inline",
    ]
    hosts = [
        one["energy"]["host_power_per_accelerator_w"]["value"] for one in (usual, asked, given)
    ]
    assert hosts[2] < hosts[0] < hosts[1]
    # What a host costs a step goes by its kind, which figures of one's own leave as it is.
    assert asked["latency"]["tpot_s"] == given["latency"]["tpot_s"] != usual["latency"]["tpot_s"]
    listed = {entry["collection"] for entry in asked["provenance"]["entries"]}
    assert "platforms" in listed


@pytest.mark.parametrize("path", [INFERENCE, "/v1/memory/inference", "/v1/impacts"])
async def test_an_unknown_platform_is_named_with_what_comes_near(client, path):
    body = {name: one for name, one in H100.items() if name != "region" or "memory" not in path}
    (error,) = await refused(client, path, body | {"platform": "dgx-h1000"})
    assert error["pointer"] == "/platform"
    assert "nvidia-dgx-h100" in error["detail"]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"figures": {}}, "/platform/figures/host_idle_w"),
        ({"like": "nowhere"}, "/platform/like"),
        ({"like": "desktop", "figures": {"host_load_w": -1.0}}, "/platform/figures/host_load_w"),
        ({"like": "desktop", "figures": {"weight": 1.0}}, "/platform/figures"),
        ({"like": "desktop", "accelerators": 0}, "/platform/accelerators"),
        ({"like": "desktop", "site_class": "moon"}, "/platform/site_class"),
    ],
)
async def test_hostile_platforms_are_refused_with_their_place(client, given, pointer):
    errors = await refused(client, INFERENCE, RTX_4090 | {"platform": given})
    assert [error["pointer"] for error in errors] == [pointer]


async def test_a_limit_of_power_slows_prompts_more_than_decoding(client):
    free = await answer(client, INFERENCE, H100)
    half = await answer(client, INFERENCE, H100 | {"power_limit_w": 350.0})
    assert half["deployment"]["power_limit_w"] == 350.0
    slower = [
        half["latency"][name]["value"] / free["latency"][name]["value"]
        for name in ("ttft_s", "tpot_s")
    ]
    assert slower[0] > 1.1
    assert 1.0 <= slower[1] < slower[0]
    assert half["energy"]["accelerator_busy_power_w"]["high"] <= 350.0


async def test_a_limit_near_what_a_resident_model_draws_slows_decoding_and_is_told_of(client):
    free = await answer(client, INFERENCE, RTX_4090)
    least = await answer(client, INFERENCE, RTX_4090 | {"power_limit_w": 100.0})
    speed = "output_tokens_per_s"
    ratio = least["latency"][speed]["value"] / free["latency"][speed]["value"]
    assert ratio < 0.5
    assert least["energy"]["accelerator_busy_power_w"]["high"] <= 100.0
    assert "power_limit_low" in {one["code"] for one in least["warnings"]}
    assert "power_limit_low" not in {one["code"] for one in free["warnings"]}


async def test_a_limit_takes_power_from_what_would_draw_more_alone(client):
    async def drawn(**limit):
        found = await answer(client, INFERENCE, RTX_4090 | limit)
        return found["energy"]["accelerator_busy_power_w"]["value"]

    free = await drawn()
    assert await drawn(power_limit_w=min(1.2 * free, 450.0)) > 0.93 * free
    assert 0.93 < await drawn(power_limit_w=0.75 * free) / (0.75 * free) <= 1.0


@pytest.mark.parametrize("platform", ["desktop", "workstation", "laptop", "server-pcie-8"])
async def test_modules_for_baseboards_have_no_place_in_slots(client, platform):
    (error,) = await refused(client, INFERENCE, H100 | {"platform": platform})
    assert error["pointer"] == "/platform"
    assert "server-8" in error["detail"]
    assert await answer(client, INFERENCE, H100 | {"platform": "dell-xe9680"})


@pytest.mark.parametrize("limit", [0.0, 50.0, 80.0, 700.5, -1.0])
async def test_limits_beyond_the_hardware_are_refused(client, limit):
    (error,) = await refused(client, INFERENCE, H100 | {"power_limit_w": limit})
    assert error["pointer"] == "/power_limit_w"


@pytest.mark.parametrize(
    ("changes", "ratio", "basis", "class_"),
    [
        ({}, 1.35, "site_class", "colocation"),
        ({"region": "aws/eu-north-1"}, None, "region", "colocation"),
        ({"facility": {"pue_ratio": 1.1}}, 1.1, "request", "colocation"),
        ({"facility": {"site_class": "hyperscale"}}, 1.13, "site_class", "hyperscale"),
        (
            {"region": "aws/eu-north-1", "facility": {"site_class": "enterprise"}},
            1.56,
            "site_class",
            "enterprise",
        ),
        ({"accelerator": "nvidia-rtx-4090-24gb"}, 1.0, "site_class", "home"),
        ({"accelerator": "google-tpu-v5e"}, 1.13, "site_class", "hyperscale"),
    ],
)
async def test_the_pue_is_that_of_the_request_the_region_or_the_usual_site(
    client, changes, ratio, basis, class_
):
    body = await answer(client, "/v1/impacts", _hours() | changes)
    facility = body["facility"]
    assert facility["pue_basis"] == basis
    assert facility["site_class"] == class_
    assert facility["pue_reason"]
    if ratio is not None:
        assert facility["pue_ratio"]["value"] == pytest.approx(ratio)
    period = body["impacts"]["period"]
    assert period["facility_energy_kwh"]["value"] == pytest.approx(
        period["it_energy_kwh"]["value"] * facility["pue_ratio"]["value"]
    )
    assert body["electricity"]["pue_ratio"] == facility["pue_ratio"]


@pytest.mark.parametrize(
    ("changes", "wue", "assumed"),
    [
        ({}, 0.36, True),
        ({"region": "azure/swedencentral"}, 0.16, False),
        ({"accelerator": "nvidia-rtx-4090-24gb"}, 0.0, True),
        ({"accelerator": "nvidia-rtx-4090-24gb", "region": "azure/swedencentral"}, 0.16, False),
        ({"region": "azure/swedencentral", "facility": {"site_class": "office"}}, 0.0, True),
        ({"facility": {"pue_ratio": 1.1}}, 0.36, True),
    ],
)
async def test_water_on_site_is_what_is_published_of_the_place_or_the_usual_site(
    client, changes, wue, assumed
):
    body = await answer(client, "/v1/impacts", _hours() | changes)
    period = body["impacts"]["period"]
    assert body["electricity"]["wue_l_per_kwh"]["value"] == wue
    litres = period["water"]["on_site_l"]["value"]
    assert litres == pytest.approx(period["it_energy_kwh"]["value"] * wue)
    # What stands in names its calibration among the assumptions.
    stood_in = [one for one in body["provenance"]["assumed"] if "wue_l_per_kwh" in one]
    assert bool(stood_in) == assumed


def _hours() -> dict[str, Any]:
    return {
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_hours": 1000.0,
        "region": "country/SE",
    }


async def test_hours_deployments_and_training_go_by_one_model_of_power(client):
    """The same accelerator in the same machine draws alike by whatever door it comes."""
    hours = await answer(client, "/v1/impacts", _hours())
    of_hour = hours["energy"]["it_energy_kwh"]["value"]
    served = await answer(client, INFERENCE, H100 | {"accelerator_count": 8})
    trained = await answer(client, "/v1/estimates/training", TRAINING)
    each = [one["energy"]["it_power_w"]["value"] / 8 for one in (served, trained)]
    assert min(each) < 1.3 * of_hour
    assert max(each) > of_hour / 1.3
    limited = await answer(client, "/v1/impacts", _hours() | {"power_limit_w": 350.0})
    assert limited["energy"]["it_energy_kwh"]["value"] < of_hour


async def test_slots_without_peer_to_peer_are_slower_and_said(client):
    two = RTX_4090 | {"accelerator_count": 2, "parallelism": {"tensor": 2}}
    desktop = await answer(client, INFERENCE, two)
    workstation = await answer(client, INFERENCE, two | {"platform": "workstation"})
    assert "no_peer_to_peer" in {one["code"] for one in desktop["warnings"]}
    assert "no_peer_to_peer" not in {one["code"] for one in workstation["warnings"]}
    assert desktop["latency"]["ttft_s"]["value"] > workstation["latency"]["ttft_s"]["value"]


async def test_recommendations_stand_in_the_machine_that_was_asked_for(client):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "workload": {"input_tokens": 256, "output_tokens": 128, "requests_per_s": 0.5},
        "search": {
            "accelerators": ["nvidia-l40s-48gb"],
            "regions": ["country/SE"],
            "max_accelerators": 2,
        },
    }
    usual = await answer(client, "/v1/recommendations", asked)
    moved = await answer(client, "/v1/recommendations", asked | {"platform": "workstation"})
    platforms = [one["choices"][0]["estimate"]["deployment"]["platform"] for one in (usual, moved)]
    assert platforms == ["server-pcie-8", "workstation"]
    errors = await refused(client, "/v1/recommendations", asked | {"platform": "mac-mini"})
    assert {error["pointer"] for error in errors} == {"/platform"}


async def test_what_has_no_known_power_takes_no_limit(client):
    body = L8B | {"accelerator": "amd-epyc-9755", "power_limit_w": 300.0}
    errors = await refused(client, INFERENCE, body)
    assert {one["pointer"] for one in errors} == {"/power_limit_w"}
