"""Plans of a fleet: every year is an estimate, and sums are sums."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.core.fleet import present_value
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.plans.fleet import fleet_plan_answer
from service.estimation.plans.requests import EXAMPLE_UNIT, FleetPlanRequest
from service.estimation.rejection import Rejected

_CHAT: dict[str, Any] = {
    "name": "chat",
    "deployment": {**EXAMPLE_UNIT, "cost": {"purchase_usd_per_accelerator": 30_000.0}},
    "requests_per_s": 20.0,
    "peak_ratio": 2.5,
    "growth_per_year_ratio": 0.4,
}
_LARGE: dict[str, Any] = {
    "name": "large",
    "deployment": {
        **EXAMPLE_UNIT,
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator_count": 4,
        "limits": None,
    },
    "requests_per_s": 1.0,
    "growth_per_year_ratio": -0.2,
    "starts_in_year": 2,
    "ends_after_year": 4,
}
_PLAN: dict[str, Any] = {"years": 6, "loads": [_CHAT, _LARGE], "refresh_years": 3}


def planned(catalog: CatalogSnapshot, **changes: Any) -> dict[str, Any]:
    request = FleetPlanRequest.model_validate({**_PLAN, **changes})
    return dict(fleet_plan_answer(request, catalog))


@pytest.fixture(scope="module")
def plan(packaged_snapshot: CatalogSnapshot) -> dict[str, Any]:
    return planned(packaged_snapshot)


def _body(load: dict[str, Any], year: dict[str, Any]) -> dict[str, Any]:
    """The estimate that a year of a load is."""
    unit, copies = load["deployment"], year["copies"]["value"]
    layout = {**unit["parallelism"], "data": unit["parallelism"]["data"] * copies}
    return {
        **unit,
        "accelerator_count": load["accelerators_per_copy"] * copies,
        "parallelism": layout,
        "workload": {**unit["workload"], "requests_per_s": year["requests_per_s"]},
    }


def test_a_year_is_the_estimate_of_its_copies(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    for load, at in ((plan["loads"][0], 3), (plan["loads"][1], 1)):
        year = load["years"][at]
        body = _body(load, year)
        estimate = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
        for name in ("limits", "cost"):
            body.pop(name, None)
        body["hardware"] = {"life_years": 3.0}
        impacts = impacts_answer(ImpactsRequest.model_validate(body), packaged_snapshot)["impacts"]
        used: Any = impacts["per_year"]  # type: ignore[index, typeddict-item]
        assert year["mean_it_power_w"] == estimate["energy"]["it_power_w"]  # type: ignore[index]
        assert year["facility_energy_kwh"] == used["facility_energy_kwh"]
        assert year["water_l"] == used["water"]["total_l"]
        for name in ("operational_location", "embodied"):
            grams = used["carbon"][f"{name}_gco2e"]
            assert year[f"{name}_kgco2e"]["high"] == pytest.approx(grams["high"] / 1e3)
        rented: Any = estimate["cost"]["rented"]
        assert year["rented_usd"]["value"] == pytest.approx(rented["usd_per_year"]["value"])
        assert estimate["latency"]["load"]["saturated"] is False  # type: ignore[index]


def test_copies_keep_the_limits_in_the_busiest_hour(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    load = plan["loads"][0]
    limits = load["deployment"]["limits"]
    for year in load["years"]:
        body = _body(load, year)
        body["workload"]["requests_per_s"] *= 2.5
        estimate = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
        percentiles: Any = estimate["latency"]["load"]
        assert percentiles["ttft_s"]["p95"]["value"] <= limits["ttft_p95_s"]
        assert percentiles["tpot_s"]["p95"]["value"] <= limits["tpot_p95_s"]
        goodput: Any = estimate["goodput"]
        assert body["workload"]["requests_per_s"] <= 0.8 * goodput["requests_per_s"]["value"] * 1.01


def test_years_and_totals_are_sums(plan: dict[str, Any]) -> None:
    for at, year in enumerate(plan["years"]):
        parts = [load["years"][at] for load in plan["loads"]]
        assert year["accelerators"] == sum(part["accelerators"] for part in parts)
        for end in ("value", "low", "high"):
            assert year["water_l"][end] == pytest.approx(sum(p["water_l"][end] for p in parts))
    totals = plan["totals"]
    assert totals["bought"]["value"] == sum(year["bought"]["value"] for year in plan["years"])
    assert totals["facility_energy_kwh"]["value"] == pytest.approx(
        sum(year["facility_energy_kwh"]["value"] for year in plan["years"])
    )
    assert totals["peak_facility_power_w"] == max(
        (year["peak_facility_power_w"] for year in plan["years"]), key=lambda p: p["value"]
    )
    rents = [year["rented_usd"]["value"] for year in plan["years"]]
    assert totals["rented_present_usd"]["value"] == pytest.approx(present_value(rents, 0.0))


def test_rent_is_that_of_whole_machines(packaged_snapshot: CatalogSnapshot) -> None:
    (load,) = planned(packaged_snapshot, loads=[_CHAT])["loads"]
    rental = load["rental"]
    assert rental["instance"] == "aws/p5.48xlarge"
    for year in load["years"]:
        held = {
            end: -(-year["copies"][end] * load["accelerators_per_copy"] // rental["accelerators"])
            for end in ("value", "low", "high")
        }
        assert year["instances"] == held["value"]
        rent = rental["usd_per_hour"]
        for end, machines in held.items():
            assert year["rented_usd"][end] == pytest.approx(machines * rent[end] * 8766.0)
    stated = {**_CHAT["deployment"], "cost": {"usd_per_accelerator_hour": 2.0}}
    (own,) = planned(packaged_snapshot, loads=[{**_CHAT, "deployment": stated}])["loads"]
    assert own["rental"] is None
    assert own["years"][0]["instances"] is None


def test_copies_that_share_memory_are_counted_as_they_slow_each_other(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    unit = {
        **_LARGE["deployment"],
        "accelerator_count": 2,
        "serving": {"memory_tiers": ["cxl-2.0-ddr5-direct"], "offload": {"weights_ratio": 0.02}},
    }
    load = {"name": "far", "deployment": unit, "requests_per_s": 1.0, "peak_ratio": 2.0}
    plan = planned(packaged_snapshot, loads=[load], years=1)
    codes = {warning["code"] for warning in plan["warnings"]}
    assert "saturated" not in codes
    assert "setting_unused" in codes
    (far,) = plan["loads"]
    body = _body(far, far["years"][0])
    estimate: Any = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
    assert estimate["latency"]["saturation_requests_per_s"]["value"] >= 2.0 / 0.8 * 0.999


def test_loads_share_accelerators_of_a_kind(plan: dict[str, Any]) -> None:
    (kind,) = plan["hardware"]
    assert [year["in_use"] for year in kind["years"]] == [y["accelerators"] for y in plan["years"]]
    assert kind["years"][3]["retired"] == kind["years"][0]["bought"]["value"]
    first = kind["years"][0]
    assert first["purchase_usd"]["value"] == pytest.approx(30_000.0 * first["bought"]["value"])
    assert first["depreciation_usd"]["value"] == pytest.approx(first["purchase_usd"]["value"] / 3)


@pytest.mark.parametrize(
    ("change", "figure", "ratio"),
    [
        ({"grid_change_per_year_ratio": -0.1}, "operational_location_kgco2e", 0.9**5),
        ({"purchase_price_change_per_year_ratio": -0.2}, "purchase_usd", 0.8**5),
    ],
)
def test_what_changes_each_year_compounds(
    plan: dict[str, Any],
    packaged_snapshot: CatalogSnapshot,
    change: dict[str, float],
    figure: str,
    ratio: float,
) -> None:
    changed = planned(packaged_snapshot, **change)
    assert changed["years"][0][figure] == plan["years"][0][figure]
    assert changed["years"][5][figure]["value"] == pytest.approx(
        plan["years"][5][figure]["value"] * ratio
    )


def test_a_second_life_shares_emissions_of_making(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    shared = planned(packaged_snapshot, second_life_years=3.0)
    for name, ratio in (("embodied_kgco2e", 0.5), ("embodied_bought_kgco2e", 1.0)):
        assert shared["totals"][name]["value"] == pytest.approx(
            plan["totals"][name]["value"] * ratio
        )


def test_tokens_may_be_bought_instead(packaged_snapshot: CatalogSnapshot) -> None:
    price = {
        "provider": "an API",
        "usd_per_million_input_tokens": 0.10,
        "usd_per_million_output_tokens": 0.40,
        "usd_per_million_cached_tokens": 0.05,
        "change_per_year_ratio": -0.5,
    }
    workload = {**_CHAT["deployment"]["workload"], "prefix_cached_ratio": 0.5}
    chat = {
        **_CHAT,
        "token_price": price,
        "deployment": {**_CHAT["deployment"], "workload": workload},
    }
    bought = planned(packaged_snapshot, loads=[chat])
    first, second = (bought["years"][at]["tokens_usd"]["value"] for at in (0, 1))
    requests = bought["years"][0]["requests"]
    assert first == pytest.approx(requests * (512 * 0.10 + 512 * 0.05 + 256 * 0.40) / 1e6)
    assert second == pytest.approx(first * 1.4 * 0.5)
    assert bought["totals"]["tokens_present_usd"] == bought["totals"]["tokens_usd"]
    assert bought["years"][0]["tokens_kgco2e"] is None
    assert "price_undated" in {warning["code"] for warning in bought["warnings"]}
    # As Mistral publishes it of 400 tokens: 1.14 g and 45 ml.
    dated = price | {
        "priced_on": "2026-11-20",
        "gco2e_per_1k_output_tokens": 2.85,
        "l_per_1k_output_tokens": 0.1125,
    }
    told = planned(packaged_snapshot, loads=[chat | {"token_price": dated}])
    year = told["years"][0]
    assert year["tokens_kgco2e"]["value"] == pytest.approx(requests * 256 / 400 * 1.14e-3)
    assert year["tokens_l"]["value"] == pytest.approx(requests * 256 / 400 * 0.045)
    assert told["loads"][0]["tokens"]["priced_on"] == "2026-11-20"
    assert "price_undated" not in {warning["code"] for warning in told["warnings"]}
    # Of another load nobody says what its tokens cost.
    assert planned(packaged_snapshot, loads=[chat, _LARGE])["years"][2]["tokens_usd"] is None


def _refused(catalog: CatalogSnapshot, **changes: Any) -> dict[str, str]:
    with pytest.raises(Rejected) as rejected:
        planned(catalog, **changes)
    return {error.pointer: error.detail for error in rejected.value.errors}


def test_what_contradicts_is_refused_where_it_stands(packaged_snapshot: CatalogSnapshot) -> None:
    def with_unit(**fields: Any) -> list[dict[str, Any]]:
        return [{**_CHAT, "deployment": {**_CHAT["deployment"], **fields}}]

    refused = _refused(packaged_snapshot, loads=[_CHAT, {**_CHAT, "starts_in_year": 9}])
    assert set(refused) == {"/loads/1/name", "/loads/1/starts_in_year"}
    refused = _refused(
        packaged_snapshot, loads=[{**_CHAT, "starts_in_year": 3, "ends_after_year": 2}]
    )
    assert set(refused) == {"/loads/0/ends_after_year"}
    refused = _refused(packaged_snapshot, loads=with_unit(workload={"requests_per_s": 3.0}))
    assert set(refused) == {"/loads/0/deployment/workload/requests_per_s"}
    refused = _refused(packaged_snapshot, loads=with_unit(model="llama-9"))
    assert set(refused) == {"/loads/0/deployment/model"}
    refused = _refused(packaged_snapshot, loads=with_unit(model="deepseek-ai/DeepSeek-R1"))
    assert "does not fit" in refused["/loads/0/deployment"]
    refused = _refused(packaged_snapshot, loads=with_unit(limits={"ttft_p95_s": 1e-6}))
    assert "no rate" in refused["/loads/0/deployment/limits"]
    refused = _refused(packaged_snapshot, loads=[{**_CHAT, "requests_per_s": 1e8}])
    assert "accelerators" in refused["/loads/0/requests_per_s"]
