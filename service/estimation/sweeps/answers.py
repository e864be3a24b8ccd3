"""Answers about sweeps, and their rows."""

from __future__ import annotations

from typing import Literal

from service.core.memory.training.settings import Checkpointing, Optimizer, Schedule
from service.estimation.answers import Answer, AskedAs, Interval


class SweepProgress(Answer):
    """Progress of a sweep."""

    chunks: int
    """Parts that the work is divided into."""
    chunks_done: int
    """Parts that are done."""
    configurations: int
    """Configurations to evaluate."""
    configurations_done: int
    """Configurations that are evaluated."""
    done_ratio: float
    """Share of the configurations that is done."""
    rows: int
    """Rows stored so far."""


class SweepExclusion(Answer):
    """Why configurations have no row or do not meet the limits; each is counted once."""

    reason: str
    """A limit, fits, carries_the_load, max_accelerators, weights_do_not_fit,
    format_or_power_unknown, tensor_parallel_group_within_scale_up_domain, or replicas_not_tried:
    numbers of replicas that come to the same as one which is tried, or to more than may be."""
    configurations: int
    """How many there are."""


class SweepState(Answer):
    """A study with its progress, without what was asked."""

    id: str
    name: str | None
    """As the request gives it; null without one."""
    status: Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]
    problem: str | None
    """Why it failed."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    """When results will be deleted, once there are any."""
    catalog_revision: int
    engine_version: str
    progress: SweepProgress
    excluded: list[SweepExclusion]
    events_path: str
    """Where its events are told as they come."""
    results_path: str
    """Where its rows are, once there are any."""


class Sweep(SweepState):
    """A study with its progress."""

    request: AskedAs


class SweepNews(SweepState):
    """Data of the events progress, whenever something has changed, and finished, the last one."""

    event: Literal["progress", "finished"]
    """Which event it is the data of."""


class SweepInterruption(Answer):
    """Data of the event reconnect: the process stops, another one goes on telling."""

    event: Literal["reconnect"]
    """Which event it is the data of."""
    detail: str
    """What happens, in words."""


class SweepFigures(Answer):
    """Figures of a row; null where a factor is unknown."""

    total_bytes: Interval
    """On the fullest accelerator."""
    headroom_bytes: Interval
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    output_tokens_per_s: Interval
    """All replicas at full load."""
    requests_per_s: Interval
    """All replicas at full load."""
    it_energy_per_request_wh: Interval
    it_power_w: Interval
    """Of all accelerators with their hosts, without PUE."""
    operational_gco2e_per_1k_tokens: Interval | None
    """Location-based, operation only."""
    gco2e_per_1k_tokens: Interval | None
    """Location-based, operation and manufacturing of hardware."""
    l_per_1k_tokens: Interval | None
    kwh_per_year: Interval
    """Energy of the facility."""
    kgco2e_per_year: Interval | None
    l_per_year: Interval | None
    rented_usd_per_hour: Interval | None
    """At your own prices, else at list prices if list_prices is set."""
    rented_usd_per_million_output_tokens: Interval | None


class SweepRow(Answer):
    """A configuration in a place."""

    model: str
    accelerator: str
    region: str
    weights: str
    kv_cache: str
    accelerator_count: int
    tensor: int
    pipeline: int
    expert: int
    data: int
    """Replicas."""
    concurrency_per_replica: int
    """Sequences that a replica runs at once."""
    fits: bool
    """Whether it fits in memory."""
    meets_limits: bool
    """Whether it meets all limits and carries the load."""
    figures: SweepFigures


class TrainingSweepFigures(Answer):
    """Figures of a run; null where a factor is unknown or the run never ends."""

    total_bytes: Interval
    """On the fullest accelerator."""
    headroom_bytes: Interval
    step_s: Interval
    tokens_per_s: Interval
    """Of all accelerators."""
    mfu_ratio: Interval
    days: Interval | None
    """Duration of the run, failures included."""
    accelerator_hours: Interval | None
    it_power_w: Interval
    """Of all accelerators with their hosts, without PUE."""
    it_energy_kwh: Interval | None
    facility_energy_kwh: Interval | None
    operational_gco2e: Interval | None
    """Location-based, operation only."""
    total_gco2e: Interval | None
    """Location-based, operation and manufacturing of hardware."""
    total_l: Interval | None
    usd_per_hour: Interval | None
    """Rent of whole instances, at your own or list prices; in places of your own, what owning the
    hardware and its electricity cost."""
    usd: Interval | None
    """Of the whole run."""


class TrainingSweepRow(Answer):
    """A training run in a place."""

    model: str
    accelerator: str
    region: str
    weights: str
    method: Literal["full", "lora", "qlora"]
    optimizer: Optimizer
    activation_checkpointing: Checkpointing
    pipeline_schedule: Schedule
    offload_optimizer: Literal["none", "cpu", "nvme", "tier"]
    accelerator_count: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    data: int
    zero_stage: int
    virtual_stages: int
    """Stages a rank in an interleaved schedule."""
    micro_batch_size: int
    gradient_accumulation_steps: int
    fits: bool
    """Whether it fits in memory."""
    meets_limits: bool
    """Whether it meets all limits."""
    figures: TrainingSweepFigures


class SweepRowPage(Answer):
    """Rows in the order of models, layouts, formats, accelerators, concurrency, counts, regions."""

    id: str
    catalog_revision: int
    engine_version: str
    rows: int
    """Number of rows over all pages."""
    items: list[SweepRow]
    next_cursor: str | None


class TrainingSweepRowPage(Answer):
    """Rows by models, layouts, ways to train, accelerators, micro-batches, regions."""

    id: str
    catalog_revision: int
    engine_version: str
    rows: int
    """Number of rows over all pages."""
    items: list[TrainingSweepRow]
    next_cursor: str | None
