"""Errors, coverage and widths, with every source counting once."""

from __future__ import annotations

import pytest

from service.validation.report.statistics import Compared, accuracy, weighted_quantile
from service.validation.rows.tables import Row


def compared(source: str, value: float, low: float, high: float, measured: float = 1.0) -> Compared:
    row = Row("memory_inference", 2, {"source_id": source})
    return Compared(row, "k", "f", "bytes", measured, value, low, high, ())


def test_a_source_with_many_rows_counts_as_much_as_one_with_a_single_row() -> None:
    many = [compared("many", 1.1, 1.0, 1.2) for _ in range(99)]
    found = accuracy([*many, compared("one", 2.0, 1.9, 2.1)])
    assert found.rows == 100
    assert found.median_error_ratio == pytest.approx(0.1)
    assert found.p90_error_ratio == pytest.approx(1.0)
    assert found.coverage_ratio == pytest.approx(0.5)
    assert found.bias_ratio == pytest.approx(0.1)


def test_error_is_relative_to_the_measurement() -> None:
    entry = compared("s", 30.0, 20.0, 50.0, measured=40.0)
    assert entry.error_ratio == pytest.approx(-0.25)
    assert entry.covered
    assert entry.width_ratio == pytest.approx(2.5)


def test_exact_figures_have_no_interval_to_lie_in() -> None:
    exact = [compared("s", 1.01, 1.01, 1.01) for _ in range(5)]
    alone = accuracy(exact)
    assert alone.coverage_ratio is None
    assert alone.median_width_ratio is None
    mixed = accuracy([*exact, compared("s", 1.0, 0.5, 2.0)])
    assert mixed.coverage_ratio == pytest.approx(1.0)
    assert mixed.median_width_ratio == pytest.approx(4.0)


def test_an_interval_that_reaches_zero_has_no_bounded_width() -> None:
    assert compared("s", 1.0, -1.0, 2.0).width_ratio == float("inf")


def test_nothing_has_no_accuracy() -> None:
    found = accuracy([])
    assert found.rows == 0
    assert found.median_error_ratio is None


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.9, 4.0), (1.0, 4.0)]
)
def test_quantiles_of_equal_weights(share: float, expected: float) -> None:
    assert weighted_quantile([3.0, 1.0, 4.0, 2.0], [1 / 3] * 4, share) == expected
