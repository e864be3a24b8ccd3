from __future__ import annotations

import httpx
import pytest

from tests.api.conftest import MAIN
from tests.api.estimates.test_inference import answer, walk

PLAIN = {"energy_kwh": 1000.0, "region": "country/SE"}
HOURS = {
    "accelerator_hours": 8766.0,
    "accelerator": "nvidia-h100-sxm-80gb",
    "region": "aws/eu-north-1",
}
SITE = {
    "sound_sources": [{"count": 400, "sound_power_db": 91}],
    "receptor_distance_m": 200,
    "noise_limit_db": 40,
    "accelerators_per_rack": 32,
    "area_m2": 20000,
    "mean_it_kw": 10000,
    "municipal_supply_l_per_day": 1e7,
}


async def period(client: httpx.AsyncClient, body: dict) -> dict:
    return (await answer(client, "/v1/impacts", body))["impacts"]["period"]


async def refused(client: httpx.AsyncClient, body: dict) -> list[dict]:
    response = await client.post("/v1/impacts", json=body)
    assert response.status_code == 422, response.text
    return response.json()["errors"]


async def test_a_workload_of_2023_uses_the_grid_of_2023(client):
    of_2023 = await answer(client, "/v1/impacts", PLAIN | {"period": {"year": 2023}})
    newest = await answer(client, "/v1/impacts", PLAIN)
    assert of_2023["electricity"]["grid_year"] == 2023
    assert of_2023["electricity"]["grid_gco2e_per_kwh"]["value"] == 40.695
    assert newest["electricity"]["grid_year"] == 2024
    used = [f for e in of_2023["provenance"]["entries"] for f in e["figures"]]
    assert [f["year"] for f in used if f["name"] == "grid_gco2e_per_kwh"] == [2023]


async def test_a_year_without_a_figure_takes_the_nearest_and_says_so(client):
    body = await answer(client, "/v1/impacts", PLAIN | {"period": {"year": 2019}})
    assert body["electricity"]["grid_year"] == 2023
    told = [w["message"] for w in body["warnings"] if w["code"] == "figure_of_another_year"]
    assert any("emissions of the grid in Sweden date from 2023" in message for message in told)


async def test_the_year_counts_in_inference_estimates_too(client):
    def grams(body):
        return body["impacts"]["per_request"]["carbon"]["operational_location_gco2e"]["value"]

    then = await answer(client, "/v1/estimates/inference", MAIN | {"period": {"year": 2023}})
    now = await answer(client, "/v1/estimates/inference", MAIN)
    assert grams(then) / grams(now) == pytest.approx(40.695 / 35.89)


async def test_contracts_count_by_the_market_based_method_alone(client):
    bare = await period(client, PLAIN)
    half = await period(
        client,
        PLAIN | {"electricity": {"contracted_ratio": 0.5, "residual_gco2e_per_kwh": 80.0}},
    )
    assert bare["carbon"]["operational_market_gco2e"] is None
    facility = half["facility_energy_kwh"]["value"]
    market = half["carbon"]["operational_market_gco2e"]["value"]
    assert market == pytest.approx(facility * 0.5 * 80.0)
    assert (
        half["carbon"]["operational_location_gco2e"] == bare["carbon"]["operational_location_gco2e"]
    )


async def test_hourly_matching_counts_what_is_generated_in_the_same_hour(client):
    annual = {"contracted_ratio": 0.9, "residual_gco2e_per_kwh": 100.0}
    hourly = annual | {"matching": "hourly", "hourly_matched_ratio": 0.6}
    bought = [
        (await period(client, PLAIN | {"electricity": each}))["carbon"]["operational_market_gco2e"]
        for each in (annual, hourly, {"residual_gco2e_per_kwh": 100.0})
    ]
    values = [one["value"] / bought[2]["value"] for one in bought]
    assert values == pytest.approx([0.1, 0.4, 1.0])
    body = await answer(client, "/v1/impacts", PLAIN | {"electricity": {"matching": "hourly"}})
    assert "hourly_match_unknown" in {warning["code"] for warning in body["warnings"]}
    unknown = await period(client, PLAIN | {"electricity": annual | {"matching": "hourly"}})
    assert unknown["carbon"]["operational_market_gco2e"] is None


async def test_treating_waste_emits_what_the_asker_says(client):
    bare = await period(client, HOURS)
    assert bare["e_waste_streams"]["treatment_gco2e"] is None
    treated = await period(client, HOURS | {"hardware": {"treatment_kgco2e_per_kg": 0.5}})
    grams = treated["e_waste_streams"]["treatment_gco2e"]["value"]
    assert grams == pytest.approx(500.0 * treated["e_waste_kg"]["value"])
    assert treated["carbon"]["total_gco2e"] == bare["carbon"]["total_gco2e"]


