"""Weights against published sizes, and their division."""

from math import exp

import pytest

from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.interval import Z_90
from service.core.memory.weights import stage_weights, total_model_bytes
from service.core.number_formats import NUMBER_FORMATS
from tests.core.memory.memory_models import DEEPSEEK_V3, LLAMA_2_7B, LLAMA_3_8B, LLAMA_31_70B, dense

GIB = 1024.0**3
BF16 = NUMBER_FORMATS["bf16"]


def test_a_7b_model_takes_two_bytes_a_parameter():
    seven = dense(32, 4096, 32, 32, 11008, 64000)
    assert seven.total_parameters == pytest.approx(7e9, rel=0.005)
    assert total_model_bytes(seven, BF16) == 2 * seven.total_parameters
    assert total_model_bytes(seven, BF16) == pytest.approx(14e9, rel=0.005)


@pytest.mark.parametrize(
    ("architecture", "format_id", "gib"),
    [
        # Sizes printed by llama.cpp, XiongjieDai GPU benchmarks, 2024.
        (LLAMA_3_8B, "gguf-q4_k_m", 4.58),
        (LLAMA_31_70B, "gguf-q2_k", 24.56),
        (LLAMA_31_70B, "gguf-q2_k_s", 22.79),
        (LLAMA_31_70B, "gguf-iq1_s", 14.29),
        (LLAMA_31_70B, "gguf-iq1_m", 15.60),
        (LLAMA_31_70B, "gguf-iq2_xxs", 17.79),
        (LLAMA_31_70B, "gguf-iq2_xs", 19.69),
        (LLAMA_31_70B, "gguf-iq2_s", 20.71),
        (LLAMA_31_70B, "gguf-iq2_m", 22.46),
        (LLAMA_31_70B, "gguf-iq3_xxs", 25.58),
        (LLAMA_31_70B, "gguf-iq3_xs", 27.29),
        (LLAMA_31_70B, "gguf-iq3_s", 28.79),
        (LLAMA_31_70B, "gguf-iq3_m", 29.74),
        (LLAMA_31_70B, "gguf-iq4_xs", 35.30),
        (LLAMA_31_70B, "gguf-iq4_nl", 37.30),
        (LLAMA_31_70B, "gguf-q3_k_m", 31.91),
        (LLAMA_31_70B, "gguf-q3_k_l", 34.59),
        (LLAMA_31_70B, "gguf-q4_0", 37.22),
        (LLAMA_31_70B, "gguf-q4_k_m", 39.60),
        (LLAMA_31_70B, "gguf-q5_k_s", 45.32),
        (LLAMA_31_70B, "gguf-q5_k_m", 46.52),
        (LLAMA_31_70B, "gguf-q6_k", 53.91),
        (LLAMA_31_70B, "gguf-q8_0", 69.83),
        (LLAMA_31_70B, "fp16", 131.43),
    ],
)
def test_files_have_their_published_size(architecture, format_id, gib):
    size = total_model_bytes(architecture, NUMBER_FORMATS[format_id])
    assert size / GIB == pytest.approx(gib, rel=0.005)


def inward(features: int, name: str = "up_proj") -> Tensor:
    return Tensor(name, TensorClass.DENSE_FFN, features, 512, Shard.COLUMN)


def outward(features: int, name: str = "down_proj") -> Tensor:
    return Tensor(name, TensorClass.DENSE_FFN, features, 512, Shard.ROW)


def fused(features: int) -> Tensor:
    return Tensor("qkv_proj", TensorClass.ATTENTION, features, 512, Shard.COLUMN)


