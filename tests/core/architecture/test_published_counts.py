"""Exact parameter counts and cache shapes of published models."""

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.model import (
    Attention,
    LatentAttention,
    MixtureOfExperts,
    ModelArchitecture,
    Span,
    StateMixer,
)
from tests.core.architecture.published_models import MODELS


def architecture(name: str) -> ModelArchitecture:
    return parse_config(MODELS[name][0])


@pytest.mark.parametrize("name", MODELS)
def test_total_parameters_are_exact(name):
    config, published = MODELS[name]
    assert parse_config(config).total_parameters == published


@pytest.mark.parametrize("name", MODELS)
def test_known_models_are_known_and_compact(name):
    found = architecture(name)
    assert "unknown_model_type" not in {warning.code for warning in found.warnings}
    assert 1 <= len(found.groups) <= 4


@pytest.mark.parametrize(
    ("name", "active"),
    [
        # DeepSeek-V3 report: 37 B; Mixtral card: 12.9 B; gpt-oss card: 5.1 B without the input
        # table of 0.58 B, which is counted here.
        ("deepseek-ai/DeepSeek-V3", 37.55e9),
        ("mistralai/Mixtral-8x7B-v0.1", 12.88e9),
        ("openai/gpt-oss-120b", 5.13e9 + 0.58e9),
        ("Qwen/Qwen3-30B-A3B", 3.35e9),
        ("Qwen/Qwen3-235B-A22B", 22.19e9),
    ],
)
def test_active_parameters(name, active):
    assert architecture(name).active_parameters == pytest.approx(active, rel=0.005)


@pytest.mark.parametrize(
    ("name", "heads", "width"),
    [
        ("meta-llama/Llama-3.1-70B", 8, 128),
        ("meta-llama/Llama-3.2-1B", 8, 64),
        ("mistralai/Mistral-Nemo-Base-2407", 8, 128),
        ("google/gemma-2-27b", 16, 128),
        ("tiiuae/falcon-7b", 1, 64),
        ("tiiuae/falcon-40b", 8, 64),
        ("bigcode/starcoder", 1, 128),
        ("bigscience/bloom", 112, 128),
        ("databricks/dbrx-base", 8, 128),
        ("microsoft/phi-4", 10, 128),
        ("zai-org/GLM-4.5-Air", 8, 128),
        ("openai-community/gpt2", 12, 64),
    ],
)
def test_kv_heads(name, heads, width):
    for group in architecture(name).groups:
        assert isinstance(group.mixer, Attention)
        assert (group.mixer.kv_heads, group.mixer.head_dim) == (heads, width)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mistralai/Mistral-7B-v0.1", {(Span.SLIDING, 4096): 32}),
        ("mistralai/Mistral-Nemo-Base-2407", {(Span.FULL, None): 40}),
        ("google/gemma-2-9b", {(Span.SLIDING, 4096): 21, (Span.FULL, None): 21}),
        ("google/gemma-3-1b-it", {(Span.SLIDING, 512): 22, (Span.FULL, None): 4}),
        ("openai/gpt-oss-120b", {(Span.SLIDING, 128): 18, (Span.FULL, None): 18}),
        ("CohereForAI/c4ai-command-r7b-12-2024", {(Span.SLIDING, 4096): 24, (Span.FULL, None): 8}),
        ("LGAI-EXAONE/EXAONE-4.0-32B", {(Span.SLIDING, 4096): 48, (Span.FULL, None): 16}),
        (
            "meta-llama/Llama-4-Maverick-17B-128E (language part)",
            {(Span.CHUNKED, 8192): 36, (Span.FULL, None): 12},
        ),
        ("Qwen/Qwen2.5-7B", {(Span.FULL, None): 28}),
    ],
)
def test_windows(name, expected):
    found: dict[tuple[Span, int | None], int] = {}
    for group in architecture(name).groups:
        assert isinstance(group.mixer, Attention)
        key = (group.mixer.span, group.mixer.window_tokens)
        found[key] = found.get(key, 0) + group.count
    assert found == expected


