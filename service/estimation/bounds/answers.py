"""Answers about the limits of hardware."""

from __future__ import annotations

from typing import Literal

from service.estimation.answers import Answer, Interval, Repeatable
from service.estimation.impacts.answers import Impact
from service.estimation.platforms import Facility

Limit = Literal["compute", "memory_bandwidth"]


class HeldMemory(Answer):
    """What has to be held, and what there is."""

    weights_bytes: float
    """Weights of the whole model."""
    kv_cache_bytes: float
    """Caches of all sequences at the end of their answers."""
    held_bytes: float
    """Weights and caches together."""
    memory_bytes: float
    """Memory of one accelerator."""
    least_accelerator_count: int
    """Accelerators whose memory holds all this, with nothing left for programs and activations."""
    fits: bool
    """Whether all accelerators together hold it."""


class SpeedLimits(Answer):
    """Times that no software can beat, and rates that none can exceed. They are no estimates."""

    least_ttft_s: float
    """For one prompt, all accelerators at once."""
    ttft_limit: Limit
    """What sets it."""
    least_tpot_s: float | None
    """With all sequences in flight and all accelerators at once; null where nothing is
    generated."""
    tpot_limit: Limit | None
    """What sets it; null where nothing is generated."""
    least_tpot_in_turn_s: float | None
    """The same where accelerators work one after another, each on its layers."""
    most_output_tokens_per_s_per_user: float | None
    """Of one sequence; null where nothing is generated."""
    most_output_tokens_per_s: float | None
    """Of all sequences."""


class BoundsAnswer(Repeatable):
    """What hardware allows at most for a model, and what it draws and emits in a year."""

    model: str
    accelerator: str
    accelerator_count: int
    """Accelerators that were asked about, or as few as hold the model."""
    region: str | None
    engines: list[str]
    """Engines that estimates exist for on this accelerator; empty where only its maker's software
    runs, so that these limits are all that can be said of its speed."""
    memory: HeldMemory
    speed: SpeedLimits
    facility: Facility
    it_power_w: Interval | None
    """Of all accelerators with their machines, in use: value at a usual load, low at a light one,
    high at a full one. Null if no power is published."""
    per_year: Impact | None
    """A year of that power, and of the hardware's life."""
