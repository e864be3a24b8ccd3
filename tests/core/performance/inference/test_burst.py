"""Requests that come all at once: against a simulation, and against what must hold."""

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import InferenceWorkload, Parallelism, ServingSettings
from service.core.performance.inference.latency import inference_latency
from tests.core.deployments import CALIBRATION, deployment
from tests.core.performance.inference.cases import cases
from tests.core.performance.inference.simulation import StepTable, simulate

SERVING = ServingSettings()


def estimated(concurrency, serving=SERVING, arrivals="at_once", **changes):
    """A Llama 70B on one accelerator; lengths as of the workload's fields."""
    lengths = {"input_tokens": 1024.0, "output_tokens": 128.0} | changes
    data = lengths.pop("data", 1)
    chosen = replace(deployment("llama-70b"), parallelism=Parallelism(data=data))
    workload = InferenceWorkload(**lengths, concurrency=concurrency, arrivals=arrivals)
    return inference_latency(chosen, workload, serving, CALIBRATION, 1e9)


def test_the_closed_form_is_near_a_simulation():
    """150 such cases have medians of 1 % and 90th percentiles of 5 % (TTFT), 8 % (E2E)."""
    errors = {name: [] for name in ("ttft", "e2e", "makespan", "p95")}
    for case in cases(40, 5):
        count = int(np.random.default_rng(case.seed).integers(1, 400))
        inputs, outputs = np.full(count, case.inputs), np.full(count, max(case.outputs, 2.0))
        chosen = replace(deployment(case.model), parallelism=Parallelism(tensor=case.tensor))
        serving = ServingSettings(
            chunked_prefill_tokens=case.budget, max_running_sequences=case.slots
        )
        workload = InferenceWorkload(case.inputs, float(outputs[0]), count, arrivals="at_once")
        found = inference_latency(chosen, workload, serving, CALIBRATION, 1e9)
        table = StepTable(chosen, CALIBRATION, case.inputs, outputs[0], case.slots, case.budget)
        simulated = simulate(
            table,
            inputs,
            outputs.astype(int),
            case.slots,
            case.budget,
            arrivals=np.zeros(count),
            warm_up_ratio=0.0,
        )
        for name, said, seen in (
            ("ttft", found.ttft_s.value, simulated.ttft_s.mean()),
            ("e2e", found.e2e_s.value, simulated.e2e_s.mean()),
            ("makespan", found.burst.makespan_s, simulated.e2e_s.max()),
            ("p95", found.burst.ttft_s.p95, np.quantile(simulated.ttft_s, 0.95)),
        ):
            errors[name].append(abs(np.log(said / seen)))
    for found in errors.values():
        assert np.median(found) < 0.02
        assert np.quantile(found, 0.9) < 0.15


def test_one_request_is_as_one_that_is_always_there():
    alone, closed = estimated(1.0), estimated(1.0, arrivals="spread")
    assert alone.ttft_s.value == pytest.approx(closed.ttft_s.value, rel=0.01)
    assert alone.tpot_s.value == pytest.approx(closed.tpot_s.value, rel=0.01)
    assert closed.burst is None


def test_parts_add_up_and_percentiles_rise():
    found = estimated(200.0, ServingSettings(max_running_sequences=64))
    assert sum(found.ttft_parts_s.values()) == pytest.approx(found.ttft_s.value)
    burst = found.burst
    assert burst.waves_before == 3.0
    for spread in (burst.ttft_s, burst.tpot_s, burst.e2e_s):
        assert spread.p50 <= spread.p95 <= spread.p99
    assert burst.ttft_s.p99 < burst.e2e_s.p99 <= burst.makespan_s * (1.0 + 1e-9)
    assert found.requests_per_s.value == pytest.approx(200.0 / burst.makespan_s)


def test_more_requests_at_once_wait_longer_and_end_later():
    found = [estimated(float(count)) for count in (1, 2, 8, 9, 64, 500, 2000)]
    for name in ("ttft_s", "e2e_s"):
        values = [getattr(one, name).value for one in found]
        assert values == sorted(values)
        assert len(set(values)) == len(values)
    spans = [one.burst.makespan_s for one in found]
    assert spans == sorted(spans)


def test_replicas_without_a_request_rest():
    one, of_four = estimated(1.0), estimated(1.0, data=4)
    assert of_four.ttft_s.value == one.ttft_s.value
    assert of_four.requests_per_s.value == pytest.approx(one.requests_per_s.value)


def test_single_tokens_have_no_time_after_them():
    found = estimated(32.0, output_tokens=1.0)
    assert found.burst.last.beside_s == 0.0
    assert found.e2e_s.value == pytest.approx(found.ttft_s.value)
    assert found.burst.makespan_s >= found.e2e_s.value


def test_rows_are_what_single_estimates_say():
    counts = np.array([0.5, 1.0, 7.0, 64.0, 130.0, 1000.0])
    serving = ServingSettings(max_running_sequences=64)
    rows = estimated(counts, serving)
    for at, count in enumerate(counts):
        one = estimated(float(count), serving)
        for said, seen in (
            (rows.ttft_s.value, one.ttft_s.value),
            (rows.tpot_s.value, one.tpot_s.value),
            (rows.requests_per_s.value, one.requests_per_s.value),
            (rows.burst.makespan_s, one.burst.makespan_s),
            (rows.burst.ttft_s.p95, one.burst.ttft_s.p95),
            (rows.burst.tpot_s.p95, one.burst.tpot_s.p95),
        ):
            assert np.broadcast_to(said, counts.shape)[at] == pytest.approx(seen, rel=1e-12)
