"""Forms of answers beside JSON: tables of all figures, and batches line by line."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from service.api import comparison
from service.estimation.comparison.answers import BatchItem
from service.estimation.tables import figure_rows, wide_row
from service.estimation.use_cases import USE_CASES
from tests.api.conftest import MAIN
from tests.api.shapes import validated

BATCH = "/v1/estimates/batch"
TABLE = {"Accept": "text/csv"}
LINES = {"Accept": "application/x-ndjson"}
TRAINING = USE_CASES["estimates/training"].request.model_config["json_schema_extra"]["examples"][0]
ITEMS: list[Any] = [MAIN, TRAINING, MAIN | {"accelerator": "nvidia-h10"}]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def found(answer: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(answer, list):
            named = {str(one.get("name", one.get("id"))): one for one in answer} if name else {}
            answer = named[name] if name in named else answer[int(name)]
        else:
            answer = answer[name]
    return answer


@pytest.mark.parametrize(
    "question",
    [
        *("estimates/inference", "estimates/training", "memory/inference", "memory/training"),
        *("latency/inference", "latency/training", "impacts", "retrieval", "projections"),
    ],
)
async def test_tables_have_the_figures_of_the_answer(client, question: str) -> None:
    use_case = USE_CASES[question]
    body = use_case.request.model_config["json_schema_extra"]["examples"][0]
    answer = (await client.post(f"/v1/{question}", json=body)).json()
    response = await client.post(f"/v1/{question}", json=body, headers=TABLE)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/csv")
    table = rows(response.text)
    assert [*table[0]] == ["figure", "value", "low", "high"]
    assert len(table) == len(figure_rows(answer)) > 10
    ends = 0
    for row in table:
        figure = found(answer, row["figure"])
        if isinstance(figure, dict):
            assert {end: float(row[end]) for end in ("value", "low", "high")} == figure
            ends += 1
        else:
            assert (row["value"].removeprefix("'"), row["low"]) == (str(figure), "")
    assert ends > 3
    assert {"catalog_revision", "engine_version"} <= {row["figure"] for row in table}


async def test_links_answer_tables_of_their_own_tag(client) -> None:
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
    whole, table = await client.get(link), await client.get(link, headers=TABLE)
    assert whole.headers["etag"] != table.headers["etag"]
    assert "Accept" in table.headers["vary"].split(", ")
    held = await client.get(link, headers=TABLE | {"If-None-Match": table.headers["etag"]})
    assert held.status_code == 304
    fields = await client.get(f"{link}&fields=total_bytes,fits", headers=TABLE)
    assert [row["figure"] for row in rows(fields.text)] == ["total_bytes", "fits"]


async def test_batches_have_a_row_for_each_request(client) -> None:
    batch = (await client.post(BATCH, json={"requests": ITEMS})).json()
    table = rows((await client.post(BATCH, json={"requests": ITEMS}, headers=TABLE)).text)
    assert [row["index"] for row in table] == ["0", "1", "2"]
    for row, item in zip(table[:2], batch["items"], strict=False):
        wide = wide_row(item["answer"])
        assert float(row["memory.total_bytes"]) == wide["memory.total_bytes"]
        assert float(row["memory.total_bytes_high"]) == wide["memory.total_bytes_high"]
        assert row["errors"] == ""
    assert table[0]["latency.step_s"] == "" != table[1]["latency.step_s"]
    assert table[2]["memory.total_bytes"] == ""
    assert table[2]["errors"].startswith("/accelerator: ")


async def test_batches_come_line_by_line(client) -> None:
    asked = {"requests": ITEMS * 7}
    whole = (await client.post(BATCH, json=asked)).json()
    response = await client.post(BATCH, json=asked, headers=LINES)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["x-catalog-revision"] == str(whole["catalog_revision"])
    items = [json.loads(line) for line in response.text.splitlines()]
    assert items == whole["items"]
    for item in items:
        validated(BatchItem, item)
    # What is wrong with the whole is told as for every other form.
    refused = await client.post(BATCH, json={"requests": "all"}, headers=LINES)
    assert refused.status_code == 422


async def test_nothing_is_answered_before_the_last_was_taken(app, monkeypatch) -> None:
    """However long a batch, a process holds a few of its answers."""
    computed, lines = 0, []
    answer = comparison.batch_items

    def counted(asked: Any, *rest: Any, **named: Any) -> Any:
        nonlocal computed
        computed += len(asked)
        return answer(asked, *rest, **named)

    monkeypatch.setattr(comparison, "batch_items", counted)
    body = json.dumps({"requests": [MAIN | {"fields": ["memory.fits"]}] * 200}).encode()
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body"):
            lines.extend(message["body"].splitlines())
            assert computed - len(lines) <= comparison._AT_ONCE

    headers = [(b"content-type", b"application/json"), (b"accept", b"application/x-ndjson")]
    scope = {"type": "http", "method": "POST", "path": BATCH, "raw_path": BATCH.encode()}
    scope |= {"query_string": b"", "headers": headers, "http_version": "1.1", "root_path": ""}
    scope |= {"asgi": {"version": "3.0", "spec_version": "2.4"}, "scheme": "http"}
    await app(scope | {"client": ("127.0.0.1", 1), "server": ("test", 80)}, receive, send)
    assert computed == len(lines) == 200
