from __future__ import annotations

import pytest

from service.calibration.command import (
    LEFT_OUT,
    MEASUREMENTS,
    CalibrationRefused,
    calibration,
    constants_digest,
)
from service.calibration.documents import CalibrationEntry, differences, document_text
from service.settings import INSTALLATION
from service.validation.left_out import read_left_out
from service.validation.tables import read_table
from service.validation.transferred import TRANSFERRED, Transferred

CATALOG = INSTALLATION / "hardware_catalog"


def test_left_out_comparisons_belong_to_the_constants() -> None:
    digest, figures = read_left_out(CATALOG / MEASUREMENTS / LEFT_OUT)
    assert digest == constants_digest(CATALOG), "run `./headroom calibrate --write`"
    assert {figure.quantity for figure in figures} >= {"tpot_s", "output_tokens_per_s"}


def test_what_is_left_out_whole_belongs_to_the_constants() -> None:
    digest, groups = read_table(CATALOG / TRANSFERRED, Transferred)
    assert digest == constants_digest(CATALOG), "run `./headroom calibrate --write --transfer`"
    assert {group.kind for group in groups} >= {"family", "engine", "weights"}


@pytest.mark.parametrize("asked", [{"write": False}, {"write": True, "only": "inference"}])
def test_kinds_are_left_out_of_all_constants_or_of_none(asked) -> None:
    with pytest.raises(CalibrationRefused, match="--transfer goes with --write"):
        calibration(CATALOG, note=str, transfer=True, **asked)


def test_what_is_written_is_what_is_read() -> None:
    entry = CalibrationEntry(
        "training/a/b", {"framework": "a"}, "Three rows.", {"x": 1e-05, "y": 0.25}, "s", 2024
    )
    text = document_text(("A file.",), [entry])
    assert text.startswith("# A file.\n- id: training/a/b\n")
    assert "x: {value: 1.0e-05, year: 2024, source: s, kind: derived" in text
    assert differences([entry], text, 1e-9) == []


def test_differences_are_named() -> None:
    def entry(id_: str, **figures: float) -> CalibrationEntry:
        return CalibrationEntry(id_, {}, "Rows.", figures, "s", 2024)

    text = document_text((), [entry("a", x=1.0, y=2.0), entry("gone", x=1.0)])
    found = differences([entry("a", x=1.01, y=2.5, z=1.0), entry("new", x=1.0)], text, 0.02)
    assert found == [
        "a: y is 2.0, the rows give 2.5",
        "a: z is not in the file",
        "new: not in the file",
        "gone: no rows give it",
    ]
    assert differences([entry("a", x=1.0)], "", 0.02) == ["a: not in the file"]


def test_a_catalog_that_cannot_be_read_is_said(tmp_path) -> None:
    with pytest.raises(CalibrationRefused):
        calibration(tmp_path, write=False, note=str)
