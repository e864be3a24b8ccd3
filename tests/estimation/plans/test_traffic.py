"""A day of traffic: every interval is an estimate, and copies follow what is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalog.hourly_profiles import profile_of
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.plans.requests import EXAMPLE_UNIT, TrafficPlanRequest
from service.estimation.plans.traces import TraceNotUnderstood, traffic_of
from service.estimation.plans.traffic import traffic_plan_answer
from service.estimation.rejection import Rejected

_UNIT: dict[str, Any] = {
    **EXAMPLE_UNIT,
    "region": "aws/us-west-1",
    "cost": {"usd_per_accelerator_hour": 3.0},
}
_RATES = [2.0, 0.0, 8.0, 30.0, 60.0, 20.0]
_DAY: dict[str, Any] = {
    "deployment": _UNIT,
    "requests_per_s": _RATES,
    "interval_s": 14_400.0,
    "scaling": "each-interval",
    "start_s": 600.0,
}


def planned(catalog: CatalogSnapshot, **changes: Any) -> dict[str, Any]:
    request = TrafficPlanRequest.model_validate({**_DAY, **changes})
    return dict(traffic_plan_answer(request, catalog))


@pytest.fixture(scope="module")
def plan(packaged_snapshot: CatalogSnapshot) -> dict[str, Any]:
    return planned(packaged_snapshot)


def test_an_interval_is_the_estimate_of_its_copies(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    interval, unit = plan["intervals"][5], plan["deployment"]
    copies = interval["copies"]
    body = {
        **unit,
        "accelerator_count": plan["accelerators_per_copy"] * copies,
        "parallelism": {**unit["parallelism"], "data": unit["parallelism"]["data"] * copies},
        "workload": {**unit["workload"], "requests_per_s": 20.0},
    }
    estimate: Any = inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)
    for time in ("ttft", "tpot", "e2e"):
        assert interval[f"{time}_p95_s"] == estimate["latency"]["load"][f"{time}_s"]["p95"]
    hourly = estimate["impacts"]["per_year"]["facility_energy_kwh"]["value"] / 8766.0
    assert interval["facility_energy_kwh"]["value"] == pytest.approx(4.0 * hourly)
    assert interval["rented_usd"]["value"] == pytest.approx(4.0 * 3.0 * copies)


def test_copies_follow_the_rate_and_keep_limits(plan: dict[str, Any]) -> None:
    rows = plan["intervals"]
    for row, rate in zip(rows, _RATES, strict=True):
        could = 0.8 * plan["capacity_requests_per_s"]["value"]
        assert (row["copies"] - 1) * could < max(rate, 1e-9) <= row["copies"] * could
    assert rows[4]["copies"] == plan["copies"] > rows[0]["copies"] == 1
    assert plan["within_limits_ratio"] == 1.0
    for row in rows:
        assert row["utilisation_ratio"] <= 0.8 + 1e-9
        assert row["keeps_limits"] is (True if row["requests_per_s"] else None)
    could = sum(row["copies"] for row in rows) * plan["capacity_requests_per_s"]["value"]
    assert plan["idle_ratio"] == pytest.approx(1.0 - sum(_RATES) / could)


def test_starts_are_paid_for(plan: dict[str, Any], packaged_snapshot: CatalogSnapshot) -> None:
    at_once = planned(packaged_snapshot, start_s=0.0)
    started = sum(
        max(0, row["copies"] - plan["intervals"][at - 1]["copies"])
        for at, row in enumerate(plan["intervals"])
    )
    assert started > 0
    more = plan["day"]["rented_usd"]["value"] - at_once["day"]["rented_usd"]["value"]
    assert more == pytest.approx(started * 3.0 / 6.0)
    assert (
        plan["day"]["facility_energy_kwh"]["value"]
        > (at_once["day"]["facility_energy_kwh"]["value"])
    )
    assert plan["day"]["accelerator_hours"] == pytest.approx(
        at_once["day"]["accelerator_hours"] + started / 6.0
    )


def test_a_fixed_number_of_copies_is_what_following_is_held_against(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    fixed = planned(packaged_snapshot, scaling="fixed")
    assert {row["copies"] for row in fixed["intervals"]} == {plan["copies"]}
    assert fixed["against_fixed"]["rented_ratio"] == pytest.approx(1.0)
    assert plan["against_fixed"]["rented_ratio"] == pytest.approx(
        plan["day"]["rented_usd"]["value"] / fixed["day"]["rented_usd"]["value"]
    )
    assert plan["year"]["requests"] == pytest.approx(plan["day"]["requests"] * 365.25)


def test_too_few_copies_leave_times_unbounded(packaged_snapshot: CatalogSnapshot) -> None:
    short = planned(packaged_snapshot, scaling="fixed", copies=2, start_s=0.0)
    assert short["intervals"][4]["ttft_p95_s"] is None
    assert short["intervals"][4]["keeps_limits"] is False
    assert short["worst_ttft_p95_s"] is None
    assert short["within_limits_ratio"] < 1.0
    assert "saturated" in {warning["code"] for warning in short["warnings"]}


def test_no_copy_runs_where_none_has_to(packaged_snapshot: CatalogSnapshot) -> None:
    resting = planned(packaged_snapshot, least_copies=0)["intervals"][1]
    assert resting["copies"] == resting["accelerators"] == 0
    assert resting["facility_energy_kwh"]["value"] == resting["rented_usd"]["value"] == 0.0


def test_emissions_follow_the_grid_of_the_hour(
    plan: dict[str, Any], packaged_snapshot: CatalogSnapshot
) -> None:
    region = packaged_snapshot.find("regions", "aws/us-west-1")
    profile = profile_of(region, packaged_snapshot)
    assert profile is not None
    mean = region.value.grid_gco2e_per_kwh
    assert mean is not None
    day = profile.day()
    shown = [row["grid_gco2e_per_kwh"]["value"] for row in plan["intervals"]]
    assert shown == pytest.approx(
        [float(mean.value) * day[hour] for hour in (2, 6, 10, 14, 18, 22)]
    )
    assert sum(sum(month) for month in profile.ratios) / 288.0 == pytest.approx(1.0, abs=0.01)
    own = planned(packaged_snapshot, grid_gco2e_per_kwh=[100.0] * 6)
    assert own["grid_shape"] is None
    for row in own["intervals"]:
        energy = row["facility_energy_kwh"]["value"]
        assert row["operational_location_gco2e"]["value"] == pytest.approx(100.0 * energy)
    sweden = planned(packaged_snapshot, deployment={**_UNIT, "region": "aws/eu-north-1"})
    assert len({row["grid_gco2e_per_kwh"]["value"] for row in sweden["intervals"]}) == 1
    assert "grid_not_hourly" in {warning["code"] for warning in sweden["warnings"]}


def test_what_contradicts_is_refused(packaged_snapshot: CatalogSnapshot) -> None:
    for change, pointer in (
        ({"grid_gco2e_per_kwh": [100.0]}, "/grid_gco2e_per_kwh"),
        ({"copies": 3}, "/copies"),
        ({"requests_per_s": [1.0] * 1440, "interval_s": 3600.0}, "/requests_per_s"),
        ({"requests_per_s": [1e8]}, "/requests_per_s"),
        ({"deployment": {**_UNIT, "region": "aws/nowhere"}}, "/deployment/region"),
    ):
        with pytest.raises(Rejected) as rejected:
            planned(packaged_snapshot, **change)
        assert [error.pointer for error in rejected.value.errors] == [pointer]


def test_a_trace_becomes_rates_and_lengths() -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for day in (16, 17):
        lines += [f"2023-11-{day} 18:{at:02}:00.1234567,{100 + at},{10}" for at in range(60)]
        lines += [f"2023-11-{day}T20:30:{at:02},200,20" for at in range(30)]
    found = traffic_of(lines).fields
    rates = found["requests_per_s"]
    assert len(rates) == 24
    # Both days cover the hour from six; the second ends at half past eight.
    assert rates[18] == pytest.approx(120 / 7200.0, rel=1e-3)
    assert rates[20] == pytest.approx(60 / (3600.0 + 1800.0), rel=0.3)
    assert sum(rates) == pytest.approx(rates[18] + rates[20])
    lengths = found["deployment"]["workload"]["input_tokens"]
    mean = sum(t * s for t, s in zip(lengths["tokens"], lengths["shares"], strict=True)) / 180.0
    assert mean == pytest.approx((2 * sum(range(100, 160)) + 60 * 200) / 180.0)
    assert TrafficPlanRequest.model_validate(
        {**found, "deployment": {**_UNIT, **found["deployment"]}}
    )


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(2, 400),
    gap_s=st.floats(0.5, 900.0),
    interval_s=st.sampled_from((60.0, 900.0, 3600.0)),
)
def test_a_steady_trace_has_its_rate_however_long(
    count: int, gap_s: float, interval_s: float
) -> None:
    lines = ["arrival_s,input_tokens,output_tokens"]
    lines += [f"{at * gap_s:.6f},100,10" for at in range(count)]
    found = traffic_of(lines, interval_s).fields
    rates, each_s = found["requests_per_s"], found["interval_s"]
    assert each_s <= max(interval_s, 120.0)
    if count * gap_s < 60.0:
        return
    if count * gap_s < 86_400.0:
        # No request is lost, and none is invented.
        assert sum(rates) * each_s == pytest.approx(count, rel=1e-3)
    assert sum(rates) / len(rates) == pytest.approx(1.0 / gap_s, rel=0.05)


def test_ten_minutes_of_traffic_keep_their_rate() -> None:
    lines = ["arrival_s,input_tokens,output_tokens"]
    lines += [f"{at / 10},100,10" for at in range(6000)]
    found = traffic_of(lines).fields
    assert found["interval_s"] == pytest.approx(600.0)
    assert found["requests_per_s"] == pytest.approx([10.0])


def test_bursts_of_a_trace_are_told() -> None:
    head = ["arrival_s,input_tokens,output_tokens"]
    steady = [f"{at * 10},100,10" for at in range(360)]
    assert traffic_of(head + steady).busiest_minute_ratio == pytest.approx(1.0, rel=0.05)
    # Six in each minute, and 300 more in one of them.
    burst = steady + [f"{1800 + at / 10},100,10" for at in range(300)]
    assert traffic_of(head + burst).busiest_minute_ratio == pytest.approx(306 / 11, rel=0.05)


def test_a_week_is_seven_days_of_a_year(packaged_snapshot: CatalogSnapshot) -> None:
    day = planned(packaged_snapshot)
    week = planned(packaged_snapshot, requests_per_s=_RATES * 7)
    assert week["day"]["requests"] == pytest.approx(7 * day["day"]["requests"])
    assert week["year"]["requests"] == pytest.approx(day["year"]["requests"])
    # A day of 23 hours is a day.
    short = planned(packaged_snapshot, requests_per_s=[5.0] * 23, interval_s=3600.0)
    assert short["year"]["requests"] == pytest.approx(5.0 * 23 * 3600 * 365.25)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "no column arrival_s"),
        (["arrival_s,input_tokens"], "no column output_tokens"),
        (["arrival_s,input_tokens,output_tokens"], "no requests"),
        (["arrival_s,input_tokens,output_tokens", "1,2"], "line 2"),
        (["arrival_s,input_tokens,output_tokens", "soon,2,3"], "line 2"),
        (["arrival_s,input_tokens,output_tokens", "1,-2,3"], "below zero"),
        (["arrival_s,input_tokens,output_tokens", "nan,2,3"], "line 2"),
    ],
)
def test_what_is_no_trace_is_refused(lines: list[str], told: str) -> None:
    with pytest.raises(TraceNotUnderstood, match=told):
        traffic_of(lines)


def test_contracts_cover_less_by_the_hour_than_in_all(packaged_snapshot: CatalogSnapshot) -> None:
    sun = [0.0, 0.0, 3.0, 5.0, 1.0, 0.0]
    contract = {"generation": sun, "residual_gco2e_per_kwh": 400.0}
    answer = planned(packaged_snapshot, contract=contract, scaling="fixed")
    told = answer["contract"]
    used = [row["facility_energy_kwh"]["value"] for row in answer["intervals"]]
    assert told["contracted_kwh"] == pytest.approx(sum(used))
    assert told["annual_matched_ratio"] == 1.0
    assert told["annual_market_kgco2e"]["value"] == 0.0
    made = [one / sum(sun) * sum(used) for one in sun]
    met = sum(min(one, other) for one, other in zip(made, used, strict=True))
    assert told["hourly_matched_ratio"] == pytest.approx(met / sum(used))
    assert told["surplus_kwh"] == pytest.approx(sum(used) - met)
    assert told["hourly_market_kgco2e"]["value"] == pytest.approx((sum(used) - met) * 0.4)
    steady = planned(packaged_snapshot, contract=contract | {"generation": [1.0] * 6})
    assert steady["contract"]["hourly_matched_ratio"] > told["hourly_matched_ratio"]


def test_requests_that_wait_are_served_at_cleaner_hours(packaged_snapshot: CatalogSnapshot) -> None:
    grid = {"grid_gco2e_per_kwh": [500.0] * 5 + [50.0]}
    waiting = {"ratio": 0.5, "within_s": 86_400.0}
    answer = planned(packaged_snapshot, **grid, deferrable=waiting)
    shift, rates = answer["shifting"], answer["intervals"]
    assert sum(shift["requests_per_s"]) == pytest.approx(
        sum(row["requests_per_s"] for row in rates)
    )
    assert shift["day"]["requests"] == pytest.approx(answer["day"]["requests"])
    assert max(shift["requests_per_s"]) <= max(row["requests_per_s"] for row in rates) + 1e-9
    assert 0.0 < shift["moved_ratio"] <= 0.5
    assert shift["operational_location_ratio"] < 1.0
    nothing = planned(packaged_snapshot, **grid, deferrable=waiting | {"within_s": 60.0})
    assert nothing["shifting"]["moved_ratio"] == 0.0
    assert nothing["shifting"]["operational_location_ratio"] == pytest.approx(1.0)
