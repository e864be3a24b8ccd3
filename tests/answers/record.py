"""Answers move together with the version of the engine, which is a part of each.

``record.json`` holds the version, a digest of the packaged catalog, and one of the answers to the
recorded questions. ``python -m tests.answers.record`` writes it anew, unless the answers have
moved while neither the version nor the catalog has.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from service import ENGINE_VERSION
from service.catalog.entries.documents import content_hash, hashes_of
from service.catalog.files import packaged_documents
from service.settings import INSTALLATION
from tests.answers.asked import ask_all, digest, questions

FILE = Path(__file__).parent / "record.json"
RENEW = "renew the record: python -m tests.answers.record"

#: Searches take a second each: so many of each kind are asked.
_SEARCHES = frozenset(
    {"/v1/charts/pareto-front", "/v1/recommendations", "/v1/recommendations/training"}
)
_MOST_OF_A_SEARCH = 2


@dataclass(frozen=True)
class Record:
    """A state of the engine and of the catalog, and what they answer."""

    engine_version: str
    catalog: str
    answers: str


class AnswersMoved(Exception):
    """The answers have moved, and the version of the engine has not."""

    def __init__(self) -> None:
        super().__init__(
            "the answers to the recorded questions have moved, and the catalog has not: raise "
            f"ENGINE_VERSION in service/__init__.py, and {RENEW}"
        )


def asked() -> list[dict[str, Any]]:
    """The recorded questions to the API, of which few are searches."""
    seen: Counter[str] = Counter()
    chosen = []
    for question in questions():
        path = question["path"]
        seen[path] += 1
        if path.startswith("/v1/") and not (path in _SEARCHES and seen[path] > _MOST_OF_A_SEARCH):
            chosen.append(question)
    return chosen


def present(answered: list[dict[str, Any]]) -> Record:
    """What the code and the packaged catalog come to now, and these answers."""
    documents = packaged_documents(INSTALLATION / "hardware_catalog")
    return Record(ENGINE_VERSION, content_hash(hashes_of(documents)), digest(answered))


def recorded() -> Record:
    """What was written down last."""
    return Record(**json.loads(FILE.read_text()))


def renewed(before: Record, now: Record) -> Record:
    """The record to write.

    Raises
    ------
    AnswersMoved
        If the answers have moved under the same version and the same catalog.
    """
    same = (now.engine_version, now.catalog) == (before.engine_version, before.catalog)
    if same and now.answers != before.answers:
        raise AnswersMoved
    return now


def main() -> None:
    """Write the record, if that may be."""
    now = present(asyncio.run(ask_all(asked())))
    try:
        wanted = renewed(recorded(), now) if FILE.exists() else now
    except AnswersMoved as moved:
        sys.exit(str(moved))
    FILE.write_text(json.dumps(asdict(wanted), indent=2) + "\n")


if __name__ == "__main__":
    main()
