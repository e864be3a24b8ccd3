"""Answers about sweeps, and their rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.estimation.answers import Answer, AskedAs, Interval


class SweepProgress(Answer):
    """Progress of a sweep."""

    chunks: int
    chunks_done: int
    configurations: int
    configurations_done: int
    done_ratio: float
    rows: Annotated[int, Field(description="Rows stored so far.")]


class SweepExclusion(Answer):
    """Why configurations have no row or do not meet the limits; each is counted once."""

    reason: Annotated[
        str,
        Field(
            description="A limit, fits, carries_the_load, max_accelerators, weights_do_not_fit, "
            "format_or_power_unknown or tensor_parallel_group_within_scale_up_domain."
        ),
    ]
    configurations: int


class Sweep(Answer):
    """A study with its progress."""

    id: str
    name: str | None
    status: Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]
    problem: Annotated[str | None, Field(description="Why it failed.")]
    created_at: str
    started_at: str | None
    finished_at: str | None
    expires_at: Annotated[
        str | None, Field(description="When results will be deleted, once there are any.")
    ]
    catalog_revision: int
    engine_version: str
    progress: SweepProgress
    excluded: list[SweepExclusion]
    request: AskedAs
    events_path: str
    results_path: str


class SweepFigures(Answer):
    """Figures of a row; null where a factor is unknown."""

    total_bytes: Annotated[Interval, Field(description="On the fullest accelerator.")]
    headroom_bytes: Interval
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    output_tokens_per_s: Annotated[Interval, Field(description="All replicas at full load.")]
    requests_per_s: Annotated[Interval, Field(description="All replicas at full load.")]
    it_energy_per_request_wh: Interval
    it_power_w: Annotated[
        Interval, Field(description="Of all accelerators with their hosts, without PUE.")
    ]
    operational_gco2e_per_1k_tokens: Annotated[
        Interval | None, Field(description="Location-based, operation only.")
    ]
    gco2e_per_1k_tokens: Annotated[
        Interval | None,
        Field(description="Location-based, operation and manufacturing of hardware."),
    ]
    l_per_1k_tokens: Interval | None
    kwh_per_year: Annotated[Interval, Field(description="Energy of the facility.")]
    kgco2e_per_year: Interval | None
    l_per_year: Interval | None
    rented_usd_per_hour: Annotated[
        Interval | None,
        Field(description="At your own prices, else at list prices if list_prices is set."),
    ]
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
    data: Annotated[int, Field(description="Replicas.")]
    concurrency_per_replica: int
    fits: Annotated[bool, Field(description="Whether it fits in memory.")]
    meets_limits: Annotated[
        bool, Field(description="Whether it meets all limits and carries the load.")
    ]
    figures: SweepFigures


class SweepRowPage(Answer):
    """Rows in the order of models, layouts, formats, accelerators, concurrency, counts, regions."""

    id: str
    catalog_revision: int
    engine_version: str
    rows: Annotated[int, Field(description="Number of rows over all pages.")]
    items: list[SweepRow]
    next_cursor: str | None
