from __future__ import annotations

import numpy as np
import pytest

from service.calibration.spread import (
    COVERED_SHARE,
    LeftOut,
    best_log_sigma,
    borne_out,
    coverage_ratio,
    interval_score,
    three_sigmas,
    weights_beside,
    weights_by_source,
)
from service.core.interval import Z_90


def _rows(source: float, model: float, row: float, added: float = 0.0) -> list[LeftOut]:
    """Forty sources of five models with four rows each, whose errors have known spreads."""
    random = np.random.default_rng(1)
    found = []
    for number in range(40):
        of_source = random.normal(0.0, source)
        for name in "abcde":
            of_model = of_source + random.normal(0.0, model)
            found += [
                LeftOut(f"s{number}", name, of_model + random.normal(0.0, row), added)
                for _ in range(4)
            ]
    return found


@pytest.mark.parametrize(("source", "model", "row"), [(0.3, 0.1, 0.05), (0.05, 0.05, 0.3)])
def test_variances_are_told_apart(source: float, model: float, row: float) -> None:
    found = three_sigmas(_rows(source, model, row))
    assert found["source_log_sigma"] == pytest.approx(source, rel=0.5, abs=0.03)
    assert found["model_log_sigma"] == pytest.approx(model, rel=0.5, abs=0.04)
    assert found["row_log_sigma"] == pytest.approx(row, rel=0.3)


def test_the_wanted_share_lies_inside() -> None:
    rows = _rows(0.2, 0.1, 0.1)
    variance = sum(sigma**2 for sigma in three_sigmas(rows).values())
    assert coverage_ratio(rows, variance) == pytest.approx(COVERED_SHARE, abs=0.01)


def test_what_levels_add_is_not_counted_twice() -> None:
    plain = sum(sigma**2 for sigma in three_sigmas(_rows(0.3, 0.1, 0.1)).values())
    known = sum(sigma**2 for sigma in three_sigmas(_rows(0.3, 0.1, 0.1, 0.04)).values())
    assert known == pytest.approx(plain - 0.04, rel=0.01)


@pytest.mark.parametrize(("really", "least", "most"), [(0.0, 0.1, 0.2), (1.0, 0.5, 1.0)])
def test_levels_add_what_errors_bear_out(really: float, least: float, most: float) -> None:
    random = np.random.default_rng(2)
    rows = [
        LeftOut(
            f"s{number}",
            "a",
            random.normal(0.0, (0.1**2 + really * (number % 2) * 0.5**2) ** 0.5),
            (number % 2) * 0.5**2,
        )
        for number in range(400)
    ]
    borne = borne_out(rows)
    scaled = borne.rows
    assert least <= borne.unmeasured_ratio <= most
    variance = sum(sigma**2 for sigma in three_sigmas(scaled).values())
    assert coverage_ratio(scaled, variance) == pytest.approx(COVERED_SHARE, abs=0.03)


def test_the_best_spread_is_the_one_that_errors_have() -> None:
    random = np.random.default_rng(3)
    ratios = np.tile([1.0, 1.5, 3.0], 4000)
    errors = np.abs(random.normal(0.0, 0.15 * ratios))
    weights = np.full(len(errors), 1.0 / len(errors))
    found = best_log_sigma(errors, ratios, np.zeros(len(errors)), weights)
    assert found == pytest.approx(0.15, rel=0.03)
    inside = errors <= Z_90 * found * ratios
    for ratio in (1.0, 1.5, 3.0):
        assert np.mean(inside[ratios == ratio]) == pytest.approx(0.90, abs=0.015)
    # One width for all holds as many, and is wider where most is known.
    flat = best_log_sigma(errors, np.ones(len(errors)), np.zeros(len(errors)), weights)
    assert flat > 1.5 * found
    assert interval_score(errors, found * ratios, weights) < interval_score(
        errors, np.full(len(errors), flat), weights
    )


def test_what_is_known_of_a_row_is_not_counted_as_error() -> None:
    random = np.random.default_rng(4)
    known = np.tile([0.0, 0.3**2], 5000)
    errors = np.abs(random.normal(0.0, np.sqrt(0.15**2 + known)))
    weights = np.full(len(errors), 1.0 / len(errors))
    ones = np.ones(len(errors))
    assert best_log_sigma(errors, ones, known, weights) == pytest.approx(0.15, rel=0.05)
    assert best_log_sigma(errors, ones, 0.0 * known, weights) > 0.2


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_no_other_width_has_a_better_score(factor: float) -> None:
    random = np.random.default_rng(5)
    errors = np.abs(random.normal(0.0, 0.2, 20000))
    weights = np.full(len(errors), 1.0 / len(errors))
    right, other = (np.full(len(errors), 0.2 * one) for one in (1.0, factor))
    assert interval_score(errors, right, weights) < interval_score(errors, other, weights)


def test_a_score_is_the_width_and_what_lies_beyond() -> None:
    errors, sigmas = np.array([0.0, 1.0]), np.full(2, 0.5 / Z_90)
    weights = np.array([0.5, 0.5])
    assert interval_score(errors, sigmas, weights) == pytest.approx(1.0 + 0.5 * 20.0 * 0.5)


def test_one_tail_does_not_widen_everybody() -> None:
    errors = np.abs(np.random.default_rng(6).normal(0.0, 0.15, 2000))
    tail = errors.copy()
    tail[:40] *= 20.0
    weights, ones, none = np.full(2000, 1 / 2000), np.ones(2000), np.zeros(2000)
    assert best_log_sigma(tail, ones, none, weights) < 1.1 * best_log_sigma(
        errors, ones, none, weights
    )


def test_errors_of_none_leave_a_width() -> None:
    none = np.zeros(3)
    assert best_log_sigma(none, np.ones(3), none, np.full(3, 1 / 3)) == pytest.approx(0.08)


def test_a_source_far_off_with_many_rows_counts_once() -> None:
    rows = _rows(0.1, 0.05, 0.05)
    crowd = [LeftOut("crowd", "a", 2.0, 0.0) for _ in range(2000)]
    without = sum(sigma**2 for sigma in three_sigmas(rows).values())
    with_crowd = sum(sigma**2 for sigma in three_sigmas([*rows, *crowd]).values())
    assert with_crowd < without * 1.5


def test_errors_that_agree_claim_no_certainty() -> None:
    rows = [LeftOut("one", "a", 0.0, 0.0), LeftOut("two", "b", 0.0, 0.0)]
    assert sum(sigma**2 for sigma in three_sigmas(rows).values()) == pytest.approx(0.08**2)


def test_sources_of_other_classes_count_half_however_many_rows_they_have() -> None:
    own, others = ["a", "a", "b"], ["c"] * 5 + ["d"]
    found = weights_beside(own, others)
    by_source = {
        name: sum(found[at] for at, one in enumerate(own + others) if one == name)
        for name in "abcd"
    }
    assert np.sum(found) == pytest.approx(1.0)
    assert by_source["a"] == pytest.approx(by_source["b"])
    assert by_source["c"] == pytest.approx(by_source["d"]) == pytest.approx(by_source["a"] / 2.0)
    assert weights_beside(own, []) == pytest.approx(weights_by_source(own))
