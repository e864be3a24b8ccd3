"""What ranges of serving memory make of settings that a request leaves open."""

from __future__ import annotations

import pytest

from service.core.memory.inference.memory import InferenceMemory
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

_TOLD = {"engine_version": "0.8.5", "usage_context": "server"}


def computed(snapshot, model="meta-llama/Llama-3.1-8B", workload=None, **serving):
    return computed_on(snapshot, "nvidia-l40s-48gb", None, model, workload, **serving)


def computed_on(
    snapshot, accelerator, weights=None, model="meta-llama/Llama-3.1-8B", workload=None, **serving
):
    request = DeploymentRequest.model_validate(
        {
            "model": model,
            "accelerator": accelerator,
            "precision": {} if weights is None else {"weights": weights},
            "serving": serving,
            "workload": workload or {},
        }
    )
    return compute_deployment(resolve_deployment(request, snapshot, Problems()))


def names(memory: InferenceMemory) -> set[str]:
    return set(memory.otherwise)


def told_of(found) -> set[str | None]:
    return {one.about for one in found.warnings if one.code == "left_open"}


def generations(memory: InferenceMemory) -> set[str]:
    return {one.found.serving.engine_generation for one in memory.otherwise["engine_version"]}


def test_ranges_reach_over_releases_in_use_and_keep_their_values(packaged_snapshot):
    bare = computed(packaged_snapshot, engine="vllm")
    newest = bare.memory.usual
    assert newest is not None
    assert names(bare.memory) == {"engine_version", "usage_context"}
    older = computed(packaged_snapshot, engine="vllm", **_TOLD).memory
    for name in ("activations_bytes", "total_bytes", "kv_cache_budget_bytes", "max_concurrency"):
        reached, usual, other = (getattr(one, name) for one in (bare.memory, newest, older))
        assert reached.value == usual.value
        assert reached.low <= min(usual.low, other.value)
        assert reached.high >= max(usual.high, other.value)
    assert bare.memory.activations_bytes.high > newest.activations_bytes.high
    assert bare.memory.kv_cache_budget_bytes.low < newest.kv_cache_budget_bytes.low
    assert told_of(bare) == {"serving.engine_version", "serving.usage_context"}


@pytest.mark.parametrize(
    ("serving", "open_"),
    [
        (_TOLD, set()),
        ({"engine_version": "0.8.5"}, {"usage_context"}),
        ({"usage_context": "server"}, {"engine_version"}),
        ({**_TOLD, "engine": "vllm-before-0.6", "engine_version": None}, set()),
    ],
)
def test_what_a_request_says_is_not_left_open(packaged_snapshot, serving, open_):
    found = computed(packaged_snapshot, **({"engine": "vllm"} | serving))
    assert names(found.memory) == open_
    assert told_of(found) <= {f"serving.{name}" for name in open_}


def test_how_requests_come_says_how_the_engine_is_used(packaged_snapshot):
    found = computed(packaged_snapshot, workload={"arrivals": "at_once"}, engine="vllm")
    assert "usage_context" not in names(found.memory)


def test_releases_older_than_a_model_do_not_run_it(packaged_snapshot):
    of_2023 = computed(packaged_snapshot, "meta-llama/Llama-2-7b-hf", engine="transformers")
    of_2024 = computed(packaged_snapshot, "Qwen/Qwen2.5-7B", engine="transformers")
    assert "shared-cache" in generations(of_2023.memory)
    # Qwen2.5 is of September 2024, in which last-logits replaced shared-cache.
    assert generations(of_2024.memory) == {"last-logits"}


def test_an_engine_of_one_generation_leaves_nothing_open(packaged_snapshot):
    found = computed(packaged_snapshot, engine="lm-studio", max_model_len=2048)
    assert found.memory.usual is None
    assert found.memory.total_bytes.low < found.memory.total_bytes.high


@pytest.mark.parametrize(
    ("accelerator", "version", "tokens"),
    [
        # Four slots of 2,048 tokens, whatever the memory; then by memory, to what the model can.
        ("nvidia-rtx-3060-12gb", "0.5", 8192),
        ("nvidia-h100-sxm-80gb", "0.5", 8192),
        ("nvidia-rtx-3060-12gb", "0.15.5", 4096),
        ("nvidia-rtx-4090-24gb", "0.15.5", 32_768),
        ("nvidia-h100-sxm-80gb", "0.15.5", 131_072),
    ],
)
def test_ollama_takes_room_by_release_and_memory_where_nobody_sets_it(
    packaged_snapshot, accelerator, version, tokens
):
    load = {"input_tokens": 512, "output_tokens": 128}
    found = computed_on(
        packaged_snapshot, accelerator, workload=load, engine="ollama", engine_version=version
    )
    [other] = found.memory.otherwise["max_model_len"]
    assert other.found.kv_cache_bytes.value == pytest.approx(tokens * 131_072, rel=1e-3)


def locally(snapshot, engine, **settings):
    load = settings.pop("workload", {"input_tokens": 512, "output_tokens": 128})
    told = {"engine": engine, "flash_attention": True, **settings}
    return computed(snapshot, workload=load, **told)


