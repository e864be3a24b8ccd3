"""The number format of caches that a checkpoint was calibrated for.

References
----------
vllm-project/vllm, vllm/utils/torch_utils.py, 2026 (get_kv_cache_quant_algo_string); sgl-project/
sglang, configure_kv_cache_dtype, 2026; NVIDIA/TensorRT-LLM, kv_cache_quant_algo of
hf_quant_config.json, 2025. All three take it over where nobody names a format of caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Formats by what ModelOpt calls them.
_NAMED = {"fp8": "fp8", "int8": "int8", "nvfp4": "nvfp4"}
#: Formats by bits and type, as compressed-tensors has them.
_SCHEMES = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}


def cache_format(*configs: Mapping[str, Any]) -> str | None:
    """The id of the format for whose caches a checkpoint has scales; None if for none.

    Parameters
    ----------
    configs
        The ``config.json`` and, of a multimodal model, its language part; the first that has a
        ``quantization_config`` counts.
    """
    for config in configs:
        quantised = config.get("quantization_config", config.get("compression_config"))
        if isinstance(quantised, Mapping) and quantised:
            return _stated(quantised)
    return None


def _stated(quantised: Mapping[str, Any]) -> str | None:
    inner = quantised.get("quantization")
    for part in (inner, quantised):
        if not isinstance(part, Mapping):
            continue
        named, scheme = part.get("kv_cache_quant_algo"), part.get("kv_cache_scheme")
        if isinstance(named, str):
            return _NAMED.get(named.lower())
        if isinstance(scheme, Mapping):
            bits, kind = scheme.get("num_bits"), scheme.get("type")
            if isinstance(bits, int) and isinstance(kind, str):
                return _SCHEMES.get((bits, kind))
            return None
    return None
