from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
import pytest

from service.calibration.hierarchy import Fitted, Level, Term, fit, refit, shared_weights
from service.core.elementwise import FloatArray

_RATIO = Term("ratio", 0.5, 0.1, 0.9, 0.3, (Level("vendor", 0.15), Level("family", 0.15)))
_STEP_S = Term("step_s", 1e-3, 1e-6, 1e-1, 0.3, (Level("engine", 0.2),), logarithmic=True)
_TERMS = (_RATIO, _STEP_S)
#: What rows were measured with: family, engine, and work [s at the whole peak].
_TRUE_RATIO = {"red-1": 0.7, "red-2": 0.6, "blue-1": 0.3}
_TRUE_STEP_S = {"quick": 1e-4, "slow": 1e-2}
_WORK = (1e-3, 1e-2, 1e-1)


def _keys(family: str, engine: str) -> dict[str, str]:
    return {"vendor": family.partition("-")[0], "family": family, "engine": engine}


class _Rows:
    """Measurements of the law that is fitted: work over the ratio, and a time a step."""

    def __init__(self, deployments: Sequence[tuple[str, str]], works: Sequence[float] = _WORK):
        rows = [(family, engine, work) for family, engine in deployments for work in works]
        self.keys = [_keys(family, engine) for family, engine, _ in rows]
        self.work = np.array([work for _, _, work in rows])
        self.measured = [
            work / _TRUE_RATIO[family] + _TRUE_STEP_S[engine] for family, engine, work in rows
        ]
        self.calls = 0

    def predict(self, rows: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        self.calls += 1
        work = self.work[list(rows), None]
        logs: FloatArray = np.log(work / values["ratio"] + values["step_s"])
        return logs

    def fit(self) -> Fitted:
        weights = [25.0] * len(self.measured)
        return fit(self.predict, self.measured, self.keys, _TERMS, weights)


_ALL = [(family, engine) for family in _TRUE_RATIO for engine in _TRUE_STEP_S]


def test_each_term_is_found_at_its_level() -> None:
    found = _Rows(_ALL).fit()
    for family, ratio in _TRUE_RATIO.items():
        assert found.values(_keys(family, "quick"))["ratio"] == pytest.approx(ratio, rel=0.02)
    for engine, step_s in _TRUE_STEP_S.items():
        assert found.values(_keys("red-1", engine))["step_s"] == pytest.approx(step_s, rel=0.1)
    assert np.abs(found.residuals).max() < 0.03


def test_a_pair_without_rows_takes_each_term_from_where_it_was_measured() -> None:
    known = [pair for pair in _ALL if pair != ("blue-1", "slow")]
    values = _Rows(known).fit().values(_keys("blue-1", "slow"))
    assert values["ratio"] == pytest.approx(0.3, rel=0.03)
    assert values["step_s"] == pytest.approx(1e-2, rel=0.1)


def test_a_family_without_rows_is_its_vendor() -> None:
    found = _Rows(_ALL).fit()
    red = found.values({"vendor": "red"})["ratio"]
    assert found.values(_keys("red-3", "quick"))["ratio"] == red
    assert 0.55 < red < 0.75
    assert found.values({})["ratio"] < red


def test_keys_come_with_those_above_them() -> None:
    found = _Rows(_ALL).fit()
    assert found.keys(_RATIO, "family") == [
        ("blue-1", {"vendor": "blue", "family": "blue-1"}),
        ("red-1", {"vendor": "red", "family": "red-1"}),
        ("red-2", {"vendor": "red", "family": "red-2"}),
    ]
    assert found.keys(_STEP_S, "family") == []


def test_what_no_row_says_keeps_its_usual_value() -> None:
    found = _Rows([("red-1", "quick")], works=(1e4,)).fit()
    assert found.values(_keys("red-1", "quick"))["step_s"] == pytest.approx(1e-3, rel=1e-4)
    assert found.informed_ratio(_STEP_S, "engine", "quick") == pytest.approx(0.0, abs=1e-4)
    assert found.informed_ratio(_RATIO, "family", "red-1") > 0.05


def test_one_row_far_off_moves_little() -> None:
    rows = _Rows(_ALL)
    rows.measured[0] *= 20.0
    found = rows.fit()
    assert found.values(_keys("red-1", "quick"))["ratio"] == pytest.approx(0.7, rel=0.05)
    assert found.residuals[0] == pytest.approx(-log(20.0), abs=0.3)


def test_weights_decide_between_rows_that_contradict_each_other() -> None:
    rows = _Rows([("red-1", "quick")] * 2, works=(10.0,))
    rows.measured = [10.0 / 0.6, 10.0 / 0.4]
    found = fit(rows.predict, rows.measured, rows.keys, _TERMS, [50.0, 1.0])
    assert found.values(_keys("red-1", "quick"))["ratio"] == pytest.approx(0.6, rel=0.02)


def test_values_stay_within_their_range() -> None:
    rows = _Rows([("red-1", "quick")], works=(10.0,))
    rows.measured = [10.0 / 0.99]
    found = fit(rows.predict, rows.measured, rows.keys, _TERMS, [1e4])
    assert 0.88 < found.values(_keys("red-1", "quick"))["ratio"] <= 0.9


def test_a_fit_to_fewer_rows_starts_from_the_one_to_all() -> None:
    rows = _Rows(_ALL)
    found = rows.fit()
    rows.calls = 0
    kept = [at for at, keys in enumerate(rows.keys) if keys["family"] != "red-2"]
    again = refit(found, kept)
    assert rows.calls == 1
    afresh = _Rows([pair for pair in _ALL if pair[0] != "red-2"]).fit()
    for keys in rows.keys:
        for name, value in afresh.values(keys).items():
            assert again.values(keys)[name] == pytest.approx(value, rel=0.03)
    assert again.informed_ratio(_RATIO, "family", "red-2") == pytest.approx(0.0, abs=1e-9)


def test_variance_grows_where_a_level_was_never_measured() -> None:
    found = _Rows(_ALL).fit()
    slopes = np.array([-1.0, 0.0])
    known = found.variance(slopes, _keys("red-1", "quick"))
    unknown = found.variance(slopes, _keys("red-3", "quick"))
    elsewhere = found.variance(slopes, _keys("green-1", "quick"))
    assert known < 0.01**2 * 4
    assert 0.15**2 <= unknown < elsewhere


def test_keys_must_be_nested() -> None:
    rows = _Rows([("red-1", "quick")] * 2, works=(1e-3,))
    rows.keys[1]["vendor"] = "blue"
    with pytest.raises(ValueError, match="red-1 is part of"):
        rows.fit()


def test_groups_share_votes() -> None:
    groups = [("a",), ("a",), ("a",), ("a",), ("b",)]
    assert shared_weights(groups) == pytest.approx([0.25] * 4 + [1.0])
    assert shared_weights(groups, 0.5) == pytest.approx([0.5] * 4 + [1.0])
    assert shared_weights(groups, 0.0) == [1.0] * 5
