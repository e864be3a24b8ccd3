"""What kernels multiply, how they pad, and how far experts on several ranks are out of balance."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.busiest import expected_highest
from service.core.performance.expert_tiles import padded_rows
from service.core.performance.kernels import (
    KERNELS,
    OPERAND_BITS,
    engine_precision,
    meets,
    met_by,
    multiplied_precision,
    peak_flops_per_s,
)
from service.core.performance.native_kernels import (
    attends_on_vectors,
    loops_experts,
    multiplies_integers,
    replayed_accelerators,
)
from service.core.performance.products import product_rates
from service.core.performance.release_kernels import (
    batched_experts,
    head_reads,
    holds_widened,
    is_weight_only,
    loaded_reads,
    many_widened_from_rows,
    prompt_layer_kernel_count,
    stepwise_states,
    unrouted_below_bits,
    widened_from_rows,
)
from service.core.performance.work import MatrixProduct
from tests.core.deployments import CALIBRATION, H100

B200 = replace(
    H100, id="b200", peak_flops_per_s={"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9e15, "fp32": 8e13}
)
A100 = replace(H100, id="a100", peak_flops_per_s={"bf16": 3.12e14, "int8": 6.24e14, "fp32": 2e13})


def multiplied(weights: str, accelerator) -> str:
    return multiplied_precision(accelerator, NUMBER_FORMATS[weights].matrix_precision)


def test_weights_are_widened_where_hardware_has_no_units_for_them():
    assert peak_flops_per_s(H100, "fp4") == (H100.peak_flops_per_s["bf16"], 16)
    assert multiplied("fp8", H100) == "fp8"
    assert multiplied("fp8", A100) == "bf16"
    assert multiplied("nvfp4", B200) == "fp4"
    assert multiplied("nvfp4", H100) == "bf16"
    only_single = replace(H100, peak_flops_per_s={"fp32": 1e12})
    assert peak_flops_per_s(only_single, "bf16") == (1e12, 32)
    with pytest.raises(ValueError, match="no peak known for bf16 or wider on"):
        peak_flops_per_s(replace(H100, peak_flops_per_s={}), "bf16")


def test_microscaled_weights_meet_8_bit_activations_only_where_units_scale_blocks():
    assert multiplied("mxfp4", B200) == "fp8"
    assert multiplied("mxfp4", H100) == "bf16"
    assert multiplied("mxfp4", A100) == "bf16"


def test_engines_with_kernels_of_their_own_widen_every_format():
    own = replace(CALIBRATION.engine, half_accumulation=True)
    for wanted in ("bf16", "fp8", "int8", "fp4", "mxfp8"):
        assert engine_precision(wanted, own) == "fp16_accumulate"
    assert engine_precision("fp32", own) == "fp32"
    assert engine_precision("fp8", CALIBRATION.engine) == "fp8"


@given(st.sampled_from(sorted(KERNELS)), st.sets(st.sampled_from(sorted(OPERAND_BITS)), min_size=1))
def test_no_kernel_narrows_operands(wanted, peaks):
    accelerator = replace(H100, peak_flops_per_s=dict.fromkeys(peaks, 1e14))
    try:
        used = multiplied_precision(accelerator, wanted)
    except ValueError:
        assert not peaks & {kernel.operands for kernel in KERNELS[wanted] if not kernel.needs}
    else:
        assert used in peaks
        assert OPERAND_BITS[used] >= OPERAND_BITS[wanted]


def test_activations_are_as_wide_as_the_weights_and_of_their_kind():
    assert met_by(NUMBER_FORMATS["awq-int4"]) == ("bf16", "fp8", "int8")
    assert met_by(NUMBER_FORMATS["fp8"]) == ("bf16", "fp8")
    assert met_by(NUMBER_FORMATS["int8"]) == ("bf16", "int8")
    assert met_by(NUMBER_FORMATS["nvfp4"]) == ("bf16", "fp8", "int8", "nvfp4")
    assert meets("fp8", 8.0, "fp32")


def test_a_format_with_other_activations_is_the_same_object_each_time():
    weights = NUMBER_FORMATS["fp8"]
    assert weights.multiplied_in("fp8") is weights
    widened = weights.multiplied_in("bf16")
    assert widened is weights.multiplied_in("bf16")
    assert (widened.id, widened.matrix_precision) == ("fp8", "bf16")


rows = st.floats(1e-3, 1e6)
tiles = st.floats(0.0, 256.0)


@given(rows, st.floats(1.0, 256.0), tiles)
def test_padding_at_most_doubles_few_rows_and_adds_a_tile_to_many(count, matrices, tile):
    padded = padded_rows(count, matrices, tile)
    assert count <= padded <= min(2.0 * count, count + tile * matrices) * (1 + 1e-12)


@given(rows, rows, tiles)
def test_more_rows_are_never_padded_to_fewer(first, second, tile):
    fewer, more = sorted((first, second))
    assert padded_rows(fewer, 1.0, tile) <= padded_rows(more, 1.0, tile)


def test_no_rows_stay_none():
    assert padded_rows(0.0, 4.0, 64.0) == 0.0


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_the_highest_of_some_normal_values(ranks):
    drawn = np.random.default_rng(7).standard_normal((40_000, ranks))
    assert expected_highest(ranks) == pytest.approx(drawn.max(axis=1).mean(), abs=0.03)


@pytest.mark.parametrize(
    ("release", "family", "backend", "rows"),
    [
        ("llama.cpp@2024", "nvidia-ada", "cuda", 33.0),
        ("llama.cpp@2024", "nvidia-ada", None, 33.0),
        ("llama.cpp@2024", "nvidia-ada", "vulkan", 0.0),
        ("llama.cpp@2024", "nvidia-pascal", "cuda", 0.0),
        ("llama.cpp@2024", "apple-silicon", "metal", 0.0),
        ("llama.cpp@2025", "nvidia-ada", "cuda", 0.0),
        ("llama.cpp@2025", "amd-rdna3.5", "hip-rocwmma", 64.0),
        ("llama.cpp@2025", "amd-rdna3.5", "vulkan", 0.0),
        ("exllama@v1", "nvidia-ada", None, 8.0),
        ("exllama@v2", "amd-rdna3", None, 33.0),
        ("transformers@shared-cache", "nvidia-ampere", None, 8.0),
        ("vllm@v1", "nvidia-hopper", None, 0.0),
    ],
)
def test_weights_are_widened_whole_where_the_table_says(release, family, backend, rows):
    assert widened_from_rows(release, family, backend) == rows


@pytest.mark.parametrize(
    ("release", "family", "rows"),
    [
        ("autoawq@0.2", "nvidia-ada", 1024.0),
        ("autoawq@before-0.2", "nvidia-ada", 0.0),
        ("transformers@shared-cache", "nvidia-ampere", 1024.0),
        ("transformers", "intel-gaudi", 0.0),
        ("vllm@v1", "nvidia-ada", 0.0),
    ],
)
def test_matrices_of_awq_are_widened_whole_for_long_prompts(release, family, rows):
    assert many_widened_from_rows(release, family) == rows


@pytest.mark.parametrize(
    ("release", "family", "backend", "looped"),
    [
        ("llama.cpp@2024", "nvidia-ada", "cuda", True),
        ("llama.cpp@2025", "nvidia-ada", "cuda", False),
        ("llama.cpp@2025", "amd-rdna3.5", "hip", True),
        ("llama.cpp@2025", "amd-rdna3.5", "vulkan", False),
        ("llama.cpp@2025", "amd-rdna2", "hip", False),
        ("vllm@v1", "nvidia-ada", None, False),
    ],
)
def test_experts_of_prompts_are_looped_over_where_the_table_says(release, family, backend, looped):
    assert loops_experts(release, family, backend) is looped


@pytest.mark.parametrize(
    ("release", "family", "backend", "accelerators"),
    [
        ("llama.cpp@2023", "nvidia-ada", None, 0.0),
        ("llama.cpp@2024", "nvidia-ampere", None, 1.0),
        ("llama.cpp@2025", "nvidia-blackwell-gb20x", "cuda", inf),
        ("llama.cpp@2025", "nvidia-ada", "vulkan", 0.0),
        ("llama.cpp@2025", "nvidia-turing", "cuda", 0.0),
        ("llama.cpp@2025", "amd-rdna3", None, 0.0),
        ("vllm@v1", "nvidia-hopper", None, 0.0),
    ],
)
def test_steps_of_one_token_are_graphs_where_the_table_says(release, family, backend, accelerators):
    assert replayed_accelerators(release, family, backend) == accelerators


@pytest.mark.parametrize(
    ("release", "family", "backend", "integers"),
    [
        ("llama.cpp@2024", "nvidia-ada", "cuda", False),
        ("llama.cpp@2025", "nvidia-ada", None, True),
        ("llama.cpp@2025", "nvidia-blackwell-gb20x", "cuda", True),
        ("llama.cpp@2025", "nvidia-ada", "vulkan", False),
        ("llama.cpp@2025", "nvidia-volta", "cuda", False),
        ("llama.cpp@2025", "amd-rdna2", "vulkan", True),
        ("llama.cpp@2025", "amd-rdna3", "vulkan", False),
        ("vllm@v1", "nvidia-ada", None, False),
    ],
)
def test_weights_are_multiplied_as_integers_where_the_table_says(
    release, family, backend, integers
):
    assert multiplies_integers(release, family, backend) is integers


@pytest.mark.parametrize(("super_blocks", "operations"), [(False, 4.0), (True, 6.0)])
def test_sums_of_integer_products_are_scaled_in_32_bit(super_blocks, operations):
    engine = replace(CALIBRATION.engine, multiplies_integers=True)
    calibration = replace(CALIBRATION, engine=engine)
    card = replace(H100, peak_flops_per_s={"bf16": 1e14, "fp16": 1e14, "int8": 4e14, "fp32": 2e13})
    item = MatrixProduct(
        *(1.0, 4096, 4096, 4096.0 * 4096.0 * 4.5 / 8.0, "fp16", 16),
        weight_bits=4.5,
        super_blocks=super_blocks,
    )
    ratio = CALIBRATION.hardware.matrix_ratio
    # A block of 32 products takes 64 FLOP of matrix units and these operations of lanes.
    product_s, scaling_s = 64.0 / (4e14 * ratio[8]), operations / (1e13 * ratio[32])
    rate, _ = product_rates(item, card, calibration)
    assert rate == pytest.approx(64.0 / (product_s + scaling_s))
    # Weights of 16 bits, and cards without such units, are multiplied as before.
    wide, _ = product_rates(replace(item, weight_bits=16.0), card, calibration)
    assert wide == product_rates(replace(item, weight_bits=16.0), card, CALIBRATION)[0]
    old = replace(card, peak_flops_per_s={"bf16": 1e14, "fp16": 1e14, "fp32": 2e13})
    assert product_rates(item, old, calibration) == product_rates(item, old, CALIBRATION)


def test_fused_attention_has_no_matrix_units_where_the_table_says():
    assert attends_on_vectors("llama.cpp@2025", "amd-rdna3.5", "hip-rocblas")
    assert not attends_on_vectors("llama.cpp@2025", "amd-rdna3.5", "hip-rocwmma")
    assert not attends_on_vectors("llama.cpp@2025", "amd-rdna3.5", "vulkan")
    assert not attends_on_vectors("llama.cpp@2025", "nvidia-ada", "cuda")


@pytest.mark.parametrize(
    ("release", "held"),
    [
        ("transformers", True),
        ("exllama@v2", True),
        ("llama.cpp@2024", False),
        ("vllm@v1", False),
    ],
)
def test_buffers_for_widened_matrices_are_held_where_the_table_says(release, held):
    assert holds_widened(release) is held


@pytest.mark.parametrize(
    ("release", "family", "read_again"),
    [
        ("autoawq", "nvidia-ada", (1.0, True)),
        ("llama.cpp@2024", "apple-silicon", (1.0, False)),
        ("llama.cpp@2025", "apple-silicon", (0.5, False)),
        ("llama.cpp@2024", "nvidia-ada", (0.0, False)),
        ("transformers", "nvidia-ada", (0.0, False)),
    ],
)
def test_keys_are_read_for_each_head_of_queries_where_the_table_says(release, family, read_again):
    assert head_reads(release, family) == read_again


def test_weight_only_engines_multiply_16_bit_activations():
    assert is_weight_only("gpt-fast")
    assert not is_weight_only("vllm@v1")
    weight_only = replace(CALIBRATION.engine, weight_only=True)
    assert engine_precision("int8", weight_only) == "bf16"
    assert engine_precision("fp32", weight_only) == "fp32"
    assert engine_precision("int8", CALIBRATION.engine) == "int8"


def test_quantised_experts_are_not_routed_where_the_table_says():
    assert unrouted_below_bits("optimum-habana") == 16.0
    assert unrouted_below_bits("vllm") == 0.0


def test_models_run_as_their_own_code_does_where_an_engine_has_no_kernels_for_them():
    assert batched_experts("optimum-habana") == {"gpt_oss"}
    assert stepwise_states("optimum-habana") == {"falcon_mamba"}
    assert not batched_experts("vllm") | stepwise_states("vllm")


def test_kernels_of_prompts_are_those_that_somebody_counted():
    assert prompt_layer_kernel_count("llama.cpp@2024", "nvidia-ada") == 43.0
    assert prompt_layer_kernel_count("llama.cpp@2024", "nvidia-ada", "vulkan") == 0.0
    assert prompt_layer_kernel_count("llama.cpp@2024", "apple-silicon") == 0.0
    assert prompt_layer_kernel_count("exllama@v2", "nvidia-ada") == 0.0


def test_products_with_a_vector_wait_for_loads_beside_stacked_memory():
    assert loaded_reads("llama.cpp@2024", "nvidia-ampere") == (16.0, 64.0)
    assert loaded_reads("llama.cpp@2025", "nvidia-hopper") == (15.0, 128.0)
    assert loaded_reads("llama.cpp@2024", "nvidia-ampere-ga10x") == (0.0, 0.0)
    assert loaded_reads("vllm@v1", "nvidia-hopper") == (0.0, 0.0)
