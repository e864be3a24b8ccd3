from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.impacts.matching import generated_like, matched_ratio, shifted

energies = st.floats(0.0, 1e6)
days = st.integers(1, 24).flatmap(
    lambda hours: st.tuples(
        st.lists(energies, min_size=hours, max_size=hours).filter(lambda day: sum(day) > 1.0),
        st.lists(energies, min_size=hours, max_size=hours).filter(lambda day: sum(day) > 1.0),
    )
)


@given(days, st.floats(0.0, 5.0))
def test_an_hour_never_covers_more_than_the_year(day, contracted):
    consumed, shape = day
    generated = generated_like(shape, contracted * sum(consumed))
    assert sum(generated) == pytest.approx(contracted * sum(consumed))
    found = matched_ratio(consumed, generated)
    assert -1e-9 <= found <= min(contracted, 1.0) + 1e-9
    # What is generated as it is consumed is covered alike either way.
    alike = generated_like(consumed, contracted * sum(consumed))
    assert matched_ratio(consumed, alike) == pytest.approx(min(contracted, 1.0))


def test_a_solar_field_covers_half_of_a_steady_day():
    # Six of 24 hours, as much over the day as is consumed: the other 18 are not covered.
    shape = [1.0 if 9 <= hour < 15 else 0.0 for hour in range(24)]
    assert matched_ratio([1.0] * 24, generated_like(shape, 24.0)) == pytest.approx(0.25)


@given(days, st.floats(0.0, 1.0), st.integers(0, 48))
def test_waiting_loses_no_request_and_needs_no_more_machines(day, ratio, later):
    rates, grid = day
    moved = shifted(rates, grid, ratio, later)
    assert sum(moved) == pytest.approx(sum(rates))
    assert max(moved) <= max(rates) * (1 + 1e-9)
    for before, after in zip(rates, moved, strict=True):
        assert after >= before * (1.0 - ratio) - 1e-6
    emitted = [
        sum(rate * each for rate, each in zip(day, grid, strict=True)) for day in (rates, moved)
    ]
    assert emitted[1] <= emitted[0] * (1 + 1e-9)
    if ratio == 0.0 or later == 0:
        assert moved == rates


def test_requests_wait_for_the_cleanest_hour_that_they_can_reach():
    assert shifted([4.0, 2.0, 0.0, 0.0], [500.0, 400.0, 100.0, 50.0], 0.5, 2) == [
        2.0,
        1.0,
        2.0,
        1.0,
    ]
