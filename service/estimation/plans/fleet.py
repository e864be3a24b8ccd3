"""Use case: several models and loads over years, with growth and refresh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import Number
from service.core.explanation import EstimateWarning
from service.core.fleet import copies_needed, grown, present_value
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact, scale
from service.core.years import HOURS_PER_YEAR, SECONDS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import figure, frame, grounds
from service.estimation.plans.answers import (
    Count,
    FleetFigures,
    FleetHardware,
    FleetPlanAnswer,
    FleetRental,
    FleetTokens,
    FleetTotals,
    FleetYear,
    FleetYearOfLoad,
)
from service.estimation.plans.machines import Served, fleet_hardware
from service.estimation.plans.operation import (
    ALMOST_IDLE_REQUESTS_PER_S,
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
from service.estimation.plans.requests import FleetLoadRequest, FleetPlanRequest, TokenPriceRequest
from service.estimation.plans.sums import highest, times, together
from service.estimation.remarks import remarking
from service.estimation.resolution import Problems

_KG_PER_G = 1e-3
_THOUSAND, _MILLION = 1e3, 1e6
_MOST_ACCELERATORS = 100_000
#: Figures of loads that add up over loads and years, those of which the highest year counts, and
#: those of hardware that add up.
_ADDED = (
    "facility_energy_kwh",
    "operational_location_kgco2e",
    "embodied_kgco2e",
    "water_l",
    "stress_weighted_l",
    "rented_usd",
    "electricity_usd",
    "tokens_usd",
    "tokens_kgco2e",
    "tokens_l",
)
_HIGHEST = ("mean_it_power_w", "peak_facility_power_w")
_OF_HARDWARE = ("embodied_bought_kgco2e", "retired_kg", "purchase_usd", "depreciation_usd")


@remarking(FleetPlanAnswer)
def fleet_plan_answer(request: FleetPlanRequest, snapshot: CatalogSnapshot) -> FleetPlanAnswer:
    """Accelerators, power, money, emissions, water and waste of a fleet, year by year.

    Raises
    ------
    Rejected
        If names repeat, a deployment cannot be estimated, does not fit or keeps its limits at no
        rate, or if a load would need more than 100,000 accelerators.
    """
    _check(request)
    loads = [
        _load(load, f"/loads/{at}", request, snapshot) for at, load in enumerate(request.loads)
    ]
    hardware = fleet_hardware(loads, request, snapshot)
    years = [
        _year(at, [load["years"][at] for _, load in loads], hardware) for at in range(request.years)
    ]
    return {
        **frame(snapshot.revision),
        "loads": [load for _, load in loads],
        "hardware": hardware,
        "years": years,
        "totals": _totals(years, request.discount_per_year_ratio),
        **grounds(
            snapshot, _warnings(loads, hardware, request), entries_of(one for one, _ in loads), None
        ),
    }


def _check(request: FleetPlanRequest) -> None:
    """Refuse what contradicts itself."""
    problems = Problems()
    names: dict[str, int] = {}
    for at, load in enumerate(request.loads):
        first = names.setdefault(load.name, at)
        if first != at:
            problems.add(f"/loads/{at}/name", f"/loads/{first} has this name already")
        if load.starts_in_year > request.years:
            problems.add(f"/loads/{at}/starts_in_year", f"the plan ends after year {request.years}")
        elif load.ends_after_year is not None and load.ends_after_year < load.starts_in_year:
            problems.add(f"/loads/{at}/ends_after_year", "is before starts_in_year")
    problems.stop_if_any()


def _load(
    asked: FleetLoadRequest, pointer: str, request: FleetPlanRequest, snapshot: CatalogSnapshot
) -> Served:
    """A load, year by year: its rate, its copies, and what they do at its mean and peak rate."""
    where = f"{pointer}/deployment"
    unit = unit_of(asked.deployment, snapshot, where)

    def operated(copies: int, rate: float) -> Operation:
        return operation(at_rate(unit, copies, rate), snapshot, lambda it: _kept(it, request))

    one = within(where, lambda: operated(1, ALMOST_IDLE_REQUESTS_PER_S))
    most = capacity_of_copy(one, operated, where)
    first: Operation | None = None
    last = request.years if asked.ends_after_year is None else asked.ends_after_year
    rows = []
    for year in range(1, request.years + 1):
        if not asked.starts_in_year <= year <= last:
            rows.append(_not_served(year))
            continue
        rate = grown(asked.requests_per_s, asked.growth_per_year_ratio, year - asked.starts_in_year)
        peak = rate * asked.peak_ratio
        copies = _copies(peak, most, request)
        if copies["value"] * one.accelerators > _MOST_ACCELERATORS:
            Problems().refuse(
                f"{pointer}/requests_per_s",
                f"year {year} would need {copies['value'] * one.accelerators:,} accelerators; a "
                f"load may have {_MOST_ACCELERATORS:,}, so divide it",
            )
        at_mean = operated(copies["value"], rate)
        first = first or at_mean
        at_peak = at_mean if peak == rate else operated(copies["value"], peak)
        greener = grown(1.0, request.grid_change_per_year_ratio, year - 1)
        served: FleetYearOfLoad = {
            "year": year,
            "requests_per_s": rate,
            "copies": copies,
            "utilisation_ratio": rate / (copies["value"] * float(most.value)),
            "instances": _machines(at_mean, copies["value"], copies["value"]),
            **_figures(at_mean, at_peak, rate, copies, greener),
            "tokens_usd": _bought(asked.token_price, at_mean, rate, year),
            "tokens_kgco2e": times(
                _published(asked.token_price, "gco2e_per_1k_output_tokens", at_mean, rate),
                _KG_PER_G,
            ),
            "tokens_l": _published(asked.token_price, "l_per_1k_output_tokens", at_mean, rate),
        }
        rows.append(served)
    return first or one, {
        "name": asked.name,
        "deployment": unit.model_dump(mode="json", exclude_unset=True),
        "accelerators_per_copy": one.accelerators,
        "capacity_requests_per_s": figure(most),
        "rental": _rental(first or one),
        "tokens": _priced(asked.token_price),
        "years": rows,
    }


def _kept(around: Infrastructure, request: FleetPlanRequest) -> Infrastructure:
    return replace(
        around,
        hardware_life_years=exact(float(request.refresh_years)),
        second_life_years=request.second_life_years,
    )


def _copies(peak: float, most: Interval, request: FleetPlanRequest) -> Count:
    def of(requests_per_s: Number) -> int:
        return copies_needed(
            peak, float(requests_per_s), request.reserve_ratio, request.spare_copies
        )

    return {"value": of(most.value), "low": of(most.high), "high": of(most.low)}


def _figures(
    at_mean: Operation, at_peak: Operation, rate: float, copies: Count, greener: float
) -> FleetFigures:
    """What a load takes in a year, from its estimates at its mean and at its peak rate."""
    bases = at_mean.impacts.impacts
    used = None if bases is None else bases["per_year"]
    energy, peak = at_mean.impacts.energy, at_peak.impacts.energy
    rental = at_mean.costs.prices.rental

    def rented(end: int) -> float:
        """What is rented for so many copies: whole machines at a list price, else copies."""
        machines = _machines(at_mean, copies["value"], end)
        return float(end if machines is None else machines)

    central = rented(copies["value"])
    spread = Interval(1.0, rented(copies["low"]) / central, rented(copies["high"]) / central)
    return {
        "accelerators": at_mean.accelerators,
        "requests": rate * SECONDS_PER_YEAR,
        "mean_it_power_w": None if energy is None else energy["it_power_w"],
        "peak_facility_power_w": None
        if peak is None
        else times(peak["it_power_w"], at_peak.region.value.pue_ratio),
        "facility_energy_kwh": None if used is None else used["facility_energy_kwh"],
        "operational_location_kgco2e": None
        if used is None
        else times(used["carbon"]["operational_location_gco2e"], greener * _KG_PER_G),
        "embodied_kgco2e": None
        if used is None
        else times(used["carbon"]["embodied_gco2e"], _KG_PER_G),
        "water_l": None if used is None else used["water"]["total_l"],
        "stress_weighted_l": None if used is None else used["water"]["stress_weighted_l"],
        "rented_usd": None
        if rental is None
        else times(scale(rental.usd_per_hour, HOURS_PER_YEAR), spread),
        "electricity_usd": times(at_mean.costs.electricity_usd_per_hour, HOURS_PER_YEAR),
        "tokens_usd": None,
        "tokens_kgco2e": None,
        "tokens_l": None,
    }


def _machines(at_mean: Operation, copies: int, end: int) -> int | None:
    """Machines that hold so many copies, of which there are ``copies``; None at a stated rent."""
    rental = at_mean.costs.prices.rental
    if rental is None or rental.instance is None or rental.price_kind is None:
        return None
    return rental.instance.value.needed(end * (at_mean.accelerators // copies))


def _rental(one: Operation) -> FleetRental | None:
    """The machine that a load is rented on at a list price, and what it costs."""
    rental = one.costs.prices.rental
    if rental is None or rental.instance is None or rental.price_kind is None:
        return None
    return {
        "instance": rental.instance.id,
        "accelerators": rental.instance.value.accelerators,
        "usd_per_hour": figure(rental.usd_per_unit_hour),
        "price_kind": rental.price_kind,
        "price_region": rental.price_region,
        "price_date": rental.price_date,
    }


def _priced(price: TokenPriceRequest | None) -> FleetTokens | None:
    if price is None:
        return None
    day = price.priced_on
    return {"provider": price.provider, "priced_on": None if day is None else day.isoformat()}


def _bought(
    price: TokenPriceRequest | None, at_mean: Operation, rate: float, year: int
) -> answers.Interval | None:
    """What the tokens of a year's requests cost at a provider."""
    if price is None:
        return None
    workload = at_mean.computed.resolved.workload
    cached = float(workload.prefix_cached_ratio) * float(workload.input_tokens)
    at_cache = price.usd_per_million_cached_tokens
    of_cached = price.usd_per_million_input_tokens if at_cache is None else at_cache
    output = float(workload.output_tokens) if at_mean.computed.generates else 0.0
    usd_per_request = (
        (float(workload.input_tokens) - cached) * price.usd_per_million_input_tokens
        + cached * of_cached
        + output * price.usd_per_million_output_tokens
    ) / _MILLION
    usd = usd_per_request * rate * SECONDS_PER_YEAR
    return figure(exact(usd * grown(1.0, price.change_per_year_ratio, year - 1)))


