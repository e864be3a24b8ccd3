"""A claim: what a document states, what it comes to when computed, and what to make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.number_formats import NUMBER_FORMATS

#: wrong: the figure does not follow from what it is about; conditional: right only under settings
#: that are not stated; unsupported: the cited source does not say it; unit: the number is right in
#: another unit; internal: two figures of the documents contradict each other; right: confirmed.
Verdict: TypeAlias = Literal["wrong", "conditional", "unsupported", "unit", "internal", "right"]

#: Documents that claims stand in, by number.
DOCUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "000": "Paper on memory, speed and environmental limits of AI infrastructure",
        "001": "Memory considerations for large language models",
        "002": "Questions and answers on bottlenecks",
        "003": "Strategies for GPU memory",
        "004": "Guide to GPU memory for large language models",
    }
)

#: Models that claims are about, by the name they use and the catalog's id.
MODELS: Mapping[str, str] = MappingProxyType(
    {"7B": "meta-llama/Llama-2-7b-hf", "13B": "meta-llama/Llama-2-13b-hf"}
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What recomputations draw on: the catalog's accelerators by id, and models as in MODELS."""

    accelerators: Mapping[str, Accelerator]
    models: Mapping[str, ModelArchitecture]


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement. ``recompute`` gives the right figure in ``unit``, None where there is none."""

    id: str
    documents: tuple[str, ...]
    subject: str
    stated: str
    unit: str | None
    verdict: Verdict
    note: str
    recompute: Callable[[Facts], float] | None = None


def cache_bytes(
    architecture: ModelArchitecture, tokens: float, format_id: str = "bf16", sequences: float = 1.0
) -> float:
    """KV cache of sequences of a length, token by token without pages [B]."""
    formats = NUMBER_FORMATS
    precision = Precision(formats["bf16"], formats[format_id], formats["bf16"])
    layout = cache_layout(architecture, precision.kv_cache, Parallelism(), 1, 0)
    return sequences * float(layout_sequence_bytes(layout, tokens))
