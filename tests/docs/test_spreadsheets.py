"""What the page about spreadsheets says to paste, read as spreadsheets read it."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import httpx
import pytest
from markdown_it import MarkdownIt

from tests.docs.blocks import Block, blocks
from tests.docs.test_examples import PROJECT_FOLDER

PAGE = PROJECT_FOLDER / "docs" / "how-to" / "spreadsheet.md"
ADDRESS = "http://127.0.0.1:8000"


def formulas() -> list[str]:
    return [line for block in of("text") for line in block.text.splitlines()]


def of(language: str) -> list[Block]:
    return [block for block in blocks(PAGE) if block.language == language]


def cells() -> dict[str, str]:
    """The cells of the plan on the page, by their names in a spreadsheet."""
    tokens = MarkdownIt("commonmark").enable("table").parse(PAGE.read_text())
    texts = [
        tokens[index + 1].content
        for index, token in enumerate(tokens)
        if token.type in ("th_open", "td_open")
    ]
    letters, rows = texts[1:5], range(5, len(texts), 5)
    return {
        f"{letter}{texts[row]}": texts[row + 1 + column]
        for row in rows
        for column, letter in enumerate(letters)
    }


def link(formula: str) -> str:
    """The path that a formula asks, with cells in place of their names."""
    joined = formula.partition(f'("{ADDRESS}')[2].partition(")")[0]
    found = cells()
    return re.sub(r'"&([A-Z]\d)(?:&"|$)', lambda cell: found[cell[1]], joined)


async def rows(client: httpx.AsyncClient, path: str, **more: Any) -> list[dict[str, str]]:
    answer = await client.request(more.pop("method", "GET"), path, **more)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))


async def test_formulas_find_their_figures(client: httpx.AsyncClient) -> None:
    asking = [formula for formula in formulas() if ADDRESS in formula]
    assert len(asking) == 3
    for formula in asking:
        path = link(formula)
        assert "&A" not in path
        found = {row["figure"]: row for row in await rows(client, path)}
        deployment = cells()["C2" if "C2" in formula else "C3"]
        assert found["deployment.accelerator_count"]["value"] == deployment
        if formula.startswith("=VLOOKUP"):
            name, column = re.findall(r'"([\w.]+)", IMPORT.*, (\d), FALSE', formula)[0]
            assert float(list(found[name].values())[int(column) - 1]) > 0
        else:
            text = (await client.get(path)).text
            [pattern] = re.findall(r'; "([^"]+)"\); "', formula)
            assert re.findall(pattern, text) == [found["latency.tpot_s"]["value"]]


async def test_queries_are_answered(client: httpx.AsyncClient) -> None:
    plain, compared = (block.text for block in of("powerquery"))
    [fields] = re.findall(r"Query = \[(.*?)\]", plain, re.DOTALL)
    asked = dict(re.findall(r'(\w+) = "([^"]+)"', fields))
    assert set(asked) == {"model", "accelerator", "accelerator_count", "region"}
    figures = [row for row in await rows(client, "/estimate.csv", params=asked) if row["low"]]
    assert all(float(row[name]) >= 0 for row in figures for name in ("value", "high"))
    [looked_up] = re.findall(r'XLOOKUP\("([\w.]+)"', "".join(formulas()))
    assert looked_up in {row["figure"] for row in figures}

    [question] = re.findall(r'Question = "(.*?)",\n', compared, re.DOTALL)
    body = json.loads(question.replace('""', '"'))
    table = await rows(
        client, "/v1/compare", method="POST", json=body, headers={"Accept": "text/csv"}
    )
    assert len(table) == 4


@pytest.mark.parametrize("collection", ["accelerators", "instances", "regions"])
async def test_lists_are_tables(collection: str, client: httpx.AsyncClient) -> None:
    assert f"/v1/{collection}" in PAGE.read_text()
    assert await rows(client, f"/v1/{collection}", headers={"Accept": "text/csv"})
