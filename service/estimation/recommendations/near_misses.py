"""When nothing meets the limits: what comes closest, and what would have to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from service.core.elementwise import FloatArray
from service.core.search.rows import TooSmall
from service.estimation.recommendations.answers import MustChange
from service.estimation.recommendations.limits import MEMORY, LimitCheck
from service.estimation.recommendations.search_context import SearchContext

#: How far past its limits something is, and what it is with what must change.
Miss: TypeAlias = tuple[float, dict[str, Any]]
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
    checks: Sequence[LimitCheck],
    lacking_ratio: FloatArray,
    memory_bytes: FloatArray,
    describe: Callable[[int], dict[str, Any]],
) -> list[Miss]:
    """Rows by how far they are past their limits, each with what must change.

    Parameters
    ----------
    checks
        Limits with the figures of the rows.
    lacking_ratio, memory_bytes
        Memory that is missing over that which there is [-], and that which there is [B].
    describe
        Says what a row is.
    """
    past = lacking_ratio.copy()
    for check in checks:
        values, most = check.values, check.most
        past += np.maximum(values / most - 1.0, 0.0) if most > 0.0 else values > 0.0
    found = []
    for row in np.argsort(past, kind="stable")[:_MOST_TRIED]:
        if not np.isfinite(past[row]):
            break
        changes: list[MustChange] = [
            {
                "limit": check.limit.name,
                "value": float(check.values[row]),
                "must_fall_by": float(check.values[row] - check.most),
            }
            for check in checks
            if check.values[row] > check.most
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


def _more_memory(memory_bytes: float, missing_bytes: float) -> MustChange:
    return {"limit": MEMORY.name, "value": memory_bytes, "must_rise_by": missing_bytes}
