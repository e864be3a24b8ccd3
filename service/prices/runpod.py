"""RunPod's public list of GPU types: https://docs.runpod.io/sdks/graphql/manage-pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import httpx

from service.catalog.entries.offers import Offer
from service.prices.reading import PricesUnavailable, price_of, read_json

URL = "https://api.runpod.io/graphql"
SOURCE = "runpod-gpu-types"

_QUERY = "query { gpuTypes { displayName memoryInGb securePrice communityPrice } }"
_TIERS = {"secure": "securePrice", "community": "communityPrice"}


async def runpod_offers(
    client: httpx.AsyncClient, instances: Iterable[str], date: str
) -> list[Offer]:
    """On-demand prices of single GPUs, the same in all regions, where the catalog has the machine.

    Parameters
    ----------
    client
        To ask with.
    instances
        Names of machines in the catalog (``1x-h100-sxm-80gb-secure``).
    date
        The day that the prices are of.

    Raises
    ------
    PricesUnavailable
        If the list cannot be had, or is of another form.
    """
    answer = await read_json(client, client.build_request("POST", URL, json={"query": _QUERY}))
    data = answer.get("data") if isinstance(answer, Mapping) else None
    types = data.get("gpuTypes") if isinstance(data, Mapping) else None
    if not isinstance(types, list):
        raise PricesUnavailable("the list of RunPod has no gpuTypes")
    known = frozenset(instances)
    found: dict[str, Offer] = {}
    for one in types:
        if not isinstance(one, Mapping):
            continue
        name = re.sub(r"[^a-z0-9]+", "-", str(one.get("displayName", "")).casefold()).strip("-")
        for tier, field in _TIERS.items():
            price = price_of(one.get(field))
            for form in ("", "-pcie"):
                instance = f"1x-{name}{form}-{one.get('memoryInGb')}gb-{tier}"
                if price is not None and instance in known:
                    found[instance] = Offer(instance, "", "on-demand", price, date, SOURCE)
    return list(found.values())
