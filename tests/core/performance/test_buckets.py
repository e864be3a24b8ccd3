"""Programs that are compiled ahead for lengths of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import InferenceWorkload, LengthSpread, ServingSettings
from service.core.performance.buckets import (
    dense_graph_sequences,
    filled_tokens,
    graph_ratio,
    prompt_bucket_tokens,
)
from service.core.performance.inference.latency import inference_latency
from service.core.performance.step import rank_steps
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment


@pytest.mark.parametrize(
    ("tokens", "filled"), [(1.0, 64.0), (64.0, 64.0), (65.0, 128.0), (2048.0, 2048.0), (2049, 4096)]
)
def test_a_prompt_is_filled_up_to_the_next_program(tokens, filled):
    assert filled_tokens(tokens, 64.0, alike=True) == pytest.approx(filled)
    assert filled_tokens(tokens, 0.0, alike=True) == tokens


def test_programs_are_never_shorter_than_prompts_nor_twice_as_long():
    tokens = np.geomspace(64.0, 1e5, 500)
    ratios = filled_tokens(tokens, 64.0, alike=True) / tokens
    assert ratios.min() >= 1.0 - 1e-9
    assert ratios.max() < 2.0
    # Lengths that have no favourite are filled up by 1 / ln 2 on average.
    assert np.mean(ratios) == pytest.approx(1.0 / np.log(2.0), rel=0.03)
    assert filled_tokens(1000.0, 64.0, alike=False) == pytest.approx(1000.0 / np.log(2.0))


def test_engines_whose_programs_have_lengths_are_named():
    assert prompt_bucket_tokens("transformers-neuronx") == 64.0
    assert prompt_bucket_tokens("jetstream") == 16.0
    assert prompt_bucket_tokens("vllm") == 0.0


def first_token_s(tokens: float, least: float, **spread: LengthSpread) -> float:
    engine = replace(CALIBRATION.engine, prompt_bucket_tokens=least)
    calibration = replace(CALIBRATION, engine=engine)
    workload = InferenceWorkload(tokens, 2.0, 1.0, **spread)
    found = inference_latency(deployment(), workload, ServingSettings(), calibration, 8.0)
    return float(found.ttft_s.value)


def test_a_first_token_waits_for_a_whole_program():
    whole = first_token_s(2048.0, 64.0)
    assert whole == pytest.approx(first_token_s(2048.0, 0.0))
    assert first_token_s(1025.0, 64.0) == pytest.approx(whole)
    assert first_token_s(1025.0, 0.0) < 0.7 * whole
    # Where prompts differ in length, so do the programs that they need.
    varied = first_token_s(1500.0, 64.0, input_spread=LengthSpread(1.3, 0.9, 1.8, 2.6))
    assert first_token_s(1500.0, 0.0) < varied


def test_graphs_beyond_some_sequences_compute_more_than_there_are():
    assert dense_graph_sequences("tensorrt-llm@1.x") == 128.0
    assert dense_graph_sequences("tensorrt-llm@0.x") == 0.0
    assert graph_ratio(128.0, 128.0) == 1.0
    assert graph_ratio(1000.0, 128.0) == pytest.approx(1.0 / np.log(2.0))
    ratios = graph_ratio(np.linspace(1.0, 512.0, 100), 128.0)
    assert (np.diff(ratios) >= 0.0).all()


def test_steps_of_decoding_are_filled_up_to_a_graph_and_steps_with_prompts_are_not():
    one = deployment("mixtral-8x7b")
    work = rank_work(one.architecture, one.precision, one.parallelism)
    padding = replace(CALIBRATION, engine=replace(CALIBRATION.engine, dense_graph_sequences=128.0))
    plain, filled = (
        rank_steps(work, H100, one.parallelism, each) for each in (CALIBRATION, padding)
    )
    few, many = (StepLoad(0.0, 0.0, 0.0, count, 1000.0) for count in (64.0, 512.0))
    prompts = StepLoad(512.0, 1.0, 256.0, 512.0, 1000.0)
    assert filled.time(few) == plain.time(few)
    assert filled.time(many).compute_s > 1.2 * plain.time(many).compute_s
    assert filled.time(prompts) == plain.time(prompts)
