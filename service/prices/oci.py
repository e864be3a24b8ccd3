"""Oracle's price list: https://docs.oracle.com/iaas/Content/Billing/Tasks/signingup_topic-Estimating_Costs.htm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import httpx

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json

URL = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/"
SOURCE = "oci-price-list-api"

#: Parts that are an accelerator for an hour, and the shapes that hold it. Names do not tell: a
#: licence of software for an H100 is of the same category and unit as the H100.
_SHAPES: Mapping[str, str] = {
    "B92740": "GPU3",
    "B93544": "GPU4",
    "B95909": "GPU.A10",
    "B95907": "GPU.A100-v2",
    "B98415": "GPU.H100",
    "B110519": "GPU.H200",
    "B109479": "GPU.L40S",
    "B109485": "GPU.MI300X",
    "B110978": "GPU.B200",
    "B112237": "GPU.B300",
    "B110979": "GPU.GB200",
    "B112140": "GPU.GB300",
}


async def oci_offers(client: httpx.AsyncClient, instances: Iterable[str], date: str) -> list[Offer]:
    """On-demand prices of machines, the same in all regions, from prices of their accelerators.

    Parameters
    ----------
    client
        To ask with.
    instances
        Shapes as Oracle spells them, with the count of accelerators at the end (``BM.GPU.H100.8``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If the list cannot be had, or is of another form.
    """
    request = client.build_request("GET", URL, params={"currencyCode": "USD"})
    answer = await read_json(client, request)
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list):
        raise PricesUnavailable("the list of Oracle has no items")
    prices = dict(_prices(items))
    found = []
    for instance in instances:
        shape, _, count = instance.partition(".")[2].rpartition(".")
        if shape in prices and count.isdecimal():
            usd = float(f"{prices[shape] * int(count):.6g}")
            found.append(Offer(instance, "", "on-demand", usd, date, SOURCE))
    return found


def _prices(items: list[Any]) -> Iterator[tuple[str, float]]:
    """What an accelerator of a shape costs [USD/h]."""
    for item in items:
        if not isinstance(item, Mapping) or item.get("metricName") != "GPU Per Hour":
            continue
        shape = _SHAPES.get(str(item.get("partNumber")))
        for place in _mappings(item.get("currencyCodeLocalizations")):
            for price in _mappings(place.get("prices")):
                usd = price_of(price.get("value"))
                asked = place.get("currencyCode") == "USD"
                if shape and usd and asked and price.get("model") == "PAY_AS_YOU_GO":
                    yield shape, usd


def _mappings(listed: object) -> Iterator[Mapping[str, Any]]:
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping):
            yield one
