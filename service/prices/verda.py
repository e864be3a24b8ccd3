"""Verda's list of machines, which asks for no key: https://api.verda.com/v1/docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import httpx

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json

URL = "https://api.verda.com/v1/instance-types"
SOURCE = "verda-instance-types-api"

_KINDS = {"on-demand": ("price_per_hour",), "spot": ("spot_price", "spot_price_per_hour")}


async def verda_offers(
    client: httpx.AsyncClient, instances: Iterable[str], date: str
) -> list[Offer]:
    """On-demand and spot prices of machines, the same at all places.

    Parameters
    ----------
    client
        To ask with.
    instances
        Names of machines as Verda spells them (``1H100.80S.32V``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If the list cannot be had, or is of another form.
    """
    request = client.build_request("GET", URL, params={"currency": "usd"})
    answer = await read_json(client, request)
    if not isinstance(answer, list):
        raise PricesUnavailable("the list of Verda has no machines")
    known = frozenset(instances)
    found: dict[tuple[str, str], Offer] = {}
    for one in answer:
        if not isinstance(one, Mapping) or one.get("instance_type") not in known:
            continue
        if str(one.get("currency", "usd")).casefold() != "usd":
            continue
        for kind, fields in _KINDS.items():
            usd = next((price for name in fields if (price := price_of(one.get(name)))), None)
            if usd is not None:
                instance = str(one["instance_type"])
                found[instance, kind] = Offer(instance, "", kind, usd, date, SOURCE)
    return list(found.values())
