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
from service.cli.upkeep.catalog import refresh_tables
from service.prices import aws, azure, oci, reading, runpod, vast, verda
from service.prices.aws import aws_offers
from service.prices.azure import azure_offers
from service.prices.oci import oci_offers
from service.prices.reading import PricesUnavailable, price_client
from service.prices.refresh import refreshed, write_offers
from service.prices.runpod import runpod_offers
from service.prices.vast import vast_offers
from service.prices.verda import verda_offers
from service.settings import INSTALLATION

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
        (lambda _: httpx.Response(200, json=7), "has no"),
        (lambda _: httpx.Response(200, json={"Items": 7, "data": 7, "offers": 7}), "has no"),
        (lambda _: httpx.Response(200, content=b"[" + b"1," * 60 + b"1]"), "MB"),
        (timed_out, "did not answer: ReadTimeout"),
    ],
)
@pytest.mark.parametrize(
    "read", [aws_offers, azure_offers, oci_offers, runpod_offers, vast_offers, verda_offers]
)
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


def part(number: str, usd: object, **changes: Any) -> dict[str, Any]:
    return {
        "partNumber": number,
        "displayName": "OCI - Compute - GPU - H100",
        "metricName": "GPU Per Hour",
        "serviceCategory": "Compute - GPU",
        "currencyCodeLocalizations": [
            {"currencyCode": "EUR", "prices": [{"model": "PAY_AS_YOU_GO", "value": 9.3}]},
            {
                "currencyCode": "USD",
                "prices": [
                    {"model": "MONTHLY_COMMIT", "value": 1},
                    {"model": "PAY_AS_YOU_GO", "value": usd},
                ],
            },
        ],
        **changes,
    }


async def test_oracle_is_read_by_parts_and_multiplied_by_accelerators() -> None:
    """A licence of software is of the same category and unit as the accelerator."""
    items = [
        part("B98415", 10),
        part("B111824", 2.5, displayName="OCI - NVIDIA AI Enterprise - H100"),
        part("B95909", 2.0),
        part("B110519", 10, metricName="OCPU Per Hour"),
        part("B92740", "free"),
        part("B95907", 4, currencyCodeLocalizations=None),
        "no part",
    ]
    known = ["BM.GPU.H100.8", "VM.GPU.A10.2", "BM.GPU.H200.8", "VM.GPU3.1", "BM.GPU.A100-v2.8", "x"]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["currencyCode"] == "USD"
        return httpx.Response(200, json={"lastUpdated": "2026-11-01", "items": items})

    async with client(answer) as web:
        found = await oci_offers(web, known, DAY)
    assert found == [
        Offer("BM.GPU.H100.8", "", "on-demand", 80.0, DAY, oci.SOURCE),
        Offer("VM.GPU.A10.2", "", "on-demand", 4.0, DAY, oci.SOURCE),
    ]


async def test_verda_says_both_prices_of_a_machine() -> None:
    types = [
        {
            "instance_type": "1H100.80S.32V",
            "price_per_hour": 2.29,
            "spot_price": 0.8,
            "currency": "usd",
        },
        {"instance_type": "1H200.141S.44V", "price_per_hour": "3.39", "currency": "usd"},
        {"instance_type": "1B200.30V", "price_per_hour": 4.0, "currency": "eur"},
        {"instance_type": "CPU.4V", "price_per_hour": 0.03, "currency": "usd"},
        7,
    ]
    known = ["1H100.80S.32V", "1H200.141S.44V", "1B200.30V"]
    async with client(lambda _: httpx.Response(200, json=types)) as web:
        found = await verda_offers(web, known, DAY)
    assert found == [
        Offer(known[0], "", "on-demand", 2.29, DAY, verda.SOURCE),
        Offer(known[0], "", "spot", 0.8, DAY, verda.SOURCE),
        Offer(known[1], "", "on-demand", 3.39, DAY, verda.SOURCE),
    ]


def host(name: str, mib: int, usd: object, **changes: Any) -> dict[str, Any]:
    return {
        "gpu_name": name,
        "gpu_ram": mib,
        "num_gpus": 1,
        "dph_total": usd,
        "geolocation": "Sweden, SE",
        **changes,
    }


