"""Slips of files that leave no doubt are put right, and told."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.measurements.mended import mended


def _document(**given: Any) -> dict[str, Any]:
    return {
        "kind": "inference",
        "request": {"model": "m", "precision": {"weights": "bf16", "kv_cache": None}},
        "measured": {"tpot_s": 0.02},
        **given,
    }


def test_a_sound_document_stays_as_it_is() -> None:
    document = _document(assumed=["/request/model"], notes="x", confidence="high")
    document["request"] = {"model": "m"}
    assert mended(document) == (document, [])


def test_nulls_say_nothing() -> None:
    found, told = mended(_document(locator=None))
    assert found["request"] == {"model": "m", "precision": {"weights": "bf16"}}
    assert "locator" not in found
    assert told == []


def test_remarks_among_what_is_assumed_become_pointers_and_notes() -> None:
    found, told = mended(
        _document(
            assumed=["precision.weights (not stated)", "the card's form", "/request/model"],
            notes="pp512",
        )
    )
    assert found["assumed"] == ["/request/precision/weights", "/request/model"]
    assert found["notes"] == "pp512 Assumed: precision.weights (not stated); the card's form"
    assert len(told) == 1


@pytest.mark.parametrize("value", [0, -1.0, "fast", None, True, float("inf"), [1]])
def test_what_is_no_positive_number_is_no_figure(value: object) -> None:
    found, told = mended(_document(measured={"tpot_s": 0.02, "ttft_s": value}))
    assert found["measured"] == {"tpot_s": 0.02}
    assert told == ["/measured/ttft_s is not a positive number and is left out"]


def test_a_quantity_counts_once_under_its_own_name() -> None:
    found, told = mended(_document(kind="training", measured={"step_time_s": 2.0, "step_s": 1.0}))
    assert found["measured"] == {"step_s": 1.0}
    assert told == ["/measured/step_time_s is given twice, the other time as step_s"]


def test_running_out_of_memory_is_kept() -> None:
    assert mended(_document(measured={"out_of_memory": True}))[0]["measured"] == {
        "out_of_memory": True
    }


def test_texts_are_cut_and_dates_left_out() -> None:
    found, told = mended(_document(id=7, notes="n" * 3000, measured_on="Q3", confidence="sure"))
    assert found["id"] == "7"
    assert len(found["notes"]) == 2000
    assert "measured_on" not in found
    assert "confidence" not in found
    assert len(told) == 3
