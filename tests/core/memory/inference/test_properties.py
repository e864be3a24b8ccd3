"""What holds of inference memory whatever is asked: sums, order, width, division."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architecture.config import parse_config
from service.core.architecture.tensors import TensorClass
from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
)
from service.core.interval import Interval
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.weights import Loading, stage_weights
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_overheads
from tests.core.memory.memory_models import (
    DEEPSEEK_V3,
    GEMMA_3_27B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_31_70B,
    accelerator,
)

ENGINES = ("vllm", "sglang", "transformers", "llama.cpp", "exllama", "autoawq", "tensorrt-llm")
MODELS = (LLAMA_2_7B, LLAMA_3_8B, GEMMA_3_27B, DEEPSEEK_V3)
BF16, FP8 = NUMBER_FORMATS["bf16"], NUMBER_FORMATS["fp8"]
FORMATS = tuple(NUMBER_FORMATS[name] for name in ("bf16", "fp8", "awq-int4", "gptq-int4", "mxfp4"))
#: Relative difference that adding up in another order may make.
ROUNDING = 1e-9

tokens = st.integers(1, 100_000)
sequences = st.integers(1, 500)


def memory_of(
    model, engine, workload, weights=BF16, parallelism=None, memory_bytes=80e9, **settings
):
    deployment = Deployment(
        model,
        Precision(weights, BF16, BF16),
        accelerator(memory_bytes),
        parallelism or Parallelism(),
    )
    serving = ServingSettings(engine=engine, **settings)
    return inference_memory(deployment, workload, serving, packaged_overheads())


asked = st.builds(
    memory_of,
    st.sampled_from(MODELS),
    st.sampled_from(ENGINES),
    st.builds(InferenceWorkload, tokens.map(float), tokens.map(float), sequences.map(float)),
    st.sampled_from(FORMATS),
    st.builds(Parallelism, tensor=st.sampled_from((1, 2, 8)), data=st.sampled_from((1, 2))),
    enforce_eager=st.booleans(),
    flash_attention=st.sampled_from((None, True, False)),
    max_model_len=st.sampled_from((None, 4096, 200_000)),
)


@given(asked)
def test_sums_are_sums_of_their_parts(memory: InferenceMemory):
    def value(*names: str) -> float:
        return sum(getattr(memory, f"{name}_bytes").value for name in names)

    total = memory.total_bytes.value
    assert value("weights", "kv_cache", "activations", "runtime") == pytest.approx(total, ROUNDING)
    runtime = value("context", "libraries", "graphs", "slack")
    assert runtime == pytest.approx(memory.runtime_bytes.value, ROUNDING)
    allocated = value("weights", "kv_cache", "activations")
    assert allocated == pytest.approx(memory.allocated_bytes.value, ROUNDING)
    reserved = value("allocated", "slack", "graphs")
    assert reserved == pytest.approx(memory.reserved_bytes.value, ROUNDING)
    by_class = sum(memory.weights_by_class_bytes.values())
    assert by_class == pytest.approx(memory.weights_bytes.value, ROUNDING)
    if not memory.engine.fills_share:
        assert memory.process_bytes == memory.total_bytes


@given(asked)
def test_nothing_that_is_measured_has_an_interval_of_no_width(memory: InferenceMemory):
    for name in (
        *("weights_bytes", "kv_cache_bytes", "activations_bytes", "runtime_bytes", "total_bytes"),
        *("allocated_bytes", "reserved_bytes", "process_bytes", "context_bytes"),
        *("room_bytes", "headroom_bytes"),
    ):
        figure: Interval = getattr(memory, name)
        if name == "process_bytes" and figure.value == memory.capacity_bytes:
            # All of it is taken, and there is no more to be unsure of.
            continue
        assert figure.low < figure.value < figure.high, name
    room = memory.kv_cache_capacity_tokens
    assert room.low <= room.value <= room.high
    if room.low > 1000.0:
        assert room.low < room.value < room.high


#: Memory that is often too small, and shares of which weights alone may take more.
tight = st.builds(
    memory_of,
    st.sampled_from(MODELS),
    st.sampled_from((*ENGINES, "tgi", "lmdeploy", "ollama", "mlx")),
    st.builds(InferenceWorkload, tokens.map(float), tokens.map(float), sequences.map(float)),
    st.sampled_from(FORMATS),
    memory_bytes=st.sampled_from((4e9, 8e9, 16e9, 24e9, 80e9)),
    memory_utilization_ratio=st.floats(0.05, 1.0),
    max_model_len=st.sampled_from((None, 4096, 200_000)),
)


@given(tight)
def test_no_size_is_below_nothing_whatever_does_not_fit(memory: InferenceMemory):
    for name in (
        *("weights_bytes", "kv_cache_bytes", "activations_bytes", "runtime_bytes", "total_bytes"),
        *("allocated_bytes", "reserved_bytes", "process_bytes", "libraries_bytes"),
        *("graphs_bytes", "slack_bytes", "kv_cache_budget_bytes", "kv_cache_capacity_tokens"),
        *("max_concurrency", "max_context_tokens", "shortfall_bytes"),
    ):
        figure: Interval = getattr(memory, name)
        assert 0.0 <= figure.low <= figure.value <= figure.high, name
    assert memory.headroom_bytes.low <= memory.headroom_bytes.value <= memory.headroom_bytes.high
    assert memory.process_bytes.high <= memory.capacity_bytes or not memory.engine.fills_share
    room = memory.room_bytes
    assert memory.kv_cache_budget_bytes == Interval(
        *(max(end, 0.0) for end in (room.value, room.low, room.high))
    )


@given(
    st.sampled_from(MODELS),
    st.sampled_from(ENGINES),
    st.tuples(tokens, tokens, sequences),
    st.tuples(tokens, tokens, sequences),
    st.booleans(),
)
def test_more_tokens_and_requests_never_take_less(model, engine, one, other, fused):
    less, more = (tuple(map(pick, one, other)) for pick in (min, max))
    small, large = (
        memory_of(model, engine, InferenceWorkload(*map(float, load)), flash_attention=fused)
        for load in (less, more)
    )
    for name in ("kv_cache_bytes", "activations_bytes", "total_bytes", "allocated_bytes"):
        for end in ("low", "value", "high"):
            least, most = (getattr(getattr(one, name), end) for one in (small, large))
            assert least <= most * (1.0 + ROUNDING), (name, end)
    assert small.room_bytes.value >= large.room_bytes.value - 1.0


@given(st.sampled_from(ENGINES), st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_longer_context_is_taken_at_once_where_the_engine_does(engine, one, other):
    short, long = sorted((one, other))
    workload = InferenceWorkload(1.0, 1.0, 2.0)
    small, large = (
        memory_of(LLAMA_3_8B, engine, workload, max_model_len=most) for most in (short, long)
    )
    assert small.kv_cache_bytes.value <= large.kv_cache_bytes.value
    if not small.engine.allocates_context:
        assert small.kv_cache_bytes == large.kv_cache_bytes


@pytest.mark.parametrize("model", [LLAMA_31_70B, GEMMA_3_27B])
@pytest.mark.parametrize("weights", [BF16, FP8])
def test_ranks_together_hold_the_model_and_what_each_has_of_its_own(model, weights):
    def held(tensor: int) -> dict[TensorClass, float]:
        return dict(stage_weights(model, weights, Parallelism(tensor=tensor), 0).by_class_bytes)

    alone = held(1)
    for ranks in (2, 4, 8):
        each = held(ranks)
        assert each.keys() == alone.keys()
        for kind, size in each.items():
            # What does not divide is repeated, vocabularies are padded.
            assert size * ranks >= alone[kind] * (1.0 - ROUNDING), kind
            assert size <= alone[kind] * (1.0 + ROUNDING), kind
        for kind in (TensorClass.ATTENTION, TensorClass.DENSE_FFN):
            assert each[kind] * ranks == pytest.approx(alone[kind], ROUNDING)


def test_attention_that_is_not_fused_stores_its_scores():
    workload = InferenceWorkload(4096.0, 1.0, 1.0)
    fused, stored = (
        memory_of(LLAMA_2_7B, "llama.cpp", workload, flash_attention=one) for one in (True, False)
    )
    scores = 512 * 4097 * 32 * stored.engine.bytes_per_score
    assert stored.layer_peak_bytes - fused.layer_peak_bytes == scores > 4e8


def test_attention_that_nobody_states_may_store_its_scores_where_releases_differ():
    workload = InferenceWorkload(4096.0, 1.0, 1.0)
    for engine, varies in (("llama.cpp", True), ("mlx", False), ("vllm", False)):
        unsaid, fused, stored = (
            memory_of(LLAMA_2_7B, engine, workload, flash_attention=one)
            for one in (None, True, False)
        )
        assert unsaid.activations_bytes.value == fused.activations_bytes.value, engine
        assert unsaid.activations_bytes.low == fused.activations_bytes.low, engine
        most = stored if varies else fused
        assert unsaid.activations_bytes.high == most.activations_bytes.high, engine
    assert stored.engine.bytes_per_score == 0.0


def test_without_graphs_none_are_held():
    workload = InferenceWorkload(1000.0, 100.0, 1.0)
    captured, eager = (
        memory_of(LLAMA_3_8B, "vllm", workload, enforce_eager=one) for one in (False, True)
    )
    assert eager.graphs_bytes.high == 0.0 < captured.graphs_bytes.low
    assert eager.total_bytes.value == pytest.approx(
        captured.total_bytes.value - captured.graphs_bytes.value
    )


def test_kernels_that_widen_matrices_keep_the_largest_in_16_bit():
    workload = InferenceWorkload(1.0, 100.0, 1.0)
    awq, gptq = (
        memory_of(LLAMA_3_8B, "transformers", workload, NUMBER_FORMATS[name])
        for name in ("awq-int4", "gptq-int4")
    )
    assert gptq.shape.widened_bytes == 4096 * 14336 * 2
    assert awq.shape.widened_bytes == 0.0


def test_experts_that_kernels_want_padded_are_held_padded():
    config = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 201088,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "quantization_config": {"quant_method": "mxfp4"},
    }
    model = parse_config(config)
    native = model.native_number_format
    assert native is not None
    stored, padded = (
        stage_weights(model, native, Parallelism(), 0, loading).by_class_bytes
        for loading in (Loading(), Loading(expert_multiple=256.0))
    )
    kind = TensorClass.EXPERT
    assert padded[kind] == pytest.approx(stored[kind] * 3072 / 2880)
    assert {k: v for k, v in padded.items() if k is not kind} == {
        k: v for k, v in stored.items() if k is not kind
    }
    # A rank of four has 720 features of the inner width, held as 768.
    four, inside = (
        stage_weights(model, native, Parallelism(tensor=4), 0, loading).by_class_bytes[kind]
        for loading in (Loading(256.0), Loading(256.0, 128.0))
    )
    assert inside == pytest.approx(four * 768 / 720)


def test_tables_of_all_positions_lie_on_each_rank():
    """What vLLM 0.19 loads of Gemma 3 4B is 0.57 GiB more than its checkpoint."""
    config = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 10240,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
    }
    plain, stretched = (
        parse_config({**config, "rope_scaling": scaling})
        for scaling in (None, {"rope_type": "linear", "factor": 8.0})
    )
    assert plain.position_elements == 131072 * 256
    # The global layers have places between positions, those with a window a table of their own.
    assert stretched.position_elements == 9 * plain.position_elements
    assert stretched.position_elements * 2.0 / 1024.0**3 == pytest.approx(0.57, rel=0.02)
    for ranks in (1, 4):
        bare, held = (
            stage_weights(stretched, BF16, Parallelism(tensor=ranks), 0, loading)
            for loading in (Loading(), Loading(position_bytes=2.0))
        )
        assert held.total_bytes - bare.total_bytes == stretched.position_elements * 2.0
        assert held.total_model_bytes == bare.total_model_bytes


def test_a_table_that_a_checkpoint_repeats_is_there_twice_for_a_moment():
    tied = replace(LLAMA_3_8B, tied_embeddings=True, head=())
    table = 128_256 * 4096 * 2
    short, long = (
        memory_of(tied, "transformers", InferenceWorkload(float(length), 8.0, 1.0), FP8)
        for length in (1, 32_768)
    )
    assert short.peak_bytes == short.shape.repeated_bytes == pytest.approx(table)
    assert long.peak_bytes > table


def test_what_stays_with_the_host_is_not_on_the_accelerator():
    workload = InferenceWorkload(100.0, 100.0, 1.0)
    q4 = NUMBER_FORMATS["gguf-q4_0"]
    there = memory_of(LLAMA_3_8B, "llama.cpp", workload, q4)
    assert there.host_bytes.value == 128_256 * 4096 * 4.5 / 8
    assert there.weights_bytes.value + there.host_bytes.value == pytest.approx(
        there.checkpoint_bytes
    )


IMAGES = {
    "model_type": "mllama",
    "text_config": {
        "model_type": "mllama_text_model",
        "hidden_size": 4096,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "vocab_size": 128256,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
        "tie_word_embeddings": False,
    },
    "vision_config": {"hidden_size": 1280, "image_size": 560, "intermediate_size": 5120},
}


def test_the_largest_images_are_measured_when_the_engine_starts():
    # vLLM 0.6.6 reports 36.63 GiB for 128 sequences (pull request 12126, 2025).
    model = parse_config(IMAGES)
    workload = InferenceWorkload(1.0, 1.0, 1.0)

    def start(**settings):
        return memory_of(
            model,
            "vllm",
            workload,
            engine_generation="v0-0.6.6",
            max_running_sequences=128,
            **settings,
        )

    assert start().activations_bytes.value / 1024**3 == pytest.approx(36.63, rel=0.1)
    twice, none = start(limit_mm_per_prompt=2), start(limit_mm_per_prompt=0)
    assert twice.images_bytes == 2.0 * start().images_bytes
    assert none.images_bytes == 0.0
    assert none.activations_bytes.value < 3e9
    # Layers that look at images are given as many pages as the others.
    assert start().kv_cache_bytes_per_token == 40 * 8 * 128 * 2 * 2


def test_projections_that_an_engine_joins_are_there_twice_until_the_model_is_loaded():
    int4 = NUMBER_FORMATS["awq-int4"]
    short, long = (
        memory_of(LLAMA_3_8B, "autoawq", InferenceWorkload(float(length), 8.0, 1.0), int4)
        for length in (1, 8192)
    )
    single = 32 * 4096 * (4096 + 2 * 1024) * int4.bits(TensorClass.ATTENTION) / 8.0
    assert short.peak_bytes == short.shape.repeated_bytes == pytest.approx(single)
    # They are gone before the first prompt comes.
    assert long.peak_bytes == long.layer_peak_bytes > single
    assert long.weights_bytes.value == short.weights_bytes.value


MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}


def test_experts_that_an_engine_stacks_take_room_of_a_layer_until_the_model_is_loaded():
    """AutoAWQ joins inward matrices of a layer's experts, then stacks them into a new module."""
    int4 = NUMBER_FORMATS["awq-int4"]
    workload = InferenceWorkload(1.0, 8.0, 1.0)
    model, halves = parse_config(MIXTRAL), Parallelism(pipeline=2)
    stacked = memory_of(model, "autoawq", workload, int4, parallelism=halves)
    experts = 8 * 2 * 4096 * 14336 * int4.bits(TensorClass.EXPERT) / 8.0
    projections = 16 * 4096 * (4096 + 2 * 1024) * int4.bits(TensorClass.ATTENTION) / 8.0
    assert stacked.peak_bytes == pytest.approx(2.0 * experts + projections)


@given(asked)
def test_as_many_as_there_is_room_for_fit(memory: InferenceMemory):
    most = memory.max_concurrency.value
    if most >= 1.0:
        filled = replace(memory.workload, concurrency=most)
        overheads = packaged_overheads()
        assert inference_memory(memory.deployment, filled, memory.serving, overheads).fits


def test_engines_without_pytorch_hold_a_context_alone():
    workload = InferenceWorkload(1000.0, 100.0, 1.0)
    native, torch = (memory_of(LLAMA_3_8B, engine, workload) for engine in ("llama.cpp", "exllama"))
    assert native.context_bytes.high < torch.context_bytes.value
    assert torch.context_bytes == torch.engine.context_bytes
    shared = replace(native.deployment.accelerator, unified_memory=True)
    assert native.engine.context(shared) == native.engine.unified_context_bytes