async def test_vast_has_the_price_of_the_middle_host() -> None:
    hosts = [
        *(host("RTX 4090", 24_564, usd, min_bid=usd / 2) for usd in (0.3, 0.36, 0.9)),
        host("RTX 4090", 24_564, 0.7, num_gpus=2),
        host("RTX 4090", 49_140, 5.0),
        host("RTX 4090", 24_564, None),
        *(host("H100 SXM", 81_559, usd) for usd in (2.0, 2.2, 2.1, 9.0)),
        *(host("H100 PCIE", 81_559, usd) for usd in (1.0, 1.2)),
        "no host",
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        asked = orjson.loads(request.url.params["q"])
        assert asked["rentable"] == {"eq": True}
        assert asked["num_gpus"] == {"eq": 1}
        return httpx.Response(200, json={"offers": hosts})

    known = [
        "1x-rtx-4090-pcie-24gb",
        "1x-h100-sxm5-80gb",
        "1x-h100-pcie-80gb",
        "1x-H100_SXM-32-65536",
    ]
    async with client(answer) as web:
        found = await vast_offers(web, known, DAY)
    assert found == [
        Offer(known[0], "", "on-demand", 0.36, DAY, vast.SOURCE),
        Offer(known[0], "", "spot", 0.18, DAY, vast.SOURCE),
        Offer(known[1], "", "on-demand", 2.15, DAY, vast.SOURCE),
    ]


AWS_COLUMNS = (
    *("SKU", "OfferTermCode", "RateCode", "TermType"),
    *("PriceDescription", "EffectiveDate", "Unit", "PricePerUnit"),
    *("Currency", "LeaseContractLength", "PurchaseOption", "OfferingClass"),
    *("Product Family", "Instance Type", "Tenancy", "Operating System"),
    *("Pre Installed S/W", "CapacityStatus", "Region Code", "MarketOption"),
)
P5 = "p5.48xlarge"


def aws_row(**changes: str) -> str:
    usual = {
        "TermType": "OnDemand",
        "PriceDescription": "$55.04 per On Demand Linux p5.48xlarge, shared",
        "Unit": "Hrs",
        "PricePerUnit": "55.0400000000",
        "Currency": "USD",
        "Product Family": "Compute Instance",
        "Instance Type": P5,
        "Tenancy": "Shared",
        "Operating System": "Linux",
        "Pre Installed S/W": "NA",
        "CapacityStatus": "Used",
        "Region Code": "us-east-1",
        "MarketOption": "OnDemand",
        **{name.replace("_", " "): value for name, value in changes.items()},
    }
    return ",".join(f'"{usual.get(name, "")}"' for name in AWS_COLUMNS)


def aws_file(*rows: str) -> bytes:
    head = [
        '"FormatVersion","v1.0"',
        '"Disclaimer","This pricing list is for informational purposes only."',
        '"Publication Date","2026-11-20T16:02:58Z"',
        '"Version","20261120160258"',
        '"OfferCode","AmazonEC2"',
        ",".join(f'"{name}"' for name in AWS_COLUMNS),
    ]
    return "\n".join([*head, *rows]).encode()


def aws_index(*regions: str) -> httpx.Response:
    told = {
        region: {
            "regionCode": region,
            "currentVersionUrl": f"/offers/v1.0/aws/AmazonEC2/20261120160258/{region}/index.json",
        }
        for region in regions
    }
    return httpx.Response(200, json={"formatVersion": "v1.0", "regions": told})


async def test_the_files_of_aws_are_read_line_by_line() -> None:
    year = {"TermType": "Reserved", "LeaseContractLength": "1yr", "OfferingClass": "standard"}
    content = aws_file(
        aws_row(),
        aws_row(Tenancy="Dedicated", PricePerUnit="1"),
        aws_row(Operating_System="Windows", PricePerUnit="2"),
        aws_row(CapacityStatus="UnusedCapacityReservation", PricePerUnit="3"),
        aws_row(MarketOption="CapacityBlock", PricePerUnit="4"),
        aws_row(PricePerUnit="0.0000000000"),
        aws_row(PricePerUnit="soon"),
        aws_row(Instance_Type="m7i.large", PricePerUnit="0.1"),
        aws_row(**year, PurchaseOption="No Upfront", PricePerUnit="41.5"),
        aws_row(**year, PurchaseOption="All Upfront", PricePerUnit="5"),
        aws_row(**year, PurchaseOption="All Upfront", Unit="Quantity", PricePerUnit="300000"),
        aws_row(
            **{**year, "LeaseContractLength": "3yr"}, PurchaseOption="No Upfront", PricePerUnit="28"
        ),
    )
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path.endswith("region_index.json"):
            return aws_index("us-east-1")
        return httpx.Response(200, content=content)

    async with client(answer) as web:
        found = await aws_offers(web, [P5, "p4d.24xlarge"], DAY)
    assert asked[1].endswith("/20261120160258/us-east-1/index.csv")
    assert {offer.kind: offer.usd_per_hour for offer in found} == {
        "on-demand": 55.04,
        "reserved-1y": 41.5,
        "reserved-3y": 28.0,
    }
    assert {offer[:2] + offer[4:] for offer in found} == {(P5, "us-east-1", DAY, aws.SOURCE)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html>", "no columns"),
        (b'"SKU","Price"\n"1","2"\n', "no columns"),
        (b"x" * 300, "has more than"),
    ],
)
async def test_a_file_of_aws_of_another_form_is_said(
    monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.setattr(reading, "_LONGEST_LINE_BYTES", 200)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("region_index.json"):
            return aws_index("us-east-1")
        return httpx.Response(200, content=content)

    async with client(answer) as web:
        with pytest.raises(PricesUnavailable, match=said):
            await aws_offers(web, [P5], DAY)


async def test_no_file_of_aws_elsewhere_is_asked_for() -> None:
    index = {
        "regions": {"us-east-1": {"currentVersionUrl": "https://elsewhere.example/index.json"}}
    }
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(200, json=index)

    async with client(answer) as web:
        with pytest.raises(PricesUnavailable, match="no sound address"):
            await aws_offers(web, [P5], DAY)
    assert asked == ["pricing.us-east-1.amazonaws.com"]


async def test_a_price_for_everywhere_renews_those_of_all_regions(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    name = "1H200.141S.44V"
    types = [{"instance_type": name, "price_per_hour": 3.0, "currency": "usd"}]
    async with client(lambda _: httpx.Response(200, json=types)) as web:
        found = await refreshed("verda", packaged_snapshot, web, DAY)
    renewed = {
        offer.region: offer.usd_per_hour
        for offer in found.rows
        if offer.instance == name and offer.kind == "on-demand"
    }
    assert renewed == {"FIN-02": 3.0, "FIN-03": 3.0}
    assert (found.new, found.changed, found.same) == (0, 2, 0)


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


H100 = "1H100.80S.32V"


def verda_types(usd_per_hour: float) -> httpx.Response:
    listed = {"instance_type": H100, "price_per_hour": usd_per_hour, "currency": "usd"}
    return httpx.Response(200, json=[listed])


async def test_a_price_of_another_order_is_left_out(packaged_snapshot: CatalogSnapshot) -> None:
    """A list in cents, or of another machine by the same name."""
    async with client(lambda _: verda_types(229.0)) as web:
        found = await refreshed("verda", packaged_snapshot, web, DAY)
    assert {offer.usd_per_hour for offer in found.doubted} == {229.0}
    assert found.new + found.changed + found.same == 0
    before = packaged_snapshot.offers["verda"].value.by_instance
    assert set(found.rows) == {offer for offers in before.values() for offer in offers}


async def test_a_list_without_any_machine_that_is_known_is_no_list(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    renamed = [{"type": H100, "price": 2.0, "currency": "usd"}]
    async with client(lambda _: httpx.Response(200, json=renamed)) as web:
        with pytest.raises(PricesUnavailable, match="its form has changed"):
            await refreshed("verda", packaged_snapshot, web, DAY)


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def offers_folder(tmp_path: Path) -> Path:
    packaged = INSTALLATION / "hardware_catalog" / "offers"
    for name in ("azure", "verda"):
        (tmp_path / f"{name}.csv").write_bytes((packaged / f"{name}.csv").read_bytes())
    return tmp_path


async def test_who_does_not_answer_loses_nothing_and_the_others_are_renewed(
    packaged_snapshot: CatalogSnapshot,
    offers_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500) if "azure" in request.url.host else verda_types(2.0)

    monkeypatch.setattr(reading, "price_client", lambda: client(answer))
    before = tables(offers_folder)
    assert await refresh_tables(("azure", "verda"), packaged_snapshot, offers_folder)
    after = tables(offers_folder)
    assert after.keys() == before.keys()
    assert after["azure.csv"] == before["azure.csv"]
    assert f"{H100},FIN-02,on-demand,2," in after["verda.csv"].decode()
    assert len(after["verda.csv"].splitlines()) == len(before["verda.csv"].splitlines())
    told = capsys.readouterr()
    assert "500; its prices stay as they are" in told.err
    assert "verda: 0 new" in told.out


async def test_a_table_that_cannot_be_written_stays_as_it_was(
    packaged_snapshot: CatalogSnapshot,
    offers_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reading, "price_client", lambda: client(lambda _: verda_types(2.0)))
    before = tables(offers_folder)
    monkeypatch.setattr(Path, "write_text", full)
    assert await refresh_tables(("verda",), packaged_snapshot, offers_folder)
    assert tables(offers_folder) == before
    assert "No space left on device; its prices stay as they are" in capsys.readouterr().err
