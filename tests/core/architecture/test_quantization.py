"""Number formats read from checkpoints' own descriptions."""

from typing import Any

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.quantization import checkpoint_format
from service.core.architecture.tensors import TensorClass
from service.core.number_formats import NUMBER_FORMATS
from tests.core.architecture.published_models import MODELS

LAYERS = {"num_hidden_layers": 4}


def described(**quantization):
    return checkpoint_format({**LAYERS, "quantization_config": quantization})


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bfloat16", "bf16"),
        ("torch.float16", "fp16"),
        ("float32", "fp32"),
        ("something", "bf16"),
        (None, "bf16"),
    ],
)
def test_plain_formats(dtype, expected):
    found = checkpoint_format({"torch_dtype": dtype})
    assert (found.listed_id, found.exact) == (expected, None)


def test_the_language_part_speaks_where_the_whole_does_not():
    assert checkpoint_format({}, {"dtype": "float16"}).listed_id == "fp16"


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq-int4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "awq-int4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "GEMV"}, "awq-int4-gemv"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq-int4"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq-int8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb-int8"),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
            },
            "bnb-nf4",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "eetq"}, "int8"),
        ({"quant_method": "exl2", "bits": 4.65, "head_bits": 6}, "exl2-4.65bpw"),
        ({"quant_method": "exl3", "bits": 3.0}, "exl3-3.0bpw"),
        ({"bits": 4, "group_size": 64}, "mlx-4bit"),
    ],
)
def test_formats_as_listed(quantization, expected):
    found = described(**quantization)
    assert (found.listed_id, found.exact, found.warnings) == (expected, None, ())


def test_another_group_size_is_another_layout():
    found = described(quant_method="gptq", bits=4, group_size=32)
    assert found.listed_id == "gptq-int4"
    assert found.exact is not None
    assert found.exact.bits_per_element == pytest.approx(4 + (16 + 4) / 32)


def test_mean_widths_of_mixes_are_those_that_are_stated():
    found = described(quant_method="exl2", bits=4.4)
    assert (found.listed_id, found.exact.bits_per_element) == ("exl2-4.5bpw", 4.4)
    assert found.exact.bits(TensorClass.HEAD) == 6.0
    assert described(quant_method="exl2", bits="4").warnings


def test_three_bits():
    found = described(quant_method="gptq", bits=3, group_size=128)
    assert found.exact is not None
    assert found.exact.bits_per_element == pytest.approx(3 + (16 + 3) / 128)


def test_the_same_departure_is_the_same_object():
    first = described(quant_method="gptq", bits=4, group_size=32).exact
    assert described(quant_method="gptq", bits=4, group_size=32).exact is first


def test_microscaled_checkpoints_convert_experts_only():
    found = parse_config(
        {**MODELS["openai/gpt-oss-120b"][0], "quantization_config": {"quant_method": "mxfp4"}}
    )
    assert found.native_format == "mxfp4"
    layout = found.native_number_format
    assert layout is not None
    assert layout.bits(TensorClass.EXPERT) == 4.25
    assert layout.bits(TensorClass.ATTENTION) == 16
    stored_bytes = sum(
        group.count * tensor.elements * layout.bits(tensor.tensor_class) / 8
        for group in found.groups
        for tensor in group.tensors
    ) + 2 * sum(tensor.elements for tensor in found.embedding + found.head)
    # The checkpoint's card states 60.8 GiB.
    assert stored_bytes / 2**30 == pytest.approx(60.8, rel=0.005)


def test_compressed_tensors_with_a_list_of_what_stays():
    """The layout of Kimi-K2-Thinking: experts in 4 bit with groups of 32, all else in 16."""
    found = described(
        quant_method="compressed-tensors",
        format="pack-quantized",
        config_groups={
            "group_0": {
                "targets": ["Linear"],
                "input_activations": None,
                "weights": {
                    "num_bits": 4,
                    "type": "int",
                    "group_size": 32,
                    "strategy": "group",
                    "symmetric": True,
                },
            }
        },
        ignore=[
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
        ],
    )
    assert found.exact is not None
    assert found.exact.bits_per_element == 4.5
    assert TensorClass.EXPERT in found.exact.quantised_classes
    for kept in (TensorClass.ATTENTION, TensorClass.SHARED_EXPERT, TensorClass.DENSE_FFN):
        assert kept not in found.exact.quantised_classes


@pytest.mark.parametrize(
    ("weights", "activations", "expected"),
    [
        ({"num_bits": 8, "type": "float"}, {"num_bits": 8}, "fp8"),
        ({"num_bits": 8, "type": "int"}, {"num_bits": 8}, "int8"),
        ({"num_bits": 8, "type": "int"}, None, "gptq-int8"),
        ({"num_bits": 4, "type": "float"}, {"num_bits": 4}, "nvfp4"),
    ],
)
def test_compressed_tensors_by_weights_and_activations(weights, activations, expected):
    found = described(
        quant_method="compressed-tensors",
        config_groups={"group_0": {"weights": weights, "input_activations": activations}},
    )
    assert found.listed_id == expected


