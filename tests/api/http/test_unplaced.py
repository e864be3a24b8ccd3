"""Questions that say nowhere: what no place decides is answered, and one warning says the rest."""

from __future__ import annotations

import csv
import io

import pytest

from tests.api.conftest import MAIN, UNPLACED
from tests.api.http.test_errors import pointers, problem

INFERENCE, TRAINING = "/v1/estimates/inference", "/v1/estimates/training"
RUN = {
    "model": "llama-3.1-8b",
    "accelerator": "h100",
    "accelerator_count": 8,
    "training": {"method": "lora", "tokens": 1e8},
}


async def answered(client, path, body):
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def of_place(answer):
    return [one for one in answer["warnings"] if one["code"] == "no_place"]


async def test_what_no_place_decides_is_as_it_is_anywhere(client):
    placed = await answered(client, INFERENCE, MAIN)
    found = await answered(client, INFERENCE, UNPLACED)
    for part in ("memory", "latency", "energy", "constraints", "goodput"):
        assert found.get(part) == placed.get(part)
    assert found["deployment"] == placed["deployment"] | {"region": None}
    of_request, elsewhere = (one["impacts"]["per_request"] for one in (found, placed))
    assert of_request["carbon"]["embodied_gco2e"] == elsewhere["carbon"]["embodied_gco2e"]


@pytest.mark.parametrize(
    ("path", "body", "basis"),
    [(INFERENCE, UNPLACED, "per_request"), (TRAINING, RUN, "per_step")],
)
async def test_what_a_place_decides_is_unknown_and_said_once(client, path, body, basis):
    answer = await answered(client, path, body)
    carbon, water = (answer["impacts"][basis][name] for name in ("carbon", "water"))
    for name in ("operational_location_gco2e", "operational_market_gco2e", "total_gco2e"):
        assert carbon[name] is None
    assert carbon["embodied_gco2e"]["value"] > 0
    assert water["total_l"] is None
    assert answer["cost"]["rented"] is None
    assert answer["facility"]["pue_reason"].startswith("no place is named")
    (told,) = of_place(answer)
    assert told["pointer"] == f"/impacts/{basis}/carbon/operational_location_gco2e"
    assert "unplaced" not in str(answer)


async def test_a_price_that_is_stated_needs_no_place(client):
    answer = await answered(client, INFERENCE, UNPLACED | {"cost": {"usd_per_accelerator_hour": 2}})
    assert answer["cost"]["rented"]["usd_per_hour"]["value"] == pytest.approx(16.0)
    named = UNPLACED | {"cost": {"instance": "p5.48xlarge"}}
    answer = await answered(client, INFERENCE, named)
    assert answer["cost"]["rented"]["instance"] == "aws/p5.48xlarge"
    codes = [one["code"] for one in answer["warnings"]]
    assert codes.count("price_of_another_region") == 1


async def test_rules_need_a_place(client):
    response = await client.post(INFERENCE, json=UNPLACED | {"compliance": {"on": "2026-01-01"}})
    assert pointers(problem(response, 422)) == {"/region"}


async def test_links_tables_batches_comparisons_and_pages_take_no_place(client):
    query = "model=llama-3.1-8b&accelerator=l40s"
    link = await client.get(f"{INFERENCE}?{query}")
    assert link.json()["deployment"]["region"] is None
    table = await client.get(f"{INFERENCE}?{query}", headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(table.text)))
    carbon = {row["figure"].rpartition(".")[2] for row in rows if ".carbon." in row["figure"]}
    assert carbon == {"embodied_gco2e"}
    batch = await answered(
        client,
        "/v1/estimates/batch",
        {"requests": [{"model": "llama-3.1-8b", "accelerator": "l40s"}]},
    )
    assert batch["items"][0]["answer"] == link.json()
    compared = await answered(
        client, "/v1/compare", {"models": ["llama-3.1-8b"], "accelerators": ["l40s", "h100"]}
    )
    assert [row["region"] for row in compared["rows"]] == [None, None]
    assert compared["rows"][0]["results"]["operational_gco2e_per_1k_tokens"] is None
    found = await answered(client, "/v1/retrieval", UNPLACED | {"retrieved_chunks": 4})
    assert found["region"] is None
    assert found["per_task"]["gco2e"] is None
    assert len(of_place(found)) == 1
    page = await client.get(f"/?{query}", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "No place is named" in page.text
