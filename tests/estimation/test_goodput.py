"""Limits of time in a request: the goodput, and what is wrong with limits."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import Rejected

BODY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "region": "aws/eu-north-1",
    "workload": {"input_tokens": 1024, "output_tokens": 256},
}


def ask(snapshot, **changes: Any) -> dict[str, Any]:
    return inference_estimate(InferenceRequest.model_validate(BODY | changes), snapshot)


def test_a_request_with_limits_answers_the_highest_rate(packaged_snapshot):
    answer = ask(packaged_snapshot, limits={"ttft_p99_s": 0.5, "tpot_p99_s": 0.03})
    found = answer["goodput"]
    rate = found["requests_per_s"]["value"]
    assert 0.0 < rate < answer["latency"]["saturation_requests_per_s"]["value"]
    assert found["limited_by"]
    assert found["limited_by"][0] in found["reason"]
    load = dict(BODY["workload"], requests_per_s=rate)
    there = ask(packaged_snapshot, workload=load)["latency"]["load"]
    assert there["ttft_s"]["p99"]["value"] <= 0.5 * (1 + 1e-6)
    assert there["tpot_s"]["p99"]["value"] <= 0.03 * (1 + 1e-6)
    assert [one["name"] for one in found["limits"]] == ["ttft_p99_s", "tpot_p99_s"]
    assert all(one["kept_when_idle"] for one in found["limits"])


def test_a_limit_that_cannot_be_kept_answers_zero_with_the_reason(packaged_snapshot):
    found = ask(packaged_snapshot, limits={"tpot_s": 1e-6})["goodput"]
    assert found["requests_per_s"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    [limit] = found["limits"]
    assert not limit["kept_when_idle"]
    assert limit["idle_s"] > 1e-6
    assert "tpot_s is" in found["reason"]
    assert "when almost idle" in found["reason"]


def test_without_limits_there_is_no_goodput(packaged_snapshot):
    assert "goodput" not in ask(packaged_snapshot)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"limits": {}}, "/limits"),
        (
            {"limits": {"tpot_p95_s": 1.0}, "workload": {"output_tokens": 1}},
            "/limits/tpot_p95_s",
        ),
    ],
)
def test_limits_that_say_nothing_are_refused_where_they_stand(packaged_snapshot, changes, pointer):
    with pytest.raises(Rejected) as refused:
        ask(packaged_snapshot, **changes)
    assert [error.pointer for error in refused.value.errors] == [pointer]
