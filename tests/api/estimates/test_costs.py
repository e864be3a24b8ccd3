from __future__ import annotations

import re

import pytest

from tests.api.conftest import MAIN
from tests.api.http.test_errors import pointers, problem

PATH = "/v1/estimates/inference"
TRAINING = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 16,
    "training": {"tokens": 1e9, "zero_stage": 3, "activation_checkpointing": "full"},
    "region": "aws/us-east-1",
}


async def cost(client, body, path=PATH):
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    return answer["cost"], {warning["code"] for warning in answer["warnings"]}, answer


async def test_a_cloud_region_is_priced_by_its_providers_list(client):
    found, codes, answer = await cost(client, MAIN | {"region": "aws/us-east-1"})
    rented = found["rented"]
    # The list of July 2026: p5.48xlarge, eight H100, 55.04 USD an hour in us-east-1.
    assert (rented["instance"], rented["instances"]) == ("aws/p5.48xlarge", 1)
    assert rented["price_date"] == "2026-07-20"
    assert rented["usd_per_hour"] == {"value": 55.04, "low": 55.04, "high": 55.04}
    assert "price_of_another_region" not in codes
    rate = answer["latency"]["requests_per_s"]["value"]
    assert rented["usd_per_request"]["value"] == pytest.approx(55.04 / 3600 / rate)
    tokens = answer["deployment"]["workload"]["output_tokens"]
    per_million = rented["usd_per_million_output_tokens"]["value"]
    assert per_million == pytest.approx(55.04 / 3600 / rate * 1e6 / tokens)
    assert rented["usd_per_year"]["value"] == pytest.approx(55.04 * 8766)
    assert found["owned"] is None
    assert "emissions" not in found


async def test_another_regions_price_is_a_range_and_said(client):
    found, codes, _ = await cost(client, MAIN | {"region": "aws/eu-north-1"})
    assert found["rented"]["price_region"] == "aws/eu-north-1"
    assert "price_of_another_region" not in codes
    found, codes, answer = await cost(client, MAIN | {"region": "aws/mx-central-1"})
    price = found["rented"]["usd_per_hour"]
    assert found["rented"]["price_region"] not in ("aws/mx-central-1", None)
    assert price["low"] < price["value"] < price["high"]
    assert "price_of_another_region" in codes
    (used,) = [one for one in answer["provenance"]["entries"] if one["collection"] == "instances"]
    assert [one["name"] for one in used["figures"] if "price" in one["name"]] == [
        f"on-demand price in {found['rented']['price_region']}"
    ]


async def test_other_kinds_of_prices_are_taken_where_they_are_asked_for(client):
    asked = MAIN | {"region": "gcp/us-central1"}
    rents = {}
    for kind in ("on-demand", "spot", "reserved-1y", "reserved-3y"):
        found, _, _ = await cost(client, asked | {"cost": {"price_kind": kind}})
        assert found["rented"]["price_kind"] == kind
        rents[kind] = found["rented"]["usd_per_hour"]["value"]
    assert rents["spot"] < rents["on-demand"]
    assert rents["reserved-3y"] < rents["reserved-1y"] < rents["on-demand"]
    elsewhere = MAIN | {"region": "azure/eastus", "cost": {"price_kind": "reserved-3y"}}
    found, codes, _ = await cost(client, elsewhere)
    assert found["rented"] is None
    assert "price_unknown" in codes


async def test_no_price_is_that_of_another_provider(client, packaged_snapshot):
    here = packaged_snapshot.regions["hetzner/fsn1-dc14"]
    found, codes, _ = await cost(client, MAIN | {"region": here.id})
    assert found["rented"] is None
    assert "price_unknown" in codes


async def test_nothing_is_rented_in_a_country_and_nothing_invented_in_a_cloud(client):
    unpriced = MAIN | {"accelerator": "amd-mi355x-288gb"}
    found, codes, _ = await cost(client, unpriced | {"region": "country/SE"})
    assert found == {"total": None, "rented": None, "owned": None}
    assert "price_unknown" not in codes
    body = MAIN | {"accelerator": "amd-mi355x-288gb", "region": "aws/us-east-1"}
    found, codes, _ = await cost(client, body)
    assert found["rented"] is None
    assert "price_unknown" in codes