@pytest.mark.parametrize(
    ("format_id", "tensor", "bits"),
    [
        # llama.cpp, llama-quant.cpp: blocks of 256 elements that do not divide a row give way to
        # those of 32, Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0, and narrower ones to IQ4_NL.
        ("gguf-q4_k_m", inward(1408), 5.5),
        ("gguf-q4_k_m", inward(1536), 4.5),
        ("gguf-q4_k_m", outward(29_568), (5.5 + 8.5) / 2.0),
        ("gguf-q5_k_m", inward(1408), 6.0),
        ("gguf-q6_k", inward(1408), 8.5),
        ("gguf-q2_k", inward(1408), 4.5),
        ("gguf-iq3_xs", inward(1408), 4.5),
        ("gguf-q4_0", inward(1408), 4.5),
        ("gguf-q8_0", inward(1408), 8.5),
        # What is fused in files is stored in more bits by the medium mixes.
        ("gguf-q4_k_m", fused(5120), 5.5),
        ("gguf-q4_k_s", fused(5120), 4.5),
    ],
)
def test_rows_that_blocks_do_not_divide_are_stored_in_smaller_ones(format_id, tensor, bits):
    assert NUMBER_FORMATS[format_id].tensor_bits(tensor) == pytest.approx(bits)


@pytest.mark.parametrize("format_id", ["gguf-q2_k", "gguf-q3_k_m", "gguf-q4_k_m", "gguf-q5_k_m"])
def test_mixes_go_by_what_a_matrix_does_not_by_what_its_family_calls_it(format_id):
    # llama.cpp, llama-quant.cpp, chooses by the names in files: ffn_down, attn_v, attn_output.
    mix = NUMBER_FORMATS[format_id]
    # Qwen 1 calls its way out c_proj and one of those in w2, as others call their way out.
    outs = [outward(4096, name) for name in ("c_proj", "w2", "fc2", "output_linear")]
    assert {mix.tensor_bits(out) for out in outs} == {mix.tensor_bits(outward(4096))}
    assert mix.tensor_bits(inward(4096, "w2")) == mix.tensor_bits(inward(4096))
    assert mix.tensor_bits(outward(4096)) > mix.tensor_bits(inward(4096))
    experts = Tensor("w2", TensorClass.EXPERT, 4096, 512, Shard.EXPERT_ROW, 8)
    assert mix.tensor_bits(experts) == mix.tensor_bits(outward(4096))
    output, dense_output = (
        Tensor(name, TensorClass.ATTENTION, 4096, 4096, Shard.ROW) for name in ("o_proj", "dense")
    )
    assert mix.tensor_bits(output) == mix.tensor_bits(dense_output)


def test_a_table_that_is_the_head_too_falls_back_like_it():
    # Of 896 elements a row: what Q6_K would hold is held in Q8_0.
    tied = dense(24, 896, 14, 2, 4864, 151_936, tied=True)
    table = stage_weights(tied, NUMBER_FORMATS["gguf-q4_k_m"], Parallelism(), 0)
    held = table.by_class_bytes[TensorClass.EMBEDDING]
    assert held == pytest.approx(896 * 151_936 * 8.5 / 8.0)


def test_tensor_parallel_weights_match_a_vllm_start():
    # vLLM pull request 10511: 14.96 GiB on one and 7.48 GiB on each of two accelerators.
    single = stage_weights(LLAMA_3_8B, BF16, Parallelism(), 0)
    half = stage_weights(LLAMA_3_8B, BF16, Parallelism(tensor=2), 0)
    assert single.total_bytes / GIB == pytest.approx(14.96, rel=0.001)
    assert half.total_bytes / GIB == pytest.approx(7.48, rel=0.001)


def test_classes_add_up_and_4_bit_leaves_embedding_and_head_wide():
    weights = stage_weights(LLAMA_31_70B, NUMBER_FORMATS["awq-int4"], Parallelism(), 0)
    assert sum(weights.by_class_bytes.values()) == weights.total_bytes == weights.total_model_bytes
    assert weights.by_class_bytes[TensorClass.EMBEDDING] == 2 * 8192 * 128256
    assert weights.by_class_bytes[TensorClass.HEAD] == 2 * 8192 * 128256
    assert (
        weights.by_class_bytes[TensorClass.DENSE_FFN] == 80 * 3 * 8192 * 28672 * (4 + 20 / 128) / 8
    )


