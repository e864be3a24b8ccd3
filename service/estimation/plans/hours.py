"""What contracts cover of a day hour by hour, and what requests that wait save."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from service.core.explanation import EstimateWarning
from service.core.impacts.matching import generated_like, matched_ratio, shifted
from service.core.interval import Interval, exact
from service.estimation import answers
from service.estimation.plans.answers import (
    TrafficContract,
    TrafficInterval,
    TrafficShift,
    TrafficTotals,
)
from service.estimation.plans.operation import Operation
from service.estimation.plans.requests import ContractRequest, TrafficPlanRequest
from service.estimation.plans.sums import times, together
from service.estimation.resolution import Problems

_KG_PER_G = 1e-3


def check_hours(request: TrafficPlanRequest, problems: Problems) -> None:
    """Note what contradicts itself in contracts and waiting requests."""
    contract, rates = request.contract, len(request.requests_per_s)
    if contract is not None:
        if len(contract.generation) != rates:
            problems.add(
                "/contract/generation",
                f"has {len(contract.generation)} intervals, /requests_per_s has {rates}",
            )
        if not sum(contract.generation) > 0.0:
            problems.add("/contract/generation", "must not all be zero")


def contract_answer(
    asked: ContractRequest | None, rows: Sequence[TrafficInterval], one: Operation
) -> TrafficContract | None:
    """Consumption against contracted generation; None without a contract, or consumption."""
    energies = [row["facility_energy_kwh"] for row in rows]
    known = [energy for energy in energies if energy is not None]
    consumed = [energy["value"] for energy in known]
    if asked is None or len(known) < len(energies) or not sum(consumed) > 0.0:
        return None
    generated = generated_like(asked.generation, asked.contracted_ratio * sum(consumed))
    shares = [
        min(made / used, 1.0) if used else 0.0
        for made, used in zip(generated, consumed, strict=True)
    ]
    yearly = min(asked.contracted_ratio, 1.0)
    rest = _rest(asked, one)

    def emitted(matched: Sequence[float]) -> answers.Interval | None:
        if rest is None:
            return None
        grams = together(
            times(energy, _mix(share, asked.gco2e_per_kwh, rest))
            for energy, share in zip(known, matched, strict=True)
        )
        return times(grams, _KG_PER_G)

    return {
        "contracted_kwh": sum(generated),
        "surplus_kwh": sum(
            max(made - used, 0.0) for made, used in zip(generated, consumed, strict=True)
        ),
        "annual_matched_ratio": yearly,
        "hourly_matched_ratio": matched_ratio(consumed, generated),
        "annual_market_kgco2e": emitted([yearly] * len(known)),
        "hourly_market_kgco2e": emitted(shares),
    }


def _rest(asked: ContractRequest, one: Operation) -> Interval | None:
    """Intensity of what no contract covers: as stated, the residual mix, or the average."""
    if asked.residual_gco2e_per_kwh is not None:
        return exact(asked.residual_gco2e_per_kwh)
    region = one.region.value
    return region.residual_gco2e_per_kwh or region.grid_gco2e_per_kwh


def _mix(share: float, contracted: float, rest: Interval) -> Interval:
    """Intensity of electricity of which a share is contracted [gCO2e/kWh]."""
    return Interval(
        *(share * contracted + (1.0 - share) * end for end in (rest.value, rest.low, rest.high))
    )


def contract_warnings(asked: ContractRequest | None, one: Operation) -> Iterator[EstimateWarning]:
    """That the average stands in where nobody knows the residual mix."""
    if asked is None or asked.residual_gco2e_per_kwh is not None:
        return
    region = one.region
    if region.value.residual_gco2e_per_kwh is None:
        yield EstimateWarning(
            "residual_mix_unknown",
            f"no residual mix is known for {region.id}; its average mix is used for "
            "what contracts do not cover",
        )


def shift_answer(
    request: TrafficPlanRequest,
    rows: Sequence[TrafficInterval],
    totals: TrafficTotals,
    day: Callable[[TrafficPlanRequest], TrafficTotals],
) -> TrafficShift | None:
    """The day with requests that wait; None where none can, or the grid is not known.

    Parameters
    ----------
    request
        Says how many requests can wait, and for how long.
    rows, totals
        The day without waiting.
    day
        The same plan for other rates.
    """
    asked = request.deferrable
    grid = [row["grid_gco2e_per_kwh"] for row in rows]
    intensities = [one["value"] for one in grid if one is not None]
    if asked is None or len(intensities) < len(grid) or not any(request.requests_per_s):
        return None
    later = int(asked.within_s // request.interval_s)
    rates = shifted(request.requests_per_s, intensities, asked.ratio, later)
    moved = sum(
        max(before - after, 0.0)
        for before, after in zip(request.requests_per_s, rates, strict=True)
    )
    waited = day(request.model_copy(update={"requests_per_s": rates}))
    before, after = totals["operational_location_kgco2e"], waited["operational_location_kgco2e"]
    return {
        "requests_per_s": rates,
        "moved_ratio": moved / sum(request.requests_per_s),
        "day": waited,
        "operational_location_ratio": None
        if before is None or after is None or not before["value"]
        else after["value"] / before["value"],
    }
