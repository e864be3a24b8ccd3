"""Price lists of stand-ins: what is taken from them, and what they may not do."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import orjson
import pytest

from service.catalog.entries.offers import COLUMNS, Offer
from service.catalog.snapshot import CatalogSnapshot
from service.prices import azure, reading, runpod
from service.prices.azure import azure_offers
from service.prices.reading import PricesUnavailable, price_client
from service.prices.refresh import refreshed, write_offers
from service.prices.runpod import runpod_offers

Answer = Callable[[httpx.Request], httpx.Response]
ND = "Standard_ND96isr_H100_v5"
DAY = "2026-11-22"


def item(**changes: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": 98.32,
        "armRegionName": "eastus",
        "productName": "Virtual Machines NDsr H100 v5 Series",
        "skuName": "ND96isr H100 v5",
        "armSkuName": ND,
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        **changes,
    }


def page(*items: Any, following: object = None) -> httpx.Response:
    return httpx.Response(200, json={"Items": list(items), "NextPageLink": following})


def client(answer: Answer) -> httpx.AsyncClient:
    return price_client(httpx.MockTransport(answer))


async def test_azure_is_read_page_by_page_and_kind_by_kind() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 1:
            return page(
                item(),
                item(retailPrice=30.0, skuName="ND96isr H100 v5 Spot"),
                item(retailPrice=20.0, skuName="ND96isr H100 v5 Low Priority"),
                item(retailPrice=110.0, productName="Virtual Machines NDsr Series Windows"),
                item(currencyCode="EUR"),
                item(armSkuName="Standard_Other"),
                item(retailPrice="free"),
                item(retailPrice=0.0),
                item(unitOfMeasure="1 GB"),
                "no item",
                following="https://prices.azure.com:443/api/retail/prices?$skip=100",
            )
        return page(
            item(type="Reservation", reservationTerm="1 Year", retailPrice=551_880.0),
            item(type="Reservation", reservationTerm="3 Years", retailPrice=1_156_320.0),
            item(type="Reservation", reservationTerm="5 Years", retailPrice=1.0),
            item(retailPrice=97.0),
        )

    async with client(answer) as web:
        found = await azure_offers(web, [ND], DAY)
    assert {offer.kind: offer.usd_per_hour for offer in found} == {
        "on-demand": 97.0,
        "spot": 30.0,
        "reserved-1y": 63.0,
        "reserved-3y": 44.0,
    }
    assert {offer[:2] + offer[4:] for offer in found} == {(ND, "eastus", DAY, azure.SOURCE)}
    assert ND in parse_qs(asked[0].url.query.decode())["$filter"][0]
    assert asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "following",
    ["http://prices.azure.com/x", "https://elsewhere.example/x", 7, "https://[", "file:///etc"],
)
async def test_a_next_page_elsewhere_is_not_asked_for(following: object) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return page(item(), following=following)

    async with client(answer) as web:
        with pytest.raises(PricesUnavailable):
            await azure_offers(web, [ND], DAY)
    assert asked == ["prices.azure.com"]


async def test_pages_without_end_are_given_up() -> None:
    async with client(lambda _: page(following=azure.URL)) as web:
        with pytest.raises(PricesUnavailable, match="pages"):
            await azure_offers(web, [ND], DAY)


def timed_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("too long", request=request)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: httpx.Response(503), "answered 503"),
        (lambda _: httpx.Response(302, headers={"Location": "https://e.example"}), "302"),
        (lambda _: httpx.Response(200, content=b"<html>"), "JSON"),
        (lambda _: httpx.Response(200, json=[]), "has no"),
        (lambda _: httpx.Response(200, json={"Items": 7, "data": 7}), "has no"),
        (lambda _: httpx.Response(200, content=b"[" + b"1," * 60 + b"1]"), "MB"),
        (timed_out, "did not answer: ReadTimeout"),
    ],
)
@pytest.mark.parametrize("read", [azure_offers, runpod_offers])
async def test_a_list_that_cannot_be_had_is_said(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str, read: Any
) -> None:
    monkeypatch.setattr(reading, "_MOST_BYTES", 100)
    async with client(answer) as web:
        with pytest.raises(PricesUnavailable, match=said):
            await read(web, [ND], DAY)


async def test_runpod_is_read_by_the_names_of_machines() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert "gpuTypes" in orjson.loads(request.content)["query"]
        types = [
            {"displayName": "H100 SXM", "memoryInGb": 80, "securePrice": 2.69},
            {"displayName": "RTX 4090", "memoryInGb": 24, "communityPrice": 0.34},
            {"displayName": "Abacus", "memoryInGb": 1, "securePrice": 1.0},
            {"displayName": "H200", "memoryInGb": 141, "securePrice": None},
            None,
        ]
        return httpx.Response(200, json={"data": {"gpuTypes": types}})

    known = ["1x-h100-sxm-80gb-secure", "1x-rtx-4090-pcie-24gb-community", "1x-h200-141gb-secure"]
    async with client(answer) as web:
        found = await runpod_offers(web, known, DAY)
    assert found == [
        Offer(known[0], "", "on-demand", 2.69, DAY, runpod.SOURCE),
        Offer(known[1], "", "on-demand", 0.34, DAY, runpod.SOURCE),
    ]


async def test_prices_of_today_take_the_place_of_older_ones(
    packaged_snapshot: CatalogSnapshot, tmp_path: Path
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if ND not in parse_qs(request.url.query.decode())["$filter"][0]:
            return page()
        return page(item(retailPrice=77.0), item(armRegionName="moon", retailPrice=1.0))

    async with client(answer) as web:
        found = await refreshed("azure", packaged_snapshot, web, DAY)
    before = packaged_snapshot.offers["azure"].value.by_instance
    assert found.unknown_regions == ("moon",)
    assert found.new + found.changed + found.same == 1
    renewed = {offer[:3]: offer for offer in found.rows}
    today = Offer(ND, "eastus", "on-demand", 77.0, DAY, azure.SOURCE)
    assert renewed[today[:3]] == today
    kept = {offer[:3]: offer for offers in before.values() for offer in offers}
    assert {**kept, today[:3]: today} == renewed
    path = write_offers(tmp_path, "azure", found.rows)
    with path.open(newline="") as table:
        columns, *rows = csv.reader(table)
    assert tuple(columns) == COLUMNS
    assert [ND, "eastus", "on-demand", "77", DAY, azure.SOURCE] in rows
    assert len(rows) == len(found.rows)
