"""Why a figure is what it is: its formula with exact inputs, its range, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.core.years import HOURS_PER_MONTH
from service.estimation.charts.series import unit_in_words
from service.estimation.formatting import number
from service.estimation.verdict.figures import GROWS, KeyFigure
from service.estimation.wording import in_words

#: Steps that have the name of a field, as people call them.
_STEPS = {
    "ttft_s": "time to the first token",
    "tpot_s": "time of each next token",
    "tokens_per_s": "tokens a second",
    "step_s": "time of a step",
    "useful_s": "time of all steps",
    "wall_s": "time from start to end",
    "total_location_gco2e": "emissions, by the average of the grid",
    "operational_location_gco2e": "emissions of electricity",
    "embodied_gco2e": "share of manufacturing",
    "facility_energy_kwh": "energy, building included",
    "it_energy_kwh": "energy of the machines",
    "rented_usd_per_hour": "rent of an hour",
    "hardware_usd_per_hour": "hardware, an hour of its life",
    "electricity_usd_per_hour": "electricity of an hour",
}
#: Inputs of steps that name entries of calibrations.
_CALIBRATIONS = ("efficiencies", "calibration", "calibrations")
_MOST_STEPS = 6
_MOST_PUBLISHERS = 6
#: Upper over lower ends of ranges up to which figures are called so.
_CERTAINTIES = ((1.3, "well known"), (2.5, "fairly well known"), (6.0, "roughly known"))
_UNCERTAIN = "little known"
#: Digits that repeat a computation, and where exponents begin.
_DIGITS, _MOST_WRITTEN_OUT = 10, 1e15


@dataclass(frozen=True, slots=True)
class Step:
    """A formula with its inputs, to the last digit, and where it is from."""

    name: str
    formula: str
    inputs: tuple[tuple[str, str], ...]
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Why:
    """What opens below a figure."""

    certainty: str
    unit: str
    measured_by: tuple[str, ...]
    steps: tuple[Step, ...]
    sources: tuple[Mapping[str, Any], ...]


def why(figure: KeyFigure, estimate: Mapping[str, Any]) -> Why:
    """The reasons of a figure, out of the explanation and the sources of its estimate."""
    steps = tuple(_steps(figure.steps, estimate["explanation"]))
    measured = {
        entry.strip()
        for step in steps
        for name in _CALIBRATIONS
        for entry in str(step["inputs"].get(name, "")).split(",")
    }
    used = estimate["provenance"]["entries"]
    publishers = dict.fromkeys(
        source["publisher"]
        for entry in used
        if entry["collection"] == "calibrations" and entry["id"] in measured
        for source in entry["sources"]
    )
    collections = set(figure.collections) - {"calibrations"}
    sources = {
        source["id"]: source
        for entry in used
        if entry["collection"] in collections
        for source in entry["sources"]
    }
    return Why(
        certainty=_certainty(figure),
        unit=_unit(figure, estimate),
        measured_by=tuple(publishers)[:_MOST_PUBLISHERS],
        steps=tuple(written(step) for step in steps),
        sources=tuple(sorted(sources.values(), key=lambda one: str(one["title"]))),
    )


def written(step: Mapping[str, Any]) -> Step:
    """A step of an explanation with figures that repeat it."""
    unit = unit_in_words(step["unit"]).strip()
    value = "" if step["value"] is None else f"{exactly(step['value'])} {unit}".strip()
    return Step(
        name=spoken(step["name"]),
        formula=step["formula"].replace(" + sum()", ""),
        inputs=tuple((name, exactly(given)) for name, given in step["inputs"].items()),
        value=value,
        source=step["source"],
    )


def _unit(figure: KeyFigure, estimate: Mapping[str, Any]) -> str:
    """What the steps are for, where that is another thing than the figure is."""
    if figure.id == "cost" and "per_request" in (estimate["impacts"] or {}):
        return f"The steps are for an hour; a month has {HOURS_PER_MONTH:,} of them."
    request = ((estimate["impacts"] or {}).get("per_request") or {}).get("carbon") or {}
    each = (request.get("total_gco2e") or {}).get("value")
    if figure.id != "carbon" or not each or figure.value is None:
        return ""
    return f"The steps are for one request; {number(figure.value / each)} are answered in a month."


def spoken(name: str) -> str:
    """The name of a step as words: those of symbols lose their unit."""
    if " " in name or "_" not in name:
        return name
    return _STEPS.get(name) or in_words(name)


def exactly(value: Any) -> str:
    """A figure as it was computed with, thousands apart; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    size = abs(value)
    if float(value).is_integer() and size < _MOST_WRITTEN_OUT:
        return f"{value:,.0f}"
    if 1e4 <= size < _MOST_WRITTEN_OUT:
        return f"{value:,.{max(_DIGITS - len(str(int(size))), 0)}f}"
    return f"{value:.{_DIGITS}g}"


def _steps(
    roots: tuple[str, ...], explanation: list[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The steps of these names, and those that they take their inputs from, the nearest first."""
    known = {step["name"]: step for step in explanation}
    waiting = [name for name in roots if name in known]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_STEPS:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        yield known[name]
        waiting += [one for one in known[name]["inputs"] if one in known]


def _certainty(figure: KeyFigure) -> str:
    if figure.text == GROWS:
        return "More requests arrive than are answered, so that each waits longer than the last."
    if figure.value is None or figure.low is None or figure.high is None:
        return "Nobody has published what it takes to compute this."
    if not figure.range_text:
        return "This is exact for what was asked."
    ratio = figure.high / figure.low if figure.low > 0.0 else float("inf")
    grade = next((word for most, word in _CERTAINTIES if ratio <= most), _UNCERTAIN)
    factor = f", a factor of {number(float(f'{ratio:.2g}'))}" if ratio < 1e3 else ""
    return (
        f"This is {grade}: in nine cases out of ten, the measured figure lies within "
        f"{figure.range_text}{factor}."
    )
