from __future__ import annotations

import numpy as np
import pytest

from service.calibration.least_squares import Constant, fit

SIZES = np.linspace(1.0, 50.0, 40)
RATE = Constant("rate", 0.5, 0.1, 1.0, 3.0)
DELAY = Constant("delay_s", 1e-2, 1e-4, 1.0, 3.0, logarithmic=True)
SILENT = Constant("silent", 3.0, 1.0, 9.0, 0.3)


def predict(values):
    return np.log(SIZES[:, None] / values["rate"] + values["delay_s"])


def measured(rate: float, delay_s: float) -> np.ndarray:
    return SIZES / rate + delay_s


def test_constants_that_made_the_measurements_are_found():
    found = fit(predict, measured(0.8, 0.3), [RATE, DELAY])
    assert found.values["rate"] == pytest.approx(0.8, rel=0.01)
    assert found.values["delay_s"] == pytest.approx(0.3, rel=0.02)
    assert found.log_sigma < 0.005


def test_outliers_pull_little():
    times = measured(0.8, 0.3)
    times[::10] *= 5.0
    found = fit(predict, times, [RATE, DELAY])
    assert found.values["rate"] == pytest.approx(0.8, rel=0.05)
    # A tenth of the rows is far off, and the spread of the rest is that of a good fit.
    assert found.log_sigma < 0.1


def test_a_constant_that_rows_say_nothing_about_stays_usual():
    found = fit(predict, measured(0.8, 0.3), [RATE, DELAY, SILENT])
    assert found.values["silent"] == pytest.approx(3.0)


def test_constants_stay_within_bounds():
    found = fit(predict, measured(5.0, 0.3), [RATE, DELAY])
    assert found.values["rate"] == pytest.approx(1.0)


def test_weights_decide_between_contradicting_rows():
    times = np.concatenate([measured(0.8, 1e-3)[:20], measured(0.4, 1e-3)[20:]])
    heavy = [1.0] * 20 + [100.0] * 20
    found = fit(predict, times, [RATE, DELAY], heavy)
    assert found.values["rate"] == pytest.approx(0.4, rel=0.05)
    assert found.log_sigma < 0.05
    even = fit(predict, times, [RATE, DELAY])
    assert even.log_sigma > 0.1


def test_the_same_rows_give_the_same_constants():
    first, second = (fit(predict, measured(0.7, 0.1), [RATE, DELAY]) for _ in range(2))
    assert first.values == second.values
