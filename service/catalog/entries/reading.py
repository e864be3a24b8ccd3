"""Reading catalog documents, or like objects in a request: fields, and figures with origins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any, TypeVar

from service.catalog.entries.documents import Document, DocumentInvalid, canonical
from service.catalog.entries.entry import CatalogDefaults, FigureOrigin, origin
from service.catalog.entries.figures import Figure
from service.catalog.entries.references import FORMER_IDS
from service.catalog.entries.specs import FIGURES
from service.core.interval import Interval

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Held = TypeVar("Held", bound="DataclassInstance")


class Chosen:
    """The figures of one entry, noting the origin of each one that is used."""

    def __init__(
        self,
        collection: str,
        entry_id: str,
        figures: Mapping[str, Figure],
        defaults: CatalogDefaults,
    ) -> None:
        self._collection = collection
        self._defaults = defaults
        self._figures: dict[str, tuple[str, Figure]] = {}
        self.origins: dict[str, FigureOrigin] = {}
        self.add_missing(entry_id, figures)

    def add_missing(self, entry_id: str, figures: Mapping[str, Figure]) -> None:
        """Take over the figures that are not there yet."""
        for name, figure in figures.items():
            self._figures.setdefault(name, (entry_id, figure))

    def value(self, core: type[Held], /, **given: Any) -> Held:
        """A value of the core from what is given and the figures that its fields are named after.

        A field that may be None is None where nobody states its figure; any other figure is
        required, or has a documented stand-in.
        """
        specs = FIGURES[self._collection]
        for field in dataclass_fields(core):
            if field.name in given or field.name not in specs:
                continue
            declared = str(field.type)
            figure = (
                self.known_interval(field.name)
                if declared.endswith("| None")
                else self.interval(field.name)
            )
            plain = figure is not None and not declared.startswith("Interval")
            given[field.name] = figure.value if figure is not None and plain else figure
        return core(**given)

    def known_interval(self, name: str) -> Interval | None:
        """The figure with its interval, None where nobody states it."""
        held = self._figures.get(name)
        if held is None:
            return None
        entry_id, figure = held
        self.origins[name] = origin(self._collection, entry_id, figure)
        return figure.interval(self._defaults.spread(name))

    def typical(self, name: str, built: str | None) -> Interval | None:
        """The figure, or the documented stand-in for things built like this, if there is one."""
        known = self.known_interval(name)
        stand_in = self._defaults.stand_ins.get(f"{built}_{name}")
        if known is not None or stand_in is None:
            return known
        self.origins[name] = origin("calibrations", stand_in.entry_id, stand_in.figure)
        return stand_in.figure.interval()

    def filled(self, name: str) -> Interval | None:
        """The figure with its interval, or its documented stand-in, if there is one."""
        known = self.known_interval(name)
        stand_in = self._defaults.stand_ins.get(name)
        if known is not None or stand_in is None:
            return known
        self.origins[name] = origin("calibrations", stand_in.entry_id, stand_in.figure)
        return stand_in.figure.interval()

    def interval(self, name: str) -> Interval:
        """The figure with its interval, or its documented stand-in."""
        found = self.filled(name)
        if found is None:
            raise DocumentInvalid(f"/figures/{name}", "is required")
        return found

    def number(self, name: str) -> float:
        """The figure without its interval, or its documented stand-in."""
        return float(self.interval(name).value)


def fields_of(document: Any, known: frozenset[str]) -> dict[str, Any]:
    """Fields of a document, in canonical form and all known."""
    if not isinstance(document, Mapping):
        raise DocumentInvalid("", "must be an object")
    for key in document:
        if key not in known and key != FORMER_IDS:
            raise DocumentInvalid("", f"unknown field {key!r:.80}")
    fields: dict[str, Any] = canonical(document)
    return fields


def text(fields: Document, key: str, default: str) -> str:
    """A text of a document, with a default."""
    value = fields.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise DocumentInvalid(f"/{key}", "must be text of 1 to 200 characters")
    return value


def flag(fields: Document, key: str) -> bool:
    """Something of a document that is true or, where it is not stated, false."""
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise DocumentInvalid(f"/{key}", "must be true or false")
    return value


def whole_number(fields: Document, key: str, default: int) -> int:
    """A count of a document, with a default."""
    count = fields.get(key)
    if count is None:
        return default
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 100_000:
        raise DocumentInvalid(f"/{key}", "must be a whole number from 1 to 100000")
    return count
