"""Sweeps of training runs: resolved and divided into chunks, which are evaluated one by one.

A chunk is some layouts of a model. Its runs are those that recommendations compare, with the
figures and intervals of single estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import making
from service.core.interval import Interval, exact, scale
from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.regions import in_regions, making_of_rows, site_of_rows
from service.core.search.rows import picked
from service.core.search.stack import Stacks
from service.core.search.training_candidates import (
    EvaluatedRuns,
    RunsEvaluation,
    TrainingAcceleratorOption,
    evaluate_runs,
    run_rows,
)
from service.estimation.recommendations.candidate_sets import CandidateTable
from service.estimation.recommendations.limits import (
    DIVIDES_BATCH,
    FORMATS_AND_POWER,
    MAKES_PROGRESS,
    OFFERED,
    WITHIN_DOMAIN,
)
from service.estimation.recommendations.metrics import ImpactTotals, with_memory_beside
from service.estimation.recommendations.search_context import PriceList, RegionGroup, region_groups
from service.estimation.recommendations.training.search import run_table
from service.estimation.recommendations.training.space import (
    ResolvedTrainingSearch,
    resolve_training_search,
    within_searched,
)
from service.estimation.sweeps.chunks import ENDS, Rows, ends_of, exclude
from service.estimation.sweeps.training_requests import TrainingSweepRequest

#: Columns of texts, of counts, of verdicts, and of figures, in the order of rows.
TEXTS = (
    *("model", "accelerator", "region", "weights", "method", "optimizer"),
    *("activation_checkpointing", "pipeline_schedule", "offload_optimizer"),
)
COUNTS = (
    *("accelerator_count", "tensor", "pipeline", "context", "expert", "data", "zero_stage"),
    *("virtual_stages", "micro_batch_size", "gradient_accumulation_steps"),
)
VERDICTS = ("fits", "meets_limits")
FIGURES = (
    *("total_bytes", "headroom_bytes", "step_s", "tokens_per_s", "mfu_ratio", "days"),
    *("accelerator_hours", "it_power_w", "it_energy_kwh", "facility_energy_kwh"),
    *("operational_gco2e", "total_gco2e", "total_l", "usd_per_hour", "usd"),
)

#: Configurations of a chunk, in all regions, at least: a few seconds on one core.
CHUNK_CONFIGURATIONS = 100_000


@dataclass(frozen=True, slots=True)
class RunChunk:
    """Layouts of a model, by their positions, and how many configurations they have."""

    model: int
    layouts: tuple[int, ...]
    configurations: int


@dataclass(frozen=True, slots=True)
class TrainingStudy:
    """A sweep of training with everything filled in that its request left open or referred to."""

    search: ResolvedTrainingSearch
    keep_all: bool
    chunks: tuple[RunChunk, ...]

    @property
    def configurations(self) -> int:
        """How many are evaluated in all."""
        return sum(chunk.configurations for chunk in self.chunks)


def resolve_training_study(
    request: TrainingSweepRequest, snapshot: CatalogSnapshot
) -> TrainingStudy:
    """Fill in a sweep of training from the catalog and divide it.

    Raises
    ------
    Rejected
        With every reference that is unknown and everything that contradicts itself.
    """
    search = resolve_training_search(within_searched(request.as_search(), snapshot), snapshot)
    return TrainingStudy(search, request.keep == "candidates", tuple(_chunks(search)))


def _chunks(search: ResolvedTrainingSearch) -> Iterator[RunChunk]:
    regions = len(search.context.regions)
    for model, (entry, space) in enumerate(zip(search.models, search.spaces, strict=True)):
        layouts: list[int] = []
        held = 0
        for at in range(len(space.layouts)):
            layers = entry.value.layer_count
            count = space.configurations(at, layers, search.demand) * regions
            if not count:
                continue
            layouts.append(at)
            held += count
            if held >= CHUNK_CONFIGURATIONS:
                yield RunChunk(model, tuple(layouts), held)
                layouts, held = [], 0
        if layouts:
            yield RunChunk(model, tuple(layouts), held)


def evaluate_run_chunk(study: TrainingStudy, chunk: RunChunk) -> Rows:
    """Evaluate the layouts of a chunk.

    Returns
    -------
    Rows
        In the order of layouts, ways to train, accelerators, micro-batches and regions.
    """
    search = study.search
    space, model = search.spaces[chunk.model], search.models[chunk.model].value
    excluded: Counter[str] = Counter()
    stacks: Stacks[TrainingAcceleratorOption] = Stacks(
        space.accelerators, search.context.infrastructure
    )
    texts = _texts(search)
    groups = region_groups(search.context)
    parts: list[Mapping[str, NDArray[Any]]] = []
    for layout_at in chunk.layouts:
        found = evaluate_runs(model, space, layout_at, search.demand, search.environment, stacks)
        _note_left_out(found, len(search.context.regions), excluded)
        for runs in found.batches:
            columns = _columns(study, chunk.model, runs, texts, groups, excluded)
            if columns is not None:
                parts.append(columns)
    kinds = column_types()
    return Rows(
        {name: np.concatenate([part[name] for part in parts]) for name in kinds}
        if parts
        else {name: np.empty(0, dtype=kind) for name, kind in kinds.items()},
        texts,
        dict(sorted(excluded.items())),
    )


def column_types() -> dict[str, type[np.generic]]:
    """Columns in order, with what their arrays hold; texts are positions."""
    return {
        **dict.fromkeys(TEXTS, np.int32),
        **dict.fromkeys(COUNTS, np.int64),
        **dict.fromkeys(VERDICTS, np.bool_),
        **{f"{name}{suffix}": np.float64 for name in FIGURES for _, suffix in ENDS},
    }


def _texts(search: ResolvedTrainingSearch) -> dict[str, tuple[str, ...]]:
    variants = [one for space in search.spaces for one in space.variants]
    settings = [one.settings for one in variants]
    return {
        "model": tuple(one.id for one in search.models),
        "accelerator": tuple(one.id for one in search.context.accelerators),
        "region": tuple(one.id for one in search.context.regions),
        "weights": tuple(dict.fromkeys(one.precision.weights.id for one in variants)),
        "method": tuple(dict.fromkeys(one.method for one in settings)),
        "optimizer": tuple(dict.fromkeys(one.optimizer for one in settings)),
        "activation_checkpointing": tuple(
            dict.fromkeys(one.activation_checkpointing for one in settings)
        ),
        "pipeline_schedule": tuple(dict.fromkeys(one.pipeline_schedule for one in settings)),
        "offload_optimizer": tuple(dict.fromkeys(one.offload.optimizer for one in settings)),
    }


def _note_left_out(found: RunsEvaluation, regions: int, excluded: Counter[str]) -> None:
    left, each = found.left_out, found.each * regions
    for reason, count in (
        ("weights_do_not_fit", len(left.too_small)),
        (WITHIN_DOMAIN.name, left.beyond_domain),
        (FORMATS_AND_POWER.name, left.unable),
        (DIVIDES_BATCH.name, left.undivided),
    ):
        if count:
            excluded[reason] += count * each


def _columns(
    study: TrainingStudy,
    model: int,
    runs: EvaluatedRuns,
    texts: Mapping[str, tuple[str, ...]],
    groups: tuple[RegionGroup, ...],
    excluded: Counter[str],
) -> Mapping[str, NDArray[Any]] | None:
    """Rows of a batch: runs within limits, in the regions within limits."""
    search = study.search
    regions = len(search.context.regions)
    table = run_table(run_rows(runs), model, search)
    fits = np.asarray(table.figures.headroom_ratio) >= 0.0
    fine = np.ones(len(runs), dtype=bool)
    exclude("fits", fits, fine, excluded, regions)
    for check in table.checks(table.figures):
        exclude(check.limit.name, check.values <= check.most, fine, excluded, regions)
    exclude(MAKES_PROGRESS.name, np.isfinite(table.metrics.seconds), fine, excluded, regions)
    kept = np.arange(len(runs)) if study.keep_all else np.flatnonzero(fine)
    if not len(kept):
        return None
    placed = _place_figures(search, table, runs, kept, groups)
    meets = _places_within(search, table, kept, fine[kept], placed, excluded)
    columns = {**_same(search, model, runs, texts, kept)}
    columns["fits"] = fits[kept]
    columns |= ends_of(picked(_run_figures(runs), kept), len(kept))
    columns = {name: np.repeat(column, regions) for name, column in columns.items()}
    columns |= ends_of(placed, len(kept) * regions)
    columns["region"] = np.tile(np.arange(regions), len(kept))
    columns["meets_limits"] = meets
    rows = slice(None) if study.keep_all else meets
    return {
        name: columns[name][rows].astype(kind, copy=False) for name, kind in column_types().items()
    }


def _same(
    search: ResolvedTrainingSearch,
    model: int,
    runs: EvaluatedRuns,
    texts: Mapping[str, tuple[str, ...]],
    kept: NDArray[np.intp],
) -> dict[str, NDArray[Any]]:
    """Texts and counts of the kept rows, without their places."""
    space = search.spaces[model]
    variant, layout = space.variants[runs.variant], space.layouts[runs.layout]
    settings, rows = variant.settings, np.ones(len(runs))
    words = {
        "weights": variant.precision.weights.id,
        "method": settings.method,
        "optimizer": settings.optimizer,
        "activation_checkpointing": settings.activation_checkpointing,
        "pipeline_schedule": settings.pipeline_schedule,
        "offload_optimizer": settings.offload.optimizer,
    }
    counts = {
        "model": model,
        "accelerator_count": layout.accelerator_count,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": layout.expert,
        "data": layout.data,
        "zero_stage": settings.zero_stage,
        "virtual_stages": settings.virtual_stages,
    }
    setup = runs.speed.setup
    return {
        **{name: np.full(len(kept), texts[name].index(word)) for name, word in words.items()},
        **{name: np.full(len(kept), count) for name, count in counts.items()},
        "accelerator": runs.offer[kept],
        "micro_batch_size": (rows * setup.micro_batch.sequences)[kept],
        "gradient_accumulation_steps": (rows * setup.settings.gradient_accumulation_steps)[kept],
    }


def _run_figures(runs: EvaluatedRuns) -> dict[str, Interval]:
    """Figures that do not depend on the place."""
    speed, run = runs.speed, runs.run
    return {
        "total_bytes": runs.memory.total_bytes,
        "headroom_bytes": runs.memory.headroom_bytes,
        "step_s": speed.step_s,
        "tokens_per_s": speed.tokens_per_s,
        "mfu_ratio": speed.mfu_ratio,
        "days": scale(run.wall_s, 1.0 / SECONDS_PER_DAY),
        "accelerator_hours": run.accelerator_hours,
        "it_power_w": runs.energy.power.it_power_w,
        "it_energy_kwh": runs.run_kwh,
    }


def _place_figures(
    search: ResolvedTrainingSearch,
    table: CandidateTable,
    runs: EvaluatedRuns,
    kept: NDArray[np.intp],
    groups: tuple[RegionGroup, ...],
) -> dict[str, Interval]:
    """Figures that depend on the place; rows by run, then region."""
    context, rows = search.context, np.ones(len(runs))
    around, regions = context.infrastructure, [entry.value for entry in context.regions]
    accelerators = [entry.value for entry in context.accelerators]
    embodied = [making(one, around).embodied_kgco2e for one in accelerators]
    offer = runs.offer[kept]

    def read(one: Footprint) -> dict[str, Interval | None]:
        return {
            "facility_energy_kwh": one.facility_energy_kwh,
            "operational_gco2e": one.operational_location_gco2e,
            "total_gco2e": one.total_location_gco2e,
            "total_l": one.water_total_l,
        }

    found = in_regions(
        picked(scale(runs.run_kwh, rows), kept),
        picked(scale(runs.run.accelerator_hours, rows), kept),
        with_memory_beside(
            making_of_rows(embodied, offer, around), table.metrics.beside_kgco2e[kept]
        ),
        regions,
        around,
        read,
        site_of_rows(accelerators, offer),
    )
    metrics = table.metrics.taken(kept)
    fixed = np.empty((len(kept), len(regions)))
    for group in groups:
        args = (metrics.offer, metrics.accelerators)
        price = (
            context.prices.owned(*args, metrics.beside_usd)
            if group.own
            else context.prices.rented(group.rents, *args, metrics.sharing)
        )
        fixed[:, group.regions] = price[0][:, np.newaxis]
    return found | _costs(context.prices, table, runs, kept, fixed, found["facility_energy_kwh"])


def _costs(
    prices: PriceList,
    table: CandidateTable,
    runs: EvaluatedRuns,
    kept: NDArray[np.intp],
    fixed: FloatArray,
    facility_kwh: Interval,
) -> dict[str, Interval]:
    """Price of an hour and of the run; ``fixed`` is that of an hour without electricity [USD/h]."""
    hours = table.hours[kept][:, np.newaxis]
    every = np.arange(fixed.shape[1], dtype=np.intp)
    metered = prices.metered_usd_per_kwh(runs.offer[kept][:, np.newaxis], every)
    wall = picked(scale(runs.run.wall_s, np.ones(len(runs))), kept)
    # Runs that never end have no price.
    with np.errstate(invalid="ignore"):
        drawn = np.asarray(facility_kwh.value).reshape(fixed.shape) * metered
        usd = fixed * hours + drawn
        hourly = usd / hours
        low, high = (np.asarray(end / wall.value)[:, np.newaxis] for end in (wall.low, wall.high))
        ends = (usd, usd * low, usd * high)
    return {"usd_per_hour": exact(hourly.ravel()), "usd": Interval(*(end.ravel() for end in ends))}


def _places_within(
    search: ResolvedTrainingSearch,
    table: CandidateTable,
    kept: NDArray[np.intp],
    fine: NDArray[np.bool_],
    placed: Mapping[str, Interval],
    excluded: Counter[str],
) -> NDArray[np.bool_]:
    """Which rows are within the limits of a place, of those whose run is fine."""
    regions = len(search.context.regions)
    remaining = np.repeat(fine, regions)
    offered = search.context.placeable[table.metrics.offer[kept]].ravel()
    exclude(OFFERED.name, offered, remaining, excluded, 1)
    rows = np.repeat(kept, regions)
    hourly = np.asarray(placed["usd_per_hour"].value)
    totals = ImpactTotals(
        np.asarray(placed["total_gco2e"].value),
        np.asarray(placed["total_l"].value),
        np.asarray(placed["usd"].value),
        np.asarray(placed["facility_energy_kwh"].value),
    )
    for figures in (table.priced(rows, hourly), table.in_place(rows, totals)):
        for check in table.checks(figures):
            exclude(check.limit.name, check.values <= check.most, remaining, excluded, 1)
    return remaining
