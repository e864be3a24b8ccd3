"""When nothing meets the limits: what comes closest, and what would have to change."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.core.planning.inference_candidates import Candidates
from service.estimation.decisions.field import Field
from service.estimation.decisions.space import ResolvedSearch

_MOST_LISTED = 5


def least_violating(search: ResolvedSearch, found: Field) -> list[dict[str, Any]]:
    """Configurations by how far they are past their limits, each with what must change.

    Limits that depend on the place are taken as met: no place can help a configuration that
    misses others.
    """
    misses: list[tuple[float, dict[str, Any]]] = []
    for model_at, rows in enumerate(found.of_model):
        if len(rows):
            misses += _of_rows(search, model_at, rows)
        else:
            misses += _too_small(search, model_at, found)
    misses.sort(key=lambda miss: miss[0])
    listed: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, miss in misses:
        listed.setdefault((miss["model"], miss["accelerator"]), miss)
        if len(listed) == _MOST_LISTED:
            break
    return list(listed.values())


def _of_rows(
    search: ResolvedSearch, model_at: int, rows: Candidates
) -> list[tuple[float, dict[str, Any]]]:
    limits = search.limits
    memory_bytes = np.array([float(e.value.memory_bytes) for e in search.accelerators])[rows.offer]
    lacking = np.maximum(limits.headroom_ratio_at_least - rows.headroom_ratio, 0.0)
    architecture = search.models[model_at].value
    over = {
        "context_length": (
            np.full(len(rows), search.demand.input_tokens + search.demand.output_tokens),
            search.around.serving.max_model_len or architecture.max_position_embeddings,
        ),
        "ttft_s": (rows.ttft_s, limits.ttft_s),
        "tpot_s": (rows.tpot_s, limits.tpot_s),
        "e2e_s": (rows.e2e_s, limits.e2e_s),
        "task_s": (rows.e2e_s * search.demand.calls_per_task, limits.task_s),
        "it_power_w": (rows.power_w, limits.it_power_w),
    }
    total = lacking.copy()
    for values, limit in over.values():
        if limit is not None:
            total += np.maximum(values / limit - 1.0, 0.0)
    found = []
    for row in np.argsort(total, kind="stable")[: 20 * _MOST_LISTED]:
        changes = [
            {"limit": name, "value": float(values[row]), "must_fall_by": float(values[row] - limit)}
            for name, (values, limit) in over.items()
            if limit is not None and values[row] > limit
        ]
        if lacking[row] > 0.0:
            changes.append(
                {
                    "limit": "memory_bytes",
                    "value": float(memory_bytes[row]),
                    "must_rise_by": float(lacking[row] * memory_bytes[row]),
                }
            )
        found.append((float(total[row]), _miss(search, model_at, rows, int(row), changes)))
    return found


def _too_small(
    search: ResolvedSearch, model_at: int, found: Field
) -> list[tuple[float, dict[str, Any]]]:
    space = search.spaces[model_at]
    misses = []
    for small in sorted(found.too_small[model_at], key=lambda one: one.lacking_bytes)[
        :_MOST_LISTED
    ]:
        entry = search.accelerators[small.offer]
        memory = float(entry.value.memory_bytes)
        layout = space.layouts[small.layout]
        miss = {
            "model": search.models[model_at].id,
            "accelerator": entry.id,
            "accelerator_count": layout.replica_accelerators,
            "weights": space.precisions[small.precision].weights.id,
            "tensor": layout.tensor,
            "pipeline": layout.pipeline,
            "must_change": [
                {"limit": "memory_bytes", "value": memory, "must_rise_by": small.lacking_bytes}
            ],
        }
        misses.append((1.0 + small.lacking_bytes / memory, miss))
    return misses


def _miss(
    search: ResolvedSearch,
    model_at: int,
    rows: Candidates,
    row: int,
    changes: list[dict[str, Any]],
) -> dict[str, Any]:
    space = search.spaces[model_at]
    layout = space.layouts[rows.layout[row]]
    return {
        "model": search.models[model_at].id,
        "accelerator": search.accelerators[rows.offer[row]].id,
        "accelerator_count": int(rows.accelerators[row]),
        "weights": space.precisions[rows.precision[row]].weights.id,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "must_change": changes,
    }
