"""Evaluates one chunk of a sweep: figures with intervals, limits, what excluded the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.core.costs import usd_per_million_tokens
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import making
from service.core.interval import Interval, exact, scale
from service.core.performance.inference.goodput import TimeLimit
from service.core.search.batch_evaluation import AcceleratorOption, EvaluatedBatch, evaluate
from service.core.search.regions import in_regions, making_of_rows, site_of_rows
from service.core.search.rows import picked
from service.core.search.stack import Stacks
from service.core.years import HOURS_PER_MONTH, HOURS_PER_YEAR
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.limits import (
    FORMATS_AND_POWER,
    OFFERED,
    WITHIN_DOMAIN,
    CandidateFigures,
    limit_checks,
)
from service.estimation.recommendations.search_context import usd_per_hour_in_regions
from service.estimation.sweeps.plan import Block, Chunk, Study

#: Columns of texts, of counts, of verdicts, and of figures, in the order of rows.
TEXTS = ("model", "accelerator", "region", "weights", "kv_cache")
COUNTS = ("accelerator_count", "tensor", "pipeline", "expert", "data", "concurrency_per_replica")
VERDICTS = ("fits", "meets_limits")
FIGURES = (
    "total_bytes",
    "headroom_bytes",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "output_tokens_per_s",
    "requests_per_s",
    "it_energy_per_request_wh",
    "it_power_w",
    "operational_gco2e_per_1k_tokens",
    "gco2e_per_1k_tokens",
    "l_per_1k_tokens",
    "kwh_per_year",
    "kgco2e_per_year",
    "l_per_year",
    "rented_usd_per_hour",
    "rented_usd_per_million_output_tokens",
)
#: What follows the name of a figure in that of its column: value, low, high.
ENDS = (("value", ""), ("low", "_low"), ("high", "_high"))

_TOKENS_PER_BASIS = 1000.0
#: Numbers of replicas that come to the same as one which is tried, or to more than there may be.
OTHER_SIZES = "replicas_not_tried"
_TIMES_S = ("ttft_s", "tpot_s", "e2e_s")

_Columns: TypeAlias = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a chunk keeps, and how many configurations each reason excluded.

    The same of sweeps of serving and of training, whose columns differ.

    ``columns`` hold, for texts, positions in ``texts``; a figure has a column for its value and
    two for its ends, NaN where a factor is unknown. Every configuration is a row or is counted
    under the first reason against it; with all candidates kept, those that miss a limit are both.
    """

    columns: _Columns
    texts: Mapping[str, tuple[str, ...]]
    excluded: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.columns["fits"])


def evaluate_chunk(study: Study, chunk: Chunk) -> Rows:
    """Evaluate the blocks of a chunk.

    Returns
    -------
    Rows
        In the order of models, layouts, formats, accelerators, concurrency, accelerator counts
        and regions.
    """
    formats = [one for space in study.spaces for one in space.precisions]
    texts = {
        "model": tuple(name for name, _ in study.models),
        "accelerator": tuple(name for name, _ in study.accelerators),
        "region": tuple(name for name, _ in study.regions),
        "weights": tuple(dict.fromkeys(one.weights.id for one in formats)),
        "kv_cache": tuple(dict.fromkeys(one.kv_cache.id for one in formats)),
    }
    excluded: Counter[str] = Counter()
    stacks: dict[tuple[int, int], Stacks[AcceleratorOption]] = {}
    parts = [
        part for block in chunk.blocks for part in _block(study, block, texts, excluded, stacks)
    ]
    return Rows(
        {name: np.concatenate([part[name] for part in parts]) for name in column_types()}
        if parts
        else {name: np.empty(0, dtype=kind) for name, kind in column_types().items()},
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


def _block(
    study: Study,
    block: Block,
    texts: Mapping[str, tuple[str, ...]],
    excluded: Counter[str],
    stacks: dict[tuple[int, int], Stacks[AcceleratorOption]],
) -> list[_Columns]:
    whole = study.spaces[block.model]
    space = replace(whole, accelerators=whole.accelerators[block.first : block.last])
    part = (block.first, block.last)
    if part not in stacks:
        stacks[part] = Stacks(space.accelerators, study.environment.infrastructure)
    layout, precision = space.layouts[block.layout], space.precisions[block.precision]
    each = study.each(space, layout) * len(study.regions)
    architecture = study.models[block.model][1]
    structure = (block.layout, block.precision, 0)
    found = evaluate(architecture, space, structure, study.demand, study.environment, stacks[part])
    for reason, count in (
        ("weights_do_not_fit", len(found.too_small)),
        (WITHIN_DOMAIN.name, found.beyond_domain),
        (FORMATS_AND_POWER.name, found.unable),
    ):
        if count:
            excluded[reason] += count * each
    for batch in found.batches:
        # Of numbers of replicas that come to the same, or to more than may be, one is tried.
        alike = len(np.unique(batch.accelerator)) * each - len(batch) * len(study.regions)
        if alike:
            excluded[OTHER_SIZES] += alike
    same = {
        "model": block.model,
        "weights": texts["weights"].index(precision.weights.id),
        "kv_cache": texts["kv_cache"].index(precision.kv_cache.id),
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "expert": layout.expert,
    }
    batches = [_batch(study, batch, block.first, same, excluded) for batch in found.batches]
    parts = [columns for columns in batches if columns is not None]
    if not parts:
        return []
    # What was alike was evaluated together; rows go by accelerator.
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined["accelerator"], kind="stable")
    return [{name: column[order] for name, column in joined.items()}]


