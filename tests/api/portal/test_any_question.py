"""Whatever a form or a link asks, its page answers or says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from service.api.http.queries import flat_fields
from service.estimation.formatting import duration, number
from service.portal.comparison import ComparePageRequest
from service.portal.plan_questions import FleetPageRequest, SitePageRequest, TrafficPageRequest
from service.portal.questions import PageRequest
from service.portal.training_questions import TrainingPageRequest

DOORS = {
    "/answer": PageRequest,
    "/embed": PageRequest,
    "/share": PageRequest,
    "/estimate.csv": PageRequest,
    "/steps": PageRequest,
    "/compare-answer": ComparePageRequest,
    "/training-answer": TrainingPageRequest,
    "/training.csv": TrainingPageRequest,
    "/fleet-answer": FleetPageRequest,
    "/traffic-answer": TrafficPageRequest,
    "/site-answer": SitePageRequest,
}
#: One of each kind: dense, experts, encoders, speech, states in place of caches, vision.
MODELS = (
    *("llama-3.1-8b",) * 4,
    "deepseek-v3",
    "bge-m3",
    "openai/whisper-large-v3",
    "state-spaces/mamba2-2.7b",
    "qwen/qwen2.5-vl-7b-instruct",
    "google-t5/t5-base",
)
#: Large and small, whole machines, and what no engine runs on.
ACCELERATORS = (
    "h100",
    "l40s",
    "mi300x",
    "google-tpu-v5e",
    "apple-m2-ultra-128gb",
    "nvidia-rtx-4090-24gb",
    "ampereone-a192-32x",
    "cerebras-wse-3",
)
REGIONS = ("aws/eu-north-1", "country/DE", "US-VA", "azure/qatarcentral", "aws/us-gov-west-1")
NUMBERS = ("0.01", "1", "2", "3", "8", "50", "1000", "100000", "nan", "")
QUESTIONS = 60
#: What is expensive and tested elsewhere: searches, and models of the Hub.
NOT_ASKED = {"recommend", "hub", "config", "catalog_revision", "as_of", "calibration"}


def _texts(model: type[Any], name: str) -> tuple[str, ...]:
    """What people may put into a field: what it offers, or numbers likely and unlikely."""
    kind = name.rstrip("_234")
    known = {"model": MODELS, "accelerator": ACCELERATORS, "region": REGIONS}
    if kind in known:
        return known[kind]
    described = model.model_json_schema()["properties"].get(name, {})
    choices = [
        str(choice)
        for one in (described, *described.get("anyOf", ()))
        for choice in one.get("enum", [one["const"]] if "const" in one else [])
    ]
    if choices:
        return tuple(choices)
    if "weights" in kind or "kv_cache" in kind:
        return ("bf16", "fp8", "int4", "q4_k_m", "nonsense")
    return NUMBERS


def _questions(door: str, count: int) -> Iterator[dict[str, str]]:
    """The same questions each time: drawn evenly, as faults lie where fields meet."""
    model, drawn = DOORS[door], Random(door)  # noqa: S311 - no secret
    texts = {name: _texts(model, name) for name in flat_fields(model) if name not in NOT_ASKED}
    always = [name for name in ("model", "accelerator", "region") if name in texts]
    others = [name for name in texts if name not in always]
    for _ in range(count):
        names = [*always, *drawn.sample(others, drawn.randint(1, 6))]
        yield {name: drawn.choice(texts[name]) for name in names}


@pytest.mark.parametrize("door", DOORS)
async def test_no_question_is_beyond_a_page(door, client):
    answers = [(one, await client.get(door, params=one)) for one in _questions(door, QUESTIONS)]
    assert not [one for one, answer in answers if answer.status_code not in (200, 404, 422)]
    assert any(answer.status_code == 200 for _, answer in answers)


async def test_hardware_that_nobody_can_estimate_is_told_its_limits(client):
    query = "/?model=llama-2-70b&accelerator=groq-lpu-v1&concurrency=1&input_tokens=1024"
    refused = await client.get(query)
    assert refused.status_code == 422
    assert "What this hardware allows at most" in refused.text
    assert "602 of them hold the model" in refused.text
    assert "estimates/bounds tells" not in refused.text
    link = refused.text.partition('href="v1/estimates/bounds')[2].partition('"')[0]
    answer = (await client.get("/v1/estimates/bounds" + link.replace("&amp;", "&"))).json()
    assert answer["accelerator_count"] == 602
    shown = refused.text.replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        duration(answer["speed"]["least_tpot_in_turn_s"]),
        f"{number(answer['it_power_w']['value'] / 1e3)} kW",
    ):
        assert f"<td>{words}</td>" in shown
    other = await client.get("/?model=llama-2-70b&accelerator=nothing-known")
    assert "allows at most" not in other.text
