"""Vast.ai's search of what hosts offer: https://docs.vast.ai/api-reference/search/search-offers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

import httpx
import orjson

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json

URL = "https://console.vast.ai/api/v0/bundles/"
SOURCE = "vast-search-api"

_ASKED = {
    "verified": {"eq": True},
    "external": {"eq": False},
    "rentable": {"eq": True},
    "num_gpus": {"eq": 1},
    "type": "on-demand",
    "limit": 5_000,
}
#: The middle of fewer hosts is the price of one of them.
_LEAST_HOSTS = 3
#: Devices report less than is printed on them, up to what firmware holds back.
_MEMORY_SPREAD = 0.1
_KINDS = {"on-demand": "dph_total", "spot": "min_bid"}
_MACHINE = re.compile(r"1x-(?P<name>.+)-(?P<gb>\d+)gb")


async def vast_offers(
    client: httpx.AsyncClient, instances: Iterable[str], date: str
) -> list[Offer]:
    """The price of the middle host for single GPUs, wherever it stands, on demand and by bids.

    Parameters
    ----------
    client
        To ask with.
    instances
        Names of machines in the catalog (``1x-rtx-4090-pcie-24gb``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If the search cannot be had, or answers in another form.
    """
    request = client.build_request("GET", URL, params={"q": orjson.dumps(_ASKED).decode()})
    answer = await read_json(client, request)
    hosts = answer.get("offers") if isinstance(answer, Mapping) else None
    if not isinstance(hosts, list):
        raise PricesUnavailable("the search of Vast.ai has no offers")
    asked: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    machines = {one: parts for one in instances if (parts := _MACHINE.fullmatch(one))}
    for host in hosts:
        if not isinstance(host, Mapping) or host.get("num_gpus") != 1:
            continue
        name, memory = _plain(str(host.get("gpu_name"))), price_of(host.get("gpu_ram"))
        for machine, parts in machines.items():
            gb = (memory or 0.0) / 1024.0
            if name == _plain(parts["name"]) and abs(gb / int(parts["gb"]) - 1) <= _MEMORY_SPREAD:
                for kind, field in _KINDS.items():
                    usd = price_of(host.get(field))
                    if usd is not None:
                        asked[machine, kind].append(usd)
    return [
        Offer(machine, "", kind, float(f"{median(usd):.4g}"), date, SOURCE)
        for (machine, kind), usd in asked.items()
        if len(usd) >= _LEAST_HOSTS
    ]


def _plain(name: str) -> str:
    """A name without what not everybody says: the slot, and which socket of SXM it is."""
    words = re.sub(r"[^a-z0-9]+", " ", name.casefold()).split()
    return "-".join("sxm" if word.startswith("sxm") else word for word in words if word != "pcie")
