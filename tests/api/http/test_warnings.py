"""Warnings as whoever decides reads them: a sentence with names, about something that is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import service
from service.estimation.remarks import ABOUT
from tests.answers.asked import questions

#: Words of formats and engines' settings, which people write as they are.
_SNAKE = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
_ID = re.compile(r"[\w.@+-]+(?:[/@-][\w.@+-]+)+")
_QUOTED = re.compile(r"'[^']*'")
_DOUBLE_NEGATIVE = re.compile(r"\b(no|not|never|nobody|nothing)\b[^.:;,]*\bun[a-z]+ed\b")

WHERE = Path(service.__file__).parent


def _told(answer: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    """Warnings within an answer, with what holds them."""
    if isinstance(answer, dict):
        for one in answer.get("warnings") or ():
            yield answer, one
        for part in answer.values():
            yield from _told(part)
    elif isinstance(answer, list):
        for part in answer:
            yield from _told(part)


def _resolves(pointer: str, document: Any) -> bool:
    for part in pointer.split("/")[1:]:
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return False
    return True


def _codes() -> set[str]:
    """Codes of all warnings that formulas and use cases give."""
    return {
        call.args[0].value
        for file in WHERE.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") == "EstimateWarning"
        and isinstance(call.args[0], ast.Constant)
    }


def test_every_code_says_what_it_is_about() -> None:
    assert _codes() <= ABOUT.keys()


@pytest.fixture(scope="module")
def known(packaged_snapshot) -> set[str]:
    """Ids of the catalog that have a name."""
    return {
        id_
        for entries in (
            packaged_snapshot.accelerators,
            packaged_snapshot.regions,
            packaged_snapshot.instances,
            packaged_snapshot.memory_tiers,
            packaged_snapshot.platforms,
        )
        for id_ in entries
    }


async def test_warnings_are_sentences_about_what_is_there(client, known):
    seen, wrong = set(), []
    for question in questions():
        body = question.get("body")
        if not isinstance(body, dict):
            continue
        response = await client.request(question["method"], question["path"], json=body)
        if response.status_code != 200 or "json" not in response.headers["content-type"]:
            continue
        bodies = [body, *(body.get("requests") or ())]
        answer = response.json()
        for holder, one in _told(answer):
            said = _QUOTED.sub("", one["message"])
            seen.add(one["code"])
            faults = (
                one["code"] not in ABOUT,
                _SNAKE.search(said),
                {found[0] for found in _ID.finditer(said)} & known,
                _DOUBLE_NEGATIVE.search(said),
                not (said[:1].isupper() or said[:1].isdigit() or not said[:1].isalpha()),
                not said.endswith("."),
                not one["pointer"],
                not any(_resolves(one["pointer"], each) for each in (holder, *bodies)),
            )
            if any(faults):
                wrong.append((question["path"], one, [at for at, f in enumerate(faults) if f]))
        for holder in {id(holder): holder for holder, _ in _told(answer)}.values():
            told = [(one["code"], one["message"]) for one in holder["warnings"]]
            assert len(told) == len(set(told))
    assert len(seen) > 40
    assert wrong == []
