"""Bringing prices of today into a table of offers."""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import httpx

from service.catalog.entries.offers import COLUMNS, Offer
from service.catalog.snapshot import CatalogSnapshot
from service.prices.aws import aws_offers
from service.prices.azure import azure_offers
from service.prices.oci import oci_offers
from service.prices.reading import PricesUnavailable
from service.prices.runpod import runpod_offers
from service.prices.vast import vast_offers
from service.prices.verda import verda_offers

Reader: TypeAlias = Callable[[httpx.AsyncClient, Iterable[str], str], Awaitable[list[Offer]]]

#: Who publishes prices that can be asked for without a key. Google, Lambda, CoreWeave, Nebius,
#: DigitalOcean and Hetzner ask for one, and Scaleway and OVH answer in euros: their prices come
#: from datasets.
PROVIDERS: Mapping[str, Reader] = {
    "aws": aws_offers,
    "azure": azure_offers,
    "oci": oci_offers,
    "runpod": runpod_offers,
    "vast": vast_offers,
    "verda": verda_offers,
}


#: A price that has become so many times dearer or cheaper is a slip, or of another machine [-].
_MOST_CHANGE_RATIO = 4.0


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A provider's offers with prices of today.

    ``new``, ``changed`` and ``same`` count rows that were taken over. ``unknown_regions`` are those
    that the catalog does not have, and ``doubted`` what is over four times as dear or cheap as
    before: prices of both are left out.
    """

    provider: str
    rows: tuple[Offer, ...]
    new: int
    changed: int
    same: int
    unknown_regions: tuple[str, ...]
    doubted: tuple[Offer, ...]


async def refreshed(
    provider: str, snapshot: CatalogSnapshot, client: httpx.AsyncClient, date: str
) -> Refreshed:
    """Offers of a provider, those that its list has with the price and date of the list.

    What the list does not have stays as it is, with its older date. A price that is the same
    everywhere renews those of all regions.

    Raises
    ------
    PricesUnavailable
        If the list cannot be had, or has none of the machines that the catalog knows.
    KeyError
        If nobody knows how to ask the provider.
    """
    instances = [
        entry.id.partition("/")[2]
        for entry in snapshot.instances.values()
        if entry.value.provider == provider
    ]
    read = await PROVIDERS[provider](client, instances, date)
    if not read:
        raise PricesUnavailable(
            f"the list has a price of none of the {len(instances)} machines that the catalog knows,"
            " so that its form has changed"
        )
    table = snapshot.offers.get(provider)
    held = {
        offer[:3]: offer
        for offers in (() if table is None else table.value.by_instance.values())
        for offer in offers
    }
    rows, unknown, doubted = dict(held), set(), list[Offer]()
    new = changed = same = 0
    for offer in (one for told in read for one in _by_region(told, held)):
        if offer.region and f"{provider}/{offer.region}" not in snapshot.regions:
            unknown.add(offer.region)
            continue
        before = held.get(offer[:3])
        if before is not None and _doubtful(before, offer):
            doubted.append(offer)
            continue
        new += before is None
        changed += before is not None and before.usd_per_hour != offer.usd_per_hour
        same += before is not None and before.usd_per_hour == offer.usd_per_hour
        rows[offer[:3]] = offer
        rows.pop((offer.instance, offer.region, "listed"), None)
    return Refreshed(
        provider,
        tuple(sorted(rows.values())),
        new,
        changed,
        same,
        tuple(sorted(unknown)),
        tuple(doubted),
    )


def _doubtful(before: Offer, now: Offer) -> bool:
    """Whether a price has changed by more than any machine's does."""
    was, is_ = before.usd_per_hour, now.usd_per_hour
    if not was or not is_:
        return False
    return max(was / is_, is_ / was) > _MOST_CHANGE_RATIO


def _by_region(offer: Offer, held: Mapping[tuple[str, str, str], Offer]) -> Iterator[Offer]:
    """An offer, or one for each region in which its machine was offered at such a price."""
    regions = [
        region
        for instance, region, kind in held
        if (instance, kind) == (offer.instance, offer.kind) and region
    ]
    if offer.region or not regions:
        yield offer
    else:
        for region in regions:
            yield offer._replace(region=region)
        if (offer.instance, "", offer.kind) in held:
            yield offer


def write_offers(folder: Path, provider: str, rows: Sequence[Offer]) -> Path:
    """Write a provider's table into a folder of tables of offers, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written; the table that was there is there still.
    """
    path = folder / f"{provider}.csv"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        usd = "" if row.usd_per_hour is None else f"{row.usd_per_hour:.6g}"
        writer.writerow([*row[:3], usd, *row[4:]])
    unfinished = path.with_suffix(".part")
    try:
        unfinished.write_text(text.getvalue(), encoding="utf-8")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path
