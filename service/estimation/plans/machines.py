"""What a fleet buys, keeps and retires, for all loads that run on the same accelerators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from service.catalog.snapshot import CatalogSnapshot
from service.core.fleet import YearOfMachines, grown, machines_over_years
from service.core.impacts.infrastructure import making
from service.core.interval import Interval, exact
from service.estimation import answers
from service.estimation.costs.purchases import purchase_usd
from service.estimation.plans.answers import FleetHardware, FleetLoad, HardwareYear
from service.estimation.plans.operation import Operation
from service.estimation.plans.requests import FleetPlanRequest
from service.estimation.plans.sums import times, together

#: A load's estimate in its first year, and the load year by year.
Served = tuple[Operation, FleetLoad]


def fleet_hardware(
    loads: Sequence[Served], request: FleetPlanRequest, snapshot: CatalogSnapshot
) -> list[FleetHardware]:
    """Accelerators by kind and machine, year by year.

    Loads with accelerators and machines of the same ids share them: what one leaves another uses.
    The first of them says at what price they are bought.
    """
    kinds: dict[tuple[str, str | None], list[Served]] = defaultdict(list)
    for load in loads:
        resolved = load[0].computed.resolved
        machine = None if resolved.machine is None else resolved.machine.id
        kinds[resolved.accelerator.id, machine].append(load)
    return [
        {
            "accelerator": accelerator,
            "platform": platform,
            "years": _years(of_kind, request, snapshot),
        }
        for (accelerator, platform), of_kind in kinds.items()
    ]


def _years(
    loads: Sequence[Served], request: FleetPlanRequest, snapshot: CatalogSnapshot
) -> list[HardwareYear]:
    first = loads[0][0]
    resolved = first.computed.resolved
    made = making(resolved.deployment.accelerator, first.around)
    price = purchase_usd(first.request.cost, resolved.accelerator, snapshot)
    held = {end: _held(loads, end, request) for end in _ENDS}
    rows: list[HardwareYear] = []
    paid: list[answers.Interval | None] = []
    for at, central in enumerate(held["value"]):
        low, _, high = sorted(held[end][at].bought for end in _ENDS)
        bought = Interval(float(central.bought), float(low), float(high))
        cheaper = grown(1.0, request.purchase_price_change_per_year_ratio, at)
        paid.append(times(times(price, bought), cheaper))
        kept = paid[max(0, at + 1 - request.refresh_years) :]
        rows.append(
            {
                "year": at + 1,
                "in_use": central.in_use,
                "held": central.held,
                "bought": {"value": central.bought, "low": low, "high": high},
                "retired": central.retired,
                "embodied_bought_kgco2e": times(made.embodied_kgco2e, bought),
                "retired_kg": times(made.mass_kg, exact(float(central.retired))),
                "purchase_usd": paid[at],
                "depreciation_usd": times(together(kept), 1.0 / request.refresh_years),
            }
        )
    return rows


_ENDS: tuple[Literal["value", "low", "high"], ...] = ("value", "low", "high")


def _held(
    loads: Sequence[Served], end: Literal["value", "low", "high"], request: FleetPlanRequest
) -> tuple[YearOfMachines, ...]:
    """Machines over the years, for the central, fewest or most copies: whole boards or racks."""
    platform = loads[0][0].computed.resolved.deployment.accelerator.platform
    needed = [
        sum(load["accelerators_per_copy"] * load["years"][at]["copies"][end] for _, load in loads)
        for at in range(request.years)
    ]
    return machines_over_years(needed, request.refresh_years, int(platform.board_accelerators))