def _batch(
    study: Study, found: EvaluatedBatch, first: int, same: Mapping[str, int], excluded: Counter[str]
) -> _Columns | None:
    """Rows of a batch: configurations within limits, in the regions within limits."""
    offer = found.accelerator + first
    of_configuration = _configuration_figures(found)
    fine = _configurations_within(study, found, of_configuration, excluded)
    kept = (
        np.arange(len(found))[found.accelerators <= study.spaces[0].most_accelerators]
        if study.keep_all
        else np.flatnonzero(fine)
    )
    if not len(kept):
        return None
    regions = len(study.regions)
    of_place = _place_figures(study, found, offer, kept, same["tensor"])
    offered = study.placeable[offer[kept]].ravel()
    place_fine = _places_within(study, of_place, fine[kept], offered, excluded)
    meets = np.repeat(fine[kept], regions) & place_fine
    columns: dict[str, NDArray[Any]] = {
        "accelerator": offer[kept],
        "accelerator_count": found.accelerators[kept],
        "data": found.replicas[kept],
        "concurrency_per_replica": found.concurrency_per_replica[kept],
        "fits": np.broadcast_to(found.estimate.fits, len(found))[kept],
        **{name: np.full(len(kept), value) for name, value in same.items()},
        **ends_of(picked(of_configuration, kept), len(kept)),
    }
    columns = {name: np.repeat(column, regions) for name, column in columns.items()}
    columns |= ends_of(of_place, len(kept) * regions)
    columns["region"] = np.tile(np.arange(regions), len(kept))
    columns["meets_limits"] = meets
    rows = slice(None) if study.keep_all else meets
    return {
        name: columns[name][rows].astype(kind, copy=False) for name, kind in column_types().items()
    }


def _configuration_figures(found: EvaluatedBatch) -> dict[str, Interval]:
    """Figures that do not depend on the place, over all replicas."""
    memory, latency = found.estimate.memory, found.estimate.latency
    return {
        "total_bytes": memory.total_bytes,
        "headroom_bytes": found.estimate.room.headroom_bytes,
        "ttft_s": latency.ttft_s,
        "tpot_s": latency.tpot_s,
        "e2e_s": latency.e2e_s,
        "output_tokens_per_s": scale(latency.output_tokens_per_s, found.replicas),
        "requests_per_s": scale(latency.requests_per_s, found.replicas),
        "it_energy_per_request_wh": found.energy.request.it_wh,
        "it_power_w": scale(found.energy.power.it_power_w, found.replicas),
    }


def _configurations_within(
    study: Study, found: EvaluatedBatch, figures: Mapping[str, Interval], excluded: Counter[str]
) -> NDArray[np.bool_]:
    """Which configurations are within the limits that do not depend on the place."""
    memory, latency = found.estimate.memory, found.estimate.latency
    free = np.asarray(found.estimate.room.headroom_bytes.value / memory.capacity_bytes)
    within_limits = np.ones(len(found), dtype=bool)
    each = len(study.regions)
    most = study.spaces[0].most_accelerators
    exclude("max_accelerators", found.accelerators <= most, within_limits, excluded, each)
    exclude("fits", np.asarray(found.estimate.fits), within_limits, excluded, each)
    checked = CandidateFigures(
        headroom_ratio=free,
        missing_replicas=found.needed_replicas - found.replicas,
        **{
            name: np.asarray(TimeLimit(name, study.limits.percentile, inf).figure_s(latency))
            for name in _TIMES_S
        },
        task_s=np.asarray(latency.task_s.value),
        it_power_w=np.asarray(figures["it_power_w"].value),
    )
    _exclude_past_limits(study, checked, within_limits, excluded, each)
    return within_limits


