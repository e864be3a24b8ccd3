"""Runs that fail now and then: against simulation, published rates and limits."""

from __future__ import annotations

import numpy as np
import pytest

from service.core.explanation import explain
from service.core.interval import Interval, exact
from service.core.performance.training.run import (
    RUN,
    Failures,
    best_interval_s,
    goodput,
    training_run,
)
from tests.equations import evaluate

STEP = Interval(4.0, 3.5, 5.0)


def run(rate: Interval, accelerators: int = 1024, interval_s: float | None = None):
    return training_run(1e9 + 1, 1e6, STEP, accelerators, Failures(rate, 30.0, 300.0, interval_s))


def simulated_goodput(interval_s: float, write_s: float, restart_s: float, between_s: float):
    """Useful over all time of a long run whose failures strike at any moment, restarts too."""
    gaps = iter(np.random.default_rng(7).exponential(between_s, size=400_000).tolist())
    finished, clock, next_failure = 0, 0.0, next(gaps)
    needed = interval_s + write_s
    while finished < 20_000:
        if clock + needed <= next_failure:
            clock, finished, needed = clock + needed, finished + 1, interval_s + write_s
        else:
            clock = next_failure
            next_failure = clock + next(gaps)
            needed = restart_s + interval_s + write_s
    return finished * interval_s / clock


@pytest.mark.parametrize("between_s", [2_000.0, 10_000.0, 100_000.0])
def test_goodput_is_that_of_a_simulation(between_s):
    simulated = simulated_goodput(900.0, 30.0, 300.0, between_s)
    assert goodput(900.0, 30.0, 300.0, between_s) == pytest.approx(simulated, rel=0.02)


@pytest.mark.parametrize("between_s", [1_000.0, 11_000.0, 1e6])
def test_the_best_interval_is_the_best(between_s):
    intervals = np.linspace(50.0, 20_000.0, 4_000)
    shares = goodput(intervals, 30.0, 300.0, between_s)
    best = goodput(best_interval_s(30.0, between_s), 30.0, 300.0, between_s)
    assert best == pytest.approx(shares.max(), rel=1e-4)


def test_slow_checkpoints_are_written_once_a_failure():
    assert best_interval_s(500.0, 200.0) == 200.0


def test_rare_failures_leave_only_the_writing():
    assert goodput(900.0, 100.0, 300.0, 1e20) == pytest.approx(0.9)
    assert goodput(900.0, 0.0, 300.0, 1e20) == pytest.approx(1.0)


@pytest.mark.parametrize("between_s", [10.0, 3_000.0, 1e9])
@pytest.mark.parametrize("restart_s", [0.0, 300.0])
def test_free_checkpoints_leave_only_the_restarts(between_s, restart_s):
    interval_s = best_interval_s(0.0, between_s)
    assert interval_s == 0.0
    free = goodput(interval_s, 0.0, restart_s, between_s)
    assert free == pytest.approx(np.exp(-restart_s / between_s), rel=1e-12)
    # It is what ever cheaper checkpoints tend to, from below, and alike for arrays.
    writes = np.array([1e-1, 1e-6, 1e-12, 1e-18, 0.0])
    shares = goodput(best_interval_s(writes, between_s), writes, restart_s, between_s)
    assert (np.diff(shares) >= -1e-15).all()
    assert shares[3:] == pytest.approx(free, rel=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-3, 1e3])
@pytest.mark.parametrize("write_s", [0.0, 1e6])
@pytest.mark.parametrize("restart_s", [0.0, 1e6])
@pytest.mark.parametrize("interval_s", [None, 1.0, 1e9])
@pytest.mark.parametrize("accelerators", [1, 1_000_000])
def test_extremes_leave_some_share_of_the_time_or_none(
    rate, write_s, restart_s, interval_s, accelerators
):
    failures = Failures(exact(rate), write_s, restart_s, interval_s)
    found = training_run(1e9, 1e6, STEP, accelerators, failures)
    share = found.goodput_ratio.value
    assert 0.0 <= share <= 1.0
    per_failure = write_s + restart_s + found.checkpoint_interval_s
    stuck = per_failure > 100.0 * found.mean_time_between_failures_s
    assert (share == 0.0) == stuck
    assert (found.wall_s.value == float("inf")) == stuck
    if not rate and interval_s is None:
        assert share == pytest.approx(1.0, abs=1e-9)
    explained = {step.formula.name: step for step in explain(found, RUN)}
    step = explained["goodput_ratio"]
    assert evaluate(step.formula.expression, step.inputs) == pytest.approx(share, rel=1e-9)


def test_published_failures_leave_the_published_effective_time():
    found = run(exact(419 / 54 / 16384), accelerators=16384)
    # One failure every three hours, and more than 90 % effective training time.
    assert found.mean_time_between_failures_s / 3600 == pytest.approx(3.09, abs=0.01)
    assert 0.90 < found.goodput_ratio.value < 0.93


def test_a_run_is_whole_steps_over_goodput():
    found = run(Interval(1e-3, 5e-4, 2e-3))
    assert found.steps == 1001
    assert found.useful_s.value == 1001 * 4.0
    assert found.wall_s.value == pytest.approx(found.useful_s.value / found.goodput_ratio.value)
    assert found.accelerator_hours.value == pytest.approx(found.wall_s.value * 1024 / 3600)
    assert found.goodput_ratio.low < found.goodput_ratio.value < found.goodput_ratio.high
    assert found.wall_s.low < found.wall_s.value < found.wall_s.high
    expected = found.wall_s.value / 86_400 * 1024 * 1e-3
    assert found.expected_failures.value == pytest.approx(expected)
    assert training_run(1.0, 1e6, STEP, 8, found.failures).steps == 1


def test_no_failures_at_all():
    found = run(exact(0.0), interval_s=1e6)
    assert found.goodput_ratio.value == pytest.approx(1.0, abs=1e-4)
    assert found.expected_failures.value == 0.0


def test_failures_faster_than_checkpoints_never_let_a_run_end():
    hopeless = run(exact(1e3), accelerators=100_000)
    assert hopeless.goodput_ratio.value == 0.0
    assert hopeless.wall_s.value == float("inf")
    narrow = run(Interval(10.0, 1.0, 900.0), accelerators=10_000, interval_s=900.0)
    assert narrow.goodput_ratio.low == 0.0
    assert narrow.wall_s.high == float("inf")


def test_every_figure_of_a_run_is_explained():
    found = run(exact(1e-3))
    explained = {step.formula.name: step.value for step in explain(found, RUN)}
    assert explained["steps"] == found.steps
    assert explained["goodput_ratio"] == found.goodput_ratio.value
    assert explained["wall_s"] == found.wall_s.value
    assert explained["accelerator_hours"] == found.accelerator_hours.value
