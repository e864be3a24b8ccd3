"""Entries of levels of which nobody has rows: what is known to be usual of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.calibration.hierarchy import Fitted, Keys, Level, Term, fit
from service.calibration.levels import level_entries
from service.core.elementwise import FloatArray
from service.core.engines import Engine, Generation

_STEP_S = Term(
    *("step_s", 1e-3, 1e-6, 1e-1, 0.3),
    (Level("class", 0.1), Level("engine", 0.2), Level("generation", 0.2)),
    logarithmic=True,
    usual_of={"quick@2": 5e-4, "unheard": 2e-4, "unknown": 1e-4},
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


def _snapshot() -> Any:
    """A catalog of two engines that serve, of which rows tell of one."""
    source = SimpleNamespace(document={"year": 2025})
    engines = {
        id_: SimpleNamespace(
            value=Engine(
                id=id_,
                name=id_,
                classes={"inference": "compiled"},
                generations=tuple(Generation(one, f"202{one}-01", "All.") for one in generations),
            )
        )
        for id_, generations in (("quick", ("1", "2")), ("unheard", ()))
    }
    return SimpleNamespace(sources={"a": source, "headroom-assumption": source}, engines=engines)


def _figures(part: str, term: Term, measured: float) -> dict[str, tuple[float, bool]]:
    entries = level_entries({part: (term,)}, _fitted(term, measured), [_ROW], _snapshot())
    return {one.id: (one.figures[term.name], one.fitted) for one in entries}


def test_what_is_usual_of_a_generation_without_rows_is_written_as_assumed() -> None:
    found = _figures("engines", _STEP_S, 2e-3)
    assert found["engines/quick@1"][1]
    # The engine was found to take longer than usual, and so is this generation taken to.
    value, fitted = found["engines/quick@2"]
    assert not fitted
    assert 5e-4 < value < 2e-3


def test_what_its_source_says_of_an_engine_is_written_though_nobody_timed_it() -> None:
    """Its class was found to take longer than usual, of which it has its part."""
    found = _figures("engines", _STEP_S, 2e-3)
    value, fitted = found["engines/unheard"]
    assert not fitted
    assert 2e-4 < value < found["engines/quick@2"][0]
    # Of names that are no engine of the catalog nothing is known.
    assert "engines/unknown" not in found


def test_what_is_usual_of_hardware_without_rows_is_written_as_assumed() -> None:
    found = _figures("hardware", _RATE, 10.0)
    assert found["hardware/red-2"] == (pytest.approx(40.0, rel=0.01), False)


def test_what_is_usual_of_hosts_and_of_hardware_by_its_memory_is_written_too() -> None:
    """Their keys name the wider level: the vendor of a driver, the kind of memory of a family."""
    host = Term(
        *("host_ratio", 1.0, 0.2, 5.0, 0.1, (Level("vendor", 0.1), Level("host", 0.1))),
        usual_of={"red/desktop": 3.0},
    )
    drawn = Term(
        *("active_ratio", 0.4, 0.0, 1.0, 0.1, (Level("memory", 0.1), Level("hardware", 0.1))),
        usual_of={"lpddr": 0.3, "lpddr/red-3": 0.2},
    )
    assert _entry_of("hosts", host, "red/desktop") == {"vendor": "red", "host": "red/desktop"}
    assert _entry_of("power", drawn, "lpddr") == {"memory": "lpddr"}
    assert _entry_of("power", drawn, "lpddr/red-3") == {
        "memory": "lpddr",
        "hardware": "lpddr/red-3",
    }


def _entry_of(part: str, term: Term, key: str) -> dict[str, str]:
    """What the entry of a key applies to, beside its part."""
    row = _Row({"vendor": "red", "host": "red/server", "memory": "gddr", "hardware": "gddr/red-1"})

    def predict(rows: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        return np.log(values[term.name])

    fitted = fit(predict, [term.usual], [row.keys], (term,), [1.0])
    entries = level_entries({part: (term,)}, fitted, [row], _snapshot())
    found = next(one for one in entries if one.id == f"{part}/{key}")
    assert not found.fitted
    return {kind: one for kind, one in found.applies_to.items() if kind != "part"}
