"""The figures of an estimate as people read them, and as a table for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from service.core.years import HOURS_PER_YEAR
from service.estimation.formatting import (
    Scale,
    Words,
    duration,
    gigabytes,
    money,
    number,
    range_words,
)
from service.estimation.verdict.figures import GROWS, emissions, known_cost
from service.portal.glossary import TERM_OF


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what it is, its value, and its 90 % interval (empty where it is exact)."""

    name: str
    value: str
    interval: str = ""

    @property
    def term(self) -> str | None:
        """The key of the term that explains it, where there is one."""
        return TERM_OF.get(self.name)


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together."""

    title: str
    lines: tuple[Line, ...]


#: What stands where a figure is not known.
UNKNOWN = "not known"
#: Times that grow for as long as more requests arrive than are answered.
_WAITS = frozenset({"latency.ttft_s", "latency.e2e_s"})
#: Greenhouse gases of one request in grams, or in milligrams where they are small.
grams = Scale(((1.0, 1e-3, "mg CO₂e"), (inf, 1.0, "g CO₂e")))
#: Watts, litres of water, and events a second as people read them.
power = Scale(((1e3, 1.0, "W"), (inf, 1e3, "kW")))
litres = Scale(((1.0, 1e-3, "mL"), (1e3, 1.0, "L"), (inf, 1e3, "m³")))
rate = Scale(((0.1, 1.0 / 60.0, "a minute"), (inf, 1.0, "a second")))
#: The title of costs.
COST = "Cost"

#: Titles with the figures under them: name, where it stands in an estimate, how it is worded.
Layout = tuple[tuple[str, tuple[tuple[str, str, Words], ...]], ...]


def in_unit(unit: str, size: float = 1.0) -> Words:
    """Words for a figure in a unit, which is ``size`` of what it is given in."""
    return lambda value: f"{number(value / size)} {unit}"


def _yearly_money(usd_per_hour: float) -> str:
    return money(usd_per_hour * HOURS_PER_YEAR)


#: What the page shows of an inference deployment.
INFERENCE: Layout = (
    (
        "Memory per accelerator",
        (
            ("Weights", "memory.weights_bytes", gigabytes),
            ("KV cache", "memory.kv_cache_bytes", gigabytes),
            ("Working memory", "memory.activations_bytes", gigabytes),
            ("Engine and driver", "memory.runtime_bytes", gigabytes),
            ("Total", "memory.total_bytes", gigabytes),
            ("Free", "memory.headroom_bytes", gigabytes),
            ("Requests that fit at once", "memory.max_concurrency", number),
        ),
    ),
    (
        "Speed",
        (
            ("First token", "latency.ttft_s", duration),
            ("Each next token", "latency.tpot_s", duration),
            ("Whole answer", "latency.e2e_s", duration),
            ("Output for all users", "latency.output_tokens_per_s", in_unit("tokens/s")),
            ("Requests answered", "latency.requests_per_s", rate),
        ),
    ),
    (
        "Energy and footprint",
        (
            ("Power of the machines", "energy.it_power_w", power),
            ("Energy per request", "energy.it_energy_per_request_wh", in_unit("Wh")),
            ("Emissions per request", "impacts.per_request.carbon.total_gco2e", grams),
            (
                "of which electricity",
                "impacts.per_request.carbon.operational_location_gco2e",
                grams,
            ),
            (
                "of which hardware",
                "impacts.per_request.carbon.embodied_gco2e",
                grams,
            ),
            ("Emissions per year", "impacts.per_year.carbon.total_gco2e", emissions),
            ("Water per request", "impacts.per_request.water.total_l", litres),
            ("Water per year", "impacts.per_year.water.total_l", litres),
            ("Electronic waste per year", "impacts.per_year.e_waste_kg", in_unit("kg")),
        ),
    ),
    (
        COST,
        (
            ("Per hour", "cost.rented.usd_per_hour", money),
            (
                "Per million output tokens",
                "cost.rented.usd_per_million_output_tokens",
                money,
            ),
            ("Per year", "cost.rented.usd_per_hour", _yearly_money),
        ),
    ),
)


def sections(estimate: Mapping[str, Any], layout: Layout = INFERENCE) -> list[Section]:
    """The figures that people ask for; one that is not known says so."""
    return [
        Section(
            section_title(title, (estimate,)),
            tuple(_shown(name, path, words, estimate) for name, path, words in lines),
        )
        for title, lines in layout
    ]


def section_title(title: str, estimates: Iterable[Mapping[str, Any]]) -> str:
    """The title of figures; that of costs says whether they are of renting or of owning."""
    if title != COST:
        return title
    bases = {known_cost(estimate)[0] for estimate in estimates} - {"unknown"}
    told = {
        frozenset({"rented"}): "rented at list prices",
        frozenset({"owned"}): "owned: hardware and electricity",
        frozenset({"rented", "owned"}): "rented, or owned where no rent is known",
    }.get(frozenset(bases))
    return f"{title}, {told}" if told else title


def verdict(memory: Mapping[str, Any]) -> str:
    """Whether it fits, in a sentence."""
    total = gigabytes(memory["total_bytes"]["value"])
    capacity = gigabytes(memory["capacity_bytes"])
    if memory["fits"]:
        sure = "" if memory["fits_certainty"] == "yes" else ", narrowly"
        return f"It fits{sure}: {total} of {capacity} per accelerator."
    missing = gigabytes(memory["shortfall_bytes"]["value"])
    return f"It does not fit: it needs {total} per accelerator, {missing} more than available."


def table(estimate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every figure of an estimate as a row: where it stands in the answer, value, low and high."""
    asked = {
        f"deployment.{name}": value
        for name, value in estimate["deployment"].items()
        if isinstance(value, str | int | float)
    }
    asked |= {name: estimate[name] for name in ("catalog_revision", "engine_version")}
    rows = [_row(name, value) for name, value in asked.items()]
    for part in ("memory", "latency", "energy", "impacts", "cost"):
        rows += _rows(part, estimate[part])
    return rows


def _rows(path: str, found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, Mapping):
        if found.keys() == {"value", "low", "high"}:
            yield {"figure": path, **found}
            return
        for name, inner in found.items():
            yield from _rows(f"{path}.{name}", inner)
    elif isinstance(found, str | int | float):
        yield _row(path, found)


def _row(path: str, value: object) -> dict[str, Any]:
    return {"figure": path, "value": value, "low": "", "high": ""}


def _shown(name: str, path: str, words: Words, estimate: Mapping[str, Any]) -> Line:
    """A figure of an estimate in words; a wait that never settles says so, as its tile does."""
    found = line(name, figure_at(estimate, path), words)
    load = estimate["latency"].get("load") or {}
    waits = path in _WAITS and found.value == UNKNOWN and load.get("saturated", False)
    return replace(found, value=GROWS) if waits else found


def line(name: str, figure: Mapping[str, float] | None, words: Words) -> Line:
    """A figure in words; one that is not known says so."""
    if figure is None:
        return Line(name, UNKNOWN)
    value = words(figure["value"])
    interval = range_words(words, *(figure[end] for end in ("value", "low", "high")))
    # The unit stands beside the value.
    return Line(name, value, interval.removesuffix(f" {value.partition(' ')[2]}"))


def figure_at(estimate: Mapping[str, Any], path: str) -> Any:
    """What stands at a place in an estimate, None where a part of the way is missing.

    Where no rent is known, it is what owning costs.
    """
    found: Any = estimate
    for name in path.split("."):
        if found is None:
            return None
        found = known_cost(estimate)[1] or None if name == "rented" else found[name]
    return found
