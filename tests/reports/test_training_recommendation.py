"""Recommendations of training as documents."""

from __future__ import annotations

import io
from typing import Any

from pypdf import PdfReader

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.verdict.figures import days
from service.estimation.wording import spoken
from service.reports.document import Document, Text, in_words
from service.reports.rendering import as_html, as_pdf
from service.reports.training_recommendation import training_recommendation_document
from tests.reports.test_recommendation import Page, packed, texts

BODY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "training": {"tokens": 1e9, "methods": ["full", "lora"]},
    "limits": {"days": 4.0},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "amd-mi300x-192gb"],
        "regions": ["aws/eu-north-1", "aws/us-east-1"],
        "max_accelerators": 16,
    },
}


def told(snapshot: CatalogSnapshot, **changes: Any) -> tuple[dict[str, Any], Document]:
    request = TrainingRecommendationRequest.model_validate(BODY | changes)
    answer = training_recommendation_answer(request, snapshot)
    return answer, training_recommendation_document(request, answer, snapshot)


def test_a_meeting_finds_the_run_its_price_and_its_reasons(packaged_snapshot):
    answer, document = told(packaged_snapshot)
    said = "\n".join(texts(document))
    assert document.title == "Where to train meta-llama/Llama-3.1-8B"
    assert "1,000,000,000" in said
    for choice in answer["choices"]:
        candidate, run = choice["candidate"], choice["estimate"]["latency"]["run"]
        accelerator = packaged_snapshot.accelerators[candidate["accelerator"]].value.name
        assert f"{candidate['accelerator_count']} × {accelerator}" in said
        assert in_words(run["days"], days) in said
        for warning in choice["estimate"]["warnings"]:
            assert spoken(warning["message"], packaged_snapshot) in said
    for entry in answer["provenance"]["entries"]:
        for source in entry["sources"]:
            assert source["title"] in said
    page = Page(as_html(document))
    assert not page.open
    assert not page.reached
    for text in texts(document):
        assert packed(text) in packed("".join(page.said))
    assert len(PdfReader(io.BytesIO(as_pdf(document))).pages) >= 2


def test_the_printed_request_gives_the_same_answer(packaged_snapshot):
    answer, document = told(packaged_snapshot)
    *commands, repeated = (
        block.text
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Text) and block.weight == "code"
    )
    assert commands == [one["start"]["command"] for one in answer["choices"] if one["start"]]
    again = TrainingRecommendationRequest.model_validate_json(repeated, strict=True)
    assert training_recommendation_answer(again, packaged_snapshot) == answer


def test_when_nothing_will_do_it_says_what_would(packaged_snapshot):
    answer, document = told(packaged_snapshot, limits={"days": 0.001})
    said = "\n".join(texts(document))
    assert "None of the candidates meets all limits." in said
    assert "length of the run is" in said
    assert " minutes less" in said
    assert answer["least_violating"][0]["accelerator"] in said
