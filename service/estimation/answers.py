"""Answers: the shapes that they share, and how figures, explanations and provenance are written.

Answers are typed dictionaries: what a use case returns is what goes over the wire, and the OpenAPI
document is made from the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypeVar

from pydantic import Field, GetJsonSchemaHandler, with_config
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import TypeAliasType, TypedDict

from service import ENGINE_VERSION
from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core import interval as core
from service.core.elementwise import finite, plain
from service.core.explanation import EstimateWarning, Step
from service.estimation.detail import WHOLE, Detail, part_of


@with_config(extra="forbid")
class Answer(TypedDict):
    """Base of everything the service answers."""


class _LeftOut:
    """Says of a field of an answer that it is left out where it would be null."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        options = [part for part in handler(schema)["anyOf"] if part != {"type": "null"}]
        return options[0] if len(options) == 1 else {"anyOf": options}


LEFT_OUT = _LeftOut()
_Part = TypeVar("_Part")
#: A field, declared as not required, that is left out where it does not apply or was not asked for.
IfAny: TypeAlias = Annotated[_Part | None, LEFT_OUT]

#: What was asked, as it was sent.
AskedAs = TypeAliasType(
    "AskedAs", Annotated[dict[str, Any], Field(description="The request as it was sent.")]
)


class Interval(Answer):
    """An estimated figure with its central 90 % interval, all in the unit of the field's name."""

    value: float
    low: float
    high: float


class Parallelism(Answer):
    """Degrees of parallelism."""

    tensor: int
    pipeline: int
    expert: int
    data: int
    context: int


class Remark(Answer):
    """An assumption or a limit to be aware of."""

    code: str
    """Stable code, such as does_not_fit; new ones may be added."""
    pointer: str
    """JSON pointer to the figure concerned, within the object that holds the warnings; if there is
    none, to a field of the request."""
    message: str
    """The warning as a sentence."""


class ExplanationStep(Answer):
    """One formula with the figures that went in and came out."""

    name: str
    """What is computed, in words."""
    formula: str
    """The formula, with the names of its inputs."""
    inputs: dict[str, float | str | None]
    """What went in, by name, in the units of the names."""
    value: float | None
    """What came out; null if it is not known."""
    unit: str
    source: str
    """Where the formula or the figure is from, in words."""


class UsedFigure(Answer):
    """A catalog figure that was used, and its origin."""

    name: str
    """Name of the figure, with its unit."""
    entry: str
    """Catalog entry that states it; another entry if the figure is inherited."""
    year: int | None
    kind: str
    """datasheet, measured, derived, assumed, or given."""
    source: str | None
    """Id in /v1/sources; null where the request gave it."""


class UsedSource(Answer):
    """A document that figures were taken from."""

    id: str
    title: str
    publisher: str
    year: int
    url: str


class UsedEntry(Answer):
    """A catalog entry that was used, with its figures and their sources."""

    collection: str
    id: str
    figures: list[UsedFigure]
    sources: list[UsedSource]


class FitCertainty(Answer):
    """How certain the verdict is."""

    fits_certainty: Literal["yes", "likely", "unlikely", "no"]
    """yes or no if the whole interval fits or does not fit, otherwise likely or unlikely."""


class Constraint(Answer):
    """A hard limit, and whether the deployment meets it."""

    name: str
    """Name of the limit."""
    verdict: Literal["pass", "fail"]
    value: float
    """The figure that is limited."""
    limit: float | None
    """Highest allowed value, or lowest if more is better; null if not known."""
    margin: float | None
    """Distance to the limit; negative if it is exceeded."""
    unit: str


class LimitRow(Answer):
    """A requested limit, and whether a deployment meets it."""

    name: str
    """Name of the field in limits."""
    verdict: Literal["pass", "fail", "unknown"]
    value: float | None
    """The figure that is limited; null if not known."""
    limit: float
    """What it may be."""
    margin: float | None
    """Distance to the limit; negative if it is exceeded."""
    unit: str


class Traced(Answer):
    """What makes an answer repeatable."""

    catalog_revision: int
    """Send it as catalog_revision to use the same catalog again."""
    engine_version: str
    """Release that computed the answer."""


class ReportUsed(Answer):
    """How a report counted."""

    report: int
    """Its number."""
    likeness_ratio: float
    """Share of the variance of errors that the report's deployment and this one have in common,
    from 0 to 1."""
    weight_ratio: float
    """Weight of the report relative to the others; 1 for full weight."""


