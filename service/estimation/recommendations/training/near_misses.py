"""Runs that come closest to limits which none of them meets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from service.core.search.rows import TooSmall
from service.core.search.training_candidates import TrainingCandidates
from service.core.years import HOURS_PER_MONTH
from service.estimation.recommendations.limits import limit_checks
from service.estimation.recommendations.near_misses import (
    Miss,
    beyond_memory,
    in_least_places,
    lowest_prices,
    nearest,
    past_limits,
)
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.training.limits import RUN_LIMITS
from service.estimation.recommendations.training.search import (
    KG_PER_GRAM,
    UNITS,
    metric_rows,
    run_figures,
)
from service.estimation.recommendations.training.space import ResolvedTrainingSearch


def closest_runs(
    search: ResolvedTrainingSearch, found: SearchResult[TrainingCandidates]
) -> list[dict[str, Any]]:
    """Runs by how far they are past their limits, each with what must change.

    Prices are the lowest known of each accelerator; with a limit of carbon or water, all figures
    are those of the place, of those open to the accelerator, where a kWh takes least of it.
    """
    misses: list[Miss] = []
    for model_at, rows in enumerate(found.by_model):
        misses += _misses_of_model(search, model_at, rows, found.left_out[model_at].too_small)
    return nearest(misses)


def _misses_of_model(
    search: ResolvedTrainingSearch,
    model_at: int,
    rows: TrainingCandidates,
    small: tuple[TooSmall, ...],
) -> list[Miss]:
    model, space, context = search.models[model_at], search.spaces[model_at], search.context

    def described(offer: int, variant_at: int, layout_at: int) -> dict[str, Any]:
        variant, layout = space.variants[variant_at], space.layouts[layout_at]
        return {
            "model": model.id,
            "accelerator": context.accelerators[offer].id,
            "accelerator_count": layout.accelerator_count,
            "weights": variant.precision.weights.id,
            "method": variant.settings.method,
            "zero_stage": variant.settings.zero_stage,
            "tensor": layout.tensor,
            "pipeline": layout.pipeline,
        }

    if not len(rows):
        return beyond_memory(
            small, context, lambda one: described(one.offer, one.choice, one.layout)
        )
    bounds = search.bounds(model.value)
    figures = run_figures(rows, search)
    if bounds["kgco2e"] is None and bounds["litres"] is None:
        usd_per_hour = lowest_prices(context, rows.offer, rows.accelerators)
    else:
        compared = metric_rows(rows, model_at, search)
        there = in_least_places(compared, context, UNITS, of_water=bounds["kgco2e"] is None)
        usd_per_hour = there.usd_per_hour
        figures = replace(figures, kgco2e=there.carbon_g * KG_PER_GRAM, litres=there.water_l)
    known = np.nan_to_num(usd_per_hour, nan=np.inf)
    figures = replace(
        figures,
        usd=known * rows.accelerator_hours / np.maximum(rows.accelerators, 1.0),
        usd_per_hour=known,
        usd_per_month=known * HOURS_PER_MONTH,
    )
    return past_limits(
        list(limit_checks(RUN_LIMITS, figures, bounds)),
        np.maximum(search.limits.headroom_ratio_at_least - rows.headroom_ratio, 0.0),
        context.memory_bytes()[rows.offer],
        usd_per_hour,
        lambda row: described(int(rows.offer[row]), int(rows.variant[row]), int(rows.layout[row])),
    )