def test_latent_attention_caches_one_latent():
    for group in architecture("deepseek-ai/DeepSeek-V3").groups:
        assert isinstance(group.mixer, LatentAttention)
        assert group.mixer.kv_lora_rank + group.mixer.qk_rope_head_dim == 576
        assert group.mixer.indexer_head_dim is None


def test_sparse_attention_indexer():
    mixer = architecture("deepseek-ai/DeepSeek-V3.2-Exp").groups[0].mixer
    assert isinstance(mixer, LatentAttention)
    assert (mixer.indexer_head_dim, mixer.indexer_top_k) == (128, 2048)


def test_first_layers_are_dense():
    counts = {
        isinstance(group.feed_forward, MixtureOfExperts): group.count
        for group in architecture("deepseek-ai/DeepSeek-V3").groups
    }
    assert counts == {False: 3, True: 58}


@pytest.mark.parametrize(
    ("name", "layers", "recurrent", "convolution"),
    [
        # Qwen3-Next: 32 heads of 128 × 128; 8,192 channels, 4 taps.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 36, 32 * 128 * 128, 8192 * 3),
        ("ai21labs/Jamba-v0.1", 28, 8192 * 16, 8192 * 3),
        ("nvidia/Nemotron-H-8B-Base-8K", 24, 8192 * 128, 10240 * 3),
        ("state-spaces/mamba-2.8b-hf", 64, 5120 * 16, 5120 * 3),
    ],
)
def test_state_sizes(name, layers, recurrent, convolution):
    mixers = [
        (group.mixer, group.count)
        for group in architecture(name).groups
        if isinstance(group.mixer, StateMixer)
    ]
    assert sum(count for _, count in mixers) == layers
    for mixer, _ in mixers:
        assert mixer.recurrent_state_elements == recurrent
        assert mixer.convolution_state_elements == convolution


def test_layers_that_attend_to_an_image_keep_no_text_cache():
    mixers = {
        group.mixer.shares_kv: group.count
        for group in architecture("meta-llama/Llama-3.2-11B-Vision-Instruct").groups
        if isinstance(group.mixer, Attention)
    }
    assert mixers == {False: 32, True: 8}


def test_global_layers_of_gemma_4_have_heads_of_their_own():
    shapes = {
        group.mixer.span: (group.count, group.mixer.kv_heads, group.mixer.head_dim)
        for group in architecture("google/gemma-4-31B (language part)").groups
        if isinstance(group.mixer, Attention)
    }
    assert shapes == {Span.SLIDING: (50, 16, 256), Span.FULL: (10, 4, 512)}


def test_layers_that_read_earlier_caches_are_marked():
    name = "Gemma 4 with layers that read earlier caches (sizes of no published model)"
    readers = sum(
        group.count
        for group in architecture(name).groups
        if isinstance(group.mixer, Attention) and group.mixer.shares_kv
    )
    assert readers == 20


def test_vision_towers_are_counted_beside_the_language_model():
    found = architecture("google/gemma-3-27b-it")
    assert sum(tensor.elements for tensor in found.other) == 27_432_406_640 - 27_009_346_304
    assert found.warnings == ()


def test_unknown_vision_towers_are_told():
    config, published = MODELS["meta-llama/Llama-3.1-8B"]
    found = parse_config({"model_type": "new_vlm", "text_config": config, "vision_config": {}})
    assert found.total_parameters == published
    assert [warning.code for warning in found.warnings] == ["modality_left_out"]


def test_tied_embeddings_leave_out_the_output_matrix():
    tied = architecture("meta-llama/Llama-3.2-1B")
    untied = architecture("meta-llama/Llama-3.1-8B")
    assert tied.tied_embeddings
    assert [tensor.name for tensor in tied.head] == ["norm"]
    assert [tensor.name for tensor in untied.head] == ["norm", "lm_head"]


def test_prediction_layers_are_noted_and_not_counted():
    codes = {warning.code for warning in architecture("deepseek-ai/DeepSeek-V3").warnings}
    assert codes == {"prediction_layers_left_out"}
