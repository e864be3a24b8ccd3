"""Whoever moves an answer has to raise the version of the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.answers.asked import digest
from tests.answers.record import RENEW, AnswersMoved, Record, present, recorded, renewed

BEFORE = Record("1.0.0", "a catalog", "answers")


def test_answers_are_those_of_the_record() -> None:
    now, before = present(), recorded()
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
