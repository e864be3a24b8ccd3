"""Pools for prompts and decoding, drafts, and tasks of agents."""

from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.deployment import (
    Disaggregation,
    InferenceWorkload,
    Link,
    ServingSettings,
    Speculation,
)
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.speculation import expected_tokens
from service.core.performance.inference.tasks import mean_call, prefill_tokens
from tests.core.deployments import CALIBRATION, deployment

ONE_STEP = ServingSettings(chunked_prefill_tokens=100_000)
SLOTS = 256.0


def latency(workload, serving=ONE_STEP, replicas=1):
    chosen = deployment()
    layout = replace(chosen.parallelism, data=replicas)
    return inference_latency(
        replace(chosen, parallelism=layout), workload, serving, CALIBRATION, SLOTS
    )


def test_a_check_yields_the_accepted_tokens_and_one_more():
    # Leviathan et al., equation 1: (1 − a^(k+1)) / (1 − a).
    assert expected_tokens(0.8, 4) == pytest.approx((1 - 0.8**5) / 0.2)
    assert expected_tokens(0.0, 4) == 1.0
    assert expected_tokens(1.0, 4) == 5.0


@given(st.floats(0.0, 0.99), st.integers(1, 16))
def test_more_accepted_tokens_never_slow_decoding_down(acceptance, drafted):
    def tpot(ratio):
        serving = replace(ONE_STEP, speculation=Speculation(drafted, ratio))
        return latency(InferenceWorkload(512.0, 128.0, 1.0), serving).tpot_s.value

    assert tpot(min(acceptance + 0.01, 1.0)) <= tpot(acceptance) * (1 + 1e-9)


def test_drafts_pay_at_small_batches_and_cost_at_large_ones():
    chosen = deployment()
    draft = Speculation(4, 0.6, chosen.architecture, chosen.precision)
    free = Speculation(4, 0.6)

    def tpot(sequences, speculation):
        serving = replace(ONE_STEP, speculation=speculation)
        return latency(InferenceWorkload(512.0, 128.0, sequences), serving).tpot_s.value

    assert tpot(1.0, free) < tpot(1.0, None)
    # A draft as large as the model cannot help.
    assert tpot(1.0, draft) > tpot(1.0, None)
    gain_small = tpot(1.0, None) / tpot(1.0, free)
    gain_large = tpot(256.0, None) / tpot(256.0, free)
    assert gain_large < gain_small


def test_a_model_that_drafts_reads_prompts_too():
    chosen = deployment()
    workload = InferenceWorkload(512.0, 128.0, 1.0)

    def ttft(speculation):
        return latency(workload, replace(ONE_STEP, speculation=speculation)).ttft_s.value

    alone = ttft(None)
    assert ttft(Speculation(4, 0.6)) == pytest.approx(alone)
    # A draft as large as the model takes as long again.
    draft = Speculation(4, 0.6, chosen.architecture, chosen.precision)
    assert ttft(draft) == pytest.approx(2 * alone)


def disaggregated(prefill_replicas, bandwidth=50e9):
    return replace(ONE_STEP, disaggregation=Disaggregation(prefill_replicas, Link(bandwidth, 1e-5)))


def test_decoding_on_its_own_is_not_disturbed_by_prompts():
    workload = InferenceWorkload(4096.0, 256.0, 64.0)
    chunked = replace(ONE_STEP, chunked_prefill_tokens=8192)
    mixed, apart = latency(workload, chunked, 4), latency(workload, disaggregated(None), 4)
    alone = apart.decode.step_s
    assert apart.tpot_s.value == pytest.approx(alone)
    assert mixed.tpot_s.value > mixed.decode.step_s


def test_pools_saturate_at_the_lower_of_their_limits():
    workload = InferenceWorkload(4096.0, 256.0, 1.0, requests_per_s=1e5)
    one, three = (latency(workload, disaggregated(n), 4) for n in (1, 3))
    assert one.load.saturated
    assert one.load.ttft_s.p50 == float("inf")
    prompt_s = one.state.unloaded_ttft_s
    assert one.saturation_requests_per_s.value == pytest.approx(1 / prompt_s, rel=0.05)
    best = latency(workload, disaggregated(None), 4).saturation_requests_per_s.value
    assert best >= max(x.saturation_requests_per_s.value for x in (one, three)) * (1 - 1e-9)


