from __future__ import annotations

import csv
import io

import pytest

from tests.api.http.test_errors import pointers, problem

PATH = "/v1/offers"


async def listed(client, **query):
    response = await client.get(PATH, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_offers_are_filtered_by_all_that_is_asked(client):
    page = await listed(
        client, provider="aws", accelerator="h100-sxm", region="us-east-1", kind="on-demand"
    )
    found = {one["instance"]: one["usd_per_hour"] for one in page["items"]}
    assert found == {"aws/p5.48xlarge": 55.04, "aws/p5.4xlarge": 6.88}
    for one in page["items"]:
        assert one["accelerator"] == "nvidia-h100-sxm-80gb"
        assert (one["provider"], one["region"]) == ("aws", "aws/us-east-1")
        assert one["usd_per_accelerator_hour"] == one["usd_per_hour"] / one["accelerators"]
        assert one["date"].startswith("2026")
    cheap = await listed(client, accelerator="h100-sxm", max_usd_per_accelerator_hour=2.0)
    assert cheap["items"]
    assert all(one["usd_per_accelerator_hour"] <= 2.0 for one in cheap["items"])


async def test_pages_hold_every_offer_once_in_order(client, packaged_snapshot):
    query = {"provider": "azure", "sort": "usd_per_accelerator_hour", "limit": "200"}
    seen, page = [], await listed(client, **query)
    while True:
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        page = await listed(client, **query, cursor=page["next_cursor"])
    rows = packaged_snapshot.offers["azure"].document["rows"]
    assert len(seen) == len(rows)
    assert len({(one["instance"], one["region"], one["kind"]) for one in seen}) == len(rows)
    prices = [one["usd_per_accelerator_hour"] for one in seen]
    assert prices == sorted(prices)


async def test_what_has_no_region_is_offered_in_all_of_the_provider(client):
    page = await listed(client, region="runpod/US-TX-1")
    assert {one["region"] for one in page["items"]} == {None}
    assert {one["provider"] for one in page["items"]} == {"runpod"}


async def test_offers_are_a_table_for_who_wants_one(client):
    response = await client.get(PATH, params={"provider": "oci"}, headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert {"instance", "region", "usd_per_hour", "date", "source"} <= set(rows[0])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"provider": "nobody"}, "/provider"),
        ({"region": "atlantis"}, "/region"),
        ({"instance": "p9.giant"}, "/instance"),
        ({"accelerator": "abacus"}, "/accelerator"),
        ({"kind": "barter"}, "/kind"),
        ({"sort": "colour"}, "/sort"),
        ({"max_usd_per_accelerator_hour": "nan"}, "/max_usd_per_accelerator_hour"),
        ({"limit": "0"}, "/limit"),
        ({"cursor": "e30"}, "/cursor"),
        ({"region": ""}, "/region"),
    ],
)
async def test_what_cannot_be_asked_is_refused_at_its_place(client, query, pointer):
    response = await client.get(PATH, params=query)
    assert pointers(problem(response, 422)) == {pointer}


async def test_a_cursor_belongs_to_its_filters(client):
    first = await listed(client, provider="gcp", limit=1)
    response = await client.get(PATH, params={"provider": "aws", "cursor": first["next_cursor"]})
    assert pointers(problem(response, 422)) == {"/cursor"}


async def test_instances_show_their_on_demand_prices(client):
    response = await client.get("/v1/instances/aws/p5.48xlarge")
    prices = {price["region"]: price for price in response.json()["prices"]}
    assert prices["aws/us-east-1"]["value"] == 55.04
    assert len(prices) > 5
