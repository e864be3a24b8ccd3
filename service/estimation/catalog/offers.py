"""Use case: what can be rented, where and at which price, filtered, sorted and paged."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

import orjson

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import Answer
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems


class OfferItem(Answer):
    """An instance that a provider rents out in a region."""

    instance: str
    """Id in /v1/instances."""
    provider: str
    """Cloud that rents it out."""
    region: str | None
    """Null where the provider names no region."""
    accelerator: str
    accelerators: int
    """Accelerators of one instance."""
    kind: str
    """on-demand, spot, reserved-1y or reserved-3y; listed where no price is known."""
    usd_per_hour: float | None
    """Price of one instance without taxes."""
    usd_per_accelerator_hour: float | None
    """Price of one accelerator of it, without taxes; null where no price is known."""
    date: str
    """Day, month or year of the price."""
    source: str
    """Id of the source; GET /v1/sources/{id}."""


class OfferPage(Answer):
    """Offers, in the order asked for."""

    items: list[OfferItem]
    next_cursor: str | None
    """Null on the last page."""
    catalog_revision: int


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """What is asked of the offers; None admits everything.

    ``region``, ``instance`` and ``accelerator`` may be names as well as ids. ``sort`` is
    "usd_per_accelerator_hour" or "instance", with a leading minus for descending order.
    """

    provider: str | None = None
    region: str | None = None
    instance: str | None = None
    accelerator: str | None = None
    kind: str | None = None
    most_usd: float | None = None
    sort: str = "instance"
    limit: int = 50
    cursor: str | None = None


SORTS = ("instance", "usd_per_accelerator_hour")


def list_offers(snapshot: CatalogSnapshot, query: OfferQuery) -> OfferPage:
    """One page of offers. An instance without a region is offered in any region of its provider.

    Raises
    ------
    Rejected
        If something that the query names is unknown, or its cursor is of another list.
    """
    wanted = _conditions(snapshot, query)
    found = [offer for offer in _every(snapshot) if all(holds(offer) for holds in wanted)]
    if query.sort.removeprefix("-") == "usd_per_accelerator_hour":
        found.sort(
            key=lambda one: (
                inf
                if one["usd_per_accelerator_hour"] is None
                else one["usd_per_accelerator_hour"] * (-1.0 if query.sort[0] == "-" else 1.0)
            )
        )
    elif query.sort[0] == "-":
        found.reverse()
    start = _start(snapshot, query)
    end = start + query.limit
    more = end < len(found)
    return {
        "items": found[start:end],
        "next_cursor": _cursor(snapshot, query, end) if more else None,
        "catalog_revision": snapshot.revision,
    }


def _conditions(
    snapshot: CatalogSnapshot, query: OfferQuery
) -> tuple[Callable[[OfferItem], bool], ...]:
    problems = Problems()
    conditions: list[Callable[[OfferItem], bool]] = []
    if query.provider is not None:
        provider = query.provider.casefold()
        if provider not in snapshot.offers:
            known = ", ".join(snapshot.offers)
            problems.add("/provider", f"no offers of {query.provider!r:.80}; there are {known}")
        conditions.append(lambda one: one["provider"] == provider)
    if query.region is not None:
        name = query.region
        region = problems.attempt("/region", lambda: snapshot.find("regions", name))
        if region is not None:
            place, cloud = region.id, region.id.partition("/")[0]
            conditions.append(
                lambda one: (
                    one["region"] == place or (one["region"] is None and one["provider"] == cloud)
                )
            )
    if query.instance is not None:
        machine = query.instance
        instance = problems.attempt("/instance", lambda: snapshot.find("instances", machine))
        if instance is not None:
            conditions.append(lambda one: one["instance"] == instance.id)
    if query.accelerator is not None:
        part = query.accelerator
        accelerator = problems.attempt("/accelerator", lambda: snapshot.find("accelerators", part))
        if accelerator is not None:
            conditions.append(lambda one: one["accelerator"] == accelerator.id)
    if query.kind is not None:
        conditions.append(lambda one: one["kind"] == query.kind)
    if query.most_usd is not None:
        most = query.most_usd
        conditions.append(
            lambda one: (
                one["usd_per_accelerator_hour"] is not None
                and one["usd_per_accelerator_hour"] <= most
            )
        )
    problems.stop_if_any()
    return tuple(conditions)


@derived()
def _every(snapshot: CatalogSnapshot) -> tuple[OfferItem, ...]:
    return tuple(_offers(snapshot))


def _offers(snapshot: CatalogSnapshot) -> Iterator[OfferItem]:
    for provider, entry in snapshot.offers.items():
        table = entry.value
        for name, offers in sorted(table.by_instance.items()):
            entry_of = snapshot.instances.get(f"{provider}/{name}")
            if entry_of is None:
                continue
            instance = entry_of.value
            for offer in offers:
                usd, each = offer.usd_per_hour, instance.accelerators
                yield {
                    "instance": f"{provider}/{name}",
                    "provider": provider,
                    "region": table.region_id(offer),
                    "accelerator": instance.accelerator,
                    "accelerators": each,
                    "kind": offer.kind,
                    "usd_per_hour": usd,
                    "usd_per_accelerator_hour": None if usd is None else usd / each,
                    "date": offer.date,
                    "source": offer.source,
                }


def _cursor(snapshot: CatalogSnapshot, query: OfferQuery, start: int) -> str:
    content = orjson.dumps([snapshot.revision, _named(query), start])
    return urlsafe_b64encode(content).decode().rstrip("=")


def _start(snapshot: CatalogSnapshot, query: OfferQuery) -> int:
    if query.cursor is None:
        return 0
    text = query.cursor[:2000]
    try:
        revision, named, start = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        sound = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    except (ValueError, TypeError):
        sound = False
    if not sound:
        raise Rejected([FieldError("/cursor", "is not a cursor of this list")])
    if revision != snapshot.revision or named != _named(query):
        other = "belongs to other filters, another order or catalog revision"
        raise Rejected([FieldError("/cursor", f"{other}; start from the first page")])
    return int(start)


def _named(query: OfferQuery) -> list[str | float | None]:
    """All of a query that decides about what is listed in which order."""
    return [
        *(query.provider, query.region, query.instance, query.accelerator, query.kind),
        *(query.most_usd, query.sort),
    ]
