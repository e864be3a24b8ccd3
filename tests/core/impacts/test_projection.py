from __future__ import annotations

import pytest

from service.core.explanation import explain
from service.core.impacts.cooling import LEAST_WUE_L_PER_KWH, dry_wue, evaporative_wue
from service.core.impacts.projection import PROJECTION, projection
from service.core.interval import Interval, exact, from_log_sigma

TONNES = 1e6


@pytest.mark.parametrize(
    ("training_t", "per_day", "grams", "growth", "days"),
    [
        (550, 700e6, 0.15, 0.0, 5.238),
        (550, 10e6, 0.15, 0.0, 366.7),
        (550, 10e6, 0.15, 1.0, 254.0),
        (550, 1e6, 0.15, 0.0, 3666.7),
        (11_390, 700e6, 0.15, 0.0, 108.5),
    ],
)
def test_crossover_days(training_t, per_day, grams, growth, days):
    result = projection(exact(training_t * TONNES), exact(per_day), exact(grams), growth)
    assert result.crossover_days is not None
    assert result.crossover_days.value == pytest.approx(days, rel=0.005)
    reached = result.cumulative_gco2e(result.crossover_days.value)
    assert reached.value == pytest.approx(training_t * TONNES)


def test_shrinking_use_may_never_overtake():
    result = projection(exact(550 * TONNES), exact(1e6), exact(0.15), -0.5)
    assert result.crossover_days is None
    assert explain(result, PROJECTION) == ()


def test_factor_two_on_each_input_gives_factor_3_3_at_one_sigma():
    def two(value):
        return from_log_sigma(value, 0.693)

    result = projection(two(550 * TONNES), two(10e6), two(0.15), 0.0)
    days = result.crossover_days
    assert days is not None
    assert (days.high / days.value) ** (1 / 1.6449) == pytest.approx(3.32, rel=0.01)


def test_the_interval_widens_without_bound_where_the_pessimist_never_crosses():
    training = Interval(550 * TONNES, 100 * TONNES, 5000 * TONNES)
    result = projection(training, exact(10e6), exact(0.15), -0.3)
    assert result.crossover_days is not None
    assert result.crossover_days.high == float("inf")


@pytest.mark.parametrize(
    ("fahrenheit", "litres"), [(40, 2.21), (50, 3.12), (60, 3.79), (70, 4.66), (80, 6.14)]
)
def test_water_of_a_cooling_tower(fahrenheit, litres):
    wue = evaporative_wue((fahrenheit - 32) / 1.8, 6.0, 1.0)
    assert wue.value == pytest.approx(litres, rel=0.005)
    assert wue.low < wue.value == wue.high


def test_cold_weather_ends_at_the_floor():
    assert evaporative_wue(-10.0, 6.0, 1.0).value == LEAST_WUE_L_PER_KWH


@pytest.mark.parametrize(("celsius", "litres"), [(10.0, 1.52), (21.0, 1.68)])
def test_the_second_fit_of_a_tower_is_the_lower_end(celsius, litres):
    assert evaporative_wue(celsius, 6.0, 1.0).low == pytest.approx(litres, rel=0.005)


def test_fewer_hours_of_evaporation_use_less_water():
    whole, half = evaporative_wue(20.0, 6.0, 1.0), evaporative_wue(20.0, 6.0, 0.5)
    assert half.value == pytest.approx(whole.value / 2)
    assert half.low == pytest.approx(whole.low / 2)


def test_dry_cooling_evaporates_nothing():
    assert dry_wue().value == 0.0
    assert dry_wue().high == LEAST_WUE_L_PER_KWH
