"""Prompts of different lengths in the steps that they share, and percentiles of sums."""

from __future__ import annotations

import numpy as np
import pytest

from service.core.deployment import InferenceWorkload, LengthSpread, ServingSettings
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.lengths import log_normal_spread
from service.core.performance.inference.percentiles import added
from service.core.performance.inference.queueing import Queue, gamma_quantile, rare_quantile
from service.core.performance.inference.varied_prompts import longer_s, prompt_times
from tests.core.deployments import CALIBRATION, deployment

WIDE = log_normal_spread(2.8)


def load(spread: LengthSpread, inputs: float, rate: float = 0.5, model: str = "llama-70b"):
    workload = InferenceWorkload(
        inputs, 128.0, 1.0, requests_per_s=rate, input_spread=spread, output_spread=spread
    )
    serving = ServingSettings(chunked_prefill_tokens=8192)
    return inference_latency(deployment(model), workload, serving, CALIBRATION, 256.0).load


def replica_and_mix(spread: LengthSpread, inputs: float):
    found = load(spread, inputs)
    return found.times.args[0], found.state.mix


def test_what_prompts_take_is_convex_in_their_length():
    # 100 tokens hide behind the weights that a step reads anyway; 1600 do not.
    replica, mix = replica_and_mix(WIDE, 100.0)
    lengths = (1.0, 4.0, 16.0)
    taken = [mix.taken_s + longer_s(replica, mix, length) for length in lengths]
    slopes = [(taken[1] - taken[0]) / 3.0, (taken[2] - taken[1]) / 12.0]
    assert 0.0 <= slopes[0] < slopes[1]


def test_moments_are_those_of_one_length_where_all_are_alike():
    replica, mix = replica_and_mix(LengthSpread(), 2000.0)
    found = prompt_times(replica, mix)
    assert (found.mean_s, found.variance) == (mix.taken_s, 0.0)
    assert found.met_s == pytest.approx(mix.taken_s)


def test_moments_agree_with_drawn_lengths():
    replica, mix = replica_and_mix(WIDE, 500.0)
    sigma = np.log(WIDE.square_ratio) ** 0.5
    drawn = np.exp(np.random.default_rng(3).normal(-sigma * sigma / 2.0, sigma, 4000))
    taken = np.array([mix.taken_s + longer_s(replica, mix, float(one)) for one in drawn])
    found = prompt_times(replica, mix)
    assert found.mean_s == pytest.approx(taken.mean(), rel=0.05)
    assert found.rms_s == pytest.approx((taken**2).mean() ** 0.5, rel=0.08)


def test_a_long_prompt_waits_for_its_own_steps():
    # Idle: nothing but the prompt's own length tells first tokens apart.
    found = load(WIDE, 4000.0, rate=1e-6)
    longest = 4000.0 * WIDE.p99_ratio
    alone = load(LengthSpread(), longest, rate=1e-6)
    assert found.ttft_s.p99 == pytest.approx(alone.ttft_s.p50, rel=0.05)


def test_what_few_meet_is_nothing_below_their_share():
    # One request in fifty meets a burst: the 95th percentile is without, the 99th has its median.
    assert rare_quantile(0.02, 0.02, 0.0196, 0.95) == 0.0
    assert rare_quantile(0.02, 0.02, 0.0196, 0.99) == pytest.approx(1.0, rel=0.01)
    # All meet it: an ordinary gamma distribution.
    whole = rare_quantile(1.0, 2.0, 1.0, 0.95)
    assert whole == pytest.approx(gamma_quantile(2.0, 1.0, 1.6448536269514722), rel=0.01)


def test_the_median_of_a_sum_lies_below_its_mean_by_the_mean_of_its_parts_skews():
    # Ten exponential times of one second: each median is 1 − ln 2 below its mean, that of the sum
    # (a gamma distribution of shape ten) a third of a second, as that of one is.
    below = np.log(2.0) - 1.0
    parts = tuple((below, 1.0) for _ in range(10))
    drawn = np.random.default_rng(5).exponential(1.0, (200_000, 10)).sum(axis=1)
    assert 10.0 + added(parts, "p50") == pytest.approx(float(np.median(drawn)), rel=0.01)


def test_the_variance_of_a_wait_is_that_of_an_exponential_that_some_have():
    assert Queue(1.0, 2.0).variance == pytest.approx(4.0)
    # Half wait: E[W²] = 0.5 · 2 · 4, less the square of the mean.
    assert Queue(0.5, 2.0).variance == pytest.approx(4.0 - 1.0)


@pytest.mark.parametrize("outputs", [1.0, 2.0, 16.0])
@pytest.mark.parametrize("inputs", [64.0, 2048.0])
def test_tails_of_a_mixture_of_experts_grow_with_the_rate(inputs, outputs):
    """Few tokens choose experts of their own; many share them, and each prompt then adds less."""
    chosen = deployment("mixtral-8x7b")
    serving = ServingSettings(chunked_prefill_tokens=8192)

    def latency(rate):
        workload = InferenceWorkload(inputs, outputs, 1.0, requests_per_s=rate)
        return inference_latency(chosen, workload, serving, CALIBRATION, 256.0)

    saturation = float(latency(1e-9).saturation_requests_per_s.value)
    rates = np.linspace(0.01, 0.99, 50)
    found = latency(rates * saturation).load
    for figure in (found.ttft_s, found.e2e_s, found.tpot_s):
        for share in (figure.p50, figure.p95, figure.p99):
            every = share * np.ones_like(rates)
            assert (every[1:] >= 0.97 * every[:-1]).all()
