"""Models that embed or rerank, asked through the use cases."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.charts.throughput import ThroughputChartRequest, throughput_chart
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import Rejected

ENCODER = "BAAI/bge-large-en-v1.5"
OF_TOKENS = (
    "tpot_s",
    "output_tokens_per_s",
    "output_tokens_per_s_per_user",
    "output_tokens_per_s_per_accelerator",
    "decode",
)


def ask(snapshot, model: str = ENCODER, serving: Any = None, **workload: Any) -> dict[str, Any]:
    body = {"model": model, "accelerator": "nvidia-a100-sxm-80gb", "region": "aws/eu-north-1"}
    body |= {"precision": {"weights": "fp16"}, "serving": serving or {}}
    body |= {"workload": {"input_tokens": 512} | workload, "explain": True}
    return inference_estimate(InferenceRequest.model_validate(body), snapshot)


def test_an_encoder_answers_in_sequences_and_tokens_read(packaged_snapshot):
    answer = ask(packaged_snapshot, concurrency=64)
    latency = answer["latency"]
    assert answer["deployment"]["workload"]["task"] == "embed"
    assert [latency[name] for name in OF_TOKENS] == [None] * len(OF_TOKENS)
    assert latency["input_tokens_per_s"]["value"] == pytest.approx(
        512 * latency["requests_per_s"]["value"]
    )
    assert latency["e2e_s"]["value"] == pytest.approx(latency["ttft_s"]["value"])
    assert answer["memory"]["kv_cache_bytes"]["value"] == 0.0
    assert answer["memory"]["max_concurrency"] is None
    assert answer["energy"]["accelerator_energy_per_output_token_j"] is None
    assert answer["cost"]["rented"]["usd_per_million_output_tokens"] is None
    by_token = answer["impacts"]["per_1k_tokens"]["carbon"]["total_gco2e"]["value"]
    by_request = answer["impacts"]["per_request"]["carbon"]["total_gco2e"]["value"]
    assert by_token == pytest.approx(by_request * 1000 / 512)
    names = {one["name"] for one in answer["constraints"]}
    assert "sequences_in_flight" not in names
    assert all(one["verdict"] == "pass" for one in answer["constraints"])
    explained = {step["name"] for step in answer["explanation"]}
    assert "input_tokens_per_s" in explained
    assert not explained & {"tpot_s", "output_tokens_per_s", "decode_step_s"}


def test_a_sequence_goes_through_in_one_step(packaged_snapshot):
    serving = {"chunked_prefill_tokens": 128}
    answer = ask(packaged_snapshot, serving=serving, task="embed")
    assert answer["deployment"]["serving"]["chunked_prefill_tokens"] == 512


def test_a_decoder_embeds_where_it_is_asked_to(packaged_snapshot):
    model = "Qwen/Qwen3-8B"
    embeds = ask(packaged_snapshot, model=model, task="rerank", output_tokens=500)
    generates = ask(packaged_snapshot, model=model, output_tokens=500)
    assert embeds["deployment"]["workload"]["output_tokens"] == 1
    assert embeds["latency"]["decode"] is None
    saved = (
        generates["memory"]["weights_bytes"]["value"] - embeds["memory"]["weights_bytes"]["value"]
    )
    # The output matrix of 151,936 × 4,096 in 16 bit is not loaded.
    assert saved == pytest.approx(151_936 * 4_096 * 2)


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"task": "generate"}, "/workload/task"),
        ({"serving": {"speculative": {}}}, "/serving/speculative"),
        ({"serving": {"disaggregated": {}}}, "/serving/disaggregated"),
    ],
)
def test_what_an_encoder_cannot_do_is_refused(packaged_snapshot, asked, pointer):
    with pytest.raises(Rejected) as refused:
        ask(packaged_snapshot, **asked)
    assert pointer in {error.pointer for error in refused.value.errors}


def test_searches_and_charts_of_tokens_refuse_encoders(packaged_snapshot):
    with pytest.raises(Rejected, match="is an encoder"):
        resolve_search(RecommendationRequest.model_validate({"model": ENCODER}), packaged_snapshot)
    chart = {"model": ENCODER, "accelerator": "nvidia-a100-sxm-80gb"}
    chart |= {"workload": {"input_tokens": 512}, "concurrencies": [1, 2]}
    with pytest.raises(Rejected, match="models that generate"):
        throughput_chart(ThroughputChartRequest.model_validate(chart), packaged_snapshot)
