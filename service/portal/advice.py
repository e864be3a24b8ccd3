"""Better choices than what a page was asked about: as its section, as rows, and as a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import number
from service.reports.decision import NOTHING, Terms, best_for, hardware, scope
from service.reports.document import UNKNOWN, Document


class Asked(Protocol):
    """What a page is asked that can recommend."""

    @property
    def recommendation(self) -> Any:
        """The search for better choices."""

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""


@dataclass(frozen=True, slots=True)
class Recommender:
    """What differs between pages in what they recommend.

    ``answer`` is the use case and ``document`` its report; ``terms`` tell candidates and limits.
    ``columns`` are the figures of a candidate that the page shows, by their heads; ``fields`` are
    the fields of the page's form that ask about a candidate.
    """

    answer: Callable[[Any, CatalogSnapshot], dict[str, Any]]
    document: Callable[[Any, Mapping[str, Any]], Document]
    terms: Terms
    columns: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...]
    fields: Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Choice:
    """What is best for some priorities, with the link to its own page."""

    priorities: tuple[str, ...]
    hardware: str
    region: str
    settings: str
    link: str
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """Better choices, or why there are none; every text is for readers."""

    finding: str
    limits: tuple[tuple[str, str], ...]
    heads: tuple[str, ...]
    choices: tuple[Choice, ...]
    because: str
    excluded: tuple[tuple[str, str], ...]
    nearest: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def advice(request: Asked, snapshot: CatalogSnapshot, by: Recommender) -> Advice:
    """Better choices for what a page is asked about."""
    answer, terms = by.answer(request.recommendation, snapshot), by.terms
    found = tuple(
        Choice(
            priorities=best_for(choice),
            hardware=hardware(choice["candidate"]),
            region=choice["candidate"]["region"],
            settings=terms.settings(choice["candidate"]),
            link=request.link(**by.fields(choice["candidate"])),
            figures=tuple(words(choice["candidate"]) for _, words in by.columns),
        )
        for choice in answer["choices"]
    )
    return Advice(
        finding=scope(answer) if found else f"{NOTHING} {scope(answer)}",
        limits=terms.hard_limits(answer),
        heads=tuple(head for head, _ in by.columns),
        choices=found,
        because=answer["choices"][0]["agreement"]["because"] if found else "",
        excluded=tuple((name, text) for name, _, text in terms.exclusions(answer)),
        nearest=tuple((terms.miss(one), terms.changes(one)) for one in answer["least_violating"]),
        remarks=tuple(one["message"] for one in answer["warnings"]),
    )


def choices_table(
    request: Asked, snapshot: CatalogSnapshot, by: Recommender
) -> list[dict[str, Any]]:
    """The choices of a recommendation, as rows."""
    answer = by.answer(request.recommendation, snapshot)
    return [
        {
            "priorities": " ".join(choice["priorities"]),
            **dict(_cells("", choice["candidate"])),
        }
        for choice in answer["choices"]
    ]


def report(request: Asked, snapshot: CatalogSnapshot, by: Recommender) -> Document:
    """The recommendation as a document to take to a meeting."""
    wanted = request.recommendation
    return by.document(wanted, by.answer(wanted, snapshot))


def metric(name: str, factor: float = 1.0) -> Callable[[Mapping[str, Any]], str]:
    """Words for a metric of a candidate; one that is not known says so."""

    def words(candidate: Mapping[str, Any]) -> str:
        value = candidate["metrics"][name]
        return UNKNOWN if value is None else number(value * factor)

    return words


def _cells(prefix: str, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every member of a candidate by the names on the way to it; the empty ones empty."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _cells(f"{prefix}{name}_", value)
        else:
            yield f"{prefix}{name}", "" if value is None else value
