"""Formats of caches for which checkpoints have scales."""

from __future__ import annotations

import pytest

from service.core.architecture.cache_format import cache_format
from service.core.architecture.config import parse_config
from tests.core.memory.memory_models import LLAMA_3_8B

SCHEME = {"num_bits": 8, "type": "float", "dynamic": False}


@pytest.mark.parametrize(
    ("quantised", "found"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": SCHEME}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None}, None),
        ({"quant_method": "fp8", "kv_cache_scheme": None}, None),
        ({"kv_cache_quant_algo": "FP3"}, None),
        ({"kv_cache_scheme": {"num_bits": "8", "type": "float"}}, None),
        ({"kv_cache_scheme": {"num_bits": 8, "type": []}}, None),
        ({}, None),
        ("fp8", None),
    ],
)
def test_scales_are_found_where_tools_write_them(quantised, found):
    assert cache_format({"quantization_config": quantised}) == found


def test_a_checkpoint_without_quantisation_has_none():
    assert LLAMA_3_8B.native_cache_format is None
    assert cache_format({}, {"hidden_size": 4096}) is None


def test_an_architecture_says_so():
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "FP8",
            "kv_cache_quant_algo": "FP8",
        },
    }
    assert parse_config(config).native_cache_format == "fp8"
