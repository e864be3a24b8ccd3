"""Calibration entries as the catalog's files hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any, cast

import yaml

from service.catalog.entries.documents import Document
from service.catalog.files import Yaml

_FITTED = "fitted; see the note of the entry"
_ASSUMED = "assumed; see the note of the entry"
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class CalibrationEntry:
    """An entry with the figures of one group of rows; ``source`` is where most rows stand.

    ``fitted`` figures come from measurements of the group itself.
    """

    id: str
    applies_to: Mapping[str, str]
    note: str
    figures: Mapping[str, float]
    source: str
    year: int
    fitted: bool = True


def rounded(value: float) -> float:
    """A figure with the digits that a fit can tell apart."""
    return float(f"{value:.{_DIGITS}g}")


def document_text(comment: Iterable[str], entries: Iterable[CalibrationEntry]) -> str:
    """The file that holds the entries, one figure a line."""
    lines = [f"# {line}" for line in comment]
    for entry in entries:
        applies = ", ".join(f"{name}: {value}" for name, value in entry.applies_to.items())
        lines += [
            f"- id: {entry.id}",
            f"  applies_to: {{{applies}}}",
            "  note: >-",
            f"    {entry.note}",
            "  figures:",
        ]
        kind, note = ("derived", _FITTED) if entry.fitted else ("assumed", _ASSUMED)
        lines += [
            f"    {name}: {{value: {_number(value)}, year: {entry.year}, source: {entry.source}, "
            f"kind: {kind}, note: {note}}}"
            for name, value in entry.figures.items()
        ]
    return "\n".join(lines) + "\n"


def document_of(entry: CalibrationEntry) -> Document:
    """An entry as a document of the catalog."""
    return cast("Document", _read(document_text((), [entry]))[0])


def _read(text: str) -> list[dict[str, Any]]:
    """Entries of a file, as the catalog reads it."""
    return yaml.load(text, Loader=Yaml) or []  # noqa: S506


def differences(
    entries: Iterable[CalibrationEntry], committed: str, tolerance_ratio: float
) -> list[str]:
    """What a file says otherwise than the entries, beyond a relative tolerance.

    Parameters
    ----------
    entries
        What a fit gives.
    committed
        The file's content.
    tolerance_ratio
        Largest relative difference of a figure that counts as none [-].
    """
    there = {document["id"]: document["figures"] for document in _read(committed)}
    found: list[str] = []
    for entry in entries:
        figures = there.pop(entry.id, None)
        if figures is None:
            found.append(f"{entry.id}: not in the file")
            continue
        for name, value in entry.figures.items():
            stated = figures[name]["value"] if name in figures else None
            if stated is None:
                found.append(f"{entry.id}: {name} is not in the file")
            elif not isclose(value, stated, rel_tol=tolerance_ratio, abs_tol=1e-12):
                found.append(f"{entry.id}: {name} is {stated}, the rows give {value}")
    found += [f"{id_}: no rows give it" for id_ in there]
    return found


def _number(value: float) -> str:
    """A float that YAML reads as one: a mantissa with a point, a sign in exponents; or a truth."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(rounded(value))
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0{mark}{exponent}" if mark and "." not in mantissa else text