class ChannelCorrection(Answer):
    """How own measurements corrected one part of the calibration."""

    correction_ratio: float
    """Factor on the published time, memory or power."""
    published_log_sigma: float
    """Standard deviation of the logarithm by published measurements alone."""
    own_log_sigma: float
    """The same with own measurements."""
    published_width_ratio: float
    """Upper over lower end of its 90 % interval by published measurements alone."""
    own_width_ratio: float
    """The same with own measurements."""
    reports: list[ReportUsed]


class CalibrationUsed(Answer):
    """Which measurements an estimate was calibrated by."""

    mode: Literal["own", "published"]
    """Whether your own reports were used."""
    revision: NotRequired[int]
    """Revision of your reports; send it as calibration_revision to use the same again."""
    reports: NotRequired[list[int]]
    """Numbers of the reports that say something of this."""
    corrections: NotRequired[dict[str, ChannelCorrection]]
    """What they corrected, by part: decode, prefill, step, memory, power."""
    summary: NotRequired[str]
    """The same in a sentence."""


@part_of("provenance")
class UsedEntries(Answer, total=False):
    """Every figure that was used."""

    entries: list[UsedEntry]
    """Catalog entries that were used, with figures and sources."""


class Provenance(UsedEntries):
    """Where figures come from."""

    sources: list[str]
    """Ids of the documents that figures were taken from; GET /v1/sources/{id} tells the rest."""
    assumed: list[str]
    """Catalog entries with those of their figures that nobody has published and the catalog
    assumes."""


class Warned(Answer):
    """What says what to know about it."""

    warnings: list[Remark]
    """Assumptions and limits to be aware of."""


class Grounds(Warned):
    """What an answer rests on, and what to know about it."""

    provenance: Provenance
    calibration: NotRequired[CalibrationUsed]
    """What own measurements did; present if you have reported any, or if the request sets
    calibration."""
    explanation: NotRequired[list[ExplanationStep]]
    """Present if include has explanation, or the request sets explain."""


class Repeatable(Traced, Grounds):
    """What makes an answer repeatable, with its warnings and sources."""


class FieldProblem(Answer):
    """One error of a request."""

    pointer: str
    """JSON pointer into the body, or / and the name of a query parameter."""
    detail: str
    """What is wrong, and what is accepted."""
    line: NotRequired[int]
    """Line in an uploaded file, from 1; absent for other bodies."""
    column: NotRequired[int]
    """Column in that line, from 1; in a table the number of the cell."""
    suggestions: NotRequired[list[str]]
    """Values that would be accepted there, the most likely first."""


def figure(known: core.Interval) -> Interval:
    """An interval as it goes over the wire."""
    return {"value": plain(known.value), "low": plain(known.low), "high": plain(known.high)}


def known_figure(interval: core.Interval | None) -> Interval | None:
    """An interval, or null where it is unknown or without bound."""
    return scaled_figure(interval, 1.0)


def scaled_figure(interval: core.Interval | None, factor: float) -> Interval | None:
    """An interval times a count or unit, or null where it is unknown or without bound."""
    if interval is None or not finite(interval.high):
        return None
    return {
        "value": plain(interval.value) * factor,
        "low": plain(interval.low) * factor,
        "high": plain(interval.high) * factor,
    }


def explanation(steps: Iterable[Step]) -> list[ExplanationStep]:
    """Explanation steps as they go over the wire."""
    return [
        {
            "name": step.formula.name,
            "formula": step.formula.expression,
            "inputs": {name: _finite(given) for name, given in step.inputs.items()},
            "value": _finite(step.value),
            "unit": step.formula.unit,
            "source": step.formula.source,
        }
        for step in steps
    ]


def warning_entries(warnings: Iterable[EstimateWarning]) -> list[Remark]:
    """Warnings for `service.estimation.remarks`, each once: pointers are names of figures yet."""
    return [
        {"code": one.code, "pointer": one.about, "message": one.message}
        for one in dict.fromkeys(warnings)
    ]


def frame(catalog_revision: int) -> Traced:
    """What every answer starts with: the two things that make it repeatable."""
    return {"catalog_revision": catalog_revision, "engine_version": ENGINE_VERSION}