def test_modules_listed_in_every_layer_stay_in_16_bit():
    modules = [f"model.layers.{layer}.self_attn*" for layer in range(4)]
    found = described(quant_method="modelopt", quant_algo="NVFP4", exclude_modules=modules)
    assert found.exact is not None
    assert found.exact.quantised_classes == (
        NUMBER_FORMATS["nvfp4"].quantised_classes - {TensorClass.ATTENTION}
    )


def test_modules_listed_in_one_layer_of_four_keep_a_quarter_in_16_bit():
    found = described(
        quant_method="fp8",
        weight_block_size=[128, 128],
        modules_to_not_convert=["model.layers.0.self_attn", "model.layers.1.mlp.gate", "lm_head"],
    )
    listed = NUMBER_FORMATS["fp8"]
    assert found.exact is not None
    assert found.exact.quantised_classes == listed.quantised_classes
    mixed = 0.25 * 16.0 + 0.75 * listed.bits_per_element
    assert found.exact.bits(TensorClass.ATTENTION) == mixed
    assert found.exact.bits(TensorClass.DENSE_FFN) == listed.bits_per_element


def test_unknown_methods_are_told():
    found = described(quant_method="sorcery")
    assert found.listed_id == "bf16"
    assert [warning.code for warning in found.warnings] == ["unknown_quantization"]


def mixed(**rest: Any) -> dict[str, Any]:
    narrow = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    modules = {
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.0.mlp.shared_expert.up_proj": {"quant_algo": "MXFP8"},
        "model.layers.0.mlp.experts": narrow,
        "lm_head": narrow,
        "somewhere.else": narrow,
    }
    # A list of groups, of which the first is no more than one of several.
    groups = {"group_0": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["Linear"]}}
    return {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": modules,
        "config_groups": groups,
        **rest,
    }


def test_modules_listed_with_formats_of_their_own_have_them():
    """As NVIDIA's releases of 2026 say it (Qwen3.6, MiniMax-M3, Nemotron 3.5)."""
    found = checkpoint_format({"quantization_config": mixed()})
    assert (found.listed_id, found.warnings) == ("nvfp4", ())
    assert found.exact is not None
    widths = {class_: found.exact.bits(class_) for class_ in TensorClass}
    assert widths[TensorClass.EXPERT] == widths[TensorClass.HEAD] == 4.5
    assert widths[TensorClass.ATTENTION] == 8.0
    assert widths[TensorClass.SHARED_EXPERT] == 8.25
    assert widths[TensorClass.DENSE_FFN] == widths[TensorClass.EMBEDDING] == 16.0
    assert found.exact.matrix_precision == "bf16"


def test_a_checkpoint_in_8_bits_with_narrower_experts_keeps_the_rest():
    """As NVIDIA's releases of DeepSeek-V4."""
    modules = {"layers.0.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}}
    config = mixed(quant_method="fp8", weight_block_size=[128, 128], quantized_layers=modules)
    found = checkpoint_format({"quantization_config": config})
    assert found.exact is not None
    assert found.exact.bits(TensorClass.EXPERT) == 4.5
    assert found.exact.bits(TensorClass.ATTENTION) == pytest.approx(8.0, abs=0.01)
    assert found.exact.matrix_precision == NUMBER_FORMATS["nvfp4"].matrix_precision


@pytest.mark.parametrize("modules", [None, {}, {"somewhere.else": {"quant_algo": "NVFP4"}}])
def test_a_mix_of_which_nothing_is_listed_is_not_believed(modules):
    config = mixed(quantized_layers=modules, config_groups=None)
    found = checkpoint_format({"quantization_config": config})
    assert [warning.code for warning in found.warnings] == ["unknown_quantization"]


def test_a_file_may_keep_the_table_that_it_shares_with_the_head_in_more_bits():
    listed = NUMBER_FORMATS["gguf-q4_0"]
    told = described(quant_method="gguf", file_type="gguf-q4_0", table_bits=16)
    assert told.listed_id == "gguf-q4_0"
    for stored in (told.exact, told.exact.ragged):
        for class_ in (TensorClass.EMBEDDING, TensorClass.HEAD):
            assert stored.bits(class_) == 16.0
        assert stored.bits(TensorClass.DENSE_FFN) == listed.bits(TensorClass.DENSE_FFN)
    # Anything else is not a width that tables have.
    for bits in (4, "16", None):
        assert described(quant_method="gguf", file_type="gguf-q4_0", table_bits=bits).exact is None