async def test_without_a_residual_mix_the_average_stands_in_with_a_warning(client):
    body = await answer(client, "/v1/impacts", PLAIN | {"electricity": {"contracted_ratio": 0.25}})
    assert "residual_mix_unknown" in {w["code"] for w in body["warnings"]}
    carbon = body["impacts"]["period"]["carbon"]
    assert carbon["operational_market_gco2e"]["value"] == pytest.approx(
        0.75 * carbon["operational_location_gco2e"]["value"]
    )


async def test_all_carbon_free_contracts_emit_nothing_by_the_market_based_method(client):
    body = await answer(client, "/v1/impacts", PLAIN | {"electricity": {"contracted_ratio": 1.0}})
    assert body["impacts"]["period"]["carbon"]["operational_market_gco2e"]["value"] == 0.0
    assert body["confidence"]["operational_market_gco2e"]["level"] == "high"


async def test_the_statement_of_an_operator_is_mentioned_not_used(client):
    body = await answer(client, "/v1/impacts", {"energy_kwh": 1.0, "region": "aws/eu-north-1"})
    assert body["impacts"]["period"]["carbon"]["operational_market_gco2e"] is None
    assert any("100% carbon-free" in w["message"] for w in body["warnings"])


async def test_a_marginal_intensity_is_a_signal_beside_the_totals(client):
    body = PLAIN | {"electricity": {"marginal_gco2e_per_kwh": 600.0}}
    marked, bare = await period(client, body), await period(client, PLAIN)
    expected = 600.0 * marked["facility_energy_kwh"]["value"]
    assert marked["carbon"]["marginal_signal_gco2e"]["value"] == pytest.approx(expected)
    assert marked["carbon"]["total_gco2e"] == bare["carbon"]["total_gco2e"]


async def test_hardware_of_a_year_is_shared_out_over_its_life(client):
    body = await answer(client, "/v1/impacts", HOURS | {"hardware": {"life_years": 4.0}})
    impact, hardware = body["impacts"]["period"], body["hardware"]
    # One accelerator for one of its four years: a quarter of its making and its server's share.
    assert impact["carbon"]["embodied_gco2e"]["value"] == pytest.approx((273 + 520) * 1000 / 4)
    parts = impact["embodied_parts"]
    assert parts["accelerators_gco2e"]["value"] == pytest.approx(273_000 / 4)
    assert parts["servers_gco2e"]["value"] == pytest.approx(520_000 / 4)
    assert parts["added_memory_gco2e"] is None
    assert hardware["amortisation"] == "calendar"
    assert hardware["accelerator_embodied_kgco2e"]["low"] == 164
    assert "product carbon footprint" in hardware["embodied_basis"]


async def test_a_second_life_halves_the_share_and_tells_what_it_avoids(client):
    once = await answer(client, "/v1/impacts", HOURS | {"hardware": {"life_years": 4.0}})
    twice = await answer(
        client, "/v1/impacts", HOURS | {"hardware": {"life_years": 4.0, "second_life_years": 4.0}}
    )

    def embodied(body):
        return body["impacts"]["period"]["carbon"]["embodied_gco2e"]["value"]

    assert embodied(twice) == pytest.approx(embodied(once) / 2)
    assert twice["hardware"]["avoided_gco2e"]["value"] == pytest.approx(embodied(twice))
    streams = twice["impacts"]["period"]["e_waste_streams"]
    assert streams["avoided_kg"]["value"] == pytest.approx(
        twice["impacts"]["period"]["e_waste_kg"]["value"]
    )


async def test_busy_hours_carry_the_idle_ones(client):
    calendar = await period(client, HOURS)
    busy = await period(
        client, HOURS | {"hardware": {"amortisation": "busy-hours", "in_use_ratio": 0.5}}
    )
    assert busy["carbon"]["embodied_gco2e"]["value"] == pytest.approx(
        2 * calendar["carbon"]["embodied_gco2e"]["value"]
    )


async def test_added_memory_counts_by_its_technology(client):
    body = await answer(client, "/v1/impacts", HOURS | {"hardware": {"added_memory_gb": 512.0}})
    assert body["hardware"]["added_memory_embodied_kgco2e"]["value"] == pytest.approx(512 * 1.01)
    parts = body["impacts"]["period"]["embodied_parts"]
    assert parts["added_memory_gco2e"]["value"] == pytest.approx(512 * 1010 / 5)


