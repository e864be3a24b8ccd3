"""What a snapshot holds for each catalog entry, and what stands in for figures nobody published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from service.catalog.entries.documents import Document, DocumentInvalid
from service.catalog.entries.figures import Figure, read_figure
from service.catalog.entries.specs import Bounds

Value = TypeVar("Value")

_ANY_FINITE = Bounds(-1e30, 1e30)


@dataclass(frozen=True, slots=True)
class FigureOrigin:
    """Where a figure came from: the entry that holds it, its source, and its year.

    For a request's own figures ``source`` is None and ``kind`` is "given".
    """

    collection: str
    entry_id: str
    source: str | None
    year: int | None
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Generic[Value]):
    """A catalog entry, or an object given in its place in a request; compared by identity.

    ``document`` is the JSON to serve and is not to be changed; ``value`` is what the computation
    takes; ``origins`` names the origin of each figure that ``value`` was made from, and ``stale``
    those of them that are past their shelf life.
    """

    id: str
    document: Document
    value: Value
    origins: Mapping[str, FigureOrigin]
    stale: tuple[str, ...] = ()

    @property
    def stood_in(self) -> tuple[str, ...]:
        """Names of the figures that nobody states for this entry and a documented default gives."""
        return tuple(
            name
            for name, origin in self.origins.items()
            if origin.collection == "calibrations" and origin.entry_id != self.id
        )


def origin(collection: str, entry_id: str, figure: Figure) -> FigureOrigin:
    """The origin of a figure that stands in a given entry."""
    return FigureOrigin(collection, entry_id, figure.source, figure.year, figure.kind)


@dataclass(frozen=True, slots=True)
class StandIn:
    """A figure to use where an entry has none, with the calibration entry that says so."""

    entry_id: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class CatalogDefaults:
    """Documented assumptions: stand-ins for missing figures, and spreads for bare ones.

    ``spreads`` holds, by figure name, s such that ``value/(1+s)…value·(1+s)`` is taken as the
    90 % interval of a figure published without one. ``year`` is the one in which the catalog was
    last looked after, to which the ages of figures are counted.
    """

    stand_ins: Mapping[str, StandIn] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    year: int = 0

    def spread(self, figure_name: str) -> float:
        """Spread to assume for a figure without an interval [-]; 0 where none is documented."""
        return self.spreads.get(figure_name, 0.0)


def read_defaults(calibrations: Iterable[Document]) -> CatalogDefaults:
    """The defaults among the calibration documents: those that apply to the catalog itself."""
    stand_ins: dict[str, StandIn] = {}
    spreads: dict[str, float] = {}
    for document in calibrations:
        applies_to = document.get("applies_to")
        if not isinstance(applies_to, Mapping) or "catalog" not in applies_to:
            continue
        figures, role = read_calibration(document), applies_to["catalog"]
        if role == "stand-in":
            stand_ins |= {name: StandIn(document["id"], held) for name, held in figures.items()}
        elif role == "spread":
            spreads |= {name: held.value for name, held in figures.items()}
    return CatalogDefaults(stand_ins, spreads)


def read_calibration(document: Document) -> dict[str, Figure]:
    """The figures of a calibration document, of any name and sign; true and false are 1 and 0."""
    figures = document.get("figures")
    if not isinstance(figures, Mapping):
        raise DocumentInvalid("/figures", "must be an object of figures")
    return {
        name: read_figure(_plain(raw), f"/figures/{name}", _ANY_FINITE)
        for name, raw in figures.items()
    }


def _plain(raw: Any) -> Any:
    if isinstance(raw, Mapping) and isinstance(raw.get("value"), bool):
        return {**raw, "value": int(raw["value"])}
    return raw
