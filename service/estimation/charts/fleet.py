"""Use case: a fleet over years, drawn year by year."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from service.catalog.snapshot import CatalogSnapshot
from service.charts.curves import lines_over_years
from service.core.interval import Interval, exact, independent_sum
from service.estimation.charts.answers import ChartFindings, ChartPoint
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import StyleRequest
from service.estimation.charts.series import axis, chart, point, series, unit_in_words
from service.estimation.formatting import number
from service.estimation.plans.fleet import fleet_plan_answer
from service.estimation.plans.requests import FleetPlanRequest

FleetSubject: TypeAlias = Literal["money", "carbon", "energy", "power", "water", "hardware"]

#: What is drawn of each year: the axis, its unit, and for each line its name and the figures of a
#: year that add up to it.
_DRAWN: Mapping[FleetSubject, tuple[str, str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "money": (
            "cost of a year",
            "USD",
            {
                "rented": ("rented_usd",),
                "owned": ("depreciation_usd", "electricity_usd"),
                "tokens bought": ("tokens_usd",),
            },
        ),
        "carbon": (
            "emissions of a year",
            "kgCO2e",
            {
                "operation": ("operational_location_kgco2e",),
                "share of the manufacturing": ("embodied_kgco2e",),
            },
        ),
        "energy": ("electricity of a year", "kWh", {"facility": ("facility_energy_kwh",)}),
        "power": (
            "power",
            "W",
            {
                "mean of the equipment": ("mean_it_power_w",),
                "busiest hour, building included": ("peak_facility_power_w",),
            },
        ),
        "water": (
            "water of a year",
            "L",
            {"taken": ("water_l",), "weighted by stress": ("stress_weighted_l",)},
        ),
        "hardware": ("accelerators", "", {"in use": ("accelerators",), "bought": ("bought",)}),
    }
)


class FleetChartRequest(FleetPlanRequest):
    """A fleet over years, drawn year by year."""

    shows: FleetSubject = "carbon"
    """What is drawn of each year."""
    style: StyleRequest = StyleRequest()


def fleet_chart(request: FleetChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """What a fleet takes in each year, with the intervals.

    Raises
    ------
    Rejected
        As :func:`~service.estimation.plans.fleet.fleet_plan_answer` does.
    """
    answer = fleet_plan_answer(request, snapshot)
    title, unit, lines = _DRAWN[request.shows]
    drawn = {
        name: [found for year in answer["years"] if (found := _point(name, {**year}, parts))]
        for name, parts in lines.items()
    }
    known = {name: points for name, points in drawn.items() if points}
    last = answer["years"][-1]["year"]
    return chart(
        f"{_finding(title, unit, known)}: {_loads(request)}, {last} years",
        " ".join(_told(name, unit, points) for name, points in known.items())
        or f"Nothing is known of the {title}.",
        (axis("year of the plan", "year"), axis(title, unit)),
        [series(name, points) for name, points in known.items()],
        [answer],
    )


def _point(name: str, year: Mapping[str, Any], parts: tuple[str, ...]) -> ChartPoint | None:
    """A year's sum of figures; None where one of them is unknown."""
    found = [_interval(year[part]) for part in parts]
    some = [one for one in found if one is not None]
    if len(some) < len(found):
        return None
    return point(name, independent_sum(some), exact(float(year["year"])))


def _interval(figure: Any) -> Interval | None:
    if figure is None or isinstance(figure, int):
        return None if figure is None else exact(float(figure))
    return Interval(figure["value"], figure["low"], figure["high"])


def _finding(title: str, unit: str, known: Mapping[str, list[ChartPoint]]) -> str:
    """What the first line does from the first year to the last."""
    if not known:
        return f"The {title} is not known"
    name, points = next(iter(known.items()))
    first, last = points[0], points[-1]
    began, ends = first["y"]["value"], last["y"]["value"]
    what = f"{title.capitalize()} ({name})"
    if began <= 0.0 or len(points) == 1:
        return f"{what} is {number(ends)} {unit_in_words(unit)}".rstrip()
    return f"{what} is {number(ends / began)} times as much in the last year as in the first"


def _told(name: str, unit: str, points: list[ChartPoint]) -> str:
    ends = [points[0], points[-1]] if len(points) > 1 else points
    said = " and ".join(
        f"{number(one['y']['value'])} {unit_in_words(unit)}".rstrip()
        + f" ({number(one['y']['low'])} to {number(one['y']['high'])})"
        + f" in year {one['x']['value']:.0f}"  # type: ignore[index]
        for one in ends
    )
    return f"{name.capitalize()}: {said}."


def _loads(request: FleetPlanRequest) -> str:
    names = [load.name for load in request.loads]
    return names[0] if len(names) == 1 else f"{len(names)} loads"


KINDS = (
    ChartKind(
        "fleet-over-years",
        "FleetChart",
        "Chart: what a fleet costs, emits, draws or takes in each year",
        "Money (rented, owned, tokens bought), carbon, energy, power, water or accelerators of a "
        "fleet, year by year, with their intervals.",
        FleetChartRequest,
        fleet_chart,
        lines_over_years,
    ),
)
