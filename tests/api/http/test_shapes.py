"""Answers as large as they were asked for: small by default, groups by include, parts by fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.estimation.inference.answers import InferenceAnswer
from service.estimation.training.answers import EstimateTrainingAnswer
from service.estimation.use_cases import USE_CASES
from tests.answers.asked import questions
from tests.answers.whole import groups
from tests.api.conftest import MAIN
from tests.api.shapes import validated

#: Most bytes of the usual answers, 8.75 KiB, and of whatever else is asked beside what is usual.
MOST_BYTES = 8_960
MOST_BYTES_OF_ALL = 10_800
#: What takes room of its own, because it is asked for.
ASKED_FOR = ("explain", "compliance", "training")

PATH = "/v1/estimates/inference"


async def test_estimates_are_small(client):
    sizes = []
    for question in questions():
        if question["path"] != PATH or question["method"] != "POST":
            continue
        body = {name: part for name, part in question["body"].items() if name not in ASKED_FOR}
        response = await client.post(PATH, json=body)
        if response.status_code == 200:
            validated(InferenceAnswer, response.json())
            sizes.append(len(response.content))
    assert len(sizes) > 40
    assert sorted(sizes)[len(sizes) // 2] <= MOST_BYTES
    assert max(sizes) <= MOST_BYTES_OF_ALL
    plain = await client.post(PATH, json=MAIN)
    assert len(plain.content) <= MOST_BYTES
    rate = {"workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 2}}
    assert len((await client.post(PATH, json=MAIN | rate)).content) <= MOST_BYTES


async def test_every_group_adds_what_it_says_and_leaves_the_rest(client):
    small = (await client.post(PATH, json=MAIN)).json()
    assert small["provenance"].keys() == {"sources", "assumed"}
    source = (await client.get(f"/v1/sources/{small['provenance']['sources'][0]}")).json()
    assert source["url"]
    for group in USE_CASES["estimates/inference"].groups:
        answer = (await client.post(PATH, json=MAIN | {"include": [group]})).json()
        validated(InferenceAnswer, answer)
        assert _within(small, answer), group
        assert answer != small, group
    explained = (await client.post(PATH, json=MAIN | {"include": ["explanation"]})).json()
    assert explained == (await client.post(PATH, json=MAIN | {"explain": True})).json()


async def test_training_has_its_groups(client):
    body = USE_CASES["estimates/training"].request.model_config["json_schema_extra"]["examples"][1]
    path = "/v1/estimates/training"
    small = (await client.post(path, json=body)).json()
    whole = (await client.post(path, json=body | {"include": groups(path)})).json()
    validated(EstimateTrainingAnswer, small)
    validated(EstimateTrainingAnswer, whole)
    assert _within(small, whole)
    assert {"parts", "operations"} <= whole["latency"].keys() - small["latency"].keys()
    assert {"stages", "plans"} <= whole["memory"].keys() - small["memory"].keys()


def _within(small: object, whole: object) -> bool:
    """Whether one answer has all that the other has, and as it is there."""
    if isinstance(small, dict) and isinstance(whole, dict):
        return all(name in whole and _within(part, whole[name]) for name, part in small.items())
    if isinstance(small, list) and isinstance(whole, list) and small and isinstance(small[0], str):
        # More is told, and more sources and assumptions with it.
        return {*_words(small)} <= {*_words(whole)}
    if isinstance(small, list) and isinstance(whole, list) and small and "code" in small[0]:
        # A pointer leads to the field that a warning is about where the answer has it.
        told = [(warning["code"], warning["message"]) for warning in whole]
        return all((warning["code"], warning["message"]) in told for warning in small)
    return small == whole


def _words(listed: list[str]) -> Iterator[str]:
    """Each entry, or each of the figures that an entry names."""
    for one in listed:
        named, _, figures = one.partition(": ")
        yield from (f"{named}: {figure}" for figure in figures.split(", "))


async def test_fields_answer_just_these(client):
    whole = (await client.post(PATH, json=MAIN | {"include": groups(PATH)})).json()
    fields = ["memory.total_bytes", "latency.tpot_s.value", "latency.prefill", "cost"]
    answer = (await client.post(PATH, json=MAIN | {"fields": fields})).json()
    assert answer.keys() == {"memory", "latency", "cost"}
    assert answer["memory"] == {"total_bytes": whole["memory"]["total_bytes"]}
    assert answer["latency"]["tpot_s"] == {"value": whole["latency"]["tpot_s"]["value"]}
    assert answer["latency"]["prefill"].keys() == {"bottleneck"}
    # A path into a group includes it, with or without the rest of what is around.
    into = ["memory.weights_by_class_bytes", "impacts.period.water.stress_weighted_l", "warnings"]
    answer = (await client.post(PATH, json=MAIN | {"fields": into})).json()
    assert answer["memory"]["weights_by_class_bytes"] == whole["memory"]["weights_by_class_bytes"]
    stressed = whole["impacts"]["period"]["water"]["stress_weighted_l"]
    assert answer["impacts"] == {"period": {"water": {"stress_weighted_l": stressed}}}
    # What a list of groups adds is there below a path that ends above it.
    both = {"fields": ["latency.prefill"], "include": ["latency.breakdown"]}
    answer = (await client.post(PATH, json=MAIN | both)).json()
    assert answer == {"latency": {"prefill": whole["latency"]["prefill"]}}


async def test_links_spell_both_with_commas(client):
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=h100"
    included = (await client.get(f"{link}&include=deployment,remedies")).json()
    assert {"workload", "serving"} <= included["deployment"].keys()
    assert included["plans"] == []
    chosen = (await client.get(f"{link}&fields=total_bytes.value,fits")).json()
    assert chosen.keys() == {"total_bytes", "fits"}


@pytest.mark.parametrize(
    ("asked", "pointer", "told", "suggestion"),
    [
        ({"include": ["provenence"]}, "/include", "did you mean provenance?", "provenance"),
        (
            {"include": ["impacts"]},
            "/include",
            "did you mean impacts.breakdown?",
            "impacts.breakdown",
        ),
        ({"include": "everything"}, "/include", "known: provenance, ", None),
        ({"include": ["front"]}, "/include", "nothing of that name", None),
        ({"fields": ["memory.total"]}, "/fields/0", "has no", "memory.total_bytes"),
        ({"fields": ["cost", "tpot_s"]}, "/fields/1", "did you mean", "latency.tpot_s"),
        ({"fields": ["warnings.0.code"]}, "/fields/0", "warnings is a list", "warnings"),
        ({"fields": ["memory.fits.why"]}, "/fields/0", "memory.fits has no parts", "memory.fits"),
        ({"fields": ["\x00"]}, "/fields/0", "known here: catalog_revision", None),
        ({"fields": [""]}, "/fields/0", "at least 1 character", None),
    ],
)
async def test_unknown_names_are_told_the_nearest(client, asked, pointer, told, suggestion):
    response = await client.post(PATH, json=MAIN | asked)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == pointer
    assert told in error["detail"]
    if suggestion is not None:
        assert suggestion in error["suggestions"]


async def test_a_plan_to_compare_with_has_no_shape_of_its_own(client):
    body = {
        "model": "llama-3.1-8b",
        "search": {"accelerators": ["nvidia-l40s-48gb"], "regions": ["country/SE"]},
        "baseline": MAIN | {"fields": ["cost"]},
    }
    response = await client.post("/v1/recommendations", json=body)
    assert response.json()["errors"][0]["pointer"] == "/baseline/fields"
