"""Use case: a day of traffic, with as many copies as it needs, interval by interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from service.catalog.hourly_profiles import HourlyProfile, profile_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.core.fleet import copies_needed
from service.core.interval import Interval, exact, product, scale
from service.core.performance.inference.goodput import keeps
from service.core.years import HOURS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import figure, frame, grounds, known_figure
from service.estimation.inference.estimate import percentile_figures
from service.estimation.plans.answers import (
    TrafficInterval,
    TrafficPlanAnswer,
    TrafficSavings,
    TrafficTotals,
)
from service.estimation.plans.hours import (
    check_hours,
    contract_answer,
    contract_warnings,
    shift_answer,
)
from service.estimation.plans.operation import (
    ALMOST_IDLE_REQUESTS_PER_S,
    UNTOLD_OF_A_DAY,
    Operation,
    at_rate,
    capacity_of_copy,
    entries_of,
    operation,
    rented_whole,
    unit_of,
    unused_warnings,
    warnings_of,
    within,
)
from service.estimation.plans.requests import TrafficPlanRequest
from service.estimation.plans.sums import highest, times, together
from service.estimation.remarks import remarking
from service.estimation.resolution import Problems

_SECONDS_PER_HOUR = 3600.0
_HOURS_PER_DAY = 24.0
_KG_PER_G = 1e-3
_MOST_ACCELERATORS = 100_000
#: Up to so many days the intervals are one.
_ABOUT_ONE_DAY = 1.1

#: A number of copies of the unit that share a rate of requests.
_Operated = Callable[[int, float], Operation]


@remarking(TrafficPlanAnswer)
def traffic_plan_answer(
    request: TrafficPlanRequest, snapshot: CatalogSnapshot
) -> TrafficPlanAnswer:
    """Copies, times, energy, emissions and rent of a day of traffic.

    Raises
    ------
    Rejected
        If the deployment cannot be estimated, does not fit or keeps its limits at no rate, if
        intensities are not as many as rates, or if an interval would need too many accelerators.
    """
    _check(request)
    unit = unit_of(request.deployment, snapshot, "/deployment")
    known: dict[tuple[int, float], Operation] = {}

    def operated(copies: int, requests_per_s: float) -> Operation:
        at = copies, max(requests_per_s, ALMOST_IDLE_REQUESTS_PER_S)
        if at not in known:
            known[at] = within("/deployment", lambda: operation(at_rate(unit, *at), snapshot))
        return known[at]

    one = operated(1, 0.0)
    most = capacity_of_copy(one, operated, "/deployment")
    needed = [_needed(rate, float(most.value), request) for rate in request.requests_per_s]
    _refuse_too_many(max(needed), one, request)
    profile = None if request.grid_gco2e_per_kwh else profile_of(one.region, snapshot)
    grid = _grid(one, profile, request)
    fixed = [max(needed)] * len(needed)
    scaled = needed if request.scaling == "each-interval" and request.copies is None else fixed

    def day(copies: Sequence[int], asked: TrafficPlanRequest = request) -> list[TrafficInterval]:
        return [
            _interval(part, operated, float(most.value), asked)
            for part in _parts(copies, grid, asked)
        ]

    def with_rates(asked: TrafficPlanRequest) -> TrafficTotals:
        copies = fixed
        if scaled is not fixed:
            copies = [_needed(rate, float(most.value), asked) for rate in asked.requests_per_s]
        return _totals(day(copies, asked), asked)

    rows = day(scaled)
    totals = _totals(rows, request)
    held = totals if scaled is fixed else _totals(day(fixed), request)
    busy = sum(rate for rate in request.requests_per_s)
    could = sum(scaled) * float(most.value)
    kept = sum(row["requests_per_s"] for row in rows if row["keeps_limits"])
    busiest = max(range(len(rows)), key=lambda at: request.requests_per_s[at])
    return {
        **frame(snapshot.revision),
        "deployment": unit.model_dump(mode="json", exclude_unset=True),
        "accelerators_per_copy": one.accelerators,
        "capacity_requests_per_s": figure(most),
        "copies": max(scaled),
        "intervals": rows,
        "day": totals,
        "year": _of_year(totals, request.days_per_year / _days(request)),
        "idle_ratio": max(0.0, 1.0 - busy / could) if could else 0.0,
        "within_limits_ratio": kept / busy if one.limits and busy else None,
        "worst_ttft_p95_s": highest(
            row["ttft_p95_s"] for row in rows if row["requests_per_s"] and row["copies"]
        )
        if busy
        else None,
        "against_fixed": _savings(totals, held),
        "contract": contract_answer(request.contract, rows, one),
        "shifting": shift_answer(request, rows, totals, with_rates),
        "grid_shape": None
        if profile is None
        else {
            "name": profile.name,
            "year": profile.year,
            "time_zone": profile.time_zone,
            "source": profile.source,
        },
        **grounds(
            snapshot,
            _warnings(rows, operated(scaled[busiest] or 1, 0.0), one, profile, request),
            entries_of([one]),
            None,
        ),
    }


def _check(request: TrafficPlanRequest) -> None:
    problems = Problems()
    rates = len(request.requests_per_s)
    if rates * request.interval_s > _HOURS_PER_DAY * _SECONDS_PER_HOUR * 7.0 * (1.0 + 1e-9):
        problems.add("/requests_per_s", "more than a week; give a day that is like the others")
    stated = request.grid_gco2e_per_kwh
    if stated is not None and len(stated) != rates:
        problems.add(
            "/grid_gco2e_per_kwh", f"has {len(stated)} intervals, /requests_per_s has {rates}"
        )
    if request.copies is not None and request.scaling == "each-interval":
        problems.add("/copies", "does not go with /scaling each-interval; leave one of them out")
    check_hours(request, problems)
    problems.stop_if_any()


def _needed(
    requests_per_s: float, capacity_requests_per_s: float, asked: TrafficPlanRequest
) -> int:
    """Copies that an interval needs."""
    if asked.copies is not None:
        return asked.copies
    copies = copies_needed(
        requests_per_s, capacity_requests_per_s, asked.reserve_ratio, asked.spare_copies
    )
    return max(copies, asked.least_copies)


def _refuse_too_many(copies: int, one: Operation, request: TrafficPlanRequest) -> None:
    if copies * one.accelerators > _MOST_ACCELERATORS:
        Problems().refuse(
            "/requests_per_s" if request.copies is None else "/copies",
            f"would take {copies * one.accelerators:,} accelerators; a deployment may have up to "
            f"{_MOST_ACCELERATORS:,}",
        )


def _grid(
    one: Operation, profile: HourlyProfile | None, request: TrafficPlanRequest
) -> list[Interval | None]:
    """Intensity of the grid in each interval [gCO2e/kWh]; None where it is unknown."""
    if request.grid_gco2e_per_kwh is not None:
        return [exact(stated) for stated in request.grid_gco2e_per_kwh]
    mean = one.region.value.grid_gco2e_per_kwh
    if mean is None or profile is None:
        return [mean] * len(request.requests_per_s)
    hours = profile.day(request.month)
    middle = [
        request.starts_at_hour + (at + 0.5) * request.interval_s / _SECONDS_PER_HOUR
        for at in range(len(request.requests_per_s))
    ]
    return [scale(mean, hours[int(hour % _HOURS_PER_DAY)]) for hour in middle]


@dataclass(frozen=True, slots=True)
class _Part:
    """An interval: its rate, its copies, how many of them start for it, and the grid in it."""

    start_s: float
    requests_per_s: float
    copies: int
    starting: int
    gco2e_per_kwh: Interval | None


def _parts(
    copies: Sequence[int], grid: Sequence[Interval | None], request: TrafficPlanRequest
) -> Iterator[_Part]:
    """The intervals; the day before was like this one."""
    for at, (rate, now) in enumerate(zip(request.requests_per_s, copies, strict=True)):
        yield _Part(at * request.interval_s, rate, now, max(0, now - copies[at - 1]), grid[at])


def _interval(
    part: _Part, operated: _Operated, capacity_requests_per_s: float, request: TrafficPlanRequest
) -> TrafficInterval:
    """What happens in an interval, with the starts before it."""
    served = operated(max(part.copies, 1), part.requests_per_s)
    hours = request.interval_s / _SECONDS_PER_HOUR if part.copies else 0.0
    kwh, usd = _energy(served, hours), _rent(served, hours)
    if part.starting and request.start_s:
        hours = request.start_s / _SECONDS_PER_HOUR
        kwh = together((kwh, _more(_energy, part, operated, hours)))
        usd = together((usd, _more(_rent, part, operated, hours)))
    latency = served.computed.latency
    load = latency.load if part.copies and part.requests_per_s else None
    unbounded = load is None or bool(load.saturated)
    tokens = served.computed.generates
    return {
        "start_s": part.start_s,
        "requests_per_s": part.requests_per_s,
        "copies": part.copies,
        "accelerators": served.accelerators if part.copies else 0,
        "utilisation_ratio": part.requests_per_s / (part.copies * capacity_requests_per_s)
        if part.copies
        else None,
        "keeps_limits": bool(keeps(latency, served.limits))
        if load is not None and served.limits
        else None,
        "ttft_p95_s": None
        if load is None or unbounded
        else percentile_figures(latency, "ttft_s")["p95"],
        "tpot_p95_s": None
        if load is None or not tokens
        else percentile_figures(latency, "tpot_s")["p95"],
        "e2e_p95_s": None
        if load is None or unbounded
        else percentile_figures(latency, "e2e_s")["p95"],
        "facility_energy_kwh": kwh,
        "grid_gco2e_per_kwh": known_figure(part.gco2e_per_kwh),
        "operational_location_gco2e": None
        if kwh is None or part.gco2e_per_kwh is None
        else known_figure(product(Interval(**kwh), part.gco2e_per_kwh)),
        "rented_usd": usd,
    }


def _more(
    of: Callable[[Operation, float], answers.Interval | None],
    part: _Part,
    operated: _Operated,
    hours: float,
) -> answers.Interval | None:
    """What copies that start take while they wait: what all of them do less what the others do."""
    after = of(operated(part.copies, 0.0), hours)
    others = part.copies - part.starting
    if not others:
        return after
    return together((after, times(of(operated(others, 0.0), hours), -1.0)))


def _energy(served: Operation, hours: float) -> answers.Interval | None:
    bases = served.impacts.impacts
    year = None if bases is None else bases["per_year"]["facility_energy_kwh"]
    return times(year, hours / HOURS_PER_YEAR)


def _rent(served: Operation, hours: float) -> answers.Interval | None:
    rental = served.costs.prices.rental
    return None if rental is None else times(rental.usd_per_hour, hours)


def _totals(rows: Sequence[TrafficInterval], request: TrafficPlanRequest) -> TrafficTotals:
    """All intervals together; starts count as accelerator hours."""
    hours = request.interval_s / _SECONDS_PER_HOUR
    held = sum(row["accelerators"] for row in rows)
    started = sum(
        max(0, row["accelerators"] - rows[at - 1]["accelerators"]) for at, row in enumerate(rows)
    )
    grams = together(row["operational_location_gco2e"] for row in rows)
    return {
        "requests": sum(row["requests_per_s"] for row in rows) * request.interval_s,
        "accelerator_hours": held * hours + started * request.start_s / _SECONDS_PER_HOUR,
        "facility_energy_kwh": together(row["facility_energy_kwh"] for row in rows),
        "operational_location_kgco2e": times(grams, _KG_PER_G),
        "rented_usd": together(row["rented_usd"] for row in rows),
    }


def _days(request: TrafficPlanRequest) -> float:
    """Days that the intervals cover; one where clocks change, or where a part of it is planned."""
    covered = len(request.requests_per_s) * request.interval_s
    days = covered / _HOURS_PER_DAY / _SECONDS_PER_HOUR
    return days if days > _ABOUT_ONE_DAY else 1.0


def _of_year(day: TrafficTotals, days: float) -> TrafficTotals:
    return {
        "requests": day["requests"] * days,
        "accelerator_hours": day["accelerator_hours"] * days,
        "facility_energy_kwh": times(day["facility_energy_kwh"], days),
        "operational_location_kgco2e": times(day["operational_location_kgco2e"], days),
        "rented_usd": times(day["rented_usd"], days),
    }


def _savings(day: TrafficTotals, fixed: TrafficTotals) -> TrafficSavings:
    def ratio(of: answers.Interval | None, to: answers.Interval | None) -> float | None:
        return None if of is None or to is None or not to["value"] else of["value"] / to["value"]

    hours = fixed["accelerator_hours"]
    return {
        "accelerator_hours_ratio": day["accelerator_hours"] / hours if hours else 1.0,
        "facility_energy_ratio": ratio(day["facility_energy_kwh"], fixed["facility_energy_kwh"]),
        "operational_location_ratio": ratio(
            day["operational_location_kgco2e"], fixed["operational_location_kgco2e"]
        ),
        "rented_ratio": ratio(day["rented_usd"], fixed["rented_usd"]),
    }


def _warnings(
    rows: Sequence[TrafficInterval],
    busiest: Operation,
    one: Operation,
    profile: HourlyProfile | None,
    request: TrafficPlanRequest,
) -> Iterable[EstimateWarning]:
    yield from unused_warnings(request.deployment, UNTOLD_OF_A_DAY)
    yield from warnings_of([busiest])
    overloaded = sum((row["utilisation_ratio"] or 0.0) >= 1.0 for row in rows)
    if overloaded:
        yield EstimateWarning(
            "saturated",
            f"in {overloaded} of {len(rows)} intervals more requests arrive than "
            f"{request.copies or 0} copies can serve: waiting times grow without end there",
        )
    unserved = sum(row["copies"] == 0 and row["requests_per_s"] > 0.0 for row in rows)
    if unserved:
        yield EstimateWarning(
            "unserved", f"{unserved} intervals have requests but no copy to serve them"
        )
    if profile is None and request.grid_gco2e_per_kwh is None:
        yield EstimateWarning(
            "grid_not_hourly",
            f"the grid of {one.region.id} is known only as an average, so every hour counts the "
            "same. Hourly figures of grids outside the United States may not be redistributed: "
            "state the carbon intensity of each interval yourself",
        )
    yield from rented_whole(one, one.accelerators)
    yield from contract_warnings(request.contract, one)
    if one.costs.prices.rental is None:
        yield EstimateWarning("price_unknown", "no rent is known: state your own")
