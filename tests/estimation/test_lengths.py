"""Lengths that differ: what requests may say of them, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from service.core.performance.inference.lengths import (
    MOST_P95_RATIO,
    histogram_spread,
    log_normal_spread,
)
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest

BODY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "region": "aws/eu-north-1",
}


def ask(snapshot, **workload: Any) -> dict[str, Any]:
    request = InferenceRequest.model_validate(BODY | {"workload": workload})
    return inference_estimate(request, snapshot)


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.5, MOST_P95_RATIO])
def test_log_normal_lengths_have_the_moments_of_a_sample(ratio):
    spread = log_normal_spread(ratio)
    assert spread.p95_ratio == pytest.approx(ratio)
    sigma = np.sqrt(np.log(spread.square_ratio))
    drawn = np.random.default_rng(3).lognormal(-(sigma**2) / 2.0, sigma, 400_000)
    assert np.quantile(drawn, 0.95) == pytest.approx(ratio, rel=0.02)
    assert np.quantile(drawn, 0.50) == pytest.approx(spread.p50_ratio, rel=0.02)
    assert np.quantile(drawn, 0.99) == pytest.approx(spread.p99_ratio, rel=0.04)


def test_histograms_are_taken_as_they_are():
    mean, spread = histogram_spread((100.0, 1000.0, 400.0), (50, 4, 46))
    assert mean == pytest.approx(274.0)
    assert spread.square_ratio == pytest.approx((5_000 + 40_000 + 73_600) / 274.0**2)
    assert spread.p95_ratio * mean == pytest.approx(400.0)
    assert spread.p99_ratio * mean == pytest.approx(1000.0)


def test_lengths_that_differ_lengthen_percentiles_and_stand_in_the_echo(packaged_snapshot):
    plain = ask(packaged_snapshot, input_tokens=800, output_tokens=200, requests_per_s=5.0)
    varied = ask(
        packaged_snapshot,
        input_tokens={"mean": 800, "p95": 2400},
        output_tokens={"tokens": [100, 600], "shares": [0.8, 0.2]},
        requests_per_s=5.0,
    )
    echoed = varied["deployment"]["workload"]
    assert echoed["input_tokens"] == 800
    assert echoed["output_tokens"] == 200
    assert echoed["input_spread"]["p95_ratio"] == pytest.approx(3.0)
    assert "input_spread" not in plain["deployment"]["workload"]
    for name in ("ttft_s", "e2e_s"):
        ends = [one["latency"]["load"][name]["p99"]["value"] for one in (plain, varied)]
        assert ends[1] > 1.2 * ends[0]
    rates = [one["latency"]["saturation_requests_per_s"]["value"] for one in (plain, varied)]
    assert rates[1] < rates[0]


def test_one_length_for_all_is_the_plain_number(packaged_snapshot):
    plain = ask(packaged_snapshot, input_tokens=800, output_tokens=200, concurrency=8)
    same = ask(
        packaged_snapshot,
        input_tokens={"mean": 800, "p95": 800},
        output_tokens={"tokens": [200], "shares": [1]},
        concurrency=8,
    )
    for name in ("ttft_s", "tpot_s", "requests_per_s"):
        assert same["latency"][name]["value"] == pytest.approx(plain["latency"][name]["value"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mean": 800}, "give mean and p95"),
        ({"mean": 800, "p95": 700}, "between the mean"),
        ({"mean": 800, "p95": 80_000}, "longer tails"),
        ({"tokens": [1, 2], "shares": [1]}, "as many as each other"),
        ({"tokens": [1, 2], "shares": [0, 0]}, "not all be zero"),
        ({"mean": 1, "p95": 2, "tokens": [1], "shares": [1]}, "not both"),
        ({"tokens": [1.0] * 300, "shares": [1.0] * 300}, "at most 256"),
        ({"mean": float("inf"), "p95": 1}, "finite"),
        (0, "greater than or equal to 1"),
    ],
)
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
def test_lengths_that_cannot_be_are_refused_where_they_stand(field, given, told):
    with pytest.raises(ValidationError, match=told) as refused:
        InferenceRequest.model_validate(BODY | {"workload": {field: given}})
    assert all(error["loc"][:2] == ("workload", field) for error in refused.value.errors())
