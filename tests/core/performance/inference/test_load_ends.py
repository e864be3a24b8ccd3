"""How far times under a rate of requests may be off."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.deployment import InferenceWorkload, Parallelism, ServingSettings
from service.core.interval import from_log_sigma
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.load_ends import (
    NEARLY_SATURATED,
    LoadEnds,
    percentile_s,
)
from tests.core.deployments import CALIBRATION, deployment
from tests.core.performance.inference.test_goodput import latency_at

LIMIT = float(latency_at(1.0).saturation_per_s)


def width(figure):
    return figure.high / figure.low


@settings(max_examples=25)
@given(utilisation=st.floats(0.01, 0.98), log_sigma=st.floats(0.0, 0.5))
def test_the_estimate_lies_between_its_ends(utilisation, log_sigma):
    load = latency_at(LIMIT * utilisation).load
    ends = LoadEnds(load, log_sigma, 255.0)
    for found in (ends.ttft_s(log_sigma), ends.tpot_s(log_sigma)):
        assert found.low <= found.value <= found.high
    # The rate changes what is waited for: never less than steps alone are unsure.
    steps = from_log_sigma(float(load.state.tpot_s), log_sigma)
    assert ends.tpot_s(log_sigma).high >= steps.high * 0.999999
    assert ends.tpot_s(log_sigma).low <= steps.low * 1.000001


def test_an_almost_idle_replica_is_as_unsure_as_its_steps():
    latency = latency_at(LIMIT * 0.001)
    assert width(latency.tpot_s) == pytest.approx(
        width(from_log_sigma(1.0, latency.log_sigma["decode"])), rel=0.01
    )


def test_near_saturation_a_little_less_speed_fills_the_replica():
    idle, busy = latency_at(LIMIT * 0.2), latency_at(LIMIT * 0.95)
    assert width(busy.tpot_s) > 1.5 * width(idle.tpot_s)
    assert width(busy.ttft_s) > 2.0 * width(idle.ttft_s)
    # A slower one may not keep up: later tokens come as from a full replica, no slower.
    full = float(busy.full.step_s)
    assert busy.tpot_s.high == pytest.approx(
        from_log_sigma(full, busy.log_sigma["decode"]).high, rel=0.05
    )


def test_waits_end_where_a_replica_nearly_saturates():
    busy = latency_at(LIMIT * 0.95)
    nearly = latency_at(LIMIT * NEARLY_SATURATED)
    most = from_log_sigma(float(nearly.load.mean_ttft_s), busy.log_sigma["prefill"]).high
    assert busy.ttft_s.high == pytest.approx(most)


@pytest.mark.parametrize("figure", ["ttft_s", "tpot_s", "e2e_s"])
@pytest.mark.parametrize("share", ["p50", "p95", "p99"])
def test_percentiles_and_their_ends_grow_with_the_rate(figure, share):
    utilisations = (0.01, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
    found = [percentile_s(latency_at(LIMIT * ratio), figure, share) for ratio in utilisations]
    for lighter, heavier in pairwise(found):
        for end in ("low", "value", "high"):
            # What the time is spent on changes its spread a little.
            assert getattr(heavier, end) >= 0.995 * getattr(lighter, end)


def test_a_replica_works_for_as_much_of_the_time_as_its_rate_takes():
    # Prompts for stages of a pipeline, and short answers: few sequences decode at a time.
    chosen = replace(deployment(), parallelism=Parallelism(pipeline=8))

    def load(rate):
        asked = InferenceWorkload(8000.0, 4.0, 1.0, requests_per_s=rate)
        return inference_latency(chosen, asked, ServingSettings(), CALIBRATION, 256.0)

    limit = load(1e-3).saturation_per_s
    rates = (0.3, 0.9, 0.999, 1.0)
    busy = [load(limit * ratio).usage.busy_ratio for ratio in rates]
    assert busy == sorted(busy)
    for working, least in zip(busy, rates, strict=True):
        assert least * 0.999999 <= working <= 1.0


def test_the_spread_that_searches_read_is_that_of_steps():
    idle, busy = latency_at(LIMIT * 0.001), latency_at(LIMIT * 0.95)
    assert idle.e2e_spread_ratio == pytest.approx(idle.e2e_s.high / idle.e2e_s.value, rel=0.02)
    assert busy.e2e_spread_ratio < busy.e2e_s.high / busy.e2e_s.value
