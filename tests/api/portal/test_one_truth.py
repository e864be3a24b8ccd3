"""The same question has the same figures, through whatever it is asked."""

from __future__ import annotations

import csv
import html
import io
import re
from xml.etree import ElementTree

import pytest
from starlette.datastructures import QueryParams

from service.api.http.queries import query_request
from service.portal.questions import PageRequest
from service.portal.sharing import estimate_report, share_page
from service.reports.document import Table, Text

LOAD = "input_tokens=2048&output_tokens=256&concurrency=32"
QUESTIONS = [
    *(
        f"model={model}&accelerator={accelerator}&accelerator_count={count}&region={region}&{LOAD}"
        for model, accelerator, count, region in (
            ("llama-3.1-8b", "l40s", 1, "SE"),
            ("llama-3.1-8b", "h100", 1, "aws/us-east-1"),
            ("llama-3.1-70b", "h100", 8, "aws/eu-north-1"),
            ("llama-3.1-70b", "h100", 1, "FR"),
            ("llama-3.1-70b", "mi300x", 4, "DE"),
            ("qwen3-8b", "nvidia-a100-sxm-80gb", 2, "PL"),
            ("Qwen/Qwen3-30B-A3B", "h200", 2, "gcp/europe-west9"),
            ("mixtral-8x7b", "h100", 4, "US-VA"),
        )
    ),
    *(
        f"model=llama-3.1-8b&accelerator=h100&accelerator_count=2&region=SE&{more}"
        for more in (
            "concurrency=1",
            "concurrency=1&weights=fp8",
            "concurrency=8&input_tokens=8192",
            "concurrency=64&output_tokens=1024",
            "concurrency=4&arrivals=at_once",
            "concurrency=4&tensor=2",
            "concurrency=4&data=2",
            "concurrency=4&kv_cache=fp8",
            "concurrency=4&engine=sglang",
            "concurrency=4&weights=fp8&tensor=1&data=2",
        )
    ),
    # What a link leaves out is the same everywhere, the place included.
    "model=llama-3.1-8b&accelerator=h100",
    "model=llama-3.1-8b&accelerator=h100&region=SE",
    "model=llama-3.1-8b&accelerator=l40s&region=FR&concurrency=4",
    "model=llama-3.1-70b&accelerator=h100&region=SE&tensor=4&data=2",
    # As many as fit, and a limit of power.
    "model=llama-3.1-8b&accelerator=h100&region=SE&concurrency=max",
    "model=llama-3.1-8b&accelerator=h100&region=SE&concurrency=8&power_limit_w=400",
    # A rate in place of requests at once, limits, and an engine of its own.
    "model=llama-3.1-8b&accelerator=h100&region=aws/us-east-1&requests_per_s=4",
    "model=llama-3.1-8b&accelerator=l40s&region=SE&concurrency=8&ttft_s=0.1&tpot_s=0.05",
    "model=llama-3.1-8b&accelerator=rtx-4090&region=DE&concurrency=1&engine=llama.cpp",
]


