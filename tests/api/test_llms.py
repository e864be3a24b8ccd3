"""The introduction for language models is true and whole."""

from __future__ import annotations

import json
import re


async def test_every_operation_is_named_with_its_purpose(client):
    text = (await client.get("/llms.txt")).text
    contract = (await client.get("/openapi.json")).json()
    assert text.startswith("# Headroom\n\n> ")
    for path, operations in contract["paths"].items():
        for method, operation in operations.items():
            assert f"- `{method.upper()} {path}`: {operation['summary']}" in text


async def test_its_links_lead_somewhere(client):
    text = (await client.get("/llms.txt")).text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    for link in links:
        assert (await client.get(link)).status_code == 200


async def test_its_first_question_is_answered(client):
    text = (await client.get("/llms.txt")).text
    path, body = re.search(r"    POST (\S+)\n((?:    .+\n)+)", text).groups()
    response = await client.post(path, json=json.loads(body))
    assert response.status_code == 200


async def test_it_is_plain_text_that_caches_keep(client):
    response = await client.get("/llms.txt")
    assert response.headers["content-type"].startswith("text/plain")
    assert "max-age" in response.headers["cache-control"]
