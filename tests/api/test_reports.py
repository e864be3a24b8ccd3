from __future__ import annotations

import csv
import io

import pytest

from service.estimation.reports.tables import KINDS
from tests.api.conftest import MAIN
from tests.api.estimates.test_inference import answer

ENERGY = {"energy_kwh": 1_000_000.0, "region": "country/DE"}
#: One H100 at its maker's 164 kg for an hour of four years, servers left aside.
HOUR = {
    "accelerator_hours": 1.0,
    "accelerator": {
        "family": "nvidia-hopper",
        "figures": {
            "memory_bytes": 80e9,
            "memory_bandwidth_bytes_per_s": 3.35e12,
            "thermal_design_power_w": 700,
            "embodied_kgco2e": {"value": 164, "low": 164, "high": 164},
        },
    },
    "region": {"figures": {"grid_gco2e_per_kwh": 400, "pue_ratio": 1.2}},
    "hardware": {"life_years": 4.0},
    "disclosure": {"functional_unit": "period"},
}


async def lines(client, kind: str, body: dict) -> dict[str, dict]:
    report = await answer(client, f"/v1/reports/{kind}", body)
    return {f"{entry['code']} {entry['name']}": entry for entry in report["lines"]}


def value(entry: dict) -> float:
    return entry["amount"]["value"]


async def test_sci_is_operation_and_making_per_unit(client):
    found = await lines(client, "sci", MAIN)
    impacts = await answer(client, "/v1/impacts", MAIN)
    carbon = impacts["impacts"]["per_request"]["carbon"]
    score = value(found["SCI Score per request"])
    assert score == carbon["total_gco2e"]["value"]
    assert score == pytest.approx(
        value(found["E Energy of the software"]) * value(found["I Carbon intensity of the grid"])
        + value(found["M Embodied emissions"])
    )


async def test_sci_takes_the_share_of_the_making_by_calendar_time(client):
    found = await lines(client, "sci", HOUR)
    servers = 520_000 / (4 * 8766)
    assert value(found["M Embodied emissions"]) - servers == pytest.approx(4.677, rel=0.005)


async def test_sci_knows_no_market_instruments(client):
    contracted = MAIN | {"electricity": {"contracted_ratio": 1.0}}
    assert await lines(client, "sci", contracted) == await lines(client, "sci", MAIN)


async def test_both_methods_of_scope_2_stand_side_by_side(client):
    body = ENERGY | {"electricity": {"contracted_ratio": 0.6, "residual_gco2e_per_kwh": 600.0}}
    found = await lines(client, "ghg-protocol", body)
    market = found["2 market-based Electricity, market-based"]
    location = found["2 location-based Electricity, location-based"]
    facility_kwh = 1_000_000 * 1.56
    assert value(market) == pytest.approx(facility_kwh * 0.4 * 600 / 1000)
    assert value(location) != pytest.approx(value(market))
    assert location["unit"] == market["unit"] == "kgCO2e"


async def test_a_customer_has_it_all_in_scope_3(client):
    found = await lines(client, "ghg-protocol", ENERGY | {"disclosure": {"role": "customer"}})
    assert {entry["code"].split()[0].split(".")[0] for entry in found.values()} == {"3"}


async def test_what_only_meters_know_is_null_until_given(client):
    bare = await lines(client, "ghg-protocol", ENERGY)
    assert bare["1 fuel Fuel of generators"]["amount"] is None
    assert bare["1 fuel Fuel of generators"]["note"]
    asked = {
        "diesel_l": 1000.0,
        "diesel_kgco2e_per_l": 2.5,
        "refrigerant_leak_kg": 2.0,
        "refrigerant_gwp": 1430.0,
        "grid_loss_ratio": 0.05,
        "upstream_gco2e_per_kwh": 50.0,
    }
    found = await lines(client, "ghg-protocol", ENERGY | {"disclosure": asked})
    assert value(found["1 fuel Fuel of generators"]) == 2500.0
    assert value(found["1 refrigerants Leaked refrigerants"]) == 2860.0
    location = value(found["2 location-based Electricity, location-based"])
    losses = value(found["3.3 losses Losses of transmission and distribution"])
    assert losses == pytest.approx(location * 0.05 / 0.95)
    upstream = value(found["3.3 upstream Production and transport of fuels"])
    assert upstream == pytest.approx(1_560_000 * 50 / 1000)


async def test_indicators_of_the_directive(client):
    asked = {
        "total_energy_kwh": 1_300_000.0,
        "reused_heat_kwh": 130_000.0,
        "renewable_kwh": 650_000.0,
        "water_input_l": 400_000.0,
    }
    found = await lines(client, "eed", ENERGY | {"disclosure": asked})
    assert value(found["PUE Power usage effectiveness"]) == pytest.approx(1.3)
    assert value(found["WUE Water usage effectiveness"]) == pytest.approx(0.4)
    assert value(found["ERF Energy reuse factor"]) == pytest.approx(0.1)
    assert value(found["REF Renewable energy factor"]) == pytest.approx(0.5)