async def test_own_prices(client):
    asked = {
        "usd_per_accelerator_hour": 2.5,
        "purchase_usd_per_accelerator": {"value": 43800, "low": 40000, "high": 48000},
        "amortisation_years": 5,
        "electricity_usd_per_kwh": 0.1,
        "usd_per_tco2e": 100,
    }
    found, _, answer = await cost(client, MAIN | {"cost": asked, "explain": True})
    assert found["rented"]["usd_per_hour"]["value"] == 20.0
    assert found["rented"]["instance"] is None
    assert found["owned"]["hardware_usd_per_hour"]["value"] == pytest.approx(8.0 * 8760 / 8766)
    year = answer["impacts"]["per_year"]
    electricity = found["owned"]["electricity_usd_per_hour"]["value"]
    assert electricity == pytest.approx(year["facility_energy_kwh"]["value"] / 8766 * 0.1)
    assert found["owned"]["usd_per_hour"]["value"] == pytest.approx(8.0 * 8760 / 8766 + electricity)
    emitted = year["carbon"]["total_gco2e"]["value"] / 1e6
    assert found["emissions"]["usd_per_year"]["value"] == pytest.approx(emitted * 100)
    named = {step["name"]: step["value"] for step in answer["explanation"]}
    assert named["electricity_usd_per_hour"] == electricity
    assert named["hardware_usd_per_hour"] == pytest.approx(8.0 * 8760 / 8766)


async def test_what_nobody_rents_out_has_the_price_of_the_catalog_with_its_range(client):
    found, _, _ = await cost(client, MAIN | {"region": "country/SE"})
    owned = found["owned"]["hardware_usd_per_hour"]
    # Eight H100 at 32,500 USD each, over the usual life of a server.
    years = 8 * 32_500 / owned["value"] / 8760
    assert 3 < years < 10
    assert owned["low"] < owned["value"] < owned["high"]
    assert (found["rented"], found["total"]["basis"]) == (None, "owned")
    # In a cloud it is rented, whatever a card costs in shops.
    found, _, _ = await cost(client, MAIN | {"region": "aws/us-east-1"})
    assert (found["owned"], found["total"]["basis"]) == (None, "rented")


async def test_modules_are_bought_by_the_board_unless_a_price_is_stated(client):
    body = MAIN | {"accelerator": "amd-mi300x-192gb", "accelerator_count": 1, "parallelism": {}}
    body |= {"region": "country/FR"}
    found, _, answer = await cost(client, body)
    assert found["owned"]["accelerators"] == 8
    (said,) = [one for one in answer["warnings"] if one["code"] == "bought_together"]
    assert "of 8. The 7 that stand idle" in said["message"]
    stated = {"purchase_usd_per_accelerator": 15_000}
    alone, codes, _ = await cost(client, body | {"cost": stated})
    assert alone["owned"]["accelerators"] == 1
    assert "bought_together" not in codes
    hardware = [one["owned"]["hardware_usd_per_hour"]["value"] for one in (found, alone)]
    assert hardware[0] == pytest.approx(8 * hardware[1])


async def test_an_instance_that_is_rented_for_a_part_of_it_says_what_stands_idle(client):
    body = MAIN | {"accelerator": "nvidia-h200-sxm-141gb", "region": "aws/eu-north-1"}
    body |= {"accelerator_count": 2, "parallelism": {"tensor": 2}}
    found, _, answer = await cost(client, body)
    assert found["rented"]["instances"] == 1
    (said,) = [one for one in answer["warnings"] if one["code"] == "instance_partly_idle"]
    assert said["message"].startswith("6 accelerators of 1 × ")
    assert re.search(r"their power \(some [1-9]\d{2} W\) is not counted", said["message"])


async def test_where_no_price_of_electricity_is_published_the_worlds_stands_in(client):
    body = MAIN | {"accelerator": "nvidia-rtx-4090-24gb", "region": "country/GB"}
    body |= {"accelerator_count": 1, "parallelism": {}}
    found, codes, _ = await cost(client, body)
    power = found["owned"]["electricity_usd_per_hour"]
    assert power["low"] < power["value"] < power["high"]
    assert "electricity_price_assumed" in codes
    _, codes, _ = await cost(client, body | {"cost": {"electricity_usd_per_kwh": 0.2}})
    assert "electricity_price_assumed" not in codes


