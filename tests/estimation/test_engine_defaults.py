"""What engines start with by release, accelerator and use, and what estimates do with it."""

import pytest

from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.engine_defaults import defaults_from
from service.core.engine_defaults import DefaultsRule, NoDefault, Start, starting_with
from service.core.engines import CLASSES, release_of
from service.core.hardware import Hardware, HardwareList
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    LatencyInferenceRequest,
    ServingRequest,
)
from service.estimation.starting import start_settings

H100, A100, L40S = "nvidia-h100-sxm-80gb", "nvidia-a100-sxm-80gb", "nvidia-l40s-48gb"
LLAMA_3, LLAMA_2 = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-2-7b-hf"
THERE = Start(Hardware("a", "a-family", "acme"), 80e9, "server", 4096.0)


def started(snapshot, engine, version, accelerator, model=LLAMA_3, **serving):
    """Sequences, tokens of a step and share of memory of a release."""
    found = start_settings(
        ServingRequest(**serving),
        release_of(snapshot.engines[engine].value, version),
        snapshot.models[model].value,
        snapshot.accelerators[accelerator].value,
        snapshot,
    )
    return (
        found.max_running_sequences,
        found.chunked_prefill_tokens,
        found.memory_utilization_ratio,
    )


@pytest.mark.parametrize(
    ("engine", "version", "accelerator", "usage", "sequences", "tokens", "ratio"),
    [
        # vllm/engine/arg_utils.py, get_batch_defaults.
        ("vllm", None, H100, None, 1024, 8192, 0.92),
        ("vllm", None, H100, "offline", 1024, 16384, 0.92),
        ("vllm", None, A100, None, 256, 2048, 0.92),
        ("vllm", None, L40S, "offline", 256, 8192, 0.92),
        ("vllm", "0.20", H100, None, 1024, 8192, 0.9),
        ("vllm", "0.8", H100, None, 1024, 8192, 0.9),
        ("vllm", "0.8", L40S, None, 256, 2048, 0.9),
        # Sequences of more than 32,768 tokens: prompts are divided.
        ("vllm", "0.6.2", A100, None, 256, 512, 0.9),
        ("vllm", "0.7", A100, None, 256, 2048, 0.9),
        ("sglang", "0.5", L40S, None, 2048, 4096, 0.88),
        # python/sglang/srt/server_args.py, _handle_gpu_memory_settings.
        ("sglang", None, L40S, None, 2048, 4096, 0.85),
        ("sglang", None, H100, None, 2048, 8192, 0.834),
        ("sglang", None, "amd-mi355x-288gb", None, 2048, 16384, 0.911),
        ("tensorrt-llm", None, H100, None, 2048, 8192, 0.9),
        ("lmdeploy", None, A100, None, 384, 8192, 0.8),
        ("llama.cpp", None, "apple-m2-max-96gb", None, 4, 512, 1.0),
        ("llama.cpp", "b3000", "apple-m2-max-96gb", None, 1, 512, 1.0),
        # As llama.cpp, but for its own slots; an eager engine has no limits.
        ("ollama", None, "apple-m2-max-96gb", None, 1, 512, 1.0),
        ("transformers", None, A100, None, 1_000_000, 10_000_000, 0.9),
        # Of its class, as nothing is known of its own.
        ("deepspeed-mii", None, A100, None, 256, 2048, 0.9),
    ],
)
def test_releases_start_as_published(
    packaged_snapshot, engine, version, accelerator, usage, sequences, tokens, ratio
):
    found = started(packaged_snapshot, engine, version, accelerator, usage_context=usage)
    assert found == (sequences, tokens, pytest.approx(ratio, abs=0.001))


def test_prompts_that_are_not_divided_have_room_for_the_longest(packaged_snapshot):
    assert started(packaged_snapshot, "vllm", "0.5", A100, LLAMA_2) == (256, 4096, 0.9)
    short = {"max_model_len": 1000}
    assert started(packaged_snapshot, "vllm", "0.5", A100, LLAMA_2, **short) == (256, 2048, 0.9)
    longer = {"max_model_len": 32_768}
    assert started(packaged_snapshot, "vllm", "0.5", A100, LLAMA_3, **longer)[1] == 32_768


def test_lmdeploy_divides_prompts_since_a_step_has_a_limit_of_their_tokens(packaged_snapshot):
    def apart(version):
        release = release_of(packaged_snapshot.engines["lmdeploy"].value, version)
        model = packaged_snapshot.models[LLAMA_2].value
        accelerator = packaged_snapshot.accelerators[A100].value
        start = start_settings(ServingRequest(), release, model, accelerator, packaged_snapshot)
        return start.prompts_apart

    assert apart("0.2.0") == 1.0
    assert apart("0.2.5") == apart(None) == 0.0


