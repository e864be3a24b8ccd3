"""Beam search: what several continuations of a prompt take of memory and time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.deployment import (
    ONE_BEAM,
    Beams,
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
    most_requests,
)
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.kv_cache import layout_sequence_bytes
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.inference.latency import InferenceLatency, inference_latency
from tests.core.calibrations import packaged_overheads
from tests.core.deployments import CALIBRATION, deployment
from tests.core.memory.memory_models import GEMMA_3_27B, LLAMA_3_8B, accelerator

BF16 = NUMBER_FORMATS["bf16"]
SERVING = ServingSettings()
OVERHEADS = packaged_overheads()
WIDTHS = st.integers(2, 16)
BEAMS = st.builds(Beams, WIDTHS.map(float), st.booleans())


def memory(workload: InferenceWorkload, model=LLAMA_3_8B) -> InferenceMemory:
    deployed = Deployment(model, Precision(BF16, BF16, BF16), accelerator(80e9), Parallelism())
    return inference_memory(deployed, workload, SERVING, OVERHEADS)


def latency(workload: InferenceWorkload, model: str = "llama-70b") -> InferenceLatency:
    return inference_latency(deployment(model), workload, SERVING, CALIBRATION, 500.0)


@pytest.mark.parametrize("model", [LLAMA_3_8B, GEMMA_3_27B])
def test_beams_share_the_pages_of_their_prompt_or_copy_all(model):
    plain = InferenceWorkload(4096.0, 128.0, 1.0)
    one = memory(plain, model)
    shared = memory(replace(plain, beams=Beams(4.0)), model)
    copied = memory(replace(plain, beams=Beams(4.0, copied=True)), model)
    answer = layout_sequence_bytes(one.plan.cache, 128.0)
    assert one.request_bytes == one.sequence_bytes
    assert shared.request_bytes == pytest.approx(one.sequence_bytes + 3.0 * answer)
    assert copied.request_bytes == pytest.approx(4.0 * one.sequence_bytes)


@settings(max_examples=40, deadline=None)
@given(beams=BEAMS, inputs=st.integers(1, 8192), outputs=st.integers(2, 1024))
def test_more_beams_take_more_and_fewer_requests_fit(beams, inputs, outputs):
    plain = InferenceWorkload(float(inputs), float(outputs), 8.0)
    fewer = memory(replace(plain, beams=replace(beams, width=beams.width - 1.0)))
    more = memory(replace(plain, beams=beams))
    assert more.kv_cache_bytes.value > fewer.kv_cache_bytes.value
    assert more.max_concurrency.value <= fewer.max_concurrency.value
    assert more.max_context_tokens.value <= fewer.max_context_tokens.value
    shared = memory(replace(plain, beams=Beams(beams.width)))
    copied = memory(replace(plain, beams=Beams(beams.width, copied=True)))
    assert shared.kv_cache_bytes.value <= copied.kv_cache_bytes.value


@settings(max_examples=40, deadline=None)
@given(
    beams=BEAMS,
    inputs=st.integers(1, 8192),
    outputs=st.integers(2, 1024),
    concurrency=st.integers(1, 64),
    rate=st.none() | st.just(0.2),
)
def test_more_beams_are_no_faster(beams, inputs, outputs, concurrency, rate):
    plain = InferenceWorkload(float(inputs), float(outputs), float(concurrency), rate)
    one = latency(plain)
    several = latency(replace(plain, beams=beams))
    assert several.tpot_s.value >= one.tpot_s.value * (1.0 - 1e-9)
    assert several.ttft_s.value >= one.ttft_s.value * (1.0 - 1e-9)
    assert several.requests_per_s.value <= one.requests_per_s.value * (1.0 + 1e-9)
    # What copies caches reads them once more, and computes each prompt for every beam.
    copied = latency(replace(plain, beams=Beams(beams.width, copied=True)))
    shared = latency(replace(plain, beams=Beams(beams.width)))
    assert copied.e2e_s.value >= shared.e2e_s.value * (1.0 - 1e-9)


def test_beams_of_a_request_cost_what_as_many_sequences_decode_at_most():
    # Four beams of eight requests are 32 sequences, of which each group has one prompt to read.
    beams = latency(InferenceWorkload(2048.0, 256.0, 8.0, beams=Beams(4.0)))
    sequences = latency(InferenceWorkload(2048.0, 256.0, 32.0))
    one = latency(InferenceWorkload(2048.0, 256.0, 8.0))
    assert one.decode.flops < beams.decode.flops <= sequences.decode.flops * 1.01
    assert one.decode.memory_bytes < beams.decode.memory_bytes < sequences.decode.memory_bytes
    # The answer is one of them: tokens that are told are fewer than those that are decoded.
    assert beams.output_tokens_per_s.value < one.output_tokens_per_s.value


def test_each_beam_takes_one_of_the_sequences_that_settings_allow():
    workload = InferenceWorkload(512.0, 64.0, 100.0, beams=Beams(4.0))
    few = replace(SERVING, max_running_sequences=32.0)
    assert most_requests(few, workload) == 8.0
    assert most_requests(few, replace(workload, beams=ONE_BEAM)) == 32.0
    limited = inference_latency(deployment("llama-70b"), workload, few, CALIBRATION, 500.0)
    assert limited.running_sequences_per_replica <= 8.0
