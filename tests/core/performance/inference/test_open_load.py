"""Requests that arrive at random: what has to hold whatever the deployment."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import factorial, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.deployment import (
    InferenceWorkload,
    LengthSpread,
    Parallelism,
    ServingSettings,
)
from service.core.performance.inference.latency import InferenceLatency, inference_latency
from service.core.performance.inference.queueing import gamma_quantile, prompt_queue, slot_queue
from tests.core.deployments import CALIBRATION, deployment

LENGTHS = {"inputs": st.integers(1, 30_000), "outputs": st.integers(1, 2_000)}
LOADS = {**LENGTHS, "slots": st.integers(1, 600), "budget": st.sampled_from((512, 2048, 8192))}
VARIED = LengthSpread(2.0, 0.7, 2.8, 4.6)
PERCENTILES = ("p50", "p95", "p99")


def latency(
    rate: object,
    inputs: object = 1024.0,
    outputs: object = 256.0,
    slots: float = 256.0,
    budget: int = 8192,
    parallelism: Parallelism | None = None,
    **changes: object,
) -> InferenceLatency:
    chosen = deployment()
    if parallelism is not None:
        chosen = replace(chosen, parallelism=parallelism)
    workload = InferenceWorkload(inputs, outputs, 1.0, requests_per_s=rate, **changes)
    serving = ServingSettings(chunked_prefill_tokens=budget)
    return inference_latency(chosen, workload, serving, CALIBRATION, slots)


def saturation(**asked: object) -> float:
    return float(latency(1e-9, **asked).saturation_requests_per_s.value)


@settings(max_examples=40)
@given(**LOADS, low=st.floats(0.01, 1.5), more=st.floats(0.02, 0.5))
def test_overload_never_looks_better(inputs, outputs, slots, budget, low, more):
    shape = {"inputs": inputs, "outputs": outputs, "slots": slots, "budget": budget}
    limit = saturation(**shape)
    less, greater = latency(low * limit, **shape), latency((low + more) * limit, **shape)
    nearly = 1.0 - 1e-6
    for figure in ("ttft_s", "tpot_s", "e2e_s"):
        assert getattr(greater, figure).value >= getattr(less, figure).value * nearly
        for name in PERCENTILES:
            low_end = getattr(getattr(less.load, figure), name)
            assert getattr(getattr(greater.load, figure), name) >= low_end * nearly
    assert greater.running_sequences_per_replica >= less.running_sequences_per_replica * nearly
    assert greater.waiting_requests >= less.waiting_requests * nearly


@settings(max_examples=40)
@given(**LOADS, utilisation=st.floats(0.01, 1.3))
def test_percentiles_are_in_order_and_rates_within_saturation(
    inputs, outputs, slots, budget, utilisation
):
    shape = {"inputs": inputs, "outputs": outputs, "slots": slots, "budget": budget}
    limit = saturation(**shape)
    found = latency(utilisation * limit, **shape)
    for figure in (found.load.ttft_s, found.load.tpot_s, found.load.e2e_s):
        assert figure.p50 <= figure.p95 <= figure.p99
    assert found.requests_per_s.value <= limit * (1 + 1e-9)
    assert found.running_sequences_per_replica <= slots
    assert bool(found.load.saturated) == (utilisation >= 1.0)
    if not found.load.saturated:
        parts = sum(found.ttft_parts_s.values())
        assert found.ttft_s.value == pytest.approx(parts)


@settings(max_examples=40)
@given(**LENGTHS, utilisation=st.floats(0.01, 0.6))
def test_nobody_waits_for_a_slot_while_slots_are_free(inputs, outputs, utilisation):
    shape = {"inputs": inputs, "outputs": outputs}
    found = latency(utilisation * saturation(**shape), **shape)
    # Half again as many slots as the crowd ever takes.
    plenty = 2.0 * found.running_sequences_per_replica + 100.0
    free = latency(utilisation * saturation(**shape), slots=plenty, **shape)
    assert free.ttft_parts_s["slot_queue"] <= 1e-3 * free.ttft_s.value


@pytest.mark.parametrize("outputs", [1.0, 64.0, 1024.0])
def test_prompts_that_do_not_meet_others_do_not_wait(outputs):
    found = latency(1e-6, outputs=outputs)
    alone = found.state.unloaded_ttft_s
    assert found.load.ttft_s.p99 == pytest.approx(alone, rel=1e-3)
    assert found.ttft_s.value == pytest.approx(alone, rel=1e-3)


@settings(max_examples=40)
@given(
    tokens=st.integers(2, 40_000),
    rate=st.sampled_from((None, 0.2)),
    pipeline=st.sampled_from((1, 4)),
)
def test_the_time_to_the_first_token_is_continuous_in_the_prompt(tokens, rate, pipeline):
    def first(length: int) -> float:
        found = latency(
            rate, inputs=float(length), parallelism=Parallelism(8 // pipeline, pipeline)
        )
        return float(found.ttft_s.value)

    before, after = first(tokens), first(tokens + 1)
    assert before * (1 - 1e-9) <= after <= before * (1.0 + 8.0 / tokens) + 1e-4


@pytest.mark.parametrize("utilisation", [0.1, 0.9])
def test_a_single_token_has_one_time_for_another_told_alike(utilisation):
    # Embeddings and scores: no token follows, so that none is delayed by anything.
    rate = utilisation * saturation(outputs=1.0)
    found = latency(rate, outputs=1.0)
    told = found.load.tpot_s
    assert told.p50 == told.p95 == told.p99 == found.tpot_s.value


def test_no_jump_where_a_prompt_needs_a_second_chunk():
    lengths = np.array([8191.0, 8192.0, 8193.0, 8200.0])
    for rate in (None, 0.5):
        found = latency(rate, inputs=lengths).ttft_s.value
        assert found[2] / found[1] < 1.001
        assert found[3] / found[1] < 1.01


def test_figures_without_a_steady_state_are_infinite_beyond_saturation():
    limit = saturation()
    below, beyond = latency(0.999 * limit), latency(1.001 * limit)
    assert below.ttft_s.value < inf
    assert beyond.mean_e2e_s == beyond.load.e2e_s.p50 == inf
    assert beyond.waiting_requests == inf
    assert beyond.tpot_s.value >= below.tpot_s.value
    assert beyond.requests_per_s.value == pytest.approx(limit)


def test_times_end_as_long_as_the_replica_may_keep_up():
    # As many come as a faster replica than estimated serves: it is told what that one does.
    most = latency(1.0).saturation_requests_per_s
    just, beyond = latency(most.high * 0.99), latency(most.high * 1.01)
    assert just.saturated
    assert just.ttft_s.value < just.ttft_s.high < inf
    assert just.e2e_s.value == pytest.approx(just.ttft_s.value + 255.0 * just.tpot_s.value)
    for value in (beyond.ttft_s.low, beyond.e2e_s.value, beyond.task_s.high):
        assert value == inf


@pytest.mark.parametrize("figure", ["ttft_s", "tpot_s", "e2e_s"])
def test_times_grow_through_saturation(figure):
    most = latency(1.0).saturation_requests_per_s
    rates = np.linspace(0.3 * most.value, 0.999 * most.high, 40)
    found = [getattr(latency(rate), figure) for rate in rates]
    for end in ("low", "value", "high"):
        values = [float(getattr(one, end)) for one in found]
        for lower, higher in pairwise(values):
            assert higher >= 0.998 * lower


def test_arrays_and_floats_agree_under_load():
    rates = np.array([0.01, 1.0, 8.0, 12.0, 500.0])
    inputs = np.array([4096.0, 1024.0, 700.0, 512.0, 64.0])
    together = latency(rates, inputs=inputs)
    for index, (rate, tokens) in enumerate(zip(rates, inputs, strict=True)):
        alone = latency(float(rate), inputs=float(tokens))
        assert together.tpot_s.value[index] == pytest.approx(alone.tpot_s.value, rel=1e-5)
        assert together.ttft_s.value[index] == pytest.approx(alone.ttft_s.value, rel=1e-4)
        for name in PERCENTILES:
            many = getattr(together.load.e2e_s, name)[index]
            assert many == pytest.approx(getattr(alone.load.e2e_s, name), rel=1e-4)


@settings(max_examples=40)
@given(**LOADS, utilisation=st.floats(0.05, 0.95))
def test_lengths_that_differ_wait_no_less(inputs, outputs, slots, budget, utilisation):
    shape = {"inputs": inputs, "outputs": outputs, "slots": slots, "budget": budget}
    rate = utilisation * saturation(**shape, input_spread=VARIED, output_spread=VARIED)
    alike = latency(rate, **shape)
    varied = latency(rate, **shape, input_spread=VARIED, output_spread=VARIED)
    assert varied.ttft_s.value >= alike.ttft_s.value * (1 - 1e-6)
    assert varied.load.e2e_s.p99 >= alike.load.e2e_s.p99 * (1 - 1e-6)
    assert varied.saturation_requests_per_s.value <= alike.saturation_requests_per_s.value


def test_stages_of_a_pipeline_share_the_requests():
    found = latency(2.0, parallelism=Parallelism(tensor=2, pipeline=4))
    assert found.ttft_s.value == pytest.approx(sum(found.ttft_parts_s.values()))
    in_flight = 2.0 * found.e2e_s.value
    assert found.running_sequences_per_replica == pytest.approx(in_flight, rel=0.02)


def test_one_prompt_at_a_time_waits_as_in_m_g_1():
    # Pollaczek–Khinchine: λ·E[S²] / (2(1 − ρ)).
    assert prompt_queue(0.5, 1.0).mean_wait_s == pytest.approx(0.5)
    assert prompt_queue(0.5, 1.0, 1.0, 2.0).mean_wait_s == pytest.approx(1.0)
    # Eight at a time wait far less at the same load.
    assert prompt_queue(4.0, 0.125, 8.0).mean_wait_s < 0.02
    queue = prompt_queue(0.5, 1.0)
    assert queue.wait_percentile_s(0.4) == 0.0
    assert queue.wait_percentile_s(0.99) == pytest.approx(np.log(50.0))


def test_waits_for_slots_are_near_those_of_many_servers():
    # M/D/20 at 0.9: 0.55 of M/M/20, whose Erlang C is 0.5508 and mean wait 0.2754 services.
    busy = slot_queue(18.0, 18.0, 20.0, 20.0, 0.9, 1.0)
    assert busy.waiting_ratio == pytest.approx(0.5508, rel=0.1)
    assert busy.mean_wait_s == pytest.approx(0.15, rel=0.15)
    assert slot_queue(18.0, 18.0, 20.0, 20.0, 0.9, 2.0).mean_wait_s == pytest.approx(
        0.2754, rel=0.2
    )
    assert slot_queue(18.0, 18.0, 400.0, 20.0, 0.9, 1.0).mean_wait_s == 0.0


def erlang_c(servers: int, offered: float) -> float:
    """Share of Poisson arrivals that wait for one of so many servers of exponential service."""
    free, full = 1.0 - offered / servers, offered**servers / factorial(servers)
    below = sum(offered**count / factorial(count) for count in range(servers))
    return full / free / (below + full / free)


@pytest.mark.parametrize("utilisation", [0.01, 0.3, 0.95])
@pytest.mark.parametrize("slots", [1, 2, 4, 7, 8, 12])
def test_as_many_wait_for_few_slots_as_by_erlang(slots, utilisation):
    offered = slots * utilisation
    found = slot_queue(offered, offered, float(slots), 1.0, utilisation, 2.0)
    assert found.waiting_ratio == pytest.approx(
        erlang_c(slots, offered), rel=0.001 if slots < 8 else 0.35, abs=0.004
    )


def test_a_single_slot_is_waited_for_by_as_many_as_it_is_busy_for():
    # An idle llama.cpp with one slot: whoever comes while it answers waits for half of an answer.
    rate = 0.1 * saturation(slots=1.0)
    found = latency(rate, slots=1.0)
    answer_s = found.state.unloaded_ttft_s + 255.0 * float(found.state.tpot_s)
    assert found.ttft_parts_s["slot_queue"] == pytest.approx(0.1 * answer_s / 2.0 / 0.9, rel=0.15)
    assert found.load.ttft_s.p50 < 0.1 * answer_s < found.load.ttft_s.p99


def test_waits_change_little_from_few_slots_to_many():
    slots = np.linspace(6.0, 10.0, 81)
    waiting = slot_queue(5.0, 5.5, slots, 1.0, 5.0 / slots, 1.0).waiting_ratio
    assert (np.diff(waiting) < 0.0).all()
    assert (np.diff(waiting) > -0.03).all()


def test_gamma_quantiles_are_those_of_known_distributions():
    # Exponential: −ln(1 − q).
    assert gamma_quantile(1.0, 1.0, 2.3263478740408408) == pytest.approx(np.log(100.0), rel=0.02)
    assert gamma_quantile(100.0, 100.0, 0.0) == pytest.approx(99.67, rel=1e-3)
    assert gamma_quantile(3.0, 0.0, 2.0) == pytest.approx(3.0, rel=1e-6)


def test_prompts_without_answers_wait_for_no_decoding():
    """Embeddings: engines whose steps hold prompts or decoding have steps of prompts alone."""

    def times(apart: float, rate: float) -> InferenceLatency:
        asked = InferenceWorkload(625.0, 1.0, 1.0, requests_per_s=rate)
        serving = ServingSettings(chunked_prefill_tokens=8192, prompts_apart=apart)
        return inference_latency(deployment(), asked, serving, CALIBRATION, 1500.0)

    limit = float(times(0.0, 1.0).saturation_per_s)
    for share in (0.1, 0.5, 0.8, 0.9, 0.97):
        mixed, apart = times(0.0, share * limit), times(1.0, share * limit)
        assert apart.load.mean_ttft_s == pytest.approx(mixed.load.mean_ttft_s)
    assert times(1.0, 1.0).saturation_per_s == pytest.approx(limit)


def test_an_idle_replica_replays_graphs_for_the_one_sequence_that_it_has():
    engine = replace(CALIBRATION.engine, replayed_accelerators=8.0, replayed_ratio=0.3)
    made = replace(CALIBRATION, engine=engine)

    def tpot_s(**load: float) -> float:
        asked = InferenceWorkload(512.0, 64.0, 1.0, **load)
        found = inference_latency(deployment(), asked, ServingSettings(), made, 8.0)
        return float(found.tpot_s.value)

    assert tpot_s(requests_per_s=1e-6) == pytest.approx(tpot_s(), rel=1e-3)
