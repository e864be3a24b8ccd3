"""The highest rate of requests that keeps limits of time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.deployment import InferenceWorkload, ServingSettings
from service.core.performance.inference.goodput import SHARES, TimeLimit, goodput, time_limit
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.load_ends import percentile_s
from tests.core.deployments import CALIBRATION, deployment

WORKLOAD = InferenceWorkload(1024.0, 256.0, 1.0)


def latency_at(rate, workload=WORKLOAD):
    asked = replace(workload, requests_per_s=rate)
    return inference_latency(deployment(), asked, ServingSettings(), CALIBRATION, 256.0)


def best(*limits):
    return goodput(latency_at, limits)


def rate(*limits):
    return float(best(*limits).requests_per_s.value)


@settings(max_examples=25)
@given(
    share=st.sampled_from(SHARES),
    figure=st.sampled_from(("ttft_s", "tpot_s", "e2e_s")),
    most_s=st.floats(0.005, 30.0),
    more=st.floats(1.0, 3.0),
)
def test_looser_limits_never_lower_it(share, figure, most_s, more):
    tight, loose = (TimeLimit(figure, share, limit) for limit in (most_s, most_s * more))
    assert rate(loose) >= rate(tight)
    other = TimeLimit("tpot_s", "p95", 0.03)
    assert rate(tight, other) <= min(rate(tight), rate(other))


def test_the_limit_is_kept_there_and_missed_beyond():
    limit = time_limit("ttft_p99_s", 0.5)
    found = best(limit)
    value = float(found.requests_per_s.value)
    assert found.limited_by == ("ttft_p99_s",)
    assert limit.figure_s(latency_at(value)) <= 0.5
    assert limit.figure_s(latency_at(value * 1.001)) > 0.5
    assert found.requests_per_s.low < value < found.requests_per_s.high


def test_a_tight_limit_makes_the_rate_less_certain():
    def width(most_s):
        found = best(time_limit("ttft_p99_s", most_s)).requests_per_s
        return found.high / found.low

    idle_s = best(time_limit("ttft_p99_s", 10.0)).idle_s["ttft_p99_s"]
    saturation = latency_at(1.0).saturation_requests_per_s
    loose = width(100.0 * idle_s)
    # How near to saturation a machine keeps limits adds to how unsure that is.
    assert 1.05 < loose / (saturation.high / saturation.low) < 1.3
    assert width(1.6 * idle_s) > 1.2 * loose


def test_without_a_limit_that_binds_it_is_the_saturation():
    saturation = latency_at(1.0).saturation_requests_per_s
    assert best().requests_per_s == saturation
    loose = best(time_limit("tpot_p99_s", 10.0))
    assert loose.limited_by == ()
    assert loose.requests_per_s.value == saturation.value


def test_a_limit_that_nothing_keeps_is_zero_with_the_figure_when_idle():
    found = best(time_limit("ttft_s", 1e-4), time_limit("tpot_s", 1.0))
    assert found.requests_per_s.value == found.requests_per_s.high == 0.0
    assert found.limited_by == ("ttft_s",)
    assert found.idle_s["ttft_s"] > 1e-4
    assert found.idle_s["tpot_s"] < 1.0


@pytest.mark.parametrize("name", ["ttft_s", "tpot_p50_s", "e2e_p95_s"])
def test_limits_go_by_the_names_of_quantities(name):
    assert time_limit(name, 1.0).name == name


def test_other_names_are_no_limits():
    with pytest.raises(KeyError):
        time_limit("itl_p50_s", 1.0)


@pytest.mark.parametrize(
    ("name", "most_s"), [("ttft_p99_s", 0.5), ("tpot_p95_s", 0.03), ("e2e_p99_s", 8.0)]
)
def test_times_that_are_told_at_that_rate_keep_the_limit(name, most_s):
    limit = time_limit(name, most_s)
    found = latency_at(float(best(limit).requests_per_s.value))
    # They are of replicas that keep up, and so no longer than what the search holds to the limit.
    assert percentile_s(found, limit.figure, limit.share).value <= most_s * 1.000001
