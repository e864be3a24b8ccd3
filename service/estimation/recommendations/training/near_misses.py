"""Runs that come closest to limits which none of them meets."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.core.performance.training.run import SECONDS_PER_DAY
from service.core.search.rows import TooSmall
from service.core.search.training_candidates import TrainingCandidates
from service.estimation.recommendations.near_misses import Miss, beyond_memory, nearest, past_limits
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.training.space import ResolvedTrainingSearch


def closest_runs(
    search: ResolvedTrainingSearch, found: SearchResult[TrainingCandidates]
) -> list[dict[str, Any]]:
    """Runs by how far they are past their limits, each with what must change.

    Limits that depend on the place are taken as met, but for the budget: the lowest known price
    of each accelerator counts.
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
    limits = search.limits
    tokens = np.full(len(rows), search.demand.sequence_tokens)
    usd = rows.accelerator_hours * context.prices.each_usd_per_hour()[rows.offer]
    return past_limits(
        {
            "context_length": (tokens, model.value.max_position_embeddings),
            "host_memory_bytes": (rows.host_bytes, search.host_memory_bytes),
            "days": (rows.wall_s / SECONDS_PER_DAY, limits.days),
            "usd": (np.nan_to_num(usd), limits.usd),
            "it_power_w": (rows.power_w, limits.it_power_w),
        },
        np.maximum(limits.headroom_ratio_at_least - rows.headroom_ratio, 0.0),
        context.memory_bytes()[rows.offer],
        lambda row: described(int(rows.offer[row]), int(rows.variant[row]), int(rows.layout[row])),
    )