def plain(text: str) -> str:
    """Text of a page without its markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_no_question_is_asked_twice():
    assert len(set(QUESTIONS)) == len(QUESTIONS) >= 20


@pytest.mark.parametrize(("at", "query"), list(enumerate(QUESTIONS)))
async def test_one_question_has_one_answer(at, query, client, packaged_snapshot):
    element = (await client.get(f"/verdict.json?{query}")).json()
    estimate = element["estimate"]
    # The figures of the verdict in words: what the element shows.
    figures = [one["text"] for one in element["figures"]]
    api = (await client.get(f"/v1/estimates/inference?{query}")).json()
    for part, name in (("memory", "total_bytes"), ("latency", "ttft_s"), ("latency", "tpot_s")):
        assert api[part][name] == estimate[part][name], name
    badge = await client.get(f"/v1/badges/inference?{query}")
    said = ElementTree.fromstring(badge.text).attrib["aria-label"]  # noqa: S314 - our own text
    assert element["load"] in said
    if estimate["memory"]["fits"]:
        assert f"{figures[1]}/token" in said
    table = await client.get(f"/estimate.csv?{query}")
    rows = {
        row["figure"]: row["value"]
        for row in csv.DictReader(io.StringIO(table.content.decode("utf-8-sig")))
    }
    assert float(rows["latency.ttft_s"]) == estimate["latency"]["ttft_s"]["value"]
    assert float(rows["memory.total_bytes"]) == estimate["memory"]["total_bytes"]["value"]
    assert rows["deployment.accelerator_count"] == str(estimate["deployment"]["accelerator_count"])
    request = query_request(QueryParams(query), PageRequest)
    report = estimate_report(request, packaged_snapshot)
    cells = {
        cell
        for section in report.sections[:2]
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
        for cell in row
    }
    assert set(figures) <= cells
    assert element["headline"] in [b.text for b in report.sections[0].blocks if isinstance(b, Text)]
    # The page draws eight charts of it, which takes most of a second.
    for address in ("/", "/embed") if at % 5 == 0 else ("/embed",):
        shown = plain((await client.get(f"{address}?{query}")).text)
        times = set(re.findall(r"[\d.,]+ (?:ms|s|min)\b|not known", shown))
        assert set(figures[:2]) <= times, address
        assert all(figure in shown for figure in figures), address
    assert element["headline"] in share_page(request, packaged_snapshot, "http://x/")


async def test_the_element_leads_to_no_page_that_would_tell_another_answer(client):
    asked = "model=llama-3.1-8b&accelerator=rtx-4090&region=SE"
    assert (await client.get(f"/verdict.json?{asked}")).json()["link"] == asked
    for more in ("kv_block_tokens=32", "prefix_cached_ratio=0.5"):
        element = await client.get(f"/verdict.json?{asked}&{more}")
        assert element.status_code == 200
        assert element.json()["link"] is None, more
        assert (await client.get(f"/embed?{asked}&{more}")).status_code == 422, more


async def test_a_wrong_badge_can_be_read(client):
    wrong = "/v1/badges/inference?model=nope&accelerator=l40s&region=SE"
    image = await client.get(wrong, headers={"Accept": "image/avif,image/*,*/*;q=0.8"})
    assert image.status_code == 200
    assert image.headers["cache-control"] == "no-store"
    said = ElementTree.fromstring(image.text).attrib["aria-label"]  # noqa: S314 - our own text
    assert said.startswith("headroom: cannot be answered: ")
    assert len(said) < 150
    assert (await client.get(wrong)).status_code == 422


async def test_what_is_taken_away_asks_the_same_again(client):
    text = (await client.get(f"/share?{QUESTIONS[0]}")).text
    for words in (
        "curl &#39;http",
        "urlopen(",
        "await fetch(",
        "vllm serve",
        "&lt;iframe",
        "[![",
        "&lt;headroom-estimate",
    ):
        assert words in text, words
    address = re.search(r"curl '([^']+)'", html.unescape(text))
    assert address is not None
    again = (await client.get(address[1])).json()
    first = (await client.get(f"/verdict.json?{QUESTIONS[0]}")).json()["estimate"]
    assert again["latency"]["ttft_s"] == first["latency"]["ttft_s"]
    for shared in (text, (await client.get(f"/?{QUESTIONS[0]}")).text):
        assert 'property="og:image" content="http' in shared


async def test_a_shared_link_has_a_picture_and_a_report(client):
    pytest.importorskip("vl_convert")
    picture = await client.get(f"/preview.png?{QUESTIONS[0]}")
    assert picture.content[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture.content[16:20], "big") == 1200
    report = await client.get(f"/estimate.pdf?{QUESTIONS[0]}")
    assert report.content.startswith(b"%PDF")


async def test_more_requests_than_can_be_answered_are_told_in_every_door(client):
    query = "model=llama-3.1-8b&accelerator=l40s&region=SE&requests_per_s=1000"
    said = "It fits, but cannot keep up with 1,000 requests a second."
    for path in ("/", "/answer", "/embed"):
        page = await client.get(f"{path}?{query}")
        assert said in plain(page.text), path
    element = (await client.get(f"/verdict.json?{query}")).json()
    assert element["headline"] == said
    assert element["figures"][0]["text"] == "keeps growing"
    assert (await client.get(f"/share?{query}")).status_code == 200
    badge = await client.get(f"/v1/badges/inference?{query}")
    assert "too slow for 1,000 requests a second" in badge.text
    side_by_side = await client.get(f"/compare?{query}&accelerator_2=h100")
    assert side_by_side.status_code == 200


@pytest.mark.parametrize(
    ("query", "decided"),
    [
        ("", "ZeRO stage 0"),
        ("&accelerator_count=8", "ZeRO stage 1"),
        ("&accelerator_count=8&framework=torchtitan", "ZeRO stage 3"),
        ("&accelerator_count=8&framework=torchtune&sequence_length=8192", "the loss in parts"),
        ("&framework=unsloth&method=qlora", "whole layers recomputed"),
        (
            "&accelerator_count=16&framework=megatron-lm&tensor=2&pipeline=4"
            "&gradient_accumulation_steps=8",
            "a pipeline interleaved in 4 parts per stage",
        ),
        ("&accelerator_count=8&zero_stage=3&activation_checkpointing=full", "FlashAttention"),
    ],
)
async def test_a_run_has_one_answer_however_little_is_said(query, decided, client):
    asked = f"model=llama-3.1-8b&accelerator=nvidia-h100-sxm-80gb&region=SE{query}"
    api = (await client.get(f"/v1/estimates/training?{asked}")).json()
    table = await client.get(f"/training.csv?{asked}")
    rows = {
        row["figure"]: row["value"]
        for row in csv.DictReader(io.StringIO(table.content.decode("utf-8-sig")))
    }
    for part, name in (("memory", "total_bytes"), ("latency", "step_s")):
        assert float(rows[f"{part}.{name}"]) == api[part][name]["value"]
    page = (await client.get(f"/training?{asked}")).text
    assert decided in plain(page.partition('id="settled">')[2].partition("</p>")[0])
    # The cell of the run that is asked is marked, whoever chose it.
    marked = re.findall(r'aria-current="true">([^<]+)</a>', page)
    assert f"{api['memory']['total_bytes']['value'] / 1e9:.3g}" in " ".join(marked)
