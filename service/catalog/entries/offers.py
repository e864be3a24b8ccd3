"""Offers of a provider: which instance in which region at which price, as compact rows.

A provider has hundreds of them, so that they share one document: a list of columns, and a row an
offer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from service.catalog.entries.documents import Document, DocumentInvalid
from service.catalog.entries.entry import Entry, FigureOrigin
from service.catalog.entries.specs import Bounds
from service.core.costs import PriceKind

#: Columns of a row, in this order.
COLUMNS = ("instance", "region", "kind", "usd_per_hour", "date", "source")
#: The instance is rented out there; nobody says at which price.
LISTED = "listed"
KINDS = (*get_args(PriceKind), LISTED)
PRICE = Bounds(1e-6, 1e9)

_KEYS = frozenset({"id", "columns", "rows"})
_MOST_ROWS = 100_000


class Offer(NamedTuple):
    """One row: an instance in a region, "" where the provider names none.

    ``usd_per_hour`` is None, and ``kind`` "listed", where no price is known.
    """

    instance: str
    region: str
    kind: str
    usd_per_hour: float | None
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class OfferTable:
    """What a provider rents out, by instance: ids of both without the provider."""

    provider: str
    by_instance: Mapping[str, tuple[Offer, ...]]

    def region_id(self, offer: Offer) -> str | None:
        """The id of an offer's region in the catalog, None for everywhere."""
        return f"{self.provider}/{offer.region}" if offer.region else None


def offers_from_document(document: Document) -> Entry[OfferTable]:
    """The offers of a provider from a catalog document.

    Raises
    ------
    DocumentInvalid
        Naming the first row that is not one, has no sound price, or says the same as another.
    """
    for key in document:
        if key not in _KEYS:
            raise DocumentInvalid("", f"unknown field {key!r:.80}")
    if document.get("columns") != list(COLUMNS):
        raise DocumentInvalid("/columns", f"must be {', '.join(COLUMNS)}")
    rows = document.get("rows")
    if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
        raise DocumentInvalid("/rows", f"must be a list of at most {_MOST_ROWS} rows")
    found: defaultdict[str, list[Offer]] = defaultdict(list)
    seen = set()
    for position, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(COLUMNS):
            raise DocumentInvalid(f"/rows/{position}", f"must have {len(COLUMNS)} values")
        offer = Offer._make(row)
        fault = _fault(offer)
        if fault is not None:
            raise DocumentInvalid(f"/rows/{position}", fault)
        if offer[:3] in seen:
            raise DocumentInvalid(f"/rows/{position}", "this offer stands in a row before")
        seen.add(offer[:3])
        found[offer.instance].append(offer)
    table = OfferTable(document["id"], {name: tuple(each) for name, each in found.items()})
    return Entry(document["id"], document, table, {})


def offer_origin(table_id: str, offer: Offer) -> FigureOrigin:
    """Where the price of an offer was read."""
    return FigureOrigin("offers", table_id, offer.source, int(offer.date[:4]), "datasheet")


def _fault(offer: Offer) -> str | None:
    """What is wrong with a row, None if nothing is."""
    instance, region, kind, usd, date, source = offer
    texts: tuple[Any, ...] = (instance, region, kind, date, source)
    if not all(isinstance(text, str) and len(text) <= 200 for text in texts):
        return "all but usd_per_hour must be texts"
    if not instance or not source:
        return "needs an instance and a source"
    if kind not in KINDS:
        return f"the kind must be one of {', '.join(KINDS)}"
    if not date[:4].isdecimal() or len(date) not in (4, 7, 10):
        return "the date must be a year, a month or a day"
    if kind == LISTED:
        return None if usd is None else "what is only listed has no price"
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        return "needs a price"
    if not PRICE.least <= usd <= PRICE.most:
        return f"the price must be between {PRICE.least:g} and {PRICE.most:g}"
    return None