async def test_electricity_has_the_price_of_the_region_unless_another_is_stated(client):
    bought = {"purchase_usd_per_accelerator": 40_000, "amortisation_years": 5}
    germany = MAIN | {"region": "country/DE"}
    found, _, answer = await cost(client, germany | {"cost": bought})
    kwh = answer["impacts"]["per_year"]["facility_energy_kwh"]["value"] / 8766
    hourly = found["owned"]["electricity_usd_per_hour"]
    assert hourly["value"] == pytest.approx(kwh * 0.2076 * 1.0824, rel=1e-3)
    assert hourly["low"] < hourly["value"] < hourly["high"]
    assert "eurostat-nrg-pc-205" in {
        f["source"] for entry in answer["provenance"]["entries"] for f in entry["figures"]
    }
    stated, _, _ = await cost(client, germany | {"cost": bought | {"electricity_usd_per_kwh": 0.1}})
    assert stated["owned"]["electricity_usd_per_hour"]["value"] == pytest.approx(kwh * 0.1)


async def test_a_training_run_is_rented_for_as_long_as_it_takes(client):
    found, _, answer = await cost(client, TRAINING, "/v1/estimates/training")
    rented = found["rented"]
    assert (rented["instance"], rented["instances"]) == ("aws/p5.48xlarge", 2)
    assert rented["usd_per_hour"]["value"] == pytest.approx(2 * 55.04)
    hours = answer["latency"]["run"]["days"]["value"] * 24
    assert rented["usd_run"]["value"] == pytest.approx(2 * 55.04 * hours)
    without = TRAINING | {"training": {"zero_stage": 3, "activation_checkpointing": "full"}}
    found, _, _ = await cost(client, without, "/v1/estimates/training")
    assert found["rented"]["usd_run"] is None


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"instance": "p9.giant"}, "/cost/instance"),
        ({"instance": "p4d.24xlarge"}, "/cost/instance"),
        ({"usd_per_accelerator_hour": -1}, "/cost/usd_per_accelerator_hour"),
        ({"amortisation_years": 0}, "/cost/amortisation_years"),
        ({"electricity_usd_per_kwh": -0.1}, "/cost/electricity_usd_per_kwh"),
        ({"usd_per_tco2e": "much"}, "/cost/usd_per_tco2e"),
        (
            {"purchase_usd_per_accelerator": {"value": 1, "low": 2, "high": 3}},
            "/cost/purchase_usd_per_accelerator",
        ),
        ({"discount": 0.5}, "/cost/discount"),
    ],
)
async def test_what_is_wrong_with_prices_is_said(client, asked, pointer):
    body = problem(await client.post(PATH, json=MAIN | {"cost": asked}), 422)
    assert pointer in pointers(body)


async def test_prices_can_be_given_in_a_query(client):
    query = {
        "model": "llama-3.1-70b",
        "accelerator": "h100",
        "accelerator_count": 8,
        "region": "aws/us-east-1",
        "usd_per_tco2e": 100,
    }
    response = await client.get(PATH, params=query)
    assert response.status_code == 200, response.text
    assert response.json()["cost"]["emissions"]["usd_per_hour"]["value"] > 0


async def test_tensor_parallel_groups_are_not_torn_between_instances(client):
    body = {
        "model": "llama-3.1-70b",
        "accelerator": "nvidia-h100-sxm-80gb",
        "region": "aws/us-east-1",
        "accelerator_count": 4,
    }

    async def rented(**changes):
        response = await client.post("/v1/estimates/inference", json=body | changes)
        answer = response.json()
        codes = {warning["code"] for warning in answer["warnings"]}
        return answer["cost"]["rented"], codes

    together, _ = await rented(parallelism={"tensor": 4})
    assert (together["instance"], together["instances"]) == ("aws/p5.48xlarge", 1)
    apart, _ = await rented(model="llama-3.1-8b", parallelism={"tensor": 1, "data": 4})
    assert apart["usd_per_hour"]["value"] <= together["usd_per_hour"]["value"]
    torn, codes = await rented(parallelism={"tensor": 4}, cost={"instance": "p5.4xlarge"})
    assert torn["instances"] == 4
    assert "instance_divides_group" in codes


@pytest.mark.parametrize("accelerator", ["google-tpu-v3", "google-tpu-v4", "google-tpu-v5p"])
async def test_hosts_that_links_join_are_rented_side_by_side(client, accelerator):
    body = {
        "model": "llama-3.1-8b",
        "accelerator": accelerator,
        "region": "gcp/us-central1",
        "accelerator_count": 8,
        "parallelism": {"tensor": 8},
    }
    answer = (await client.post("/v1/estimates/inference", json=body)).json()
    rented = answer["cost"]["rented"]
    # A slice of eight chips, at the price of two hosts of four, and not one of 64.
    assert rented["instances"] == 2
    codes = {warning["code"] for warning in answer["warnings"]}
    assert not codes & {"instance_divides_group", "instance_partly_idle"}
