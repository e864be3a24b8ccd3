"""Recommendations as documents: nothing left out, nothing let in, the same in both forms."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from pypdf import PdfReader

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import duration
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.reports.decision import best_for
from service.reports.document import (
    Bars,
    Document,
    Section,
    Table,
    Text,
    figure,
    in_words,
    listed,
    number,
    percent,
)
from service.reports.recommendation import recommendation_document
from service.reports.rendering import as_html, as_pdf

BODY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 4.0},
    "limits": {"ttft_s": 1.0, "tpot_s": 0.05, "weight_bits_at_least": 8},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb", "amd-mi300x-192gb"],
        "regions": ["aws/eu-north-1", "aws/us-east-1"],
        "max_accelerators": 8,
    },
    "usd_per_accelerator_hour": {"nvidia-h100-sxm-80gb": 3.0},
}


def told(
    snapshot: CatalogSnapshot, **changes: Any
) -> tuple[RecommendationRequest, dict[str, Any], Document]:
    request = RecommendationRequest.model_validate(BODY | changes)
    answer = recommendation_answer(request, snapshot)
    return request, answer, recommendation_document(request, answer, snapshot)


def texts(document: Document) -> list[str]:
    """Everything that a document says."""
    found = [document.title, document.subtitle]
    for section in document.sections:
        found.append(section.title)
        for block in section.blocks:
            if isinstance(block, Text):
                found.append(block.text)
            elif isinstance(block, Table):
                found += [block.caption, *block.columns]
                found += [cell for row in block.rows for cell in row]
            else:
                assert isinstance(block, Bars)
                found.append(block.caption)
                found += [part for bar in block.bars for part in (bar.label, bar.text)]
    return found


class Page(HTMLParser):
    """Collects texts, and what a page would fetch or run."""

    VOID = frozenset({"meta"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self.open: list[str] = []
        self.reached: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.reached += [name for name, _ in attrs if name in ("src", "href", "action")]
        self.reached += [name for name, _ in attrs if name.startswith("on")]
        if tag in ("script", "link", "iframe", "object", "form"):
            self.reached.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def packed(text: str) -> str:
    """Without what is set differently: white space, break marks, ligatures."""
    for ligature, letters in (("ﬁ", "fi"), ("ﬂ", "fl"), ("ﬀ", "ff"), ("ﬃ", "ffi"), ("ﬄ", "ffl")):
        text = text.replace(ligature, letters)
    return re.sub(r"[\s\u200b\u00ad\x00-]+", "", text)


@pytest.mark.parametrize("limits", [BODY["limits"], {"tpot_s": 1e-6}])
def test_page_and_pdf_say_all_that_the_document_says(packaged_snapshot, limits):
    _, _, document = told(packaged_snapshot, limits=limits)
    said = texts(document)
    page = Page(as_html(document))
    assert not page.open
    assert not page.reached
    on_page = packed("".join(page.said))
    reader = PdfReader(io.BytesIO(as_pdf(document)))
    on_paper = packed("".join(sheet.extract_text() for sheet in reader.pages))
    assert reader.metadata is not None
    assert reader.metadata.title == document.title
    for text in said:
        assert packed(text) in on_page
    # Cells that run over lines or sheets are interleaved there; words are not.
    for word in {word for text in said for word in re.findall(r"[^\W\d_]{4,}", text)}:
        assert word in on_paper, word


def test_a_meeting_finds_inputs_choice_reasons_limits_and_sources(packaged_snapshot):
    request, answer, document = told(packaged_snapshot)
    said = "\n".join(texts(document))
    first = answer["choices"][0]
    assert first["candidate"]["accelerator"] in said
    assert "4 requests per second" in said
    assert "H100 SXM5 80 GB: 3 USD" in said
    for choice in answer["choices"]:
        assert ", ".join(best_for(choice)) in said
        if choice["against"] is not None:
            assert choice["against"]["in_words"] in said
        latency = choice["estimate"]["latency"]["ttft_s"]
        assert in_words(latency, duration) in said
        for warning in choice["estimate"]["warnings"]:
            assert warning["message"] in said
    for entry in answer["provenance"]["entries"]:
        for source in entry["sources"]:
            assert source["title"] in said
    for one in answer["excluded"]:
        assert f"{one['candidates']:,}" in said
    assert f"catalog revision {packaged_snapshot.revision}" in said
    *commands, repeated = (
        block.text
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Text) and block.weight == "code"
    )
    assert commands == [one["start"]["command"] for one in answer["choices"] if one["start"]]
    again = RecommendationRequest.model_validate_json(repeated, strict=True)
    assert recommendation_answer(again, packaged_snapshot) == answer
    assert request.catalog_revision is None


def test_when_nothing_will_do_it_says_what_would(packaged_snapshot):
    _, answer, document = told(packaged_snapshot, limits={"tpot_s": 1e-6})
    said = "\n".join(texts(document))
    assert "None of the candidates meets all limits" in said
    assert answer["least_violating"][0]["accelerator"] in said
    assert "and must be" in said


def test_limits_of_rules_and_of_the_site_are_told_by_name(packaged_snapshot):
    """They are objects of the request, each with a limit or several."""
    noise = {"at_most_db": 60, "machine_sound_power_db": 80, "receptor_distance_m": 50}
    limits = {"site": {"rack_kw": 60, "noise": noise}, "compliance": {"on": "2026-01-01"}}
    _, _, document = told(packaged_snapshot, limits=limits)
    said = "\n".join(texts(document))
    for name, value in (
        ("power of a rack", "60 kW"),
        ("noise where it is heard", "60 dB(A)"),
        ("rules that are not kept", "0 rules"),
    ):
        assert f"{name}\n{value}" in said


def test_what_a_request_brings_is_text_and_nothing_else(packaged_snapshot):
    hostile = "<script>alert(1)</script>#panic()*x*\\u{0} $x$ @a <b>"
    config = dict(packaged_snapshot.find("models", BODY["model"]).document["config"])
    request, answer, document = told(packaged_snapshot, model={"config": {**config, "x": hostile}})
    page = as_html(document)
    assert "<script" not in page
    assert not Page(page).reached
    reader = PdfReader(io.BytesIO(as_pdf(document)))
    on_paper = packed("".join(sheet.extract_text() for sheet in reader.pages))
    assert "#panic()*x*" in on_paper
    long = {"config": {**config, "x": "y" * 200_000}}
    longer = request.model_copy(
        update={"model": RecommendationRequest.model_validate(BODY | {"model": long}).model}
    )
    assert (
        len(as_html(recommendation_document(longer, answer, packaged_snapshot)))
        < len(page) + 10_000
    )


def test_the_same_document_gives_the_same_bytes(packaged_snapshot):
    _, _, document = told(packaged_snapshot)
    assert as_pdf(document) == as_pdf(document)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (None, "not known"),
        (float("nan"), "not known"),
        (0.0312345, "0.0312"),
        (1234567.0, "1,230,000"),
        (99.96, "100"),
        (-2.5, "−2.5"),
        (12.0, "12"),
    ],
)
def test_numbers_have_three_digits(value, written):
    assert number(value) == written


def test_figures_have_their_interval():
    assert figure({"value": 2.0, "low": 1.0, "high": 3.456}, "s") == "2 s (1 to 3.46)"
    assert figure({"value": 2e9, "low": 2e9, "high": 2e9}, "GB", 1e-9) == "2 GB"
    assert figure(None, "s") == "not known"
    assert percent(0.125) == "12.5 %"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


def test_a_meeting_decides_on_the_first_two_pages(packaged_snapshot):
    load = {"input_tokens": 512, "output_tokens": 128, "concurrency": 8}
    own = {"model": BODY["model"], "accelerator": "nvidia-l40s-48gb", "accelerator_count": 1}
    baseline = {**own, "region": "aws/us-east-1", "workload": load}
    _, answer, document = told(packaged_snapshot, workload=load, baseline=baseline)
    reader = PdfReader(io.BytesIO(as_pdf(document)))
    pages = [packed(page.extract_text()) for page in reader.pages]
    appendix = next(at for at, page in enumerate(pages) if packed("Appendix: the request") in page)
    assert 1 <= appendix <= 2
    first = "".join(pages[:appendix])
    for chapter in ("The answer", "The figures", "What limits it", "What to do", "The choices"):
        assert packed(chapter) in first
    chosen = answer["choices"][0]
    assert packed(f"Choose {chosen['candidate']['accelerator_count']} ×") in first
    assert packed(chosen["against"]["in_words"]) in first
    assert "1e-" not in first
    # A long id breaks, rather than runs into the next column or off the sheet.
    name = "x" * 160
    long = replace(document, sections=(Section("Ids", (Table(("a", "b"), ((name, name),)),)),))
    sheet = PdfReader(io.BytesIO(as_pdf(long))).pages[0].extract_text()
    assert name not in sheet
    assert packed(sheet).count("x") == 320
