"""When nothing meets the limits: what comes closest, and what would have to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from service.core.elementwise import FloatArray
from service.core.search.rows import TooSmall
from service.estimation.recommendations.search_context import SearchContext

#: How far past its limits something is, and what it is with what must change.
Miss: TypeAlias = tuple[float, dict[str, Any]]
#: Figures by the limit that is held against each, None where it does not limit.
LimitCheck: TypeAlias = Mapping[str, tuple[FloatArray, float | None]]

_MOST_LISTED = 5
#: Looked at in each table, as several may be of the same accelerator.
_MOST_TRIED = 20 * _MOST_LISTED


def nearest(misses: Iterable[Miss]) -> list[dict[str, Any]]:
    """What is past its limits by least, one for each model and accelerator."""
    listed: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _, miss in sorted(misses, key=lambda miss: miss[0]):
        listed.setdefault((miss["model"], miss["accelerator"]), miss)
        if len(listed) == _MOST_LISTED:
            break
    return list(listed.values())


def past_limits(
    checks: LimitCheck,
    lacking_ratio: FloatArray,
    memory_bytes: FloatArray,
    describe: Callable[[int], dict[str, Any]],
) -> list[Miss]:
    """Rows by how far they are past their limits, each with what must change.

    Parameters
    ----------
    checks
        Figures of the rows, with their limits.
    lacking_ratio, memory_bytes
        Memory that is missing over that which there is [-], and that which there is [B].
    describe
        Says what a row is.
    """
    past = lacking_ratio.copy()
    for values, limit in checks.values():
        if limit is not None:
            past += np.maximum(values / limit - 1.0, 0.0) if limit > 0.0 else values > 0.0
    found = []
    for row in np.argsort(past, kind="stable")[:_MOST_TRIED]:
        if not np.isfinite(past[row]):
            break
        changes = [
            {"limit": name, "value": float(values[row]), "must_fall_by": float(values[row] - limit)}
            for name, (values, limit) in checks.items()
            if limit is not None and values[row] > limit
        ]
        if lacking_ratio[row] > 0.0:
            missing = float(lacking_ratio[row] * memory_bytes[row])
            changes.append(_more_memory(float(memory_bytes[row]), missing))
        found.append((float(past[row]), describe(int(row)) | {"must_change": changes}))
    return found


def beyond_memory(
    small: Sequence[TooSmall],
    context: SearchContext,
    describe: Callable[[TooSmall], dict[str, Any]],
) -> list[Miss]:
    """What does not even hold what it always must, by how much it lacks."""
    found = []
    for one in sorted(small, key=lambda one: one.lacking_bytes)[:_MOST_TRIED]:
        memory = float(context.accelerators[one.offer].value.memory_bytes)
        changes = [_more_memory(memory, one.lacking_bytes)]
        found.append((1.0 + one.lacking_bytes / memory, describe(one) | {"must_change": changes}))
    return found


def _more_memory(memory_bytes: float, missing_bytes: float) -> dict[str, Any]:
    return {"limit": "memory_bytes", "value": memory_bytes, "must_rise_by": missing_bytes}
