"""Claims about the memory of inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from service.core.architecture.model import Attention, ModelArchitecture
from service.core.claims.facts import Facts, Recompute, cache_bytes

_GB = 1e9
_MB = 1e6


def _grouped(architecture: ModelArchitecture, heads: int) -> ModelArchitecture:
    """The same with so many KV heads."""
    groups = tuple(
        replace(group, mixer=replace(group.mixer, kv_heads=heads))
        if isinstance(group.mixer, Attention)
        else group
        for group in architecture.groups
    )
    return replace(architecture, groups=groups)


def _cache_of_13b(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 4096, sequences=32) / _GB


def _cache_of_128_users(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 8192, sequences=128) / _GB


def _cache_with_grouped_heads(facts: Facts) -> float:
    return cache_bytes(_grouped(facts.models["7B"], 8), 4096) / _GB


def _cache_per_token_of_13b(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 1) / _MB


def _int8_of_fp16(_: Facts) -> float:
    return 80.0 * 8.0 / 16.0


def _gib_over_gb(_: Facts) -> float:
    return 2.0**30 / 1e9 - 1.0


INFERENCE_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "kv-cache-13b-batch-32": _cache_of_13b,
        "kv-cache-growth": _cache_of_128_users,
        "kv-cache-by-hidden-size": _cache_with_grouped_heads,
        "paged-attention-saving": _cache_per_token_of_13b,
        "quantising-80-gb": _int8_of_fp16,
        "snippet-units": _gib_over_gb,
    }
)
