"""Models that embed or rerank, that hear or see, asked through the use cases."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.charts.throughput import ThroughputChartRequest, throughput_chart
from service.estimation.comparison.table import comparison_answer
from service.estimation.inference.estimate import inference_estimate, inference_memory_answer
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import CompareRequest, RecommendationRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import MemoryInferenceRequest
from service.estimation.training.estimate import training_memory_answer
from service.estimation.training.requests import EXAMPLE_TRAINING, MemoryTrainingRequest

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


def test_only_models_that_see_backwards_fill_the_share_of_memory_with_caches(packaged_snapshot):
    encoder = ask(packaged_snapshot)["memory"]
    assert encoder["process_bytes"] == encoder["total_bytes"]
    decoder = ask(packaged_snapshot, "Qwen/Qwen3-Embedding-4B", task="embed")["memory"]
    assert decoder["process_bytes"]["value"] > 0.85 * decoder["capacity_bytes"]


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


WHISPER = "openai/whisper-large-v3"


def test_a_request_of_whisper_is_a_window_of_audio(packaged_snapshot):
    body = {"output_tokens": 100, "concurrency": 8, "input_tokens": 4}
    answer = ask(packaged_snapshot, model=WHISPER, **body)
    workload = answer["deployment"]["workload"]
    assert (workload["input_tokens"], workload["encoded_tokens"]) == (4, 1500)
    # Eight sequences of 94 pages of features and 7 of tokens, 163,840 B a position.
    assert answer["memory"]["kv_cache_bytes"]["low"] <= 8 * 101 * 16 * 163_840
    assert answer["memory"]["kv_cache_bytes"]["high"] >= 8 * 101 * 16 * 163_840
    latency = answer["latency"]
    assert latency["input_tokens_per_s"]["value"] == pytest.approx(
        1504 * latency["requests_per_s"]["value"]
    )
    # The encoder's 2.6 TFLOP take longer than any step of the decoder.
    assert latency["prefill"]["step_s"] > latency["decode"]["step_s"]
    assert latency["prefill"]["bottleneck"] == "compute"


def test_a_model_that_hears_begins_with_its_instructions(packaged_snapshot):
    request = {"model": WHISPER, "accelerator": "nvidia-a100-sxm-80gb"}
    request |= {"workload": {"output_tokens": 100, "audio_s": 12.5}}
    answer = inference_memory_answer(
        MemoryInferenceRequest.model_validate(request), packaged_snapshot
    )
    workload = answer["deployment"]["workload"]
    assert (workload["input_tokens"], workload["encoded_tokens"]) == (4, 1500)


def test_the_encoder_of_a_model_for_text_reads_the_prompt(packaged_snapshot):
    model = "google/flan-t5-base"
    short, long = (
        # Where kernels are issued one by one, that is what a token of so small a model takes.
        ask(packaged_snapshot, model, {"engine": "vllm"}, input_tokens=tokens, output_tokens=32)
        for tokens in (64, 4096)
    )
    assert long["deployment"]["workload"]["input_tokens"] == 1
    assert long["deployment"]["workload"]["encoded_tokens"] == 4096
    for name in ("ttft_s", "tpot_s"):
        assert long["latency"][name]["value"] > short["latency"][name]["value"]
    kept = [one["memory"]["kv_cache_bytes"]["value"] for one in (short, long)]
    # 12 layers keep keys and values of 12 heads of 64 in 16 bit for each of 4,032 tokens more.
    assert kept[1] - kept[0] == pytest.approx(4_032 * 12 * 2 * 768 * 2)


@pytest.mark.parametrize(
    ("model", "asked", "pointer"),
    [
        (WHISPER, {"audio_s": 45.0}, "/workload/audio_s"),
        ("Qwen/Qwen2-Audio-7B-Instruct", {"audio_s": 45.0}, "/workload/audio_s"),
        (WHISPER, {"task": "embed"}, "/workload/task"),
        (WHISPER, {"serving": {"disaggregated": {}}}, "/serving/disaggregated"),
        ("google/flan-t5-base", {"audio_s": 10.0}, "/workload/audio_s"),
        ("Qwen/Qwen3-8B", {"audio_s": 10.0}, "/workload/audio_s"),
        (
            "Qwen/Qwen3-8B",
            {"serving": {"speculative": {"draft_model": WHISPER}}},
            "/serving/speculative/draft_model",
        ),
    ],
)
def test_what_models_with_or_without_an_encoder_cannot_do_is_refused(
    packaged_snapshot, model, asked, pointer
):
    with pytest.raises(Rejected) as refused:
        ask(packaged_snapshot, model=model, **asked)
    assert pointer in {error.pointer for error in refused.value.errors}


@pytest.mark.parametrize(
    ("model", "task"),
    [("qwen3-embedding-8b", "embed"), ("qwen3-reranker-4b", "rerank"), ("bge-m3", "embed")],
)
def test_what_embeds_is_estimated_so_and_refused_by_searches(packaged_snapshot, model, task):
    """Decoders that were trained to embed could generate, but nobody would have them do it."""
    answer = ask(packaged_snapshot, model=model, concurrency=16)
    assert answer["deployment"]["workload"]["task"] == task
    with pytest.raises(Rejected) as refused:
        resolve_search(RecommendationRequest(model=model), packaged_snapshot)
    (error,) = refused.value.errors
    assert "/v1/" in error.detail
    told = ask(packaged_snapshot, model=model, task="generate") if model != "bge-m3" else None
    assert told is None or told["latency"]["tpot_s"] is not None


def test_comparisons_count_embeddings_by_the_request(packaged_snapshot):
    models = ["qwen3-embedding-0.6b", "qwen3-0.6b"]
    body = {"models": models, "accelerators": ["l4"], "regions": ["aws/us-east-1"]}
    rows = comparison_answer(CompareRequest.model_validate(body), packaged_snapshot)["rows"]
    embedded, generated = (row["results"] for row in rows)
    assert embedded["rented_usd_per_million_output_tokens"] is None
    assert embedded["rented_usd_per_request"]["value"] > 0.0
    assert embedded["gco2e_per_request"]["value"] > 0.0
    assert generated["rented_usd_per_request"] is None
    assert generated["rented_usd_per_million_output_tokens"]["value"] > 0.0


def test_an_encoder_decoder_of_no_known_kind_is_refused_by_name(packaged_snapshot):
    config = {"model_type": "prophetnet", "is_encoder_decoder": True, "hidden_size": 1024}
    request = {"model": {"config": config}, "accelerator": "nvidia-a100-sxm-80gb"}
    with pytest.raises(Rejected, match="prophetnet' is not a known encoder–decoder model"):
        inference_memory_answer(MemoryInferenceRequest.model_validate(request), packaged_snapshot)


def test_training_of_an_encoder_decoder_is_refused(packaged_snapshot):
    body = EXAMPLE_TRAINING | {"model": WHISPER}
    with pytest.raises(Rejected, match="training of whisper models is not estimated"):
        training_memory_answer(MemoryTrainingRequest.model_validate(body), packaged_snapshot)


HEARS = "Qwen/Qwen2-Audio-7B-Instruct"


def test_audio_brings_tokens_into_the_prompt_and_time_before_it(packaged_snapshot):
    body = {"input_tokens": 100, "output_tokens": 50}
    heard = ask(packaged_snapshot, model=HEARS, **body, audio_s=30.0)
    short = ask(packaged_snapshot, model=HEARS, **body, audio_s=3.0)
    text = ask(packaged_snapshot, model=HEARS, **body | {"input_tokens": 850})
    # 50 positions a second, of which two make a token.
    told = [each["deployment"]["workload"] for each in (heard, short)]
    assert [each["audio_tokens"] for each in told] == [750, 75]
    assert [each["input_tokens"] for each in told] == [850, 175]
    encoded_s = heard["latency"]["ttft_s"]["value"] - text["latency"]["ttft_s"]["value"]
    # 2.3 TFLOP of the encoder over a window, at 312 TFLOP/s or less, however short the audio.
    assert 2.3e12 / 312e12 < encoded_s < 2.3e12 / 60e12
    assert short["latency"]["ttft_s"]["value"] > encoded_s


SEES = "Qwen/Qwen2.5-VL-7B-Instruct"


def test_images_bring_tokens_into_the_prompt_and_time_before_it(packaged_snapshot):
    body = {"input_tokens": 100, "output_tokens": 50}
    none = ask(packaged_snapshot, model=SEES, **body)
    one = ask(packaged_snapshot, model=SEES, **body, images_per_request=1)
    four = ask(packaged_snapshot, model=SEES, **body, images_per_request=4)
    # 1,024 px are 37 squares of 28 px, to the nearest.
    told = [each["deployment"]["workload"] for each in (none, one, four)]
    assert [each["image_tokens"] for each in told] == [0, 1369, 4 * 1369]
    assert [each["input_tokens"] for each in told] == [100, 1469, 100 + 4 * 1369]
    text = ask(packaged_snapshot, model=SEES, **body | {"input_tokens": 1469})
    encoded_s = one["latency"]["ttft_s"]["value"] - text["latency"]["ttft_s"]["value"]
    # 7.4 TFLOP of the tower, at 312 TFLOP/s or less.
    assert 7.4e12 / 312e12 < encoded_s < 7.4e12 / 60e12
    assert one["memory"]["kv_cache_bytes"]["value"] == pytest.approx(
        text["memory"]["kv_cache_bytes"]["value"]
    )
    assert four["latency"]["ttft_s"]["value"] > one["latency"]["ttft_s"]["value"]


def test_a_larger_image_has_more_tokens_up_to_the_largest(packaged_snapshot):
    tokens = [
        ask(
            packaged_snapshot,
            model=SEES,
            images_per_request=1,
            image_width_px=side,
            image_height_px=side,
        )["deployment"]["workload"]["image_tokens"]
        for side in (100, 1000, 10_000, 100_000)
    ]
    assert tokens == [16, 36 * 36, 16_384, 16_384]


@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.2-11B-Vision-Instruct", ENCODER, WHISPER]
)
def test_images_of_models_that_see_none_are_refused(packaged_snapshot, model):
    with pytest.raises(Rejected) as refused:
        ask(packaged_snapshot, model=model, images_per_request=1)
    assert "/workload/images_per_request" in {one.pointer for one in refused.value.errors}


@pytest.mark.parametrize(
    ("engine", "weights", "loaded"),
    [("vllm", None, "fp16"), ("vllm", "fp32", "fp32"), ("transformers", None, "fp32")],
)
def test_engines_made_for_serving_load_32_bit_checkpoints_in_16_bit(
    packaged_snapshot, engine, weights, loaded
):
    body = {"model": ENCODER, "accelerator": "nvidia-a100-sxm-80gb"}
    body |= {"serving": {"engine": engine}, "precision": {"weights": weights}}
    request = MemoryInferenceRequest.model_validate(body | {"workload": {"input_tokens": 512}})
    answer = inference_memory_answer(request, packaged_snapshot)
    assert answer["deployment"]["precision"]["weights"] == loaded
