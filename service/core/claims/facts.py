"""What claims are recomputed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.memory.tiers import MemoryTier
from service.core.number_formats import NUMBER_FORMATS

#: Models that claims are about, by the name they use and the catalog's id.
MODELS: Mapping[str, str] = MappingProxyType(
    {"7B": "meta-llama/Llama-2-7b-hf", "13B": "meta-llama/Llama-2-13b-hf"}
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What recomputations draw on: the catalog's accelerators by id, and models as in MODELS.

    Also its memory tiers by id, the usual life of hardware [year], moratoria of local governments
    that it lists [-], and ids of rules in force.
    """

    accelerators: Mapping[str, Accelerator]
    models: Mapping[str, ModelArchitecture]
    memory_tiers: Mapping[str, MemoryTier]
    hardware_life_years: float
    local_moratoria: float
    rules_in_force: frozenset[str]


#: The right figure of a claim, in the claim's unit.
Recompute: TypeAlias = Callable[[Facts], float]


def cache_bytes(
    architecture: ModelArchitecture, tokens: float, format_id: str = "bf16", sequences: float = 1.0
) -> float:
    """KV cache of sequences of a length, token by token without pages [B]."""
    formats = NUMBER_FORMATS
    precision = Precision(formats["bf16"], formats[format_id], formats["bf16"])
    layout = cache_layout(architecture, precision.kv_cache, Parallelism(), 1, 0)
    return sequences * float(layout_sequence_bytes(layout, tokens))