async def test_memory_that_nobody_states_the_making_of_names_what_is_known(client):
    asked = {"added_memory_gb": 80.0, "added_memory": "hbm4"}
    [error] = await refused(client, HOURS | {"hardware": asked})
    assert error["pointer"] == "/hardware/added_memory"
    assert "ddr5-8ch" in error["detail"]


async def test_a_site_answers_noise_heat_vibration_land_and_town_water(client):
    body = await answer(client, "/v1/impacts", MAIN | {"site": SITE, "explain": True})
    noise = body["site"]["noise"]
    assert noise["sound_power_db"] == pytest.approx(117.0, rel=0.005)
    assert noise["sound_pressure_db"]["value"] == pytest.approx(63.0, rel=0.005)
    assert noise["margin_db"]["value"] == pytest.approx(-23.0, rel=0.005)
    assert "noise_limit" in {w["code"] for w in body["warnings"]}
    heat = body["site"]["heat"]
    # Four servers of eight at thermal design power with their hosts, and what supplies lose.
    assert heat["rack_kw"]["value"] == pytest.approx(4 * (8 * 0.7 + 1.69) / 0.94)
    assert heat["cooling_class"] == "contained_air"
    assert body["site"]["vibration"]["expected_failures"] is None
    assert body["site"]["vibration"]["confidence"]["level"] == "low"
    used = body["site"]["municipal_water"]["used_on_site_ratio"]["value"]
    on_site = body["impacts"]["per_year"]["water"]["on_site_l"]["value"]
    assert used == pytest.approx(on_site / 365.25 / 1e7)
    land = body["impacts"]["per_year"]["land_m2_years"]["value"]
    assert land == pytest.approx(body["energy"]["it_power_w"]["value"] / 1e3 / 1e4 * 20_000)
    named = {step["name"] for step in body["explanation"]}
    assert {"sound_pressure_db", "airflow_m3_per_s", "vibration_index"} <= named


async def test_cooling_of_the_site_replaces_the_reported_water(client):
    tower = {"cooling": "evaporative-tower", "wet_bulb_celsius": (70 - 32) / 1.8}
    wet = await answer(client, "/v1/impacts", PLAIN | {"site": tower})
    dry = await answer(client, "/v1/impacts", PLAIN | {"site": {"cooling": "dry"}})
    assert wet["electricity"]["wue_l_per_kwh"]["value"] == pytest.approx(4.66, rel=0.005)
    assert wet["impacts"]["period"]["water"]["on_site_l"]["value"] == pytest.approx(4660, rel=0.005)
    assert dry["impacts"]["period"]["water"]["on_site_l"]["value"] == 0.0


async def test_dry_cooling_takes_energy_unless_the_site_states_its_own(client):
    region = {"parent": "Sweden", "figures": {"wue_l_per_kwh": 1.8, "pue_ratio": 1.2}}
    wet = await answer(client, "/v1/impacts", PLAIN | {"region": region})
    dry = PLAIN | {"region": region, "site": {"cooling": "dry"}}
    body = await answer(client, "/v1/impacts", dry)
    energy = [one["impacts"]["period"]["facility_energy_kwh"] for one in (wet, body)]
    it_kwh = PLAIN["energy_kwh"]
    assert energy[1]["value"] - energy[0]["value"] == pytest.approx(0.10 * it_kwh)
    assert energy[1]["low"] == pytest.approx(energy[0]["low"], rel=0.05)
    assert "dry_cooling_energy" in {warning["code"] for warning in body["warnings"]}
    stated = await answer(client, "/v1/impacts", dry | {"facility": {"pue_ratio": 1.2}})
    assert stated["impacts"]["period"]["facility_energy_kwh"]["value"] == pytest.approx(
        1.2 * it_kwh
    )
    region["figures"]["wue_l_per_kwh"] = 0.0
    already = await answer(client, "/v1/impacts", dry | {"region": region})
    assert already["impacts"]["period"]["facility_energy_kwh"]["value"] == pytest.approx(
        1.2 * it_kwh
    )


async def test_a_tower_runs_in_the_climate_of_the_region(client, packaged_snapshot):
    region = packaged_snapshot.regions["aws/ap-southeast-1"].value
    places = PLAIN | {"region": region.id}
    own = {"cooling": "evaporative-tower", "wet_bulb_celsius": region.wet_bulb_celsius.value}
    stated = await answer(client, "/v1/impacts", places | {"site": own})
    known = await answer(client, "/v1/impacts", places | {"site": {"cooling": own["cooling"]}})
    assert known["electricity"]["wue_l_per_kwh"] == stated["electricity"]["wue_l_per_kwh"]
    cooler = await answer(
        client,
        "/v1/impacts",
        PLAIN | {"region": "aws/eu-west-2", "site": {"cooling": "evaporative-tower"}},
    )
    singapore = known["electricity"]["wue_l_per_kwh"]["value"]
    assert cooler["electricity"]["wue_l_per_kwh"]["value"] < singapore


