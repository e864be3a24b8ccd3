"""What limits exclude, counted while candidates are sifted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.core.search.rows import LeftOut
from service.estimation.recommendations.limits import (
    DIVIDES_BATCH,
    FORMATS_AND_POWER,
    HEADROOM,
    NEEDED_STAGES,
    WITHIN_DOMAIN,
    Condition,
    LimitCheck,
)

Stage: TypeAlias = Literal["configuration", "place"]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A limit, what it is called, and how many candidates it excluded.

    ``nearest_value`` is that of the candidate that came closest.

    ``threshold`` is None where there is nothing to come close to. At the stage of configurations
    each is counted once; at that of places once for each place that it could stand in.
    """

    stage: Stage
    limit: str
    label: str
    threshold: float | None
    unit: str
    candidates: int
    nearest_value: float | None


class Exclusions:
    """Exclusions by limit, in the order in which limits were first held against candidates."""

    def __init__(self) -> None:
        self._by_limit: dict[str, Exclusion] = {}
        self._stage: Stage = "configuration"

    def of_places(self) -> None:
        """From here on, what is noted is excluded in a place."""
        self._stage = "place"

    def all(self) -> tuple[Exclusion, ...]:
        """What was noted so far."""
        return tuple(self._by_limit.values())

    def within_limits(
        self, checks: Iterable[LimitCheck], count: int, places: int = 1
    ) -> NDArray[np.bool_]:
        """Which of so many candidates are within all limits; notes how many each excludes.

        A figure that is unknown cannot be said to be within its limit. Each candidate stands for as
        many as there are ``places`` in which it is judged at once.
        """
        remaining = np.ones(count, dtype=bool)
        for check in checks:
            within = np.asarray(check.values <= check.most)
            self._note(check, np.logical_and(remaining, np.logical_not(within)), places)
            remaining &= within
        return remaining

    def _note(self, check: LimitCheck, excluded_mask: NDArray[np.bool_], places: int) -> None:
        limit, sign = check.limit, check.limit.sign
        known = self._by_limit.get(limit.name)
        nearest = (
            [] if known is None or known.nearest_value is None else [sign * known.nearest_value]
        )
        nearest += (
            [float(np.nan_to_num(check.values[excluded_mask], nan=inf).min())]
            if excluded_mask.any()
            else []
        )
        found = min(nearest, default=inf)
        count = int(excluded_mask.sum()) * places + (known.candidates if known is not None else 0)
        shown = sign * found if np.isfinite(found) else None
        self._by_limit[limit.name] = Exclusion(
            self._stage, limit.name, limit.label, sign * check.most, limit.unit, count, shown
        )

    def left_out(self, left: LeftOut) -> None:
        """Note what has no candidates."""
        if left.too_small:
            known = self._by_limit[HEADROOM]
            count = known.candidates + len(left.too_small)
            self._by_limit[HEADROOM] = replace(known, candidates=count)
        for condition, count in (
            (WITHIN_DOMAIN, left.beyond_domain),
            (FORMATS_AND_POWER, left.unable),
            (DIVIDES_BATCH, left.undivided),
            (NEEDED_STAGES, left.roomy),
        ):
            if count:
                self.without_threshold(condition, count)

    def without_threshold(self, condition: Condition, count: int) -> None:
        """Note candidates that a condition excluded which has no threshold."""
        known = self._by_limit.get(condition.name)
        before = 0 if known is None else known.candidates
        self._by_limit[condition.name] = Exclusion(
            "configuration", condition.name, condition.label, None, "-", before + count, None
        )
