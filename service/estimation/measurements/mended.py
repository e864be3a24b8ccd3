"""Slips of files that leave no doubt what is meant, put right before a document is read.

Nothing is done in silence: each step is told. What remains wrong is refused where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from service.estimation.measurements.quantities import OUT_OF_MEMORY, canonical

_CONFIDENCES = ("high", "medium", "low")
_POINTER = re.compile(r"(/[^/]+)+")
#: A field's path at the beginning of a remark, such as ``precision.kv_cache (default f16)``.
_PATH = re.compile(r"(?:request\.)?([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)")
_DAY = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
_MOST_ASSUMED = 40
#: Texts of a document with the most characters that they may have.
_TEXTS: Mapping[str, int] = {
    "id": 200,
    "source": 200,
    "locator": 500,
    "tool": 200,
    "notes": 2000,
}


def mended(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A document without nulls and slips, and what was put right.

    Parameters
    ----------
    given
        What a line of a file holds.

    Returns
    -------
    dict, list of str
        The document: fields that are null are left out, remarks among ``assumed`` become pointers
        where they name a field and notes in any case, figures that are no positive number are left
        out, texts are cut to their longest length.
    """
    told: list[str] = []
    document = {name: value for name, value in given.items() if value is not None}
    if isinstance(document.get("request"), Mapping):
        document["request"] = _without_nulls(document["request"])
    _assumed(document, told)
    _texts(document, told)
    _figures(document, told)
    if document.get("confidence", "medium") not in _CONFIDENCES:
        del document["confidence"]
        told.append("/confidence is none of high, medium and low; medium is taken")
    day = document.get("measured_on")
    if day is not None and not (isinstance(day, str) and _DAY.fullmatch(day)):
        del document["measured_on"]
        told.append("/measured_on is not a day, month or year and is left out")
    return document, told


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return value


def _assumed(document: dict[str, Any], told: list[str]) -> None:
    """Pointers stay; remarks become pointers where they name a field, and notes in any case."""
    listed = document.get("assumed")
    if listed is None:
        return
    remarks = listed if isinstance(listed, list) else [listed]
    pointers: list[str] = []
    notes: list[str] = []
    for one in remarks:
        text = str(one).strip()
        if _POINTER.fullmatch(text):
            pointers.append(text)
            continue
        notes.append(text)
        pointer = _pointer(text, document)
        if pointer is not None:
            pointers.append(pointer)
    document["assumed"] = list(dict.fromkeys(pointers))[:_MOST_ASSUMED]
    if notes:
        before = document.get("notes")
        parts = [*([str(before)] if before else []), f"Assumed: {'; '.join(notes)}"]
        document["notes"] = " ".join(parts)
        told.append("/assumed holds remarks instead of JSON pointers; they are kept as notes")


def _pointer(text: str, document: Mapping[str, Any]) -> str | None:
    """Pointer to the field whose path a remark begins with; None where there is none."""
    found = _PATH.match(text)
    if found is None:
        return None
    parts = found[1].split(".")
    top = [] if parts[0] in document else ["request"]
    place: Any = document
    for part in (*top, *parts):
        if not isinstance(place, Mapping) or part not in place:
            return None
        place = place[part]
    return "".join(f"/{part}" for part in (*top, *parts))


def _texts(document: dict[str, Any], told: list[str]) -> None:
    for name, most in _TEXTS.items():
        value = document.get(name)
        if value is None:
            continue
        text = value if isinstance(value, str) else str(value)
        if not text.strip():
            del document[name]
            continue
        document[name] = text[:most]
        if len(text) > most:
            told.append(f"/{name} is cut to {most} characters")


def _figures(document: dict[str, Any], told: list[str]) -> None:
    """Only positive numbers, each once: a name goes before its aliases."""
    measured = document.get("measured")
    if not isinstance(measured, Mapping):
        return
    kept: dict[str, Any] = {}
    for name in sorted(measured, key=lambda one: canonical(str(one)) != one):
        value, known = measured[name], canonical(str(name))
        if known in kept:
            told.append(f"/measured/{str(name)[:80]} is given twice, the other time as {known}")
        elif value is True and known == OUT_OF_MEMORY:
            kept[known] = value
        elif (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not isfinite(value)
            or value <= 0
        ):
            told.append(f"/measured/{str(name)[:80]} is not a positive number and is left out")
        else:
            kept[known] = value
    document["measured"] = kept
