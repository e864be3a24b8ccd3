"""What stand-ins add to spreads, from groups that were left out whole."""

from __future__ import annotations

import numpy as np
import pytest

from service.calibration.stand_ins import (
    HARDWARE,
    SOFTWARE,
    USUAL,
    Strangers,
    likely_ratios,
    weights_by_group,
)

_SIGMA = 0.1


def _strangers(apart: float, groups: int = 40, rows: int = 6, seed: int = 1) -> Strangers:
    """Rows of families that lie apart by a standard deviation, beside the spread of kernels."""
    chance = np.random.default_rng(seed)
    between = np.repeat(chance.laplace(0.0, apart / np.sqrt(2.0), groups), rows)
    within = chance.laplace(0.0, _SIGMA / np.sqrt(2.0), groups * rows)
    names = [str(number) for number in np.repeat(np.arange(groups), rows)]
    ones = np.ones(groups * rows)
    return Strangers(
        errors=np.abs(between + within),
        sigmas=_SIGMA * ones,
        squares=ones,
        added={HARDWARE: ones, SOFTWARE: 0.0 * ones},
        known=0.0 * ones,
        weights=weights_by_group(names, names, [str(at) for at in range(groups * rows)]),
        groups=groups,
    )


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_stand_ins_add_what_lies_between_groups(ratio: float) -> None:
    found = likely_ratios({HARDWARE: _strangers(ratio * _SIGMA)})
    assert found[HARDWARE] == pytest.approx(ratio, rel=0.35)


def test_groups_that_nobody_left_out_have_what_is_usual() -> None:
    assert likely_ratios({}) == USUAL
    assert likely_ratios({HARDWARE: _strangers(0.1)})[SOFTWARE] == USUAL[SOFTWARE]


def test_more_rows_of_a_group_do_not_make_it_surer() -> None:
    few = _strangers(0.3, groups=6)

    def twice(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, values])

    again = Strangers(
        twice(few.errors),
        twice(few.sigmas),
        twice(few.squares),
        {kind: twice(added) for kind, added in few.added.items()},
        twice(few.known),
        twice(few.weights) / 2.0,
        few.groups,
    )
    first, second = (likely_ratios({HARDWARE: one})[HARDWARE] for one in (few, again))
    assert first == pytest.approx(second, rel=1e-9)


def test_groups_count_alike_and_sources_alike_within_them() -> None:
    weights = weights_by_group(["a", "a", "a", "b"], ["x", "x", "y", "x"], ["1", "1", "2", "3"])
    assert weights == pytest.approx([0.125, 0.125, 0.25, 0.5])
