"""Azure Retail Prices: https://learn.microsoft.com/rest/api/cost-management/retail-prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json

URL = "https://prices.azure.com/api/retail/prices"
SOURCE = "azure-retail-prices-api"

#: Prices of one machine fill two or three pages of a hundred.
_MOST_PAGES = 40
_HOURS_OF_TERM = {"1 Year": ("reserved-1y", 8_760.0), "3 Years": ("reserved-3y", 26_280.0)}
#: What else is sold under the name of a machine.
_OTHER_PRODUCTS = ("windows", "cloudservices", "cloud services", "dedicated host")


async def azure_offers(
    client: httpx.AsyncClient, instances: Iterable[str], date: str
) -> list[Offer]:
    """Prices of instances in all regions: on-demand, spot and reserved, of Linux.

    Parameters
    ----------
    client
        To ask with.
    instances
        Names of machines as Azure spells them (``Standard_ND96isr_H100_v5``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If the list cannot be had, or is of another form.
    """
    found: dict[tuple[str, str, str], Offer] = {}
    for instance in instances:
        asked = f"serviceName eq 'Virtual Machines' and armSkuName eq '{instance}'"
        parameters = {"api-version": "2023-01-01-preview", "$filter": asked}
        request = client.build_request("GET", URL, params=parameters)
        for _ in range(_MOST_PAGES):
            page = await read_json(client, request)
            for offer in _offers(page, instance, date):
                held = found.setdefault(offer[:3], offer)
                if (offer.usd_per_hour or 0.0) < (held.usd_per_hour or 0.0):
                    found[offer[:3]] = offer
            following = page.get("NextPageLink")
            if not following:
                break
            request = client.build_request("GET", _same_host(following))
        else:
            raise PricesUnavailable(f"the list of {instance} has more than {_MOST_PAGES} pages")
    return list(found.values())


def _offers(page: Any, instance: str, date: str) -> Iterator[Offer]:
    items = page.get("Items") if isinstance(page, Mapping) else None
    if not isinstance(items, list):
        raise PricesUnavailable("the list of Azure has no Items")
    for item in items:
        if not isinstance(item, Mapping) or item.get("armSkuName") != instance:
            continue
        region, price = item.get("armRegionName"), price_of(item.get("retailPrice"))
        sold = f"{item.get('productName')} {item.get('skuName')}".casefold()
        if (
            price is None
            or not isinstance(region, str)
            or not region
            or item.get("currencyCode") != "USD"
            or any(product in sold for product in _OTHER_PRODUCTS)
            or "low priority" in sold
        ):
            continue
        if item.get("type") == "Reservation":
            kind, hours = _HOURS_OF_TERM.get(str(item.get("reservationTerm")), ("", 1.0))
        elif item.get("type") == "Consumption" and item.get("unitOfMeasure") == "1 Hour":
            kind, hours = "spot" if "spot" in sold else "on-demand", 1.0
        else:
            continue
        if kind:
            yield Offer(instance, region, kind, float(f"{price / hours:.6g}"), date, SOURCE)


def _same_host(following: object) -> str:
    """The address of the next page, which must be of the same service."""
    if not isinstance(following, str):
        raise PricesUnavailable("the next page of Azure's list has no address")
    try:
        parts = urlsplit(following)
    except ValueError:
        raise PricesUnavailable("the next page of Azure's list has no sound address") from None
    if parts.scheme != "https" or parts.hostname != urlsplit(URL).hostname:
        raise PricesUnavailable("the next page of Azure's list is at another host")
    return following
