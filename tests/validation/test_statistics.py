"""Errors, coverage and widths: sources count alike, and configurations within them."""

from __future__ import annotations

import pytest

from service.estimation.measurements.compared import ComparedFigure
from service.validation.report.statistics import (
    Compared,
    accuracy,
    weighted_quantile,
    weights_of,
)


def compared(
    source: str, value: float, low: float, high: float, configuration: str = ""
) -> Compared:
    figure = ComparedFigure("tpot_s", 1.0, value, low, high)
    asked = configuration or f"{source}{value}{low}{high}{id(figure)}"
    return Compared(
        figure, "inference", "i", source, asked, "m", "a", 1, "f", "vllm", "compiled", "bf16"
    )


def test_a_source_with_many_documents_counts_as_much_as_one_with_a_single_one() -> None:
    many = [compared("many", 1.1, 1.0, 1.2, str(at)) for at in range(99)]
    found = accuracy([*many, compared("one", 2.0, 1.9, 2.1)])
    assert found.figures == 100
    assert found.median_error_ratio == pytest.approx(0.1)
    assert found.p90_error_ratio == pytest.approx(1.0)
    assert found.coverage_ratio == pytest.approx(0.5)
    assert found.bias_ratio == pytest.approx(0.1)


def test_a_configuration_counts_once_within_its_source() -> None:
    repeated = [compared("s", 1.5, 1.0, 2.0, "same") for _ in range(8)]
    other = compared("s", 1.1, 1.0, 2.0, "other")
    assert weights_of([*repeated, other]) == pytest.approx([1 / 16] * 8 + [1 / 2])
    assert accuracy([*repeated, other]).median_error_ratio == pytest.approx(0.1)


def test_an_estimate_without_an_interval_holds_what_it_meets() -> None:
    exact = [compared("s", 1.01, 1.01, 1.01, "a"), compared("s", 1.0, 1.0, 1.0, "b")]
    found = accuracy(exact)
    assert found.coverage_ratio == pytest.approx(0.5)
    assert found.median_width_ratio == pytest.approx(1.0)


def test_an_interval_that_reaches_zero_has_no_bounded_width() -> None:
    assert accuracy([compared("s", 1.0, 0.0, 2.0)]).median_width_ratio is None


def test_nothing_has_no_accuracy() -> None:
    found = accuracy([])
    assert found.figures == 0
    assert found.median_error_ratio is None


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.9, 4.0), (1.0, 4.0)]
)
def test_quantiles_of_equal_weights(share: float, expected: float) -> None:
    assert weighted_quantile([3.0, 1.0, 4.0, 2.0], [1 / 3] * 4, share) == expected