async def test_plain_energy_answers_for_a_request_and_a_year_where_the_period_says_how(client):
    body = await answer(
        client, "/v1/impacts", PLAIN | {"period": {"requests": 500.0, "days": 10.0}}
    )
    whole = body["impacts"]["period"]["it_energy_kwh"]["value"]
    assert body["impacts"]["per_request"]["it_energy_kwh"]["value"] == pytest.approx(whole / 500)
    assert body["impacts"]["per_year"]["it_energy_kwh"]["value"] == pytest.approx(whole * 36.525)
    bare = await answer(client, "/v1/impacts", PLAIN)
    assert bare["impacts"]["per_request"] is None
    assert bare["impacts"]["per_year"] is None


async def test_depletion_is_null_with_a_warning_and_known_once_a_factor_is_given(client):
    body = await answer(client, "/v1/impacts", HOURS)
    assert body["impacts"]["period"]["abiotic_depletion_kgsbeq"] is None
    assert body["impacts"]["period"]["abiotic_depletion_hardware_kgsbeq"]["value"] > 0
    assert any(w["pointer"].endswith("/abiotic_depletion_kgsbeq") for w in body["warnings"])
    region = {"parent": "aws/eu-north-1", "figures": {"adpe_kgsbeq_per_kwh": 5e-8}}
    known = await period(client, HOURS | {"region": region})
    assert known["abiotic_depletion_kgsbeq"]["value"] == pytest.approx(
        known["abiotic_depletion_hardware_kgsbeq"]["value"]
        + 5e-8 * known["facility_energy_kwh"]["value"]
    )


async def test_every_figure_says_how_far_it_may_be_trusted(client):
    body = await answer(client, "/v1/impacts", MAIN)
    confidence = body["confidence"]
    assert confidence["abiotic_depletion_kgsbeq"]["level"] == "unknown"
    assert confidence["primary_energy_mj"]["level"] == "low"
    assert confidence["operational_location_gco2e"]["level"] in ("high", "medium")
    assert all(entry["reason"] for entry in confidence.values())


async def test_equivalences_name_their_yardstick_and_source(client):
    body = await answer(client, "/v1/impacts", HOURS)
    grams = body["impacts"]["period"]["carbon"]["total_gco2e"]["value"]
    driving = body["equivalences"][0]
    assert driving["amount"]["value"] == pytest.approx(grams / driving["yardstick_value"])
    assert all(entry["source"] and entry["url"] for entry in body["equivalences"])


async def test_detailed_answers_hold_ordered_intervals(client):
    body = await answer(client, "/v1/impacts", MAIN | {"site": SITE})
    intervals = [part for part in walk(body) if set(part) == {"value", "low", "high"}]
    assert len(intervals) > 100
    for part in intervals:
        assert part["low"] <= part["value"] <= part["high"]


async def test_a_link_takes_the_flat_names_of_every_block(client):
    response = await client.get(
        "/v1/impacts",
        params={
            "energy_kwh": 1000,
            "region": "country/SE",
            "year": 2023,
            "contracted_ratio": 0.5,
            "residual_gco2e_per_kwh": 80,
            "rack_kw": 12,
            "cooling": "dry",
        },
    )
    body = response.json()
    assert response.status_code == 200, body
    assert body["electricity"]["grid_year"] == 2023
    assert body["site"]["heat"]["cooling_class"] == "room_air"
    unknown = await client.get("/v1/impacts", params={"energy_kwh": 1, "sound_sources": "[]"})
    assert unknown.status_code == 422


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"region": {"figures": {"pue_ratio": 0.9}}}, "/region/figures/pue_ratio"),
        ({"region": {"figures": {"wue_l_per_kwh": -0.1}}}, "/region/figures/wue_l_per_kwh"),
        ({"region": {"figures": {"grid_gco2e_per_kwh": -1}}}, "/region/figures/grid_gco2e_per_kwh"),
        ({"electricity": {"contracted_ratio": 1.1}}, "/electricity/contracted_ratio"),
        ({"electricity": {"contracted_ratio": -0.1}}, "/electricity/contracted_ratio"),
        ({"electricity": {"hourly_matched_ratio": 0.5}}, "/electricity"),
        (
            {
                "electricity": {
                    "matching": "hourly",
                    "contracted_ratio": 0.4,
                    "hourly_matched_ratio": 0.5,
                }
            },
            "/electricity",
        ),
        ({"hardware": {"treatment_kgco2e_per_kg": 0.0}}, "/hardware/treatment_kgco2e_per_kg"),
        ({"hardware": {"reused_ratio": 1.5}}, "/hardware/reused_ratio"),
        ({"hardware": {"life_years": 0.0}}, "/hardware/life_years"),
        ({"hardware": {"amortisation": "busy-hours"}}, "/hardware"),
        ({"hardware": {"in_use_ratio": 0.5}}, "/hardware"),
        (
            {
                "region": {"figures": {"grid_gco2e_per_kwh": 400, "pue_ratio": 1.2}},
                "site": {"cooling": "evaporative-tower"},
            },
            "/site/wet_bulb_celsius",
        ),
        ({"site": {"sound_sources": [{"sound_power_db": 91}]}}, "/site"),
        ({"site": {"area_m2": 100.0}}, "/site"),
        ({"site": {"liquid_cooled_ratio": 2.0}}, "/site/liquid_cooled_ratio"),
        ({"energy_kwh": -1.0}, "/energy_kwh"),
    ],
)
async def test_impossible_factors_are_refused_at_their_place(client, change, pointer):
    errors = await refused(client, PLAIN | change)
    assert [error["pointer"] for error in errors] == [pointer]