def _published(
    price: TokenPriceRequest | None,
    name: Literal["gco2e_per_1k_output_tokens", "l_per_1k_output_tokens"],
    at_mean: Operation,
    rate: float,
) -> answers.Interval | None:
    """What a provider publishes of the footprint of a year's tokens, in its unit."""
    each: float | None = None if price is None else getattr(price, name)
    if each is None:
        return None
    generates = at_mean.computed.generates
    output = float(at_mean.computed.resolved.workload.output_tokens) if generates else 0.0
    return figure(exact(each * output * rate * SECONDS_PER_YEAR / _THOUSAND))


def _not_served(year: int) -> FleetYearOfLoad:
    """A year in which a load is not served."""
    none: Count = {"value": 0, "low": 0, "high": 0}
    return cast(
        "FleetYearOfLoad",
        {
            "year": year,
            "requests_per_s": 0.0,
            "copies": none,
            "utilisation_ratio": 0.0,
            "instances": 0,
            "accelerators": 0,
            "requests": 0.0,
            **{name: figure(exact(0.0)) for name in (*_ADDED, *_HIGHEST)},
        },
    )


def _year(
    at: int, loads: Sequence[FleetYearOfLoad], hardware: Sequence[FleetHardware]
) -> FleetYear:
    """All loads and their hardware in a year."""
    kinds = [kind["years"][at] for kind in hardware]
    added = {name: together(_each(loads, name)) for name in (*_ADDED, *_HIGHEST)}
    return cast(
        "FleetYear",
        {
            "year": at + 1,
            "accelerators": sum(load["accelerators"] for load in loads),
            "requests": sum(load["requests"] for load in loads),
            **added,
            "bought": _count(kind["bought"] for kind in kinds),
            "retired": sum(kind["retired"] for kind in kinds),
            **{name: together(_each(kinds, name)) for name in _OF_HARDWARE},
        },
    )


