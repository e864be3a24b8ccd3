"""The price list of AWS as files: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html.

A region's file has some 300 MB, nearly all of it about other things, so that it is read line by
line and never held.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json, read_lines

HOST = "https://pricing.us-east-1.amazonaws.com"
INDEX = f"{HOST}/offers/v1.0/aws/AmazonEC2/current/region_index.json"
SOURCE = "aws-price-list-files"

#: What of a machine's many prices is the usual one: whole, with Linux and nothing else on it.
_USUAL = {
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
    "Currency": "USD",
    "Unit": "Hrs",
}
_RESERVED = {"PurchaseOption": "No Upfront", "OfferingClass": "standard"}
_TERMS = {"1yr": "reserved-1y", "3yr": "reserved-3y"}
_VERSION = re.compile(r"/offers/v1\.0/aws/AmazonEC2/[0-9]+/[a-z0-9-]+/index\.json")


async def aws_offers(client: httpx.AsyncClient, instances: Iterable[str], date: str) -> list[Offer]:
    """On-demand and reserved prices of instances in all regions; spot prices need an account.

    Parameters
    ----------
    client
        To ask with.
    instances
        Names of machines as AWS spells them (``p5.48xlarge``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If a file cannot be had, or is of another form.
    """
    index = await read_json(client, client.build_request("GET", INDEX))
    regions = index.get("regions") if isinstance(index, Mapping) else None
    if not isinstance(regions, Mapping):
        raise PricesUnavailable("the index of AWS has no regions")
    known = frozenset(instances)
    found: dict[tuple[str, str, str], Offer] = {}
    for region, told in regions.items():
        path = told.get("currentVersionUrl") if isinstance(told, Mapping) else None
        if not isinstance(path, str) or not _VERSION.fullmatch(path):
            raise PricesUnavailable("the index of AWS names a file at no sound address")
        address = HOST + path.removesuffix(".json") + ".csv"
        for row in await _rows(client, address, known):
            kind, usd = _kind(row), price_of(row.get("PricePerUnit"))
            if kind is None or usd is None or row.get("Region Code", region) != region:
                continue
            offer = Offer(row["Instance Type"], region, kind, usd, date, SOURCE)
            held = found.setdefault(offer[:3], offer)
            if usd < (held.usd_per_hour or 0.0):
                found[offer[:3]] = offer
    return list(found.values())


async def _rows(
    client: httpx.AsyncClient, address: str, instances: frozenset[str]
) -> list[dict[str, str]]:
    """The rows of a file that are about some instances."""
    about = re.compile("|".join(f'"{re.escape(one)}"' for one in sorted(instances)) or "(?!)")
    columns: list[str] | None = None
    found = []
    async for line in read_lines(client, client.build_request("GET", address)):
        if columns is None:
            if line.startswith('"SKU"'):
                columns = next(csv.reader([line]))
        elif about.search(line):
            row = dict(zip(columns, next(csv.reader([line])), strict=False))
            if row.get("Instance Type") in instances:
                found.append(row)
    if columns is None or "Instance Type" not in columns or "PricePerUnit" not in columns:
        raise PricesUnavailable("a file of AWS has no columns of instances and prices")
    return found


def _kind(row: Mapping[str, Any]) -> str | None:
    """The kind of a usual price, None for any other."""
    if any(row.get(name) != value for name, value in _USUAL.items()):
        return None
    if row.get("MarketOption", "OnDemand") not in ("", "OnDemand"):
        return None
    if row.get("TermType") == "OnDemand":
        return "on-demand"
    if row.get("TermType") != "Reserved":
        return None
    if any(row.get(name) != value for name, value in _RESERVED.items()):
        return None
    return _TERMS.get(str(row.get("LeaseContractLength")))
