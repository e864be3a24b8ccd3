"""What the recorded questions are answered: moved with a new version only, and warned in sentences.

They are asked once, for all that is to hold of their answers.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import service
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.remarks import ABOUT
from tests.answers import warnings
from tests.answers.asked import ask_all, digest
from tests.answers.record import RENEW, AnswersMoved, Record, asked, present, recorded, renewed

BEFORE = Record("1.0.0", "a catalog", "answers")


#: What is warned of searches that find nothing, and of places that nobody named.
SEARCHES: list[dict[str, Any]] = [
    {
        "method": "POST",
        "path": "/v1/recommendations",
        "body": {
            "model": "meta-llama/Llama-2-7b-hf",
            "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 2},
            "search": {"accelerators": ["nvidia-jetson-agx-orin-64gb"]},
        }
        | more,
    }
    for more in ({"workload_kind": "edge"}, {"limits": {"ttft_s": 0.001}})
]
ASKED = (*asked(), *SEARCHES)


@pytest.fixture(scope="module")
def answered() -> list[dict[str, Any]]:
    return asyncio.run(ask_all(ASKED))


def test_answers_are_those_of_the_record(answered: list[dict[str, Any]]) -> None:
    now, before = present(answered[: -len(SEARCHES)]), recorded()
    renewed(before, now)
    assert now == before, RENEW


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"engine_version": "1.1.0"},
        {"engine_version": "1.1.0", "answers": "others"},
        {"catalog": "another", "answers": "others"},
    ],
)
def test_a_record_may_follow_the_version_and_the_catalog(change: dict[str, str]) -> None:
    now = replace(BEFORE, **change)
    assert renewed(BEFORE, now) == now


def test_answers_do_not_move_by_themselves() -> None:
    with pytest.raises(AnswersMoved, match="raise ENGINE_VERSION"):
        renewed(BEFORE, replace(BEFORE, answers="others"))


def test_a_digest_sees_figures_and_not_their_last_digits() -> None:
    answer = [{"status": 200, "answer": {"total_bytes": 1.23456789e9, "engine_version": "1"}}]

    def changed(**parts: object) -> str:
        return digest([{"status": 200, "answer": answer[0]["answer"] | parts}])  # type: ignore[operator]

    assert digest(answer) == changed(total_bytes=1.23456788e9) == changed(engine_version="2")
    assert digest(answer) != changed(total_bytes=1.2346e9)
    assert digest(answer) != changed(fits=True)


#: Differences, whose sign says which of two is larger.
SIGNED = ("headroom_bytes", "margin_db", "saved_kgco2e_per_gb")


def ranges(answer: Any, name: str = "") -> Iterator[tuple[str, float, float, float]]:
    """Every figure with its range: what it is called, its value, lower and upper end."""
    if isinstance(answer, list):
        for part in answer:
            yield from ranges(part, name)
    elif isinstance(answer, dict):
        ends = [answer.get(key) for key in ("value", "low", "high")]
        if all(isinstance(end, float | int) for end in ends):
            yield (name, *ends)  # type: ignore[misc]
        for key, part in answer.items():
            yield from ranges(part, key)


def test_ranges_are_in_order_and_no_amount_is_below_nothing(answered: list[dict[str, Any]]) -> None:
    seen, wrong = 0, []
    for question, found in zip(ASKED, answered, strict=True):
        for name, value, low, high in ranges(found["answer"]):
            seen += 1
            rounding = 1e-12 * max(abs(low), abs(high))
            ordered = low - rounding <= value <= high + rounding
            if not ordered or (low < 0.0 and name not in SIGNED):
                wrong.append((question["path"], name, value, low, high))
    assert seen > 10_000
    assert wrong == []


def test_every_code_of_a_warning_says_what_it_is_about() -> None:
    codes = {
        call.args[0].value
        for file in Path(service.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") == "EstimateWarning"
        and isinstance(call.args[0], ast.Constant)
    }
    assert codes
    assert codes <= ABOUT.keys()


def test_warnings_are_sentences_about_what_is_there(
    answered: list[dict[str, Any]], packaged_snapshot: CatalogSnapshot
) -> None:
    named = {
        *packaged_snapshot.accelerators,
        *packaged_snapshot.regions,
        *packaged_snapshot.instances,
        *packaged_snapshot.memory_tiers,
        *packaged_snapshot.platforms,
    }
    seen, wrong = set(), []
    for question, found in zip(ASKED, answered, strict=True):
        body = question.get("body")
        if found["status"] != 200 or not isinstance(body, dict):
            continue
        bodies = (body, *(body.get("requests") or ()))
        told = list(warnings.told(found["answer"]))
        for holder, one in told:
            seen.add(one["code"])
            if faults := warnings.faults(one, holder, bodies, named):
                wrong.append((question["path"], one, faults))
        for holder in {id(holder): holder for holder, _ in told}.values():
            said = [(one["code"], one["message"]) for one in holder["warnings"]]
            assert len(said) == len(set(said))
    assert len(seen) > 40
    assert wrong == []
