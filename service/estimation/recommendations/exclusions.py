"""What limits exclude, counted while candidates are sifted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.search.rows import LeftOut

#: Name of the constraint, as in single estimates.
_WITHIN_DOMAIN = "tensor_parallel_group_within_scale_up_domain"

#: The limit that is held against memory.
_HEADROOM = "headroom_ratio_at_least"
#: What hardware lacks, as sweeps call it, and what a step's batch asks of a layout.
_UNABLE = "format_or_power_unknown"
_UNDIVIDED = "divides_global_batch"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A limit and how many candidates it excluded; ``nearest`` came closest, with its value.

    ``threshold`` is None where there is nothing to come close to.
    """

    limit: str
    threshold: float | None
    unit: str
    excluded: int
    nearest_value: float | None

    def answer(self) -> dict[str, Any]:
        """The exclusion as it goes over the wire."""
        return {
            "limit": self.limit,
            "threshold": self.threshold,
            "unit": self.unit,
            "candidates": self.excluded,
            "nearest_value": self.nearest_value,
        }


class Exclusions:
    """Exclusions by limit, in the order in which limits were first held against candidates."""

    def __init__(self) -> None:
        self._by_limit: dict[str, Exclusion] = {}

    def all(self) -> tuple[Exclusion, ...]:
        """What was noted so far."""
        return tuple(self._by_limit.values())

    def within(
        self, name: str, unit: str, values: FloatArray, limit: float, remaining: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which values are within a limit; notes how many of the remaining are not.

        Limits whose name ends in ``at_least`` come with both signs turned.
        """
        within = np.asarray(values <= limit)
        lost = np.logical_and(remaining, np.logical_not(within))
        sign = -1.0 if name.endswith("at_least") else 1.0
        known = self._by_limit.get(name)
        nearest = (
            [] if known is None or known.nearest_value is None else [sign * known.nearest_value]
        )
        nearest += [float(values[lost].min())] if lost.any() else []
        found = min(nearest, default=inf)
        count = int(lost.sum()) + (known.excluded if known is not None else 0)
        shown = sign * found if np.isfinite(found) else None
        self._by_limit[name] = Exclusion(name, sign * limit, unit, count, shown)
        return within

    def left_out(self, left: LeftOut) -> None:
        """Note what has no candidates."""
        if left.too_small:
            known = self._by_limit[_HEADROOM]
            count = known.excluded + len(left.too_small)
            self._by_limit[_HEADROOM] = replace(known, excluded=count)
        for name, count in (
            (_WITHIN_DOMAIN, left.beyond_domain),
            (_UNABLE, left.unable),
            (_UNDIVIDED, left.undivided),
        ):
            if count:
                self.without_threshold(name, count)

    def without_threshold(self, name: str, count: int) -> None:
        """Note candidates that a condition excluded which has no threshold."""
        known = self._by_limit.get(name)
        before = 0 if known is None else known.excluded
        self._by_limit[name] = Exclusion(name, None, "-", before + count, None)