async def test_an_unknown_place_names_the_nearest(client):
    [error] = await refused(client, PLAIN | {"region": "aws/eu-nort-1"})
    assert error["pointer"] == "/region"
    assert "aws/eu-north-1" in error["detail"]


async def test_hardware_that_nobody_assessed_is_taken_for_one_of_its_kind_with_a_warning(client):
    asked = HOURS | {"accelerator": "nvidia-h200-sxm-141gb"}
    body = await answer(client, "/v1/impacts", asked)
    making = body["hardware"]["accelerator_embodied_kgco2e"]
    assert (making["low"], making["value"], making["high"]) == (127.6, 284.25, 1101.0)
    assert body["confidence"]["embodied_gco2e"]["level"] == "low"
    told = {w["message"] for w in body["warnings"] if w["code"] == "assumed_figure"}
    assert any("emissions of manufacturing" in message for message in told)
    assert body["impacts"]["period"]["e_waste_kg"]["value"] > 0


async def test_hardware_of_no_known_kind_has_no_making(client):
    body = await answer(client, "/v1/impacts", HOURS | {"accelerator": "cerebras-wse-3"})
    assert body["impacts"]["period"]["carbon"]["embodied_gco2e"] is None
    assert body["impacts"]["period"]["carbon"]["total_gco2e"] is None
    assert "unknown_factor" in {w["code"] for w in body["warnings"]}


async def test_a_place_on_the_average_of_its_country_says_so(client):
    body = await answer(client, "/v1/impacts", PLAIN | {"region": "aws/eu-north-1"})
    told = [w["message"] for w in body["warnings"] if w["code"] == "wider_average"]
    assert len(told) == 1
    assert "Sweden" in told[0]
    whole = await answer(client, "/v1/impacts", PLAIN)
    assert "wider_average" not in {w["code"] for w in whole["warnings"]}


@pytest.mark.parametrize(
    ("accelerator", "workload", "told"),
    [
        ("h100", {}, True),
        ("h100", {"concurrency": 1}, False),
        ("h100", {"requests_per_s": 0.1}, False),
        ("rtx-4090", {}, False),
    ],
)
async def test_energy_of_one_request_at_a_time_is_told_where_services_share(
    client, accelerator, workload, told
):
    body = {"model": "llama-3.1-8b", "accelerator": accelerator, "workload": workload}
    for path in ("/v1/impacts", "/v1/estimates/inference"):
        answer = (await client.post(path, json=body | {"region": "country/DE"})).json()
        found = [one for one in answer["warnings"] if one["code"] == "one_request_at_a_time"]
        assert len(found) == told
        assert all(one["pointer"].endswith("/it_energy_per_request_wh") for one in found)


async def test_a_service_that_waits_draws_what_it_does_with_its_model_loaded(client):
    body = {
        "model": "llama-3.1-8b",
        "accelerator": "h100",
        "region": "country/DE",
        "workload": {"requests_per_s": 1e-4},
        "include": ["energy.breakdown"],
    }
    power = (await client.post("/v1/impacts", json=body)).json()["energy"]
    assert power["accelerator_idle_power_w"]["value"] > 100.0
    assert power["accelerator_mean_power_w"]["value"] == pytest.approx(
        power["accelerator_idle_power_w"]["value"], rel=0.01
    )
