"""Plans of a site: as much as power and racks hold, and what stands against it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.plans.requests import SitePlanRequest
from service.estimation.plans.site import site_plan_answer
from service.estimation.rejection import Rejected

_SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "precision": {"weights": "fp8"},
    "workload": {"input_tokens": 1024, "output_tokens": 256},
}
_SITE: dict[str, Any] = {
    "region": "country/DE",
    "site_kw": 500.0,
    "racks": 10,
    "rack_kw": 40.0,
    "facility": {"pue_ratio": 1.25},
    "options": [
        {"accelerator": "nvidia-h100-sxm-80gb"},
        {"accelerator": "nvidia-gb200-186gb"},
        {"accelerator": "nvidia-l4-24gb"},
    ],
}


def planned(catalog: CatalogSnapshot, **changes: Any) -> dict[str, Any]:
    request = SitePlanRequest.model_validate({**_SITE, **changes})
    return dict(site_plan_answer(request, catalog))


@pytest.fixture(scope="module")
def plan(packaged_snapshot: CatalogSnapshot) -> dict[str, Any]:
    return planned(packaged_snapshot, serves=_SERVED)


def test_machines_fill_power_and_racks(plan: dict[str, Any]) -> None:
    h100, nvl72, _ = plan["options"]
    # As NVIDIA rates a DGX H100: 10.2 kW.
    assert h100["machine_kw"] == pytest.approx(10.2)
    assert h100["machines_per_rack"] == 3
    assert h100["machines"] == 30
    assert h100["limited_by"] == "racks"
    assert h100["accelerators"] == 240
    assert h100["facility_kw"]["value"] == pytest.approx(30 * 10.2 * 1.25)
    assert nvl72["machines"] == 0
    assert nvl72["limited_by"] == "rack_power"
    assert nvl72["first_broken"] == "rack_power"
    assert nvl72["site"] is None


@settings(max_examples=40, deadline=None)
@given(
    site_kw=st.floats(1.0, 1e5),
    racks=st.integers(1, 500),
    rack_kw=st.floats(1.0, 200.0),
    reserve=st.floats(0.0, 0.9),
)
def test_what_is_held_is_all_that_may_be(
    packaged_snapshot: CatalogSnapshot, site_kw: float, racks: int, rack_kw: float, reserve: float
) -> None:
    answer = planned(
        packaged_snapshot,
        site_kw=site_kw,
        racks=racks,
        rack_kw=rack_kw,
        reserve_ratio=reserve,
        options=_SITE["options"][:1],
    )
    (one,) = answer["options"]
    usable_kw = site_kw * (1.0 - reserve)
    assert one["it_kw"] * 1.25 <= usable_kw * (1.0 + 1e-9)
    assert one["machines_per_rack"] * one["machine_kw"] <= rack_kw * (1.0 + 1e-9)
    assert one["racks_used"] <= racks
    another = one["machines"] + 1
    assert (
        another * one["machine_kw"] * 1.25 > usable_kw * (1.0 - 1e-9)
        or another > racks * one["machines_per_rack"]
    )
    failed = {each["name"] for each in one["constraints"] if each["verdict"] == "fail"}
    assert bool(failed) == (one["machines"] == 0)


@settings(max_examples=40, deadline=None)
@given(
    site_kw=st.floats(1.0, 1e5),
    racks=st.integers(1, 500),
    rack_kw=st.floats(1.0, 200.0),
    more=st.floats(1.0, 3.0),
)
def test_more_of_anything_never_holds_less(
    packaged_snapshot: CatalogSnapshot, site_kw: float, racks: int, rack_kw: float, more: float
) -> None:
    def held(**changes: Any) -> tuple[int, Any]:
        asked = {"site_kw": site_kw, "racks": racks, "rack_kw": rack_kw} | changes
        (one,) = planned(packaged_snapshot, **asked, options=_SITE["options"][:1])["options"]
        broken = [each["name"] for each in one["constraints"] if each["verdict"] == "fail"]
        assert one["first_broken"] == (broken[0] if broken else None)
        return one["accelerators"], one

    before, one = held()
    assert held(site_kw=site_kw * more)[0] >= before
    assert held(rack_kw=rack_kw * more)[0] >= before
    assert held(racks=round(racks * more))[0] >= before
    # Only more of what limits it holds more.
    if one["limited_by"] != "site_power":
        assert held(site_kw=site_kw * more)[0] == before


def test_a_site_is_a_data_centre_whatever_fills_it(packaged_snapshot: CatalogSnapshot) -> None:
    asked = {
        "options": [
            {"accelerator": name}
            for name in (
                "nvidia-l40s-48gb",
                "nvidia-rtx-4090-24gb",
                "nvidia-jetson-agx-orin-64gb",
            )
        ],
        "facility": {},
        "rack_kw": 20.0,
    }
    rows = planned(packaged_snapshot, **asked)["options"]
    buildings = {round(one["facility_kw"]["value"] / one["it_kw"], 6) for one in rows}
    assert len(buildings) == 1
    assert buildings.pop() > 1.2


def test_a_year_is_that_of_the_impacts(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    h100 = plan["options"][0]
    asked = {
        "region": "country/DE",
        "accelerator": h100["accelerator"],
        "accelerator_hours": h100["accelerators"] * 8766.0,
        "facility": {"pue_ratio": 1.25},
    }
    impacts: Any = impacts_answer(ImpactsRequest.model_validate(asked), packaged_snapshot)
    used = impacts["impacts"]["period"]
    assert h100["facility_energy_kwh_per_year"] == used["facility_energy_kwh"]
    assert h100["e_waste_kg_per_year"] == used["e_waste_kg"]


def test_what_is_served_is_the_estimate_of_its_copies(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    served = plan["options"][0]["serves"]
    assert served["copies"] == 30
    body = dict(served["deployment"])
    body["workload"] = body["workload"] | {"requests_per_s": 1.0}
    estimate: Any = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
    assert served["requests_per_s"]["value"] == pytest.approx(
        30 * estimate["latency"]["saturation_requests_per_s"]["value"]
    )
    small = plan["options"][2]["serves"]
    # A copy of 70 GB takes several machines with one or more L4 each.
    assert small["deployment"]["accelerator_count"] * 24e9 > 70e9
    assert (
        small["copies"] * small["deployment"]["accelerator_count"]
        <= (plan["options"][2]["accelerators"])
    )


def filled(packaged_snapshot: CatalogSnapshot, **changes: Any) -> dict[str, Any]:
    """One option of the site, with its limits."""
    return planned(packaged_snapshot, options=_SITE["options"][:1], **changes)


def verdicts(option: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in option["constraints"]}


def test_air_and_water_keep_machines_out(packaged_snapshot: CatalogSnapshot) -> None:
    (most,) = filled(packaged_snapshot)["options"]
    assert most["machines_per_rack"] > 1
    (air,) = filled(packaged_snapshot, rack_air_kw=12.0)["options"]
    assert air["machines_per_rack"] == 1
    assert air["limited_by"] == "rack_air_cooling"
    assert set(verdicts(air).values()) == {"pass"}
    # Liquid takes most of the heat, so that racks may be full again.
    liquid = {"rack_air_kw": 12.0, "site": {"liquid_cooled_ratio": 0.8}}
    assert filled(packaged_snapshot, **liquid)["options"][0]["machines"] == most["machines"]
    tower = {"site": {"cooling": "evaporative-tower", "wet_bulb_celsius": 15.0}}
    (wet,) = filled(packaged_snapshot, **tower)["options"]
    half = wet["water_on_site_l_per_day"]["value"] / 2
    (dry,) = filled(packaged_snapshot, **tower, water_l_per_day=half)["options"]
    assert dry["limited_by"] == "water"
    assert dry["machines"] == wet["machines"] // 2
    assert dry["water_on_site_l_per_day"]["value"] == pytest.approx(half)
    assert verdicts(dry)["water"] == "pass"


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"rack_kw": 3.0}, "rack_power"),
        ({"rack_air_kw": 10.0}, "rack_air_cooling"),
        ({"site_kw": 5.0}, "site_power"),
        (
            {"water_l_per_day": 1.0, "site": {"cooling": "evaporative-tower"}},
            "water",
        ),
    ],
)
def test_an_impossible_site_names_what_makes_it_so(
    packaged_snapshot: CatalogSnapshot, changes: dict[str, Any], first: str
) -> None:
    answer = filled(packaged_snapshot, **changes)
    (one,) = answer["options"]
    assert one["machines"] == 0
    assert one["first_broken"] == one["limited_by"] == first
    [said] = [each for each in answer["warnings"] if each["code"] == "nothing_fits"]
    assert said["message"].startswith("One machine with 8")


def test_noise_is_told_whatever_fills_the_site(packaged_snapshot: CatalogSnapshot) -> None:
    heard = {
        "sound_sources": [{"count": 20, "sound_power_db": 95}],
        "receptor_distance_m": 200,
        "noise_limit_db": 45,
    }
    (one,) = filled(packaged_snapshot, site=heard)["options"]
    assert verdicts(one) == {"rack_power": "pass", "site_power": "pass", "noise": "fail"}
    assert one["first_broken"] == "noise"


def test_one_building_is_compared_with_itself(packaged_snapshot: CatalogSnapshot) -> None:
    # Servers of modules usually stand with a colocator, racks of 72 with who makes them.
    racks = {"rack_kw": 150.0, "site_kw": 1e4, "facility": {}}
    answer = planned(packaged_snapshot, **racks)
    ratios = {
        round(one["facility_kw"]["value"] / one["it_kw"], 9)
        for one in answer["options"]
        if one["it_kw"]
    }
    assert ratios == {answer["facility"]["pue_ratio"]["value"]}


def test_rules_of_the_place_decide_whether_it_may(packaged_snapshot: CatalogSnapshot) -> None:
    facts = {
        "on": "2026-11-22",
        "subject": "site",
        "commissioned_on": "2027-01-01",
        "energy_reuse_ratio": 0.0,
    }
    answer = planned(packaged_snapshot, options=_SITE["options"][:1], compliance=facts)
    (one,) = answer["options"]
    assert one["rules"] is not None
    # Germany asks new sites of 300 kW or more to reuse heat.
    assert one["permitted"] == "no"
    assert one["first_broken"] == one["failed_rules"][0]
    assert "it_power_kw" not in one["missing_facts"]
    small = planned(packaged_snapshot, options=_SITE["options"][:1], compliance=facts, site_kw=50.0)
    assert small["options"][0]["failed_rules"] == []


def test_what_contradicts_is_refused(packaged_snapshot: CatalogSnapshot) -> None:
    for change, pointer in (
        ({"site": {"rack_kw": 10.0}}, "/site/rack_kw"),
        ({"region": "country/XX"}, "/region"),
        ({"options": [{"accelerator": "nvidia-h1000"}]}, "/options/0/accelerator"),
        ({"serves": {"model": "llama-9"}}, "/serves/model"),
        (
            {"serves": {**_SERVED, "workload": {"requests_per_s": 2.0}}},
            "/serves/workload/requests_per_s",
        ),
    ):
        with pytest.raises(Rejected) as rejected:
            planned(packaged_snapshot, **change)
        assert [error.pointer for error in rejected.value.errors] == [pointer]
