"""Ranges of decoding end where memory does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import InferenceWorkload, ServingSettings
from service.core.interval import Interval
from service.core.performance.inference.fastest import fastest_tpot_s, no_faster
from service.core.performance.inference.latency import inference_latency
from tests.core.deployments import CALIBRATION, H100, deployment


def _latency(model="llama-70b", calibration=CALIBRATION, concurrency=1):
    workload = InferenceWorkload(1024, 128, concurrency=concurrency)
    return inference_latency(deployment(model), workload, ServingSettings(), calibration, 256.0)


def test_no_range_reaches_below_what_memory_takes_at_its_peak():
    unsure = replace(CALIBRATION, hardware=replace(CALIBRATION.hardware, decode_log_sigma=1.0))
    latency = _latency(calibration=unsure)
    peak_s = latency.state.decode.memory_bytes / H100.memory_bandwidth_bytes_per_s
    assert latency.tpot_s.low == pytest.approx(peak_s, rel=0.05)
    assert latency.tpot_s.low < latency.tpot_s.value < latency.tpot_s.high


def test_a_value_is_never_moved():
    latency = _latency()
    known = latency.state, latency.deployment, latency.calibration
    least_s = fastest_tpot_s(*known)
    faster = Interval(0.5 * least_s, 0.1 * least_s, least_s)
    assert no_faster(faster, *known) == Interval(0.5 * least_s, 0.5 * least_s, least_s)


def test_prompts_of_others_only_add_to_it():
    alone, beside = (_latency(concurrency=count) for count in (1, 64))
    known = beside.state, beside.deployment, beside.calibration
    assert fastest_tpot_s(*known) <= beside.state.decode.total_s
    assert beside.state.tpot_s > beside.state.decode.total_s > alone.state.decode.total_s


def test_nothing_is_known_of_experts_that_are_not_chosen_or_of_what_lies_outside():
    routed = _latency("mixtral-8x7b")
    assert fastest_tpot_s(routed.state, routed.deployment, routed.calibration) == 0.0
    dense = _latency()
    outside = replace(CALIBRATION, outside_ratio=0.5)
    assert fastest_tpot_s(dense.state, dense.deployment, outside) == 0.0
