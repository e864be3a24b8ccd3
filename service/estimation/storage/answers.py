"""Answers about near memory and stores of vectors."""

from __future__ import annotations

from service.estimation.answers import Answer, Interval, Repeatable


class OnChip(Answer):
    """Chips without external memory."""

    chips: int | None
    """Chips that hold it; null if their memory is not known."""
    power_w: float | None
    """At thermal design power; null if that is unknown."""
    least_step_s: float | None
    """Lower bound of a decoding step."""


class ProcessingInMemory(Answer):
    """Memory that runs the memory-bound part of decoding."""

    memory_bound_time_ratio: Interval
    kernel_speedup_ratio: Interval
    decode_speedup_ratio: Interval
    """Overall, at small batches; it shrinks as batches grow."""


class ComputeInMemory(Answer):
    """A search in memory that compares while it reads."""

    search_s: Interval
    search_j: Interval
    area_mm2: float
    """Area of silicon that holds the vectors."""


class NearMemoryAnswer(Repeatable):
    """A model, or bytes, in on-chip memory or in memory that computes."""

    tier: str
    """Id in /v1/memory-tiers."""
    kind: str
    model: str | None
    stored_bytes: float
    """What is stored."""
    bytes_per_parameter: float | None
    """Stored bytes for each parameter; null where bytes were asked about."""
    on_chip: OnChip | None
    """Null if the memory is not on a chip."""
    processing_in_memory: ProcessingInMemory | None
    """Null if the memory does not compute."""
    compute_in_memory: ComputeInMemory | None
    """Null if the memory cannot search while it reads."""


class StoreSize(Answer):
    """A store at one point in time."""

    vectors: float
    """Number of vectors."""
    vectors_bytes: float
    """The vectors alone."""
    index_bytes: float
    """What finds them."""
    payload_bytes: float
    """What is stored beside them, such as texts."""
    total_bytes: float
    """All of it."""


class StoreAnswer(Repeatable):
    """Size and growth of a store of vectors, and what a retrieval adds."""

    at_start: StoreSize
    after: StoreSize
    """After the requested number of days."""
    growth_bytes_per_year: float
    """Growth before anything is forgotten; with retention_days it ends after these."""
    search_s: Interval | None
    """Search over all vectors at the tier's bandwidth; an index reads less."""
    embedding_model_bytes: float | None
    """Weights of the embedding model; null without one."""
    injected_tokens: int
    """Tokens that the retrieved chunks add to a prompt."""
    injected_kv_cache_bytes: float | None
    """Cache that these take; null without a model."""
