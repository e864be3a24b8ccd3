"""Answers about the memory of a model in training and in inference, side by side."""

from __future__ import annotations

from service.core.memory.pruning import Structure
from service.estimation.answers import Answer, Interval, Repeatable


class ProfilePart(Answer):
    """One part of memory on the fullest accelerator, in both."""

    name: str
    """The part of memory."""
    training_bytes: Interval | None
    """Null where training has no such part."""
    inference_bytes: Interval | None
    """Null where inference has no such part."""


class SeedActivations(Answer):
    """Activations of training by the rule of thumb, beside those that were estimated."""

    activation_constant: Interval
    seed_constant_bytes: Interval
    """C · layers · sequences · tokens · hidden size · bytes of an activation."""
    estimated_bytes: Interval
    """All activations that layers keep until the backward pass, counted operator by operator. Part
    of them takes room that gradients have later, so that parts.activations may have less."""
    estimated_constant: Interval
    """The constant at which the rule gives the estimate."""


class CacheReservation(Answer):
    """Caches of whole sequences in pages, against one piece for each that holds the longest."""

    sequences: float
    """Sequences that a replica holds."""
    reserved_tokens: float
    """Tokens that each piece has room for."""
    used_bytes_per_sequence: float
    """Mean over the lengths."""
    paged_bytes_per_sequence: float
    """Pages that a sequence takes, on the average."""
    reserved_bytes_per_sequence: float
    """The piece that a sequence takes."""
    saved_bytes: float
    """Of all sequences on one replica."""
    paged_waste_ratio: float
    """Share of the pages that holds nothing."""
    reserved_waste_ratio: float
    """Share of the reservation that holds nothing."""


class PrunedWeights(Answer):
    """What zeros save on an accelerator; what they cost in quality is not known here."""

    structure: Structure
    """Where the zeros stand."""
    sparsity_ratio: float
    """Share of the pruned weights that is zero."""
    pruned_weights_bytes: float
    """Weights after pruning."""
    saved_bytes: float
    """Weights before less weights after."""
    weights_ratio: float
    """Pruned over dense, of all weights."""
    product_time_ratio: float
    """Time of matrix products that compute bounds, over that of dense ones; 1 where the accelerator
    or its engines skip no zeros."""
    step_bytes_ratio: float
    """Bytes that a decode step reads over those of dense weights; 1 where engines store zeros."""


class MemoryProfileAnswer(Repeatable):
    """Memory of a model in training and in inference."""

    model: str
    accelerator: str
    training_total_bytes: Interval
    inference_total_bytes: Interval
    training_over_inference_ratio: Interval
    training_fits: bool
    """Whether training fits in the accelerators' memory."""
    inference_fits: bool
    """Whether inference fits in the accelerators' memory."""
    parts: list[ProfilePart]
    activations: SeedActivations
    cache_reservation: CacheReservation | None
    """Null where the model keeps no cache, or no length to reserve is known."""
    pruning: PrunedWeights | None
    """Null where nothing is pruned."""
