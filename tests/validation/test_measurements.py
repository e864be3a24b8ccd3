"""The packaged measurements: each a sound document of a known source."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.compared import ComparedDocument, compared
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.schema import PATH, document_schema
from service.estimation.rejection import Rejected
from service.validation.reading import Line, read_files
from tests.validation.conftest import CATALOG

FOLDER = CATALOG / "measurements"
#: Documents that wait for an accelerator of the catalog, or for layouts with uneven heads.
WAITING = {"geerlingguy-ai-benchmarks": 2}


@pytest.fixture(scope="module")
def lines(snapshot: CatalogSnapshot) -> dict[str, tuple[Line, ...]]:
    return read_files(FOLDER, snapshot)


@pytest.fixture(scope="module")
def beside(
    snapshot: CatalogSnapshot, lines: dict[str, tuple[Line, ...]]
) -> tuple[list[ComparedDocument], Counter[str]]:
    found: list[ComparedDocument] = []
    refused: Counter[str] = Counter()
    for line in (line for listed in lines.values() for line in listed):
        assert line.document is not None
        try:
            found.append(compared(line.document, snapshot))
        except Rejected:
            refused[str(line.document.source)] += 1
    return found, refused


def test_all_lines_are_documents_without_anything_to_make_up(
    lines: dict[str, tuple[Line, ...]],
) -> None:
    assert [line.refusal for listed in lines.values() for line in listed if line.refusal] == []
    told = {text for listed in lines.values() for line in listed for text in line.warnings}
    # A release that a source does not name follows from its day; nothing else is taken.
    assert {text.partition(";")[0] for text in told} <= {"engine_version is not given"}


def test_documents_lie_in_the_file_of_their_source(
    snapshot: CatalogSnapshot, lines: dict[str, tuple[Line, ...]]
) -> None:
    for file, listed in lines.items():
        source = file.removesuffix(".jsonl")
        assert source in snapshot.sources
        assert {line.document.source for line in listed if line.document} == {source}


def test_ids_are_unique(lines: dict[str, tuple[Line, ...]]) -> None:
    ids = Counter(line.document.id for listed in lines.values() for line in listed if line.document)
    assert [id_ for id_, count in ids.items() if count > 1] == []
    assert None not in ids


def test_documents_keep_the_schema() -> None:
    validator = Draft202012Validator(json.loads(document_schema()))
    for path in sorted(FOLDER.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            validator.validate(json.loads(text))


def test_the_schema_is_that_of_the_code() -> None:
    written = (CATALOG / PATH).read_text(encoding="utf-8")
    assert written == document_schema(), "./headroom catalog schemas --write"


def test_what_is_assumed_points_into_the_document(lines: dict[str, tuple[Line, ...]]) -> None:
    beginnings = ("/request/", "/measured/")
    for document in (line.document for listed in lines.values() for line in listed):
        assert document is not None
        for pointer in document.assumed:
            assert pointer.startswith(beginnings), document.id
            if pointer.startswith("/measured/"):
                assert pointer.removeprefix("/measured/") in document.measured, document.id
            else:
                assert _settable(document, pointer.split("/")[2:]), f"{document.id}: {pointer}"


def _settable(document: MeasurementDocument, path: list[str]) -> bool:
    """Whether a request has such a field, set or not."""
    held: Any = document.request
    for name in path:
        if held is None or isinstance(held, str | int | float | tuple):
            return True
        if isinstance(held, dict):
            return name in held
        if not hasattr(held, name):
            return False
        held = getattr(held, name)
    return True


def test_nearly_all_are_compared(
    beside: tuple[list[ComparedDocument], Counter[str]],
) -> None:
    found, refused = beside
    assert dict(refused) == WAITING
    assert [one.document.id for one in found if one.is_empty] == []


def test_every_figure_has_an_estimate(
    beside: tuple[list[ComparedDocument], Counter[str]],
) -> None:
    found, _ = beside
    refused = {(str(one.document.source), name) for one in found for name in one.refused}
    assert refused == set()


def test_no_figure_is_of_another_unit(
    beside: tuple[list[ComparedDocument], Counter[str]],
) -> None:
    found, _ = beside
    strange = [
        (one.document.id, figure.quantity)
        for one in found
        for figure in one.figures
        if figure.implausible and one.document.confidence != "low"
    ]
    assert strange == []