def test_caches_reach_over_the_room_that_an_engine_takes_unless_told(packaged_snapshot):
    """LM Studio makes caches of 4,096 tokens where nobody sets a length, whatever is asked."""
    open_, told, whole = (
        locally(packaged_snapshot, "lm-studio", max_model_len=most).memory
        for most in (None, 640, 4096)
    )
    assert open_.kv_cache_bytes.value == told.kv_cache_bytes.value
    assert open_.total_bytes.low == pytest.approx(told.total_bytes.low)
    for name in ("kv_cache_bytes", "total_bytes", "process_bytes"):
        reached, usual, other = (getattr(one, name) for one in (open_, told, whole))
        assert usual.high < reached.high
        assert other.value < reached.high <= other.high * (1.0 + 1e-9), name
    # The room is for all sequences together: no fewer find place in it.
    assert open_.max_concurrency.low == pytest.approx(told.max_concurrency.low)
    assert open_.kv_cache_budget_bytes.low == pytest.approx(told.kv_cache_budget_bytes.low)


def test_a_load_that_needs_more_room_than_engines_take_leaves_nothing_open(packaged_snapshot):
    load = {"input_tokens": 1000, "output_tokens": 100, "concurrency": 8}
    found = locally(packaged_snapshot, "lm-studio", workload=load)
    assert found.memory.total_bytes.high == found.memory.usual.total_bytes.high
    assert "serving.max_model_len" not in told_of(found)


def test_no_more_than_there_is_room_for_is_taken_unasked(packaged_snapshot):
    """Caches of the longest sequence of Llama 3.1 take 17 GB, which people lower to what fits."""
    found = locally(packaged_snapshot, "exllama", engine_version="2").memory
    [other] = found.otherwise["max_model_len"]
    assert other.found.kv_cache_bytes.value == pytest.approx(131_072 * 131_072, rel=1e-3)
    small = computed_on(packaged_snapshot, "nvidia-rtx-3060-12gb", "exl2-4.0bpw", engine="exllama")
    [other] = small.memory.otherwise["max_model_len"]
    assert other.found.fits
    assert other.found.kv_cache_bytes.value < 131_072 * 131_072


def test_caches_made_ahead_for_a_default_reach_down_to_what_is_needed(packaged_snapshot):
    """AutoAWQ makes caches of 2,048 tokens; benchmarks make them as long as their prompts."""

    def cached(tokens, **told):
        load = {"input_tokens": tokens, "output_tokens": tokens}
        asked = {"workload": load, "engine": "autoawq", **told}
        return computed_on(packaged_snapshot, "nvidia-l40s-48gb", "awq-int4", **asked).memory

    short, needed = cached(64).kv_cache_bytes, cached(64, max_model_len=128).kv_cache_bytes
    assert needed.low <= short.low < 0.2 * short.value
    # The oldest tokens leave a cache that is full, so that longer loads may hold no more.
    long, most = cached(2048).kv_cache_bytes, cached(1024, max_model_len=2048).kv_cache_bytes
    assert most.low <= long.low < 0.6 * long.value


def test_what_lies_outside_the_accelerator_reaches_over_releases_too(packaged_snapshot):
    """A release that leaves less room in the accelerator puts more outside."""
    load = {"input_tokens": 8000, "output_tokens": 1000, "concurrency": 64}
    asked = {"workload": load, "engine": "vllm", "usage_context": "server", "offload": {}}
    open_ = computed(packaged_snapshot, **asked)
    newest, older = (
        computed(packaged_snapshot, **asked, engine_version=one) for one in ("0.21", "0.14")
    )
    assert open_.tiers is not None
    assert open_.tiers.spilled
    assert "0.14" in generations(open_.memory)
    for figure in ("outside", "headroom"):
        reached, usual, other = (
            one.tiers.used_bytes[1] if figure == "outside" else one.estimate.room.headroom_bytes
            for one in (open_, newest, older)
        )
        assert reached.value == usual.value
        assert reached.low <= min(usual.low, other.value)
        assert reached.high >= max(usual.high, other.value)
    inside, alone = open_.tiers.used_bytes[0], newest.tiers.used_bytes[0]
    assert inside.high - inside.low > alone.high - alone.low


def test_koboldcpp_keeps_all_tokens_of_windows_unless_told(packaged_snapshot):
    """Its caches of layers with a window are as long as the others without --useswa."""
    load = {"input_tokens": 8000, "output_tokens": 100}
    windowed, whole = (
        computed_on(
            *(packaged_snapshot, "nvidia-rtx-4090-24gb", "gguf-q4_k_m", "google/gemma-3-12b-it"),
            workload=load,
            engine=engine,
        ).memory.kv_cache_bytes.value
        for engine in ("llama.cpp", "koboldcpp")
    )
    # Five of six layers have a window of 1,024 tokens, beside which a step's are held.
    assert whole > 2.0 * windowed


def test_an_engine_that_runs_layers_on_the_host_says_how_to_estimate_that(packaged_snapshot):
    def told(accelerator, engine, **serving):
        found = computed_on(
            packaged_snapshot,
            accelerator,
            model="meta-llama/Llama-3.3-70B-Instruct",
            engine=engine,
            **serving,
        )
        return [one.message for one in found.warnings if one.code == "does_not_fit"]

    (message,) = told("nvidia-rtx-5090-32gb", "ollama")
    assert "serving.offload" in message
    assert told("nvidia-rtx-5090-32gb", "ollama", offload={}) == []
    # vLLM does nothing of the kind by itself, and a Mac's host has no memory of its own.
    for accelerator, engine in (("nvidia-rtx-5090-32gb", "vllm"), ("apple-m4-pro-24gb", "ollama")):
        (message,) = told(accelerator, engine)
        assert "serving.offload" not in message
