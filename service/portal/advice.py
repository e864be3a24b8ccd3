"""Better choices than the plan of a page: as its section, as rows, and as a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.against import in_words
from service.estimation.verdict.figures import known_cost
from service.estimation.verdict.names import names_of
from service.estimation.wording import sentence, spoken
from service.portal.figures import figure_at
from service.reports.decision import Terms, best_for, scope
from service.reports.document import UNKNOWN, Document
from service.reports.first_pages import NOTHING

#: Differences smaller than this are none.
_ALIKE_RATIO = 0.02


class Asked(Protocol):
    """What a page is asked that can recommend."""

    def recommendation(self, snapshot: CatalogSnapshot) -> Any:
        """The search for better choices."""

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a choice: its head, where estimates state it, its words, and its kind."""

    head: str
    path: str
    words: Callable[[float], str]
    metric: Literal["cost", "latency", "carbon"]


@dataclass(frozen=True, slots=True)
class Recommender:
    """What differs between pages in what they recommend.

    ``answer`` is the use case and ``document`` its report; ``terms`` tell limits and near
    misses, ``settings`` how a candidate runs.
    ``columns`` are the figures of a choice that the page shows; ``fields`` are the fields of the
    page's form that ask about a candidate.
    """

    answer: Callable[[Any, CatalogSnapshot], dict[str, Any]]
    document: Callable[[Any, Mapping[str, Any], CatalogSnapshot], Document]
    terms: Terms
    settings: Callable[[Mapping[str, Any]], str]
    columns: tuple[Column, ...]
    fields: Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a choice in words, how it stands to the plan, and whether that is better."""

    head: str
    text: str
    against: str = ""
    mark: Literal["", "better", "worse"] = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is best for some priorities, with the link to its own page; or the plan itself."""

    title: str
    hardware: str
    place: str
    settings: str
    quality: str
    link: str
    cells: tuple[Cell, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Better choices, or why there are none; every text is for readers."""

    finding: str
    limits: tuple[tuple[str, str], ...]
    heads: tuple[str, ...]
    plan: Choice
    choices: tuple[Choice, ...]
    because: str
    excluded: tuple[tuple[str, str], ...]
    nearest: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def advice(
    request: Asked, answer: Mapping[str, Any], snapshot: CatalogSnapshot, by: Recommender
) -> Advice:
    """Better choices for what a page is asked about, each against the plan.

    Parameters
    ----------
    request
        What the page is asked.
    answer
        The recommendation, with the plan as its ``baseline``.
    snapshot
        Holds the names.
    by
        What the page recommends.
    """
    terms = by.terms
    plan = answer["baseline"]["estimate"]
    choices = tuple(_choice(choice, plan, request, snapshot, by) for choice in answer["choices"])
    return Advice(
        finding=scope(answer) if choices else f"{NOTHING} {scope(answer)}",
        limits=terms.hard_limits(answer),
        heads=tuple(column.head for column in by.columns),
        plan=_plan(plan, request, snapshot, by),
        choices=choices,
        because=answer["choices"][0]["agreement"]["because"] if choices else "",
        excluded=tuple((name, text) for name, _, text in terms.exclusions(answer)),
        nearest=tuple(
            (spoken(terms.miss(one), snapshot), terms.changes(one))
            for one in answer["least_violating"]
        ),
        remarks=tuple(sentence(one["message"], snapshot) for one in answer["warnings"]),
    )


def choices_table(
    request: Asked, snapshot: CatalogSnapshot, by: Recommender
) -> list[dict[str, Any]]:
    """The choices of a recommendation, as rows."""
    answer = by.answer(request.recommendation(snapshot), snapshot)
    return [
        {
            "priorities": " ".join(choice["priorities"]),
            **dict(_cells("", choice["candidate"])),
        }
        for choice in answer["choices"]
    ]


def report(request: Asked, snapshot: CatalogSnapshot, by: Recommender) -> Document:
    """The recommendation as a document to take to a meeting."""
    wanted = request.recommendation(snapshot)
    return by.document(wanted, by.answer(wanted, snapshot), snapshot)


def _plan(
    estimate: Mapping[str, Any], request: Asked, snapshot: CatalogSnapshot, by: Recommender
) -> Choice:
    names = names_of(estimate["deployment"], snapshot)
    return Choice(
        title="Your plan",
        hardware=names.hardware,
        place=names.place,
        settings=names.weights,
        quality="",
        link=request.link(),
        cells=tuple(_cell(column, estimate, None) for column in by.columns),
        command="",
    )


def _choice(
    choice: Mapping[str, Any],
    plan: Mapping[str, Any],
    request: Asked,
    snapshot: CatalogSnapshot,
    by: Recommender,
) -> Choice:
    candidate = choice["candidate"]
    names = names_of(candidate, snapshot)
    title = ", ".join(best_for(choice))
    return Choice(
        title=f"{title[0].upper()}{title[1:]}",
        hardware=names.hardware,
        place=names.place,
        settings=by.settings(candidate),
        quality=_quality(candidate),
        link=request.link(**by.fields(candidate)),
        cells=tuple(_cell(column, choice["estimate"], plan) for column in by.columns),
        command=(choice.get("start") or {}).get("command", ""),
    )


def _cell(column: Column, estimate: Mapping[str, Any], plan: Mapping[str, Any] | None) -> Cell:
    figure = figure_at(estimate, column.path)
    if figure is None:
        return Cell(column.head, UNKNOWN)
    text = column.words(figure["value"])
    if column.metric == "cost" and plan is not None:
        bases = known_cost(estimate)[0], known_cost(plan)[0]
        if bases[0] != bases[1] and "unknown" not in bases:
            return Cell(column.head, text, f"{bases[0]}; yours is {bases[1]}")
    other = None if plan is None else figure_at(plan, column.path)
    if other is None or not other["value"]:
        return Cell(column.head, text)
    ratio = figure["value"] / other["value"]
    if abs(ratio - 1.0) < _ALIKE_RATIO:
        return Cell(column.head, text, "the same")
    told = in_words({column.metric: ratio}).removesuffix(" carbon")
    return Cell(column.head, text, told, "better" if ratio < 1.0 else "worse")


def _quality(candidate: Mapping[str, Any]) -> str:
    """Whose weights they are, and what their format does to the model's answers."""
    origin = candidate.get("weights_from")
    if origin is None or origin["kind"] == "checkpoint":
        return ""
    if origin["kind"] != "release":
        made = "made by the engine" if origin["kind"] == "engine" else "to be converted by you"
        return f"weights {made}; effect on quality not published"
    owner = origin["release"].partition("/")[0]
    effects = origin["quality_effects"]
    if not effects:
        return f"weights published by {owner}; effect on quality not published"
    first = effects[0]
    return (
        f"weights published by {owner}: {first['value']:g} instead of {first['base']:g} "
        f"on {first['benchmark']}"
    )


def _cells(prefix: str, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every member of a candidate by the names on the way to it; the empty ones empty."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _cells(f"{prefix}{name}_", value)
        else:
            yield f"{prefix}{name}", "" if value is None else value