def test_settings_come_before_defaults(packaged_snapshot):
    asked = {
        "max_running_sequences": 7,
        "chunked_prefill_tokens": 300,
        "memory_utilization_ratio": 0.5,
    }
    assert started(packaged_snapshot, "vllm", "0.5", A100, LLAMA_2, **asked) == (7, 300, 0.5)


def test_every_engine_starts_with_something(packaged_snapshot):
    serving = {
        id_ for id_, one in packaged_snapshot.engines.items() if "inference" in one.value.classes
    }
    assert len(serving) > 20
    for id_ in serving:
        for generation in packaged_snapshot.engines[id_].value.generations:
            assert min(started(packaged_snapshot, id_, generation.id, H100)) > 0.0
        assert min(started(packaged_snapshot, id_, None, H100)) > 0.0
    references = {one.reference for one in CLASSES.values() if one.workload == "inference"}
    assert references <= serving


def answered(snapshot, concurrency=32, **serving):
    workload = EXAMPLE_WORKLOAD | {"concurrency": concurrency}
    body = EXAMPLE_DEPLOYMENT | {"workload": workload, "serving": serving}
    return inference_latency_answer(LatencyInferenceRequest(**body), snapshot)


def test_answers_tell_what_the_engine_started_with_and_ask_for_themselves(packaged_snapshot):
    release = {"usage_context": "offline", "engine_version": "0.21"}
    answer = answered(packaged_snapshot, **release)
    told = answer["deployment"]["serving"]
    assert told["usage_context"] == "offline"
    assert told["max_running_sequences"] == 1024
    assert told["chunked_prefill_tokens"] == 16_384
    assert told["memory_utilization_ratio"] == 0.92
    names = ("max_running_sequences", "chunked_prefill_tokens", "memory_utilization_ratio")
    again = answered(packaged_snapshot, **release, **{name: told[name] for name in names})
    assert again["ttft_s"] == answer["ttft_s"]


def test_an_older_release_computes_prompts_in_smaller_steps(packaged_snapshot):
    newest, older = (answered(packaged_snapshot, 1, engine_version=one) for one in ("0.7", "0.6.2"))
    assert older["deployment"]["serving"]["chunked_prefill_tokens"] == 512
    assert older["ttft_s"]["value"] > newest["ttft_s"]["value"]


def test_slots_of_an_engine_keep_others_waiting(packaged_snapshot):
    body = {
        "model": LLAMA_3,
        "accelerator": "apple-m2-max-96gb",
        "precision": {"weights": "gguf-q4_k_m"},
        "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 16},
    }
    found = [
        inference_latency_answer(
            LatencyInferenceRequest(**body, serving={"engine": "llama.cpp"} | more),
            packaged_snapshot,
        )
        for more in ({}, {"max_running_sequences": 16})
    ]
    assert [one["running_sequences_per_replica"] for one in found] == [4.0, 16.0]
    assert [one["waiting_requests"] for one in found] == [12.0, 0.0]


@pytest.mark.parametrize(
    ("rules", "pointer"),
    [
        ({}, "/defaults"),
        ([1], "/defaults/0"),
        ([{"max_sequences": 1}], "/defaults/0/max_sequences"),
        ([{"max_running_sequences": 0}], "/defaults/0/max_running_sequences"),
        ([{"chunked_prefill_tokens": True}], "/defaults/0/chunked_prefill_tokens"),
        ([{"memory_utilization_ratio": 1.5}], "/defaults/0/memory_utilization_ratio"),
        ([{}, {"usage": "batch"}], "/defaults/1/usage"),
        ([{"whole_prompts": 1}], "/defaults/0/whole_prompts"),
        ([{"but_not": "nvidia-*"}], "/defaults/0/but_not"),
    ],
)
def test_rules_that_cannot_be_read_are_named(rules, pointer):
    with pytest.raises(DocumentInvalid) as refused:
        defaults_from(rules, "/defaults")
    assert refused.value.pointer == pointer


def test_later_rules_outdo_earlier_ones_and_nearer_sets_others():
    base = DefaultsRule(1.0, 10.0, 0.5, whole_prompts=False)
    nearer = (DefaultsRule(max_running_sequences=3.0, but_not=HardwareList(frozenset({"b"}))),)
    far = (base, DefaultsRule(2.0, 20.0))
    found = starting_with((nearer, far), THERE, {})
    assert (found.max_running_sequences, found.chunked_prefill_tokens) == (3.0, 20.0)
    elsewhere = Start(Hardware("b", "b", "acme"), 1.0, "offline", None)
    assert starting_with((nearer, far), elsewhere, {}).max_running_sequences == 2.0
    with pytest.raises(NoDefault):
        starting_with((nearer,), THERE, {})


def test_an_unknown_way_of_use_is_refused(packaged_snapshot):
    with pytest.raises((Rejected, ValueError), match="usage_context"):
        answered(packaged_snapshot, usage_context="batch")