def test_kv_projections_are_replicated_past_the_kv_heads():
    sixteen = stage_weights(LLAMA_3_8B, BF16, Parallelism(tensor=16), 0)
    attention = 32 * 2 * (2 * 4096 * 4096 / 16 + 2 * 4096 * 128)
    assert sixteen.by_class_bytes[TensorClass.ATTENTION] == attention


def test_experts_are_divided_by_expert_parallelism_and_attention_is_not():
    spread = stage_weights(DEEPSEEK_V3, BF16, Parallelism(data=8, expert=8), 0)
    whole = stage_weights(DEEPSEEK_V3, BF16, Parallelism(), 0)
    assert spread.by_class_bytes[TensorClass.EXPERT] == whole.by_class_bytes[TensorClass.EXPERT] / 8
    assert (
        spread.by_class_bytes[TensorClass.ATTENTION] == whole.by_class_bytes[TensorClass.ATTENTION]
    )


def test_stages_hold_their_ends_and_together_the_model():
    parallelism = Parallelism(pipeline=3)
    stages = [stage_weights(LLAMA_2_7B, BF16, parallelism, stage) for stage in range(3)]
    assert sum(stage.total_bytes for stage in stages) == total_model_bytes(LLAMA_2_7B, BF16)
    assert [TensorClass.EMBEDDING in stage.by_class_bytes for stage in stages] == [
        True,
        False,
        False,
    ]
    assert [TensorClass.HEAD in stage.by_class_bytes for stage in stages] == [False, False, True]


def test_a_tied_table_is_held_by_both_ends():
    tied = dense(16, 2048, 32, 8, 8192, 128256, head_dim=64, tied=True)
    last = stage_weights(tied, BF16, Parallelism(pipeline=2), 1)
    assert last.by_class_bytes[TensorClass.EMBEDDING] == 2 * 2048 * 128256
    assert total_model_bytes(tied, BF16) == 2 * tied.total_parameters


def test_a_tied_table_is_stored_as_the_head():
    tied = dense(16, 2048, 32, 8, 8192, 128256, head_dim=64, tied=True)
    weights = stage_weights(tied, NUMBER_FORMATS["gguf-q4_k_m"], Parallelism(), 0)
    assert weights.by_class_bytes[TensorClass.EMBEDDING] == 2048 * 128256 * 6.5625 / 8


def mixed(format_id, architecture=LLAMA_3_8B):
    return stage_weights(architecture, NUMBER_FORMATS[format_id], Parallelism(), 0)


@pytest.mark.parametrize("format_id", ["bf16", "gguf-q8_0", "gguf-q4_0", "gguf-q6_k", "awq-int4"])
def test_a_format_of_one_width_leaves_no_choice_to_who_makes_a_file(format_id):
    assert mixed(format_id).mix_log_sigma == 0.0


@pytest.mark.parametrize("format_id", ["gguf-q3_k_l", "gguf-q4_k_m", "gguf-q5_k_m", "gguf-q2_k"])
def test_files_of_a_mix_differ_by_what_its_makers_keep_in_more_bits(format_id):
    """Nobody raises fewer tensors than none: nine in ten files lie above that, and most well."""
    bits = NUMBER_FORMATS[format_id]
    plain = stage_weights(LLAMA_3_8B, bits.unmixed, Parallelism(), 0)
    found = mixed(format_id)
    low = found.total_bytes * exp(-Z_90 * found.mix_log_sigma)
    assert plain.mix_log_sigma == 0.0
    assert plain.total_bytes < low < found.total_bytes


def test_the_more_a_mix_raises_the_less_its_name_says_of_its_size():
    sigmas = [mixed(f"gguf-{name}").mix_log_sigma for name in ("q5_k_m", "q4_k_m", "q3_k_l")]
    assert sigmas == sorted(sigmas)
