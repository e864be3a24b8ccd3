from __future__ import annotations

import csv
import io

import pytest
from pydantic import TypeAdapter

from service.api.catalog.entries import ENTRIES, PAGES
from service.api.http.tables import as_csv, wants_csv

COLLECTIONS = (
    "accelerators",
    "platforms",
    "models",
    "regions",
    "memory-tiers",
    "interconnects",
    "instances",
    "engines",
    "rules",
    "sources",
)


@pytest.mark.parametrize(
    ("collection", "sort"),
    [
        *((collection, sort) for collection in COLLECTIONS for sort in ("id", "-id")),
        ("regions", "name"),
        ("models", "-published_parameters"),
        ("accelerators", "-memory_bytes"),
    ],
)
async def test_pages_walk_every_entry_once(client, app, collection, sort):
    expected = set(app.state.shared.store.snapshot.collection(collection))
    seen: list[str] = []
    url: str | None = f"/v1/{collection}?limit=70&sort={sort}"
    while url is not None:
        response = await client.get(url)
        assert response.status_code == 200, response.text
        body = response.json()
        seen += [item["id"] for item in body["items"]]
        link = response.headers.get("link")
        assert (link is None) == (body["next_cursor"] is None)
        url = link.split(">")[0].removeprefix("<") if link else None
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


async def test_the_catalog_is_as_large_as_promised(app):
    snapshot = app.state.shared.store.snapshot
    assert len(snapshot.accelerators) >= 25
    assert len(snapshot.models) >= 30
    cloud = [
        region
        for region in snapshot.regions
        if region.startswith(("aws/", "gcp/", "azure/", "oci/"))
    ]
    assert len(cloud) >= 60


async def test_search_filters_and_order(client):
    found = (await client.get("/v1/accelerators?q=h100&vendor=nvidia")).json()["items"]
    assert found
    assert all("h100" in item["id"] for item in found)
    large = await client.get(
        "/v1/accelerators?min_memory_bytes=180e9&sort=-memory_bandwidth_bytes_per_s"
    )
    bandwidths = [
        item["figures"]["memory_bandwidth_bytes_per_s"]["value"] for item in large.json()["items"]
    ]
    assert len(bandwidths) > 3
    assert bandwidths == sorted(bandwidths, reverse=True)
    models = (await client.get("/v1/models?sort=-published_parameters&limit=5")).json()["items"]
    sizes = [model["published_parameters"]["value"] for model in models]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 6e11
    swedish = (await client.get("/v1/regions?country=SE&kind=cloud")).json()["items"]
    assert {"aws/eu-north-1", "azure/swedencentral"} <= {item["id"] for item in swedish}


