from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.impacts.scheduling import Period, best_window

HOUR = 3600.0


def forecast(*intensities: float) -> list[Period]:
    return [Period(at * HOUR, (at + 1) * HOUR, value) for at, value in enumerate(intensities)]


def test_the_cleanest_hours_that_follow_each_other():
    window = best_window(forecast(400, 300, 100, 120, 500), 2 * HOUR)
    assert window is not None
    assert (window.start_s, window.end_s) == (2 * HOUR, 4 * HOUR)
    assert window.gco2e_per_kwh == pytest.approx(110)
    assert window.at_once_gco2e_per_kwh == pytest.approx(350)
    assert window.saving_ratio == pytest.approx(1 - 110 / 350)


def test_half_an_hour_may_end_where_a_period_does():
    window = best_window(forecast(300, 100, 90), 1.5 * HOUR)
    assert window is not None
    assert window.start_s == 1.5 * HOUR
    assert window.gco2e_per_kwh == pytest.approx((0.5 * 100 + 90) / 1.5)


def test_a_job_longer_than_the_forecast_has_no_window():
    assert best_window(forecast(1, 2), 3 * HOUR) is None
    assert best_window([], HOUR) is None


def test_waiting_for_nothing_saves_nothing():
    window = best_window(forecast(0, 0, 0), HOUR)
    assert window is not None
    assert (window.start_s, window.saving_ratio) == (0.0, 0.0)


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=30), st.floats(0.1, 2.0))
def test_no_start_is_better(intensities, hours):
    periods = forecast(*intensities)
    window = best_window(periods, hours * HOUR)
    assert window is not None
    last = len(intensities) * HOUR - hours * HOUR
    for share in (0.0, 0.21, 0.5, 0.77, 1.0):
        start = share * last
        total = sum(
            max(min(p.end_s, start + hours * HOUR) - max(p.start_s, start), 0.0) * p.gco2e_per_kwh
            for p in periods
        )
        assert window.gco2e_per_kwh <= total / (hours * HOUR) + 1e-6