def _totals(years: Sequence[FleetYear], discount_per_year_ratio: float) -> FleetTotals:
    """All years together."""

    def present(amounts: Sequence[answers.Interval | None]) -> answers.Interval | None:
        known = [amount for amount in amounts if amount is not None]
        if len(known) < len(amounts):
            return None
        low, value, high = (
            present_value([amount[end] for amount in known], discount_per_year_ratio)
            for end in ("low", "value", "high")
        )
        return {"value": value, "low": low, "high": high}

    return cast(
        "FleetTotals",
        {
            "accelerators": max(year["accelerators"] for year in years),
            "requests": sum(year["requests"] for year in years),
            **{name: together(_each(years, name)) for name in (*_ADDED, *_OF_HARDWARE)},
            **{name: highest(_each(years, name)) for name in _HIGHEST},
            "bought": _count(year["bought"] for year in years),
            "retired": sum(year["retired"] for year in years),
            "rented_present_usd": present([year["rented_usd"] for year in years]),
            "tokens_present_usd": present([year["tokens_usd"] for year in years]),
            "owned_present_usd": present(
                [together((year["purchase_usd"], year["electricity_usd"])) for year in years]
            ),
        },
    )


def _each(rows: Iterable[Any], name: str) -> list[answers.Interval | None]:
    return [row[name] for row in rows]


def _count(counts: Iterable[Count]) -> Count:
    found = list(counts)
    return {
        "value": sum(one["value"] for one in found),
        "low": sum(one["low"] for one in found),
        "high": sum(one["high"] for one in found),
    }


def _warnings(
    loads: Sequence[Served], hardware: Sequence[FleetHardware], request: FleetPlanRequest
) -> Iterable[EstimateWarning]:
    """Warnings of each load's estimate once, and what the plan cannot say."""
    for asked in request.loads:
        yield from unused_warnings(asked.deployment)
        if asked.token_price is not None and asked.token_price.priced_on is None:
            yield EstimateWarning(
                "price_undated",
                f"the price of tokens of {asked.token_price.provider} for {asked.name!r} has no "
                "date (priced_on): such prices change within weeks",
            )
    yield from warnings_of(one for one, _ in loads)
    for one, load in loads:
        yield from rented_whole(one, load["accelerators_per_copy"])
        if one.costs.prices.rental is None:
            yield EstimateWarning(
                "price_unknown",
                f"no rent is known for what serves {load['name']!r}: state your own",
            )
    for kind in hardware:
        if kind["years"][0]["purchase_usd"] is None:
            yield EstimateWarning(
                "price_unknown",
                f"no purchase price is known for {kind['accelerator']}: state your own",
            )
