from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.interval import (
    Z_90,
    Interval,
    exact,
    from_log_sigma,
    independent_sum,
    product,
    quotient,
    scale,
    shortfall,
)

positive = st.floats(1e-6, 1e6)


@st.composite
def intervals(draw) -> Interval:
    value = draw(positive)
    return Interval(value, value / draw(st.floats(1.0, 5.0)), value * draw(st.floats(1.0, 5.0)))


@given(intervals(), intervals(), intervals())
def test_order_of_low_value_high_survives_every_operation(a, b, c):
    for result in (
        independent_sum((a, b, c)),
        product(a, b, c),
        quotient(a, b),
        scale(a, 3.0),
        product(a, exact(0.0), b),
    ):
        slack = 1e-9 * abs(result.value) + 1e-12
        assert result.low <= result.value + slack
        assert result.value <= result.high + slack


@given(intervals(), intervals())
def test_sums_and_products_are_never_wider_than_adding_the_ends(a, b):
    total = independent_sum((a, b))
    assert total.high <= a.high + b.high + 1e-6
    assert total.low >= a.low + b.low - 1e-6 * (a.value + b.value)
    grown = product(a, b)
    assert grown.high <= a.high * b.high * (1 + 1e-9)


@given(intervals())
def test_exact_figures_leave_an_interval_as_it_is(a):
    doubled = product(a, exact(2.0))
    assert doubled.low == pytest.approx(2 * a.low)
    assert doubled.high == pytest.approx(2 * a.high)
    shifted = independent_sum((a, exact(5.0)))
    assert shifted.high - shifted.value == pytest.approx(a.high - a.value, rel=1e-6, abs=1e-9)


def test_independent_log_variances_add():
    combined = product(from_log_sigma(2.0, 0.3), from_log_sigma(5.0, 0.4))
    assert combined.value == 10.0
    assert combined.high == pytest.approx(10.0 * np.exp(Z_90 * 0.5))
    assert combined.low == pytest.approx(10.0 / np.exp(Z_90 * 0.5))


def test_propagation_agrees_with_a_million_draws():
    rng = np.random.default_rng(7)
    draws = (
        2.0
        * np.exp(0.2 * rng.standard_normal(1_000_000))
        * 3.0
        * np.exp(0.1 * rng.standard_normal(1_000_000))
    )
    expected = product(from_log_sigma(2.0, 0.2), from_log_sigma(3.0, 0.1))
    assert np.quantile(draws, 0.05) == pytest.approx(expected.low, rel=0.005)
    assert np.quantile(draws, 0.95) == pytest.approx(expected.high, rel=0.005)


def test_arrays_and_floats_agree():
    values = np.array([1.0, 4.0, 9.0])
    together = product(from_log_sigma(values, 0.2), Interval(2.0, 1.5, 3.0))
    for index, value in enumerate(values):
        alone = product(from_log_sigma(float(value), 0.2), Interval(2.0, 1.5, 3.0))
        assert together.low[index] == pytest.approx(alone.low)
        assert together.high[index] == pytest.approx(alone.high)


def test_a_zero_in_one_element_leaves_the_others_as_they_are():
    factors = [
        Interval(np.array([2.0, 3.0]), np.array([0.0, 2.0]), np.array([5.0, 4.0])),
        Interval(7.0, 5.0, 8.0),
        exact(2.0),
    ]
    together = product(*factors)
    for index in range(2):
        alone = product(
            Interval(
                *(float(end[index]) for end in (factors[0].value, factors[0].low, factors[0].high))
            ),
            *factors[1:],
        )
        ends = (together.value[index], together.low[index], together.high[index])
        assert ends == pytest.approx((alone.value, alone.low, alone.high), rel=1e-12)


def test_what_is_not_short_is_short_of_nothing():
    found = shortfall(Interval(0.0, 0.0, 5.0))
    assert [math.copysign(1.0, end) for end in (found.value, found.low, found.high)] == [1.0] * 3
