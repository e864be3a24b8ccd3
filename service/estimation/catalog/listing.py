"""Use case: what the catalog holds, searched, filtered, sorted and paged."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from service.catalog.entries.entry import Entry
from service.catalog.search import search
from service.catalog.second_opinions import SecondOpinion, agrees, lone_because, second_opinions
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import Price
from service.estimation.answers import entry_provenance, used_sources
from service.estimation.catalog.answers import ModelFacts, RegionFigures
from service.estimation.rejection import FieldError, Rejected
from service.estimation.writing import written


@dataclass(frozen=True, slots=True)
class Listing:
    """What is asked of a collection.

    ``text`` must occur in id, name or an alias, all its words at least; where it does in none, they
    must be similar. ``equal`` fields must match without regard to case;
    ``at_least`` figures must be known and not less. ``sort`` names a field or figure, with a
    leading minus for descending order; entries without it come last.
    """

    text: str | None = None
    equal: Mapping[str, str] | None = None
    at_least: Mapping[str, float] | None = None
    sort: str = "id"
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a collection, and the cursor of those that follow."""

    entries: tuple[Entry[Any], ...]
    next_cursor: str | None


def list_entries(snapshot: CatalogSnapshot, collection: str, listing: Listing) -> Page:
    """One page of a collection.

    Raises
    ------
    Rejected
        If the cursor is not one that this listing gave out, or nothing can be sorted as asked.
    """
    entries = snapshot.collection(collection)
    everything = entries.values()
    if listing.text is not None:
        hits = search(snapshot, listing.text, (collection,), len(entries))
        entries = {hit.entry_id: entries[hit.entry_id] for hit in hits}
    matches = [entry for entry in entries.values() if _matches(entry, listing)]
    descending = listing.sort.startswith("-")
    field = listing.sort.removeprefix("-")

    def rank(entry: Entry[Any]) -> Any:
        return _sort_value(entry, field)

    known = [entry for entry in matches if rank(entry) is not None]
    unknown = [entry for entry in matches if rank(entry) is None]
    # Sorted by id first: the second, stable sort leaves equal entries in that order.
    known.sort(key=lambda entry: entry.id)
    known.sort(key=rank, reverse=descending)
    unknown.sort(key=lambda entry: entry.id)
    if not known and everything and all(rank(entry) is None for entry in everything):
        raise Rejected([FieldError("/sort", _not_sortable(everything))])
    ordered = known + unknown
    start = _start(ordered, snapshot, listing)
    page = tuple(ordered[start : start + listing.limit])
    more = start + listing.limit < len(ordered)
    return Page(page, _cursor(page[-1], snapshot, listing) if page and more else None)


def entry_answer(snapshot: CatalogSnapshot, collection: str, entry: Entry[Any]) -> dict[str, Any]:
    """A catalog entry with the sources of its figures and what is derived from it."""
    answer = dict(entry.document)
    if collection == "sources":
        return answer
    answer["sources"] = entry_provenance(snapshot, collection, entry, frozenset())["sources"]
    if collection == "instances":
        answer["prices"] = list(_on_demand_prices(entry))
    describe = _DERIVED.get(collection)
    if describe is not None:
        answer["derived"] = describe(entry)
    return answer


def whole_entry_answer(
    snapshot: CatalogSnapshot, collection: str, entry: Entry[Any]
) -> dict[str, Any]:
    """A catalog entry as it is answered alone: with what other sources state of it."""
    answer = entry_answer(snapshot, collection, entry)
    told = [
        _opinion_answer(one, stated)
        for one in second_opinions(collection, entry.id)
        if (stated := _stated(entry, one)) is not None and one.source in snapshot.sources
    ]
    if told:
        answer["second_opinions"] = told
        cited = {one["source"] for one in told} - {one["id"] for one in answer["sources"]}
        answer["sources"] = [*answer["sources"], *used_sources(snapshot, cited)]
    else:
        reason = lone_because(collection, entry.id)
        if reason is not None:
            answer["no_second_opinion"] = reason
    return answer


