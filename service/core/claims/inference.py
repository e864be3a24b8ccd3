"""Claims about the memory of inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from service.core.architecture.model import Attention, ModelArchitecture
from service.core.claims.facts import Facts, Recompute, cache_bytes
from service.core.deployment import Parallelism
from service.core.memory.kv_cache import cache_layout
from service.core.memory.reservation import reservation
from service.core.number_formats import NUMBER_FORMATS

_GB = 1e9
#: Pages of vLLM, and the longest sequences that its paper reserves room for.
_PAGE_TOKENS, _RESERVED_TOKENS = 16, 2048


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


def _saved_by_pages(facts: Facts) -> float:
    """Lengths spread evenly up to what is reserved for each sequence."""
    model, kv_format = facts.models["13B"], NUMBER_FORMATS["bf16"]
    exact, paged = (
        cache_layout(model, kv_format, Parallelism(), tokens, 0) for tokens in (1, _PAGE_TOKENS)
    )
    middles = range(_PAGE_TOKENS // 2, _RESERVED_TOKENS, _PAGE_TOKENS)
    found = reservation(exact, paged, [(float(one), 1.0) for one in middles], _RESERVED_TOKENS, 1.0)
    return found.saved_bytes / found.reserved_bytes


def _int8_of_fp16(_: Facts) -> float:
    return 80.0 * 8.0 / 16.0


def _gib_over_gb(_: Facts) -> float:
    return 2.0**30 / 1e9 - 1.0


INFERENCE_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "kv-cache-13b-batch-32": _cache_of_13b,
        "kv-cache-growth": _cache_of_128_users,
        "kv-cache-by-hidden-size": _cache_with_grouped_heads,
        "paged-attention-saving": _saved_by_pages,
        "quantising-80-gb": _int8_of_fp16,
        "snippet-units": _gib_over_gb,
    }
)