async def test_indicators_without_meters_are_of_the_place_or_null(client):
    found = await lines(client, "eed", ENERGY | {"electricity": {"contracted_ratio": 0.5}})
    assert value(found["PUE Power usage effectiveness"]) == 1.56
    assert found["ERF Energy reuse factor"]["amount"] is None
    assert value(found["REF Renewable energy factor"]) == pytest.approx(0.5)


async def test_sustainability_reporting_is_in_the_units_of_the_standards(client):
    body = MAIN | {"period": {"days": 365.0}}
    found = await lines(client, "csrd", body)
    by_part = body | {"include": ["impacts.breakdown"]}
    impacts = (await answer(client, "/v1/impacts", by_part))["impacts"]["period"]
    assert value(found["E1-5 Energy consumption"]) == pytest.approx(
        impacts["facility_energy_kwh"]["value"] / 1000
    )
    tonnes = value(found["E1-6 Gross scope 2, location-based"])
    assert tonnes == pytest.approx(impacts["carbon"]["operational_location_gco2e"]["value"] / 1e6)
    assert value(found["E3-4 Water consumption, own operations"]) == pytest.approx(
        impacts["water"]["on_site_l"]["value"] / 1000
    )


async def test_annex_xi_of_llama_3_1_8b(client):
    body = {
        "accelerator_hours": 1_460_000.0,
        "accelerator": "nvidia-h100-sxm-80gb",
        "region": "country/US",
        "disclosure": {"model_parameters": 8.03e9, "training_tokens": 15e12},
    }
    found = await lines(client, "ai-act-annex-xi", body)
    assert value(found["2(d) Computational resources"]) == pytest.approx(6 * 8.03e9 * 15e12)
    # At most thermal design power and the largest host share, at least a third of the former.
    energy = value(found["2(e) Energy consumption, IT equipment"])
    assert 1460 * 0.23 < energy < 1460 * 1.275


async def test_a_report_as_a_table_has_the_same_lines(client):
    json_report = await answer(client, "/v1/reports/csrd", MAIN)
    response = await client.post("/v1/reports/csrd", json=MAIN, headers={"Accept": "text/csv"})
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert [row["name"] for row in rows] == [entry["name"] for entry in json_report["lines"]]
    assert float(rows[0]["value"]) == json_report["lines"][0]["amount"]["value"]
    assert [row["value"] for row in rows if row["name"].endswith("market-based")] == [""]


@pytest.mark.parametrize("kind", list(KINDS))
async def test_every_kind_answers_links_too(client, kind):
    link = {"energy_kwh": 1000, "region": "country/SE", "functional_unit": "period"}
    response = await client.get(f"/v1/reports/{kind}", params=link)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["kind"] == kind
    assert body["lines"]
    assert "not_legal_advice" in {warning["code"] for warning in body["warnings"]}
    again = await client.get(
        f"/v1/reports/{kind}", params=link, headers={"If-None-Match": response.headers["etag"]}
    )
    assert again.status_code == 304


async def test_an_unknown_kind_names_those_that_there_are(client):
    response = await client.post("/v1/reports/esg", json=ENERGY)
    assert response.status_code == 404
    assert "csrd" in response.json()["detail"]


@pytest.mark.parametrize(
    ("kind", "disclosure", "pointer"),
    [
        ("sci", {"functional_unit": "per_request"}, "/disclosure/functional_unit"),
        ("eed", {"total_energy_kwh": 900_000.0}, "/disclosure/total_energy_kwh"),
        ("eed", {"reused_heat_kwh": 1e9}, "/disclosure/reused_heat_kwh"),
        ("eed", {"renewable_kwh": 1e9}, "/disclosure/renewable_kwh"),
        ("ghg-protocol", {"grid_loss_ratio": 1.0}, "/disclosure/grid_loss_ratio"),
        ("ghg-protocol", {"diesel_l": -1.0}, "/disclosure/diesel_l"),
    ],
)
async def test_impossible_disclosures_are_refused_at_their_place(client, kind, disclosure, pointer):
    response = await client.post(f"/v1/reports/{kind}", json=ENERGY | {"disclosure": disclosure})
    assert response.status_code == 422, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


async def test_no_energy_gives_no_ratios(client):
    response = await client.post("/v1/reports/eed", json=ENERGY | {"energy_kwh": 0.0})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["/energy_kwh"]


async def test_treating_waste_is_reported_where_its_factor_is_stated(client):
    treated = HOUR | {"hardware": {"life_years": 4.0, "treatment_kgco2e_per_kg": 0.5}}
    treated["accelerator"] = "nvidia-h100-sxm-80gb"
    found = await lines(client, "ghg-protocol", treated)
    mass = value(found["3.12 mass Hardware at the end of its life"])
    assert value(found["3.12 Treatment of that hardware"]) == pytest.approx(0.5 * mass)
    treated["hardware"] = {"life_years": 4.0}
    bare = await lines(client, "ghg-protocol", treated)
    assert bare["3.12 Treatment of that hardware"]["amount"] is None