def _opinion_answer(opinion: SecondOpinion, stated: float) -> dict[str, Any]:
    same = agrees(stated, opinion.value)
    answer = {
        "figure": opinion.figure,
        "value": opinion.value,
        "source": opinion.source,
        "agrees": same,
    }
    said = {
        "reason": "" if same else opinion.reason,
        "region": opinion.region,
        "kind": opinion.kind,
        "date": opinion.date,
    }
    return answer | {name: value for name, value in said.items() if value}


def _stated(entry: Entry[Any], opinion: SecondOpinion) -> float | None:
    """What the catalog itself says of the figure that an opinion is about; None if nothing."""
    if opinion.kind:
        price: Price | None = entry.value.prices.get(opinion.kind, {}).get(opinion.region or None)
        return None if price is None else price.usd_per_hour
    return _figure_value(entry, opinion.figure)


def _model_facts(entry: Entry[Any]) -> ModelFacts:
    architecture = entry.value
    return {
        "total_parameters": architecture.total_parameters,
        "active_parameters": architecture.active_parameters,
        "layers": architecture.layer_count,
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "max_position_embeddings": architecture.max_position_embeddings,
    }


def _region_figures(entry: Entry[Any]) -> RegionFigures:
    return written(entry.value, RegionFigures)


def _on_demand_prices(entry: Entry[Any]) -> Iterator[dict[str, Any]]:
    """On-demand prices of an instance by region, in the form of the catalog's figures."""
    stated = {price.get("region"): price for price in entry.document.get("prices", ())}
    priced: Mapping[str | None, Price] = entry.value.prices["on-demand"]
    for region in sorted(priced, key=str):
        if region in stated:
            yield stated[region]
            continue
        price = priced[region]
        where = {} if region is None else {"region": region}
        year = int(price.date[:4])
        value = {"value": price.usd_per_hour, "year": year, "source": price.source}
        yield where | value | {"kind": "datasheet", "date": price.date}


_DERIVED: Mapping[str, Callable[[Entry[Any]], ModelFacts | RegionFigures]] = {
    "models": _model_facts,
    "regions": _region_figures,
}


def _matches(entry: Entry[Any], listing: Listing) -> bool:
    document = entry.document
    for field, value in (listing.equal or {}).items():
        if str(document.get(field, "")).casefold() != value.casefold():
            return False
    for field, least in (listing.at_least or {}).items():
        known = _figure_value(entry, field)
        if known is None or known < least:
            return False
    return True


def _sort_value(entry: Entry[Any], field: str) -> Any:
    if field == "id":
        return entry.id
    value = entry.document.get(field)
    if isinstance(value, str):
        return value.casefold()
    return value if isinstance(value, int | float) else _figure_value(entry, field)


def _not_sortable(entries: Iterable[Entry[Any]]) -> str:
    """Why entries cannot be sorted by what none of them has, with what they can be sorted by."""
    names = {
        name
        for entry in entries
        for name in (*entry.document, *(entry.document.get("figures") or {}))
        if _sort_value(entry, name) is not None
    }
    return f"no entry has this as a text or number (some have: {', '.join(sorted(names))})"


def _figure_value(entry: Entry[Any], field: str) -> float | None:
    stated = (entry.document.get("figures") or {}).get(field, entry.document.get(field))
    newest = stated[-1] if isinstance(stated, list) and stated else stated
    value = newest.get("value") if isinstance(newest, Mapping) else newest
    return float(value) if isinstance(value, int | float) else None


def _cursor(last: Entry[Any], snapshot: CatalogSnapshot, listing: Listing) -> str:
    return (
        urlsafe_b64encode(orjson.dumps([snapshot.revision, listing.sort, last.id]))
        .decode()
        .rstrip("=")
    )


def _start(ordered: list[Entry[Any]], snapshot: CatalogSnapshot, listing: Listing) -> int:
    """Where a page begins: behind the entry that the cursor names."""
    if listing.cursor is None:
        return 0
    text = listing.cursor[:1000]
    try:
        revision, sort, last = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        position = [entry.id for entry in ordered].index(last)
    except (ValueError, TypeError):
        raise Rejected([FieldError("/cursor", "is not a cursor of this list")]) from None
    if sort != listing.sort or revision != snapshot.revision:
        raise Rejected(
            [
                FieldError(
                    "/cursor",
                    "belongs to another sort order or catalog revision; start from the first page",
                )
            ]
        )
    return position + 1
