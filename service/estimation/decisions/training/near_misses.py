"""When no run meets the limits: what comes closest, and what would have to change."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.core.planning.training_candidates import TrainingCandidates
from service.estimation.decisions.training.field import SECONDS_PER_DAY, TrainingField
from service.estimation.decisions.training.space import ResolvedTrainingSearch

_MOST_LISTED = 5


def closest_runs(search: ResolvedTrainingSearch, found: TrainingField) -> list[dict[str, Any]]:
    """Runs by how far they are past their limits, each with what must change.

    Limits that depend on the place are taken as met, but for the budget: the lowest known price
    of each accelerator counts.
    """
    misses: list[tuple[float, dict[str, Any]]] = []
    for model_at, rows in enumerate(found.of_model):
        if len(rows):
            misses += _of_rows(search, model_at, rows)
        else:
            misses += _too_large(search, model_at, found)
    misses.sort(key=lambda miss: miss[0])
    listed: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, miss in misses:
        listed.setdefault((miss["model"], miss["accelerator"]), miss)
        if len(listed) == _MOST_LISTED:
            break
    return list(listed.values())


def _of_rows(
    search: ResolvedTrainingSearch, model_at: int, rows: TrainingCandidates
) -> list[tuple[float, dict[str, Any]]]:
    limits, ground = search.limits, search.ground
    memory = np.array([float(e.value.memory_bytes) for e in ground.accelerators])[rows.offer]
    prices = ground.prices.each_usd_per_hour()
    lacking = np.maximum(limits.headroom_ratio_at_least - rows.headroom_ratio, 0.0)
    over = {
        "context_length": (
            np.full(len(rows), search.demand.sequence_tokens),
            search.models[model_at].value.max_position_embeddings,
        ),
        "host_memory_bytes": (rows.host_bytes, search.host_memory_bytes),
        "days": (rows.wall_s / SECONDS_PER_DAY, limits.days),
        "usd": (np.nan_to_num(rows.accelerator_hours * prices[rows.offer]), limits.usd),
        "it_power_w": (rows.power_w, limits.it_power_w),
    }
    total = lacking.copy()
    for values, limit in over.values():
        if limit is not None:
            total += np.maximum(values / max(limit, 1e-9) - 1.0, 0.0)
    found = []
    for row in np.argsort(total, kind="stable")[: 20 * _MOST_LISTED]:
        if not np.isfinite(total[row]):
            break
        changes = [
            {"limit": name, "value": float(values[row]), "must_fall_by": float(values[row] - limit)}
            for name, (values, limit) in over.items()
            if limit is not None and values[row] > limit
        ]
        if lacking[row] > 0.0:
            changes.append(
                {
                    "limit": "memory_bytes",
                    "value": float(memory[row]),
                    "must_rise_by": float(lacking[row] * memory[row]),
                }
            )
        at = (int(rows.variant[row]), int(rows.layout[row]), int(rows.offer[row]))
        found.append((float(total[row]), _miss(search, model_at, at, changes)))
    return found


def _too_large(
    search: ResolvedTrainingSearch, model_at: int, found: TrainingField
) -> list[tuple[float, dict[str, Any]]]:
    misses = []
    ranked = sorted(found.too_large[model_at], key=lambda one: one.lacking_bytes)
    for large in ranked[: 20 * _MOST_LISTED]:
        memory = float(search.ground.accelerators[large.offer].value.memory_bytes)
        change = {"limit": "memory_bytes", "value": memory, "must_rise_by": large.lacking_bytes}
        at = (large.variant, large.layout, large.offer)
        misses.append((1.0 + large.lacking_bytes / memory, _miss(search, model_at, at, [change])))
    return misses


def _miss(
    search: ResolvedTrainingSearch,
    model_at: int,
    at: tuple[int, int, int],
    changes: list[dict[str, Any]],
) -> dict[str, Any]:
    space = search.spaces[model_at]
    variant, layout, offer = space.variants[at[0]], space.layouts[at[1]], at[2]
    return {
        "model": search.models[model_at].id,
        "accelerator": search.ground.accelerators[offer].id,
        "accelerator_count": layout.accelerator_count,
        "weights": variant.precision.weights.id,
        "method": variant.settings.method,
        "zero_stage": variant.settings.zero_stage,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "must_change": changes,
    }
