"""Entries of levels: what rows say of each, and what is known of those without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from service.calibration.hierarchy import Fitted, Keys, Level, Term, fit
from service.calibration.levels import level_entries
from service.core.elementwise import FloatArray

_STEP_S = Term(
    *("step_s", 1e-3, 1e-6, 1e-1, 0.3),
    (Level("class", 0.1), Level("engine", 0.2), Level("generation", 0.2)),
    logarithmic=True,
    usual_of={"quick@2": 5e-4, "unheard@1": 2e-4},
)
_RATE = Term(
    *("rate", 10.0, 1.0, 100.0, 0.3),
    (Level("vendor", 0.1), Level("family", 0.2)),
    logarithmic=True,
    usual_of={"red-2": 40.0},
)


@dataclass(frozen=True)
class _Row:
    keys: Keys
    source: str = "a"
    model: str = "m"


_ROW = _Row(
    {
        "class": "compiled",
        "engine": "quick",
        "generation": "quick@1",
        "vendor": "red",
        "family": "red-1",
    }
)


def _fitted(term: Term, measured: float) -> Fitted:
    def predict(rows: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        return np.log(values[term.name])

    return fit(predict, [measured], [_ROW.keys], (term,), [1.0])


def _figures(part: str, term: Term, measured: float) -> dict[str, tuple[float, bool]]:
    source = SimpleNamespace(document={"year": 2025})
    snapshot = cast("Any", SimpleNamespace(sources={"a": source, "headroom-assumption": source}))
    entries = level_entries({part: (term,)}, _fitted(term, measured), [_ROW], snapshot)
    return {one.id: (one.figures[term.name], one.fitted) for one in entries}


def test_what_is_usual_of_a_generation_without_rows_is_written_as_assumed() -> None:
    found = _figures("engines", _STEP_S, 2e-3)
    assert found["engines/quick@1"][1]
    # The engine was found to take longer than usual, and so is this generation taken to.
    value, fitted = found["engines/quick@2"]
    assert not fitted
    assert 5e-4 < value < 2e-3
    # An engine that nobody measured takes all figures of those that it is like.
    assert "engines/unheard@1" not in found


def test_what_is_usual_of_hardware_without_rows_is_written_as_assumed() -> None:
    value, fitted = _figures("hardware", _RATE, 10.0)["hardware/red-2"]
    assert value == pytest.approx(40.0, rel=0.01)
    assert not fitted