def _place_figures(
    study: Study,
    found: EvaluatedBatch,
    offer: NDArray[np.intp],
    kept: NDArray[np.intp],
    tensor: int,
) -> dict[str, Interval]:
    """Figures that depend on the place; rows by configuration, then region."""
    around = study.environment.infrastructure
    embodied = [making(value, around).embodied_kgco2e for _, value in study.accelerators]
    regions = [region for _, region in study.regions]
    site = site_of_rows([one for _, one in study.accelerators], offer[kept])
    energy = picked(found.energy, kept)
    made = energy.made(making_of_rows(embodied, offer[kept], around))
    per_1k = _TOKENS_PER_BASIS / study.demand.output_tokens

    def of_request(one: Footprint) -> dict[str, Interval | None]:
        return {
            "operational_gco2e_per_1k_tokens": _times(one.operational_location_gco2e, per_1k),
            "gco2e_per_1k_tokens": _times(one.total_location_gco2e, per_1k),
            "l_per_1k_tokens": _times(one.water_total_l, per_1k),
        }

    def of_hour(one: Footprint) -> dict[str, Interval | None]:
        return {
            "kwh_per_year": scale(one.facility_energy_kwh, HOURS_PER_YEAR),
            "kgco2e_per_year": _times(one.total_location_gco2e, HOURS_PER_YEAR * 1e-3),
            "l_per_year": _times(one.water_total_l, HOURS_PER_YEAR),
        }

    group = np.full(len(kept), tensor)
    rent = exact(
        usd_per_hour_in_regions(study.prices, offer[kept], found.accelerators[kept], group).ravel()
    )
    ended_per_s = _repeated(scale(energy.requests_per_s, energy.copies), len(regions))
    return {
        **in_regions(
            energy.request_kwh, energy.request_hours, made, regions, around, of_request, site
        ),
        **in_regions(energy.hour_kwh, energy.hour_hours, made, regions, around, of_hour, site),
        "rented_usd_per_hour": rent,
        "rented_usd_per_million_output_tokens": usd_per_million_tokens(
            rent, ended_per_s, study.demand.output_tokens
        ),
    }


def _repeated(figure: Interval, times: int) -> Interval:
    return Interval(
        *(np.repeat(np.asarray(end), times) for end in (figure.value, figure.low, figure.high))
    )


def _places_within(
    study: Study,
    figures: Mapping[str, Interval],
    fine: NDArray[np.bool_],
    offered: NDArray[np.bool_],
    excluded: Counter[str],
) -> NDArray[np.bool_]:
    """Which rows are within the limits of a place, of those whose configuration is fine.

    A figure that is unknown cannot be said to be within its limit.
    """
    within_limits = np.repeat(fine, len(study.regions))
    exclude(OFFERED.name, offered, within_limits, excluded, 1)
    hourly = np.asarray(figures["rented_usd_per_hour"].value)
    known = (region.water_stress_ratio for _, region in study.regions)
    stress = np.array([np.nan if one is None else float(one.value) for one in known])
    checked = CandidateFigures(
        usd_per_hour=hourly,
        usd_per_month=hourly * HOURS_PER_MONTH,
        water_stress_ratio=np.tile(stress, len(hourly) // len(stress)),
        kgco2e=np.asarray(figures["kgco2e_per_year"].value),
        litres=np.asarray(figures["l_per_year"].value),
    )
    _exclude_past_limits(study, checked, within_limits, excluded, 1)
    return within_limits


def _exclude_past_limits(
    study: Study,
    figures: CandidateFigures,
    remaining: NDArray[np.bool_],
    excluded: Counter[str],
    each: int,
) -> None:
    for check in limit_checks(DEPLOYMENT_LIMITS, figures, study.bounds):
        exclude(check.limit.name, check.values <= check.most, remaining, excluded, each)


def exclude(
    reason: str,
    within: NDArray[np.bool_],
    remaining: NDArray[np.bool_],
    excluded: Counter[str],
    each: int,
) -> None:
    """Take what is not within a limit from the remaining, in place, and count it."""
    lost = int(np.count_nonzero(remaining & ~within))
    if lost:
        excluded[reason] += lost * each
    remaining &= within


def _times(figure: Interval | None, factor: float) -> Interval | None:
    return None if figure is None else scale(figure, factor)


def ends_of(figures: Mapping[str, Interval], rows: int) -> dict[str, NDArray[Any]]:
    """Columns of figures, one for each end."""
    return {
        f"{name}{suffix}": np.broadcast_to(np.asarray(getattr(one, end), dtype=float), rows)
        for name, one in figures.items()
        for end, suffix in ENDS
    }