@pytest.mark.parametrize(
    ("alias", "id_"),
    [
        ("/v1/models/llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("/v1/models/META-LLAMA/llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("/v1/regions/eu-north-1", "aws/eu-north-1"),
        ("/v1/regions/country/SE", "country/SE"),
        ("/v1/regions/sweden", "country/SE"),
        ("/v1/accelerators/h100", "nvidia-h100-sxm-80gb"),
        ("/v1/memory-tiers/ddr5", "ddr5-8ch"),
        ("/v1/memory-tiers/cxl-pooled", "cxl-2.0-ddr5-switch-pooled"),
        ("/v1/interconnects/NVLink%204", "nvlink-4"),
        ("/v1/instances/p5.48xlarge", "aws/p5.48xlarge"),
        ("/v1/instances/bm.gpu.h100.8", "oci/BM.GPU.H100.8"),
    ],
)
async def test_entries_are_found_by_id_and_alias(client, alias, id_):
    response = await client.get(alias)
    assert response.status_code == 200, response.text
    assert response.json()["id"] == id_


async def test_an_entry_brings_the_sources_of_its_figures(client):
    item = (await client.get("/v1/accelerators/nvidia-h100-sxm-80gb")).json()
    named = {figure["source"] for figure in item["figures"].values()}
    assert named & {source["id"] for source in item["sources"]}
    for figure in item["figures"].values():
        assert {"value", "year", "source", "kind"} <= set(figure)


async def test_a_model_shows_what_is_computed_from_it(client):
    item = (await client.get("/v1/models/meta-llama/Llama-3.1-70B")).json()
    assert item["derived"]["total_parameters"] == 70_553_706_496


async def test_lists_and_entries_are_confirmed_instead_of_sent_again(client):
    for url in ("/v1/accelerators", "/v1/models/llama-3.1-8b", "/v1/regions?limit=3"):
        first = await client.get(url)
        again = await client.get(url, headers={"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304


async def test_tables(client):
    response = await client.get("/v1/accelerators?q=h100&limit=200", headers={"Accept": "text/csv"})
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    by_id = {row["id"]: row for row in rows}
    assert float(by_id["nvidia-h100-sxm-80gb"]["memory_bandwidth_bytes_per_s"]) > 3e12


def test_text_that_a_spreadsheet_would_run_is_defused():
    text = as_csv([{"id": "=cmd()", "name": "-1+1", "figures": {"memory_bytes": {"value": -5.0}}}])
    row = next(csv.DictReader(io.StringIO(text)))
    assert row == {"id": "'=cmd()", "name": "'-1+1", "memory_bytes": "-5.0"}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=zzz",
        "cursor=W10",
        "sort=a;b",
        "sort=no_such_field",
        "sort=aliases",
        "foo=1",
        "q=a&q=b",
    ],
)
async def test_odd_questions_are_refused(client, query):
    response = await client.get(f"/v1/accelerators?{query}")
    assert response.status_code == 422
    assert response.json()["errors"]


async def test_a_cursor_of_another_order_is_refused(client):
    cursor = (await client.get("/v1/models?limit=5")).json()["next_cursor"]
    response = await client.get(f"/v1/models?limit=5&sort=-id&cursor={cursor}")
    assert response.status_code == 422


async def test_types_that_lists_do_not_come_in(client):
    response = await client.get("/v1/models", headers={"Accept": "image/png"})
    assert response.status_code == 406


@pytest.mark.parametrize(
    ("accept", "table"),
    [
        ("", False),
        ("*/*", False),
        ("text/csv", True),
        ("text/*", True),
        ("text/csv, application/json", False),
        ("text/csv, application/json;q=0.5", True),
        ("text/csv;q=0.5, application/json", False),
        ("text/csv;q=0.9, */*;q=0.1", True),
        ("application/json;q=0, text/csv;q=0.1", True),
        ("text/html, text/csv;q=high", True),
    ],
)
def test_the_preferred_form_is_chosen(accept, table):
    assert wants_csv(accept) is table


async def test_json_and_table_are_told_apart_by_caches(client):
    as_json = await client.get("/v1/regions?limit=1")
    as_table = await client.get("/v1/regions?limit=1", headers={"Accept": "text/csv"})
    assert as_json.headers["etag"] != as_table.headers["etag"]
    confirmed = await client.get(
        "/v1/regions?limit=1",
        headers={"Accept": "text/csv", "If-None-Match": as_table.headers["etag"]},
    )
    assert confirmed.status_code == 304
    for response in (as_json, as_table, confirmed):
        assert "Accept" in response.headers["vary"].split(", ")
        assert "max-age" in response.headers["cache-control"]


@pytest.mark.parametrize("collection", COLLECTIONS)
async def test_every_entry_is_as_declared(client, app, collection):
    declared = TypeAdapter(ENTRIES[collection])
    for entry_id in app.state.shared.store.snapshot.collection(collection):
        response = await client.get(f"/v1/{collection}/{entry_id}")
        declared.validate_json(response.content, extra="forbid")
    first = await client.get(f"/v1/{collection}?limit=200")
    TypeAdapter(PAGES[collection]).validate_json(first.content, extra="forbid")


async def test_a_former_id_finds_the_entry_and_says_that_it_is_deprecated(client):
    new = "nvidia-rtx-pro-6000-blackwell-workstation-96gb"
    old = "nvidia-rtx-pro-6000-blackwell-96gb"
    then = await client.get(f"/v1/accelerators/{old}")
    now = await client.get(f"/v1/accelerators/{new}")
    assert then.json() == now.json()
    assert then.headers["deprecation"] == "@1795305600"
    assert then.headers["sunset"] == "Mon, 22 Nov 2027 00:00:00 GMT"
    successor, *policy = then.headers["link"].split(", ")
    assert successor == f'</v1/accelerators/{new}>; rel="successor-version"'
    assert [link.partition('rel="')[2].partition('"')[0] for link in policy] == [
        "deprecation",
        "sunset",
    ]
    for link in policy:
        page = await client.get(link[1 : link.index(">")])
        assert (page.status_code, page.headers["content-type"][:9]) == (200, "text/html")
        assert "at least a year" in page.text
    assert not {"deprecation", "sunset", "link"} & now.headers.keys()
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": old,
        "workload": {"input_tokens": 512, "output_tokens": 128},
    }
    for path, asked in (
        ("/v1/latency/inference", body),
        ("/v1/estimates/batch", {"requests": [body | {"region": "country/SE"}]}),
    ):
        answer = await client.post(path, json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.headers["deprecation"] == "@1795305600"
        assert "renamed_entry" in answer.text


async def test_an_ambiguous_id_is_answered_with_all_that_it_could_be(client):
    answer = await client.get("/v1/accelerators/apple-m3-max")
    assert answer.status_code == 404
    assert "it could be any of apple-m3-max-128gb, apple-m3-max-36gb" in answer.json()["detail"]
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "Apple M3 Max",
        "workload": {"input_tokens": 512, "output_tokens": 128},
    }
    refused = await client.post("/v1/latency/inference", json=asked)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["detail"].startswith("ambiguous id 'Apple M3 Max'; it could")
