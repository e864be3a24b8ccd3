"""Requests that come all at once, as asked for and as answered."""

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.measurements.readings import percentile
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.resolution import Problems

BODY = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "explain": True,
}


def answered(snapshot, workload, **changes):
    request = LatencyInferenceRequest(**BODY | changes, workload=workload)
    return inference_latency_answer(request, snapshot)


def test_a_burst_is_answered_with_its_percentiles_and_its_end(packaged_snapshot):
    workload = {"concurrency": 300, "arrivals": "at_once", "input_tokens": 900}
    found = answered(packaged_snapshot, workload)
    burst = found["burst"]
    assert burst["waves"] == 1.0
    assert burst["ttft_s"]["p50"]["value"] < burst["ttft_s"]["p99"]["value"]
    span = burst["makespan_s"]
    assert span["low"] < span["value"] < span["high"]
    assert found["requests_per_s"]["value"] == pytest.approx(300 / span["value"])
    assert found["load"] is None
    assert found["deployment"]["workload"]["arrivals"] == "at_once"
    # A script hands prompts over: vLLM takes larger steps there.
    assert found["deployment"]["serving"]["usage_context"] == "offline"
    steps = {one["name"] for one in found["explanation"]}
    assert {"makespan_s", "earlier_prompts_s", "decoding_beside_s", "own_prompt_s"} <= steps


def test_others_have_no_burst(packaged_snapshot):
    found = answered(packaged_snapshot, {"concurrency": 300})
    assert found["burst"] is None
    assert found["deployment"]["workload"]["arrivals"] == "spread"
    assert found["deployment"]["serving"]["usage_context"] == "server"


def test_a_rate_says_how_requests_come():
    with pytest.raises(ValidationError, match="give one"):
        LatencyInferenceRequest(**BODY, workload={"requests_per_s": 1.0, "arrivals": "at_once"})


def test_pools_take_no_bursts(packaged_snapshot):
    workload = {"concurrency": 8, "arrivals": "at_once"}
    serving = {"disaggregated": {}}
    with pytest.raises(Rejected) as refused:
        answered(packaged_snapshot, workload, serving=serving, accelerator_count=2)
    assert "/workload/arrivals" in {one.pointer for one in refused.value.errors}


def test_measured_percentiles_of_bursts_are_compared(packaged_snapshot):
    request = LatencyInferenceRequest(
        **BODY, workload={"concurrency": 40, "arrivals": "at_once", "input_tokens": 4096}
    )
    computed = compute_deployment(resolve_deployment(request, packaged_snapshot, Problems()))
    read = percentile("p95", "ttft_s")(SimpleNamespace(estimate=computed.estimate))
    burst = computed.latency.burst
    assert burst is not None
    assert read.value == pytest.approx(burst.ttft_s.p95)
    assert read.value > 1.2 * computed.latency.ttft_s.value
