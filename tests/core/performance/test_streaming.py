"""Engines whose steps wait for each token to be told to its user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import InferenceWorkload, ServingSettings
from service.core.performance.inference.latency import inference_latency
from service.core.performance.streaming import streamed_s
from tests.core.deployments import CALIBRATION, deployment

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
