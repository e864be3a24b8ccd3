"""Answers about retrieval, end to end."""

from __future__ import annotations

from typing import Literal

from service.estimation.answers import Answer, Interval, Repeatable

StageName = Literal["embedding", "search", "injection", "generation"]


class RetrievalStage(Answer):
    """One stage of an answer; null where it is left out or not known."""

    name: StageName
    """The stage."""
    seconds_s: Interval | None
    """Time that users wait for it; of injection what the context adds to that of generation, to the
    first token and between tokens."""
    it_energy_wh: Interval | None
    """Of one task."""
    gco2e: Interval | None
    """Of one task: electricity as the grid is, and manufacturing; null where either is not known,
    and of the search."""


class RetrievalTotal(Answer):
    """All stages together; null where embedding or generation are not known."""

    seconds_s: Interval | None
    it_energy_wh: Interval | None
    gco2e: Interval | None


class RetrievalYear(Answer):
    """All stages over a year."""

    tasks: float
    """Answers in a year."""
    it_energy_kwh: Interval | None
    kgco2e: Interval | None


class RetrievalAnswer(Repeatable):
    """Answers with retrieved context: time, energy and carbon by stage."""

    region: str | None
    """Null where none was asked for."""
    injected_tokens: int
    """Tokens that the retrieved chunks add to the prompt."""
    injected_kv_cache_bytes: float | None
    """Cache of what is injected, over all ranks of a replica; null where nothing is kept."""
    store_bytes: float | None
    """Size of the store that is searched; null if nothing says."""
    fits: bool
    """Whether the generation fits with what is injected."""
    stages: list[RetrievalStage]
    ttft_s: Interval | None
    """Embedding, search, and the time to the first token with what is injected."""
    per_task: RetrievalTotal
    per_year: RetrievalYear
    """At workload.requests_per_s, else as many as the deployment answers."""
