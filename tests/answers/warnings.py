"""Warnings as whoever decides reads them: a sentence with names, about something that is there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from service.estimation.remarks import ABOUT

#: Words of formats and engines' settings, which people write as they are.
_SNAKE = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")
_ID = re.compile(r"[\w.@+-]+(?:[/@-][\w.@+-]+)+")
_QUOTED = re.compile(r"'[^']*'")
_DOUBLE_NEGATIVE = re.compile(r"\b(no|not|never|nobody|nothing)\b[^.:;,]*\bun[a-z]+ed\b")


def told(answer: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    """Warnings within an answer, with what holds them."""
    if isinstance(answer, dict):
        for one in answer.get("warnings") or ():
            yield answer, one
        for part in answer.values():
            yield from told(part)
    elif isinstance(answer, list):
        for part in answer:
            yield from told(part)


#: Names of software that are written so where a sentence begins, too.
_LOWER_NAMES = ("vLLM ", "llama.cpp ", "llm.c ", "llm.q ")


def faults(
    warning: dict[str, str], holder: Any, bodies: Collection[Any], known: Collection[str]
) -> list[str]:
    """What is wrong with a warning.

    Parameters
    ----------
    warning, holder
        The warning, and the part of the answer that holds it.
    bodies
        Requests that its pointer may lead into.
    known
        Ids of the catalog that have a name, which people read instead.
    """
    said = _QUOTED.sub("", warning["message"])
    begins = (
        said.startswith(_LOWER_NAMES)
        or said[:1].isupper()
        or said[:1].isdigit()
        or not said[:1].isalpha()
    )
    named = {found[0] for found in _ID.finditer(said)} & set(known)
    leads = any(_resolves(warning["pointer"], each) for each in (holder, *bodies))
    found = {
        "its code is about nothing": warning["code"] not in ABOUT,
        "it has a name of a field": _SNAKE.search(said),
        "it has an id in place of a name": named,
        "it denies twice": _DOUBLE_NEGATIVE.search(said),
        "it is no sentence": not (begins and said.endswith(".")),
        "its pointer leads nowhere": not (warning["pointer"] and leads),
    }
    return [fault for fault, is_so in found.items() if is_so]


def _resolves(pointer: str, document: Any) -> bool:
    for part in pointer.split("/")[1:]:
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return False
    return True
