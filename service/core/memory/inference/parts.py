"""What a decoding step of an inference deployment stores and touches, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.core.architecture.model import MixtureOfExperts
from service.core.architecture.tensors import TensorClass
from service.core.elementwise import Number, ceil, maximum, minimum
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.placement import Part

if TYPE_CHECKING:
    from service.core.memory.inference.tiers import Offload

#: What the part of routed experts is called.
EXPERTS = "expert_weights"


def inference_parts(
    memory: InferenceMemory,
    offload: Offload,
    copies: Number = 1.0,
    *,
    experts_outside: bool = False,
) -> list[Part]:
    """What a decoding step stores and touches on the fullest accelerator.

    All weights and caches of running sequences are read once, but of the embedding table only the
    rows of the step's tokens, and of routed experts those that some token chose. Parked sequences
    are divided among the replicas of all ``copies`` of the deployment. With ``experts_outside`` all
    routed experts lie in the first tier.

    References
    ----------
    Expected share of experts in use when each of B tokens picks k of E: 1 − (1 − k/E)^B.
    """
    architecture = memory.deployment.architecture
    requests = maximum(memory.concurrency_per_replica * 1.0, 1.0)
    sequences = requests * memory.workload.beams.width
    touched = {TensorClass.EXPERT: experts_touched_ratio(memory, sequences)}
    if not architecture.tied_embeddings:
        touched[TensorClass.EMBEDDING] = minimum(sequences / architecture.vocab_size, 1.0)
    names = {TensorClass.EXPERT: EXPERTS, TensorClass.EMBEDDING: "embedding_weights"}
    by_name: dict[str, tuple[Number, Number]] = {}
    for kind, size in memory.weights_by_class_bytes.items():
        name = names.get(kind, "other_weights")
        stored, read = by_name.get(name, (0.0, 0.0))
        by_name[name] = (stored + size, read + size * touched.get(kind, 1.0))
    parts: list[Part] = []
    for name, (stored, read) in by_name.items():
        moved_ratio = 1.0 if experts_outside and name == EXPERTS else offload.weights_ratio
        parts += _divided(name, stored, read, moved_ratio, offload.to)
    cache = memory.kv_cache_bytes.value * 1.0
    parts += _divided("kv_cache", cache, cache, offload.kv_cache_ratio, offload.to)
    if offload.parked_sequences:
        each = memory.sequence_bytes - memory.shared_bytes
        parked = ceil(offload.parked_sequences / (memory.deployment.parallelism.data * copies))
        parts.append(Part("parked_kv_cache", parked * each, 0.0))
    return parts


def _divided(
    name: str, stored: Number, touched: Number, outside_ratio: float, tier: int
) -> list[Part]:
    """A part, or two where a share of it is bound to a tier outside."""
    moved = Part(name, stored * outside_ratio, touched * outside_ratio, tier + 1)
    stays = Part(name, stored * (1.0 - outside_ratio), touched * (1.0 - outside_ratio))
    return [part for part in (moved, stays) if np.any(part.stored_bytes)]


def experts_touched_ratio(memory: InferenceMemory, sequences: Number) -> Number:
    """Share of the bytes of routed experts that some token of so many sequences chose [-]."""
    parallelism = memory.deployment.parallelism
    if parallelism.expert > parallelism.tensor:
        sequences = sequences * parallelism.data
    held, read = 0.0, 0.0 * sequences
    for group in memory.deployment.architecture.groups:
        if isinstance(group.feed_forward, MixtureOfExperts):
            experts = group.feed_forward
            size = group.count * sum(
                tensor.elements
                for tensor in experts.tensors
                if tensor.tensor_class is TensorClass.EXPERT
            )
            missed = (1.0 - experts.experts_per_token / experts.experts) ** sequences
            held += size
            read = read + size * (1.0 - missed)
    return read / held if held else 1.0
