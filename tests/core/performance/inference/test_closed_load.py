"""Percentiles where as many requests are always in flight."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.deployment import (
    NO_SPREAD,
    WITHOUT_LIMIT,
    InferenceWorkload,
    LengthSpread,
    ServingSettings,
)
from service.core.interval import from_log_sigma
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.lengths import log_normal_spread
from service.core.performance.inference.load_ends import percentile_s
from tests.core.deployments import CALIBRATION, deployment
from tests.core.performance.inference.cases import SHARES, cases, kept_in_flight

FIGURES = ("ttft_s", "tpot_s", "e2e_s")


def latency(concurrency, p95_ratio=None, apart=0.0, slots=256.0, inputs=1024.0, outputs=256.0):
    spread = NO_SPREAD if p95_ratio is None else log_normal_spread(p95_ratio)
    workload = InferenceWorkload(
        inputs, outputs, float(concurrency), input_spread=spread, output_spread=spread
    )
    serving = ServingSettings(prompts_apart=apart)
    return inference_latency(deployment(), workload, serving, CALIBRATION, slots)


def of_all(found, figure):
    return [float(percentile_s(found, figure, share).value) for share in SHARES]


@pytest.fixture(scope="module")
def ratios():
    """Percentiles over the mean, those of the closed form over those of the simulation."""
    found = []
    random = np.random.default_rng(5)
    varied = (replace(case, variation=max(case.variation, 0.5)) for case in cases(32, seed=41))
    for case in varied:
        # From a tenth of the slots to more than there are.
        concurrency = max(round(case.slots * float(np.exp(random.uniform(-2.3, 0.4)))), 1)
        said, simulated = kept_in_flight(case, concurrency, apart=bool(random.random() < 0.3))
        one = {}
        for figure in FIGURES:
            times = getattr(simulated, figure)
            mean = getattr(said, figure).value
            for name, share in SHARES.items():
                expected = np.quantile(times, share) / times.mean()
                one[figure, name] = float(getattr(getattr(said.replica, figure), name)) / mean
                one[figure, name] /= expected
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("figure", "median", "high"),
    [("ttft_s", 0.14, 0.50), ("tpot_s", 0.05, 0.30), ("e2e_s", 0.04, 0.12)],
)
@pytest.mark.parametrize("share", SHARES)
def test_percentiles_over_the_mean_are_close_to_the_simulation(ratios, figure, median, high, share):
    errors = np.abs([one[figure, share] - 1.0 for one in ratios])
    assert np.median(errors) < median
    assert np.quantile(errors, 0.9) < high


@settings(max_examples=40)
@given(
    concurrency=st.floats(1.0, 600.0),
    p95_ratio=st.none() | st.floats(1.05, 3.5),
    apart=st.sampled_from((0.0, 1.0)),
    inputs=st.floats(16.0, 20_000.0),
    outputs=st.floats(1.0, 2000.0),
)
def test_higher_percentiles_are_no_shorter(concurrency, p95_ratio, apart, inputs, outputs):
    found = latency(concurrency, p95_ratio, apart, inputs=inputs, outputs=outputs)
    for figure in FIGURES:
        p50, p95, p99 = of_all(found, figure)
        assert 0.0 < p50 <= p95 <= p99
        assert p99 >= 0.999999 * float(getattr(found, figure).value)


def test_requests_that_are_alike_see_nearly_the_same():
    found = latency(64)
    for figure in ("tpot_s", "e2e_s"):
        p50, _, p99 = of_all(found, figure)
        assert p99 == pytest.approx(p50, rel=0.02)


def test_one_request_at_a_time_waits_for_nothing():
    found = latency(1)
    for figure in FIGURES:
        assert of_all(found, figure) == pytest.approx([getattr(found, figure).value] * 3)


@pytest.mark.parametrize("figure", FIGURES)
def test_the_more_lengths_differ_the_more_times_do(figure):
    found = [of_all(latency(64, ratio), figure) for ratio in (1.2, 2.0, 3.0)]
    spreads = [p99 / p50 for p50, _, p99 in found]
    assert spreads == sorted(spreads)
    assert spreads[-1] > 1.05 * spreads[0]


@pytest.mark.parametrize("p95_ratio", [None, 2.0])
@pytest.mark.parametrize("figure", FIGURES)
def test_times_grow_with_what_is_in_flight(figure, p95_ratio):
    # Fewer than slots, where nothing queues for one, and more.
    found = [of_all(latency(count, p95_ratio), figure) for count in (4, 16, 64, 200, 400, 800)]
    for fewer, more in pairwise(found):
        for less, later in zip(fewer, more, strict=True):
            assert later >= 0.99 * less


def test_nothing_waits_for_a_slot_while_some_are_free():
    assert latency(256, 2.0).ttft_parts_s["free_slot"] == 0.0
    assert latency(300, 2.0).ttft_parts_s["free_slot"] > 0.0


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.8])
def test_as_many_in_flight_see_what_those_of_the_same_rate_do(utilisation):
    closed = latency(64, 2.0)
    rate = utilisation * float(closed.saturation_per_s)
    workload = replace(closed.workload, requests_per_s=rate)
    opened = inference_latency(deployment(), workload, ServingSettings(), CALIBRATION, 256.0)
    in_flight = rate * float(opened.e2e_s.value)
    again = latency(in_flight, 2.0)
    assert again.requests_per_s.value == pytest.approx(rate, rel=0.05)
    assert again.tpot_s.value == pytest.approx(opened.tpot_s.value, rel=0.05)
    # A fixed number varies less than one that chance has.
    for name in ("p95", "p99"):
        closed_s, open_s = (percentile_s(one, "tpot_s", name).value for one in (again, opened))
        assert closed_s < 1.05 * open_s


def test_prompts_of_a_wave_are_computed_before_any_of_its_tokens():
    # Equal answers on an engine whose steps compute prompts or decode: all end in one step.
    waves, mixed = latency(64, apart=1.0), latency(64, 2.0, apart=1.0)
    assert waves.ttft_parts_s["wave"] > 3.0 * waves.ttft_parts_s["own_prompt"]
    assert mixed.ttft_parts_s["wave"] < 0.01 * mixed.ttft_s.value
    # The first of a wave wait least for their first token, and most for the others.
    assert of_all(waves, "ttft_s")[2] > 1.5 * of_all(waves, "ttft_s")[0]
    assert of_all(waves, "tpot_s")[2] > of_all(waves, "tpot_s")[0]
    assert of_all(waves, "e2e_s")[2] == pytest.approx(of_all(waves, "e2e_s")[0])


def in_flight(count, spread=NO_SPREAD, *, apart=0.0, outputs=256.0):
    workload = InferenceWorkload(512.0, outputs, count, output_spread=spread)
    serving = ServingSettings(chunked_prefill_tokens=8192, prompts_apart=apart)
    return inference_latency(deployment(), workload, serving, CALIBRATION, 512.0)


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_ranges_hold_the_first_tokens_of_answers_that_differ_where_one_length_is_told(apart):
    """Alike requests wait for each other's prompts time and again; others come one by one."""
    told = in_flight(64.0, LengthSpread(1.3, 0.9, 1.8, 2.6), apart=apart)
    alone = in_flight(64.0, apart=apart)
    assert alone.ttft_s.value > 2.0 * told.ttft_s.value
    assert alone.ttft_s.low < told.ttft_s.value < alone.ttft_s.high
    # Rates and later tokens depend on it less, and are covered too.
    for figure in ("tpot_s", "e2e_s", "requests_per_s"):
        found = getattr(alone, figure)
        assert found.low < getattr(told, figure).value < found.high


def test_a_range_is_that_of_steps_where_lengths_change_nothing():
    for found in (
        in_flight(1.0),
        in_flight(64.0, LengthSpread(1.3, 0.9, 1.8, 2.6)),
        in_flight(64.0, outputs=1.0),
    ):
        steps = from_log_sigma(1.0, found.log_sigma["prefill"])
        assert found.ttft_s.high / found.ttft_s.low == pytest.approx(steps.high / steps.low)


def test_batches_of_a_script_begin_together_whatever_their_lengths():
    workload = InferenceWorkload(512.0, 256.0, 64.0)
    serving = ServingSettings(chunked_prefill_tokens=8192, max_running_sequences=WITHOUT_LIMIT)
    found = inference_latency(deployment(), workload, serving, CALIBRATION, 512.0)
    steps = from_log_sigma(1.0, found.log_sigma["prefill"])
    assert found.ttft_s.high / found.ttft_s.low == pytest.approx(steps.high / steps.low)
