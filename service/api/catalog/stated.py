"""What entries of every collection of the catalog have, for the OpenAPI document.

Typed dictionaries, because an entry leaves out what nobody states.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from service.estimation.answers import UsedSource


@with_config(extra="ignore")
class Stated(TypedDict):
    """Base of what the catalog's files state."""


class CatalogFigure(Stated):
    """A figure with the source that states it; low and high bound a 90 % interval."""

    value: float
    """The figure, in the unit of its name."""
    low: NotRequired[float]
    high: NotRequired[float]
    year: int
    source: str
    kind: Literal["datasheet", "measured", "derived", "assumed"]
    """How it is known: by a maker's document, a measurement, derivation from others, or
    assumption."""
    note: NotRequired[str]
    date: NotRequired[str]
    """Day, month or year of a price."""
    price_kind: NotRequired[Literal["launch", "list", "street"]]
    """Of a purchase price: the vendor's when sales began, the vendor's since, or that of shops."""


class CatalogEntry(Stated):
    """What entries of every collection have."""

    id: str
    former_ids: NotRequired[dict[str, str]]
    notes: NotRequired[str]
    sources: list[UsedSource]
