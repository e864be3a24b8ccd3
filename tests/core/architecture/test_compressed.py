"""DeepSeek-V4: entries that sum up runs of tokens, beside a window of the last ones."""

from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tensors import TensorClass
from service.core.deployment import Parallelism, Precision
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.number_formats import NUMBER_FORMATS, NumberFormat
from service.core.performance.work import rank_work
from tests.conftest import packaged

BF16 = NUMBER_FORMATS["bf16"]
MILLION = 1024.0 * 1024.0


def config(name: str, **rest: Any) -> dict[str, Any]:
    return {**packaged()["models"][f"deepseek-ai/{name}"]["config"], **rest}


def stored(model: ModelArchitecture) -> NumberFormat:
    return model.native_number_format or NUMBER_FORMATS[model.native_format]


@pytest.mark.parametrize(
    ("name", "parameters"),
    # As transformers 5.23 holds them, with the biases of the routers.
    [("DeepSeek-V4-Flash", 284332240471), ("DeepSeek-V4-Pro", 1572997201763)],
)
def test_parameters_are_those_of_the_reference_implementation(name, parameters):
    assert parse_config(config(name)).total_parameters == parameters


@pytest.mark.parametrize(
    ("name", "published"), [("DeepSeek-V4-Pro", 0.10), ("DeepSeek-V4-Flash", 0.07)]
)
def test_the_cache_at_a_million_tokens_is_the_published_share_of_v32(name, published):
    def kept(one: str) -> float:
        layout = cache_layout(parse_config(config(one)), BF16, Parallelism())
        return float(layout_sequence_bytes(layout, MILLION))

    assert kept(name) / kept("DeepSeek-V3.2") == pytest.approx(published, abs=0.015)


@pytest.mark.parametrize(
    ("name", "published"), [("DeepSeek-V4-Pro", 0.27), ("DeepSeek-V4-Flash", 0.10)]
)
def test_operations_at_a_million_tokens_are_the_published_share_of_v32(name, published):
    def operations(one: str) -> float:
        model = parse_config(config(one))
        precision = Precision(weights=stored(model), activations=BF16, kv_cache=BF16)
        work = rank_work(model, precision, Parallelism())
        multiplied = sum(
            2.0 * one.calls * one.copies_per_token * one.input_features * one.output_features
            for one in work.products
        )
        return multiplied + sum(
            one.flops_per_pair * min(MILLION, one.window_tokens or MILLION)
            for one in work.attention
        )

    assert operations(name) / operations("DeepSeek-V3.2") == pytest.approx(published, abs=0.025)


def test_a_layer_adds_up_its_outputs_once_however_it_attends():
    precision = Precision(weights=BF16, activations=BF16, kv_cache=BF16)
    model = parse_config(config("DeepSeek-V4-Flash"))
    assert rank_work(model, precision, Parallelism(tensor=2)).reductions == 2.0 * 43


def test_experts_are_of_four_bits_where_the_configuration_says_so():
    def bits(**rest: Any) -> float:
        model = parse_config(config("DeepSeek-V4-Flash", **rest))
        assert stored(model).bits(TensorClass.ATTENTION) == pytest.approx(8.0, abs=0.01)
        return stored(model).bits(TensorClass.EXPERT)

    assert bits() == 4.25
    assert bits(expert_dtype="fp8") == pytest.approx(8.0, abs=0.01)


def test_layers_may_be_named_instead_of_told_by_ratios():
    named = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    sizes = {"num_hidden_layers": 3, "num_hash_layers": 1, "compress_ratios": None}
    model = parse_config(config("DeepSeek-V4-Flash", layer_types=named, **sizes))
    told = parse_config(config("DeepSeek-V4-Flash", **{**sizes, "compress_ratios": [0, 4, 128]}))
    assert model.total_parameters == told.total_parameters
    assert model.layer_count == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"compress_ratios": [4, 8] * 22}, "compress_ratios"),
        ({"compress_ratios": [4, 128]}, "compress_ratios"),
        ({"layer_types": ["full_attention"] * 43}, "layer_types"),
        ({"qk_rope_head_dim": 512}, "qk_rope_head_dim"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ConfigNotUnderstood, match=said):
        parse_config(config("DeepSeek-V4-Flash", **wrong))
