"""Servers that receive requests and tell each token to its user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import InferenceWorkload, ServingSettings
from service.core.performance.inference.latency import inference_latency
from service.core.performance.servers import SCRIPT_TOLD_RATIO, received_s, streamed_s
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

STREAMED_S = 2e-5
SERVING = ServingSettings(chunked_prefill_tokens=8192)


def latency(streamed: float, **load: float):
    engine = replace(CALIBRATION.engine, streamed_s=streamed)
    asked = InferenceWorkload(512.0, 256.0, load.pop("concurrency", 1.0), **load)
    made = replace(CALIBRATION, engine=engine)
    return inference_latency(deployment(), asked, SERVING, made, 512.0)


def test_a_full_replica_takes_longer_for_each_token_that_users_read_along():
    silent, told = (latency(each, requests_per_s=1.0).full for each in (0.0, STREAMED_S))
    # A step of all slots makes a response for each that decodes, and for each prompt.
    sequences = silent.decoding + silent.prompts
    longer_s = told.step_s - silent.step_s
    assert longer_s == pytest.approx(STREAMED_S * sequences, rel=0.1)


def test_it_counts_little_while_few_are_in_flight():
    silent, told = (latency(each, requests_per_s=0.01) for each in (0.0, STREAMED_S))
    assert told.tpot_s.value - silent.tpot_s.value == pytest.approx(STREAMED_S, rel=0.2)


def test_a_number_in_flight_may_be_a_scripts_that_waits_for_whole_answers():
    silent, told = (latency(each, concurrency=256.0) for each in (0.0, STREAMED_S))
    assert told.tpot_s.value == silent.tpot_s.value


def test_others_were_measured_over_streams():
    assert streamed_s("tensorrt-llm") == STREAMED_S
    assert streamed_s("vllm") == 0.0


@pytest.mark.parametrize("load", [{"concurrency": 1.0}, {"requests_per_s": 1e-6}])
def test_a_server_takes_its_time_for_each_request_and_none_for_later_tokens(load):
    def found(received: float):
        made = replace(CALIBRATION, engine=replace(CALIBRATION.engine, received_s=received))
        asked = InferenceWorkload(512.0, 256.0, load.get("concurrency", 1.0))
        asked = replace(asked, requests_per_s=load.get("requests_per_s"))
        return inference_latency(deployment(), asked, SERVING, made, 512.0)

    script, server = found(0.0), found(5e-3)
    assert server.ttft_s.value - script.ttft_s.value == pytest.approx(5e-3, rel=0.01)
    assert server.state.unloaded_ttft_s - script.state.unloaded_ttft_s == pytest.approx(5e-3)
    assert server.tpot_s.value == pytest.approx(script.tpot_s.value)
    assert server.saturation_per_s == pytest.approx(script.saturation_per_s)


def test_servers_in_python_receive_requests_beside_the_engine():
    assert received_s("vllm") == received_s("sglang") > 0.0
    assert received_s("llama.cpp") == 0.0


def told(told_s: float, sequences: float):
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    made = replace(CALIBRATION, engine=replace(CALIBRATION.engine, told_s=told_s))
    load = StepLoad(0.0, 0.0, 0.0, sequences, 256.0)
    return step_time(work, load, H100, chosen.parallelism, made)


def test_no_step_ends_before_its_tokens_are_told_and_all_of_it_is_as_unsure_as_that():
    silent, bound = told(0.0, 256.0), told(1e-3, 256.0)
    assert bound.total_s == pytest.approx(0.256)
    assert bound.unsure_overhead_s == pytest.approx(0.256, rel=0.05)
    assert bound.shares.overhead_ratio > bound.overhead_s / bound.total_s
    assert bound.work_s == silent.work_s


def test_a_process_that_nearly_holds_up_an_accelerator_makes_steps_unsure_before_it_shows():
    silent = told(0.0, 256.0)
    nearly = told(0.95 * silent.total_s / 256.0, 256.0)
    assert nearly.total_s == silent.total_s
    assert nearly.unsure_overhead_s > silent.unsure_overhead_s
    # Far below that, it changes nothing.
    assert told(0.3 * silent.total_s / 256.0, 256.0) == silent


def test_scripts_send_no_tokens_to_users():
    assert 0.0 < SCRIPT_TOLD_RATIO < 0.5