def test_in_a_closed_loop_as_many_are_in_flight_as_asked():
    for concurrency in (1.0, 16.0, 100.0):
        found = latency(InferenceWorkload(2048.0, 256.0, concurrency), disaggregated(2), 4)
        held = found.requests_per_s.value * found.e2e_s.value
        assert held == pytest.approx(concurrency, rel=0.01)


def test_slow_links_delay_first_tokens_alone():
    workload = InferenceWorkload(4096.0, 256.0, 1.0, requests_per_s=0.5)
    fast, slow = (latency(workload, disaggregated(2, bandwidth), 4) for bandwidth in (50e9, 1e8))
    # A rank of eight holds 40,960 bytes of cache for a token.
    assert slow.ttft_s.value - fast.ttft_s.value == pytest.approx(
        4096 * 40_960 * (1e-8 - 2e-11), rel=0.01
    )
    assert slow.tpot_s.value == fast.tpot_s.value


def agent(**changes):
    return replace(
        InferenceWorkload(1000.0, 50.0, 1.0, calls_per_task=10, context_growth_tokens=500.0),
        **changes,
    )


def test_prompt_tokens_of_an_agent_with_growing_context():
    assert prefill_tokens(agent()) == 32_500
    assert prefill_tokens(agent(context_kept_cached=True)) == 5_500
    average = mean_call(agent())
    assert average.input_tokens == 3250
    assert average.prefix_cached_ratio == 0.0
    cached = mean_call(agent(context_kept_cached=True))
    assert cached.input_tokens * (1 - cached.prefix_cached_ratio) == pytest.approx(550)
    assert prefill_tokens(agent(prefix_cached_ratio=0.5)) == 32_500 - 5_000


def _waiting_s(rate, slots, service_s, seed):
    """Mean wait for one of so many slots of random arrivals that each hold one for so long [s]."""
    random = np.random.default_rng(seed)
    came = np.cumsum(random.exponential(1.0 / rate, 60_000))
    free = [0.0] * slots
    waits = []
    for at in came.tolist():
        begins = max(at, heappop(free))
        waits.append(begins - at)
        heappush(free, begins + service_s)
    return float(np.mean(waits[10_000:]))


@pytest.mark.parametrize(("slots", "utilisation"), [(4, 0.7), (8, 0.9), (32, 0.95)])
def test_requests_wait_for_slots_of_the_decode_pool(slots, utilisation):
    pools = replace(pools_of(slots), decode=lambda _: pools_of(slots).decode(1.0))
    rate = utilisation * pools.decode_limit_per_s
    step_s = float(pools.decode(1.0).total_s)
    each, service_s = rate / pools.decode_replicas, pools.later_tokens * step_s
    seen = np.mean([_waiting_s(each, slots, service_s, seed) for seed in range(3)])
    said = pools.slot_queue(rate, pools.batch(rate)).mean_wait_s
    assert said == pytest.approx(seen, rel=0.3)


def pools_of(slots):
    """One prefill and three decode replicas with so many slots."""
    workload = InferenceWorkload(512.0, 256.0, 1.0)
    serving = replace(disaggregated(1), max_running_sequences=float(slots))
    return latency(workload, serving, 4).pools


def test_nobody_waits_for_slots_while_many_are_free():
    pools = pools_of(512)
    rate = 0.2 * pools.decode_limit_per_s
    assert pools.slot_queue(rate, pools.batch(rate)).mean_wait_s < 1e-6


def test_waits_for_slots_are_told_and_grow_with_the_rate():
    serving = replace(disaggregated(3), max_running_sequences=8.0)
    best = latency(InferenceWorkload(512.0, 256.0, 1.0), serving, 4).saturation_requests_per_s.value
    found = [
        latency(InferenceWorkload(512.0, 256.0, 1.0, requests_per_s=share * best), serving, 4)
        for share in (0.1, 0.5, 0.8, 0.95)
    ]
    waits = [one.ttft_parts_s["slot_queue"] for one in found]
    assert waits == sorted(waits)
    assert waits[-1] > 10.0 * max(waits[0], 1e-9)
    for one in found:
        assert one.ttft_s.value == pytest.approx(sum(one.ttft_parts_s.values()))
        assert one.load.ttft_s.p50 <= one.load.ttft_s.p95 <= one.load.ttft_s.p99
    beyond = InferenceWorkload(512.0, 256.0, 1.0, requests_per_s=1.2 * best)
    assert latency(beyond, serving, 4).load.saturated