def _finite(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return number if finite(number := plain(value)) else None


def grounds(
    snapshot: CatalogSnapshot,
    warnings: Iterable[EstimateWarning],
    entries: Iterable[tuple[str, Entry[Any]]],
    steps: Callable[[], Iterable[Step]] | None,
    calibration: CalibrationUsed | None = None,
    detail: Detail = WHOLE,
    untold: frozenset[str] = frozenset(),
) -> Grounds:
    """What an answer rests on.

    Parameters
    ----------
    snapshot
        Holds the sources.
    warnings
        What a careful colleague would mention.
    entries
        Collection and entry, in the order they are to be listed.
    steps
        Tells how the figures came about; None unless that is asked for.
    calibration
        What own measurements did, None where nothing was said of them.
    detail
        How much is told.
    untold
        Names of figures that nothing in the answer follows from.
    """
    rests_on: Grounds = {
        "warnings": warning_entries(warnings),
        "provenance": provenance(snapshot, entries, detail, untold),
    }
    if calibration is not None:
        rests_on["calibration"] = calibration
    if steps is not None:
        rests_on["explanation"] = explanation(steps())
    return rests_on


def provenance(
    snapshot: CatalogSnapshot,
    entries: Iterable[tuple[str, Entry[Any]]],
    detail: Detail = WHOLE,
    untold: frozenset[str] = frozenset(),
) -> Provenance:
    """Which documents an answer rests on, and which figures are assumed; see :func:`grounds`."""
    used = tuple(entries)
    sources, assumed = _origins_of(tuple(entry for _, entry in used), untold)
    told: Provenance = {"sources": list(sources), "assumed": list(assumed)}
    if detail.has("provenance"):
        told["entries"] = [
            entry_provenance(snapshot, collection, entry, untold) for collection, entry in used
        ]
    return told


def together(found: Iterable[Provenance]) -> Provenance:
    """What several answers rest on, each part once."""
    parts = tuple(found)
    told: Provenance = {
        "sources": sorted({source for part in parts for source in part["sources"]}),
        "assumed": list(dict.fromkeys(one for part in parts for one in part["assumed"])),
    }
    entries: list[UsedEntry] = []
    for part in parts:
        entries += [entry for entry in part.get("entries", ()) if entry not in entries]
    return {**told, "entries": entries} if entries else told


@lru_cache(maxsize=1024)
def _origins_of(
    entries: tuple[Entry[Any], ...], untold: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources of the figures of entries, and their assumed figures, each once."""
    origins = [_origins(entry, untold) for entry in entries]
    sources, assumed = (chain(*found) for found in zip(*origins, ((), ()), strict=True))
    return tuple(sorted(set(sources))), tuple(dict.fromkeys(assumed))


@lru_cache(maxsize=1024)
def _origins(entry: Entry[Any], untold: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources of an entry's figures by id, and its assumed figures by who states them."""
    told = {name: origin for name, origin in entry.origins.items() if name not in untold}
    sources = {origin.source for origin in told.values() if origin.source}
    sources |= {one["id"] for one in (entry.document.get("fetched_from"),) if one is not None}
    assumed: dict[str, list[str]] = {}
    for name, origin in sorted(told.items()):
        if origin.kind == "assumed":
            assumed.setdefault(f"{origin.collection}/{origin.entry_id}", []).append(name)
    return tuple(sources), tuple(f"{at}: {', '.join(names)}" for at, names in assumed.items())


@derived(most=1024)
def entry_provenance(
    snapshot: CatalogSnapshot, collection: str, entry: Entry[Any], untold: frozenset[str]
) -> UsedEntry:
    """Provenance of one entry but for figures left untold; see :func:`provenance`."""
    told = {name: origin for name, origin in sorted(entry.origins.items()) if name not in untold}
    figures: list[UsedFigure] = [
        {
            "name": name,
            "entry": f"{origin.collection}/{origin.entry_id}",
            "year": origin.year,
            "kind": origin.kind,
            "source": origin.source,
        }
        for name, origin in told.items()
    ]
    named = {origin.source for origin in told.values() if origin.source}
    sources = used_sources(snapshot, named, entry.document.get("fetched_from"))
    return {"collection": collection, "id": entry.id, "figures": figures, "sources": sources}


def used_sources(
    snapshot: CatalogSnapshot, ids: Iterable[str], *others: Mapping[str, Any] | None
) -> list[UsedSource]:
    """The sources of these ids that the catalog has, by their ids, and others behind them."""
    known = [snapshot.sources[id_].document for id_ in sorted(ids) if id_ in snapshot.sources]
    return [
        {
            "id": source["id"],
            "title": source["title"],
            "publisher": source["publisher"],
            "year": source["year"],
            "url": source["url"],
        }
        for source in (*known, *filter(None, others))
    ]
