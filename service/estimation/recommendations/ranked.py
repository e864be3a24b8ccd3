"""Candidates in order, the first verified one for each priority, and why it is that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.explanation import EstimateWarning
from service.core.search.ranking import (
    CLEAR_SHARE,
    DRAWS,
    factors,
    first_for,
    last_for,
    nearest_flip,
    ranking,
    robustness,
    tie_of,
)
from service.core.search.regions import scarce_water
from service.core.search.rows import TooSmall
from service.core.search.workloads import METRICS, PRIORITIES, Metric, Priority
from service.core.years import HOURS_PER_MONTH
from service.estimation.formatting import duration
from service.estimation.recommendations.answers import Agreement, ChoiceRobustness, ComparedMetric
from service.estimation.recommendations.metrics import metrics_in_places
from service.estimation.recommendations.placement import PlacedCandidates
from service.estimation.recommendations.places import is_cloud
from service.estimation.recommendations.search import Search
from service.estimation.recommendations.verification import Verified
from service.estimation.verdict.figures import days

#: Members of the front that an answer lists, and candidates tried for each priority.
MOST_LISTED = 50
_MOST_TRIED = 25
#: Candidates over which robustness is drawn: those that could win at all.
_MOST_DRAWN = 300

#: Share of draws below which a choice is one of many.
_LIKELY_SHARE = 0.3

#: How far from the best on the row's own metric a choice may be and still follow the row.
_AGREEING_RATIO = 0.5
#: Nobody tells figures apart that are closer than this.
_AS_GOOD_RATIO = 0.005
#: What the decisive metrics are called in sentences.
_COMPARED: Mapping[Metric, tuple[str, str]] = MappingProxyType(
    {
        "headroom": ("use", "less memory"),
        "latency": ("take", "less time"),
        "carbon": ("emit", "less"),
    }
)
_OF: Mapping[Metric, str] = MappingProxyType(
    {"headroom": "memory", "latency": "time", "carbon": "carbon"}
)
#: Times from which on people count hours and days [s].
_LONG_S = 600.0
_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What is chosen among: how a row is described and verified, and in which units.

    ``describe`` gives a candidate what its kind alone has; ``verify`` estimates it, given its
    description and row, as a single deployment. ``describe_miss`` and ``describe_small`` say of a
    model at a position what a row of it is, and what had no room even for what it always holds.
    """

    units: Mapping[Metric, str]
    describe: Callable[[int], dict[str, Any]]
    verify: Callable[[Mapping[str, Any], int], Verified | None]
    describe_miss: Callable[[int, int], dict[str, Any]]
    describe_small: Callable[[int, TooSmall], dict[str, Any]]


class RankedCandidates:
    """Candidates with their order under the weights asked for.

    A search compares thousands by the same formulas, as stacks. Those that come first are estimated
    in full, with all that a single estimate knows of them: these figures replace the search's, and
    the order follows, until what is first is verified.
    """

    def __init__(
        self,
        subject: Subject,
        found: PlacedCandidates,
        search: Search,
        weights: FloatArray,
    ) -> None:
        self.subject, self.placed, self.search = subject, found, search
        self.context = search.context
        self.metrics, self.spreads = found.metrics.copy(), found.spreads.copy()
        self.weights, self.least = weights, found.units.least
        self._scarce = scarce_water(search.context.region_values)[found.region]
        self._verified: dict[int, Verified] = {}
        self._missed: set[int] = set()
        self._rank()

    def _rank(self) -> None:
        self.factors = factors(self.metrics, self.weights, self.least)
        self.order = ranking(self.metrics, self.weights, self.least)

    def choices(self, warnings: list[EstimateWarning]) -> list[dict[str, Any]]:
        """The first verified candidate for each priority; each candidate once."""
        priorities = [
            one for one, metric in PRIORITIES.items() if metric is None or self._is_known(metric)
        ]
        known = -1
        while known < len(self._verified):
            known = len(self._verified)
            first = {priority: self._first_verified(priority) for priority in priorities}
        best_at: dict[int, list[Priority]] = {}
        for priority, at in first.items():
            metric = PRIORITIES[priority]
            if at is not None and (metric is None or np.isfinite(self._values(metric)[at])):
                best_at.setdefault(at, []).append(priority)
        found = [self._choice(at, tuple(best_for)) for at, best_for in best_at.items()]
        if not found:
            warnings.append(
                EstimateWarning(
                    "none_verified",
                    "the candidates found miss a limit once they are estimated in full; relax the "
                    "limits a little",
                )
            )
        return found

    def _is_known(self, metric: Metric) -> bool:
        return bool(np.isfinite(self._values(metric)).any())

    def _first_verified(self, priority: Priority) -> int | None:
        for _ in range(_MOST_TRIED):
            at = next((at for at in self._ordered(priority) if at not in self._missed), None)
            if at is None or at in self._verified:
                return at
            self._verify(at)
        return next((at for at in self._ordered(priority) if at in self._verified), None)

    def _verify(self, at: int) -> None:
        """Estimate a candidate in full, and take over its figures, there and in other places."""
        checked = self.subject.verify(self.summary(at), at)
        if checked is None:
            self._missed.add(at)
            return
        self._verified[at] = checked
        placed = self.placed
        # Figures of a configuration are the same wherever it stands.
        alike = np.flatnonzero((placed.row == placed.row[at]) & (placed.model == placed.model[at]))
        alike = alike[[int(one) == at or int(one) not in self._verified for one in alike]]
        # Candidates are compared by how unsure their steps are, however near saturation one of them
        # turns out to be.
        time = METRICS.index("latency")
        of_steps = self.spreads[alike, time]
        _, self.metrics[alike], self.spreads[alike] = metrics_in_places(
            replace(
                checked.metrics.taken(np.zeros(len(alike), dtype=np.intp)),
                beside_kgco2e=placed.beside_kgco2e[alike],
            ),
            placed.fixed_usd_per_hour[alike],
            self.context.prices.metered_usd_per_kwh(placed.offer[alike], placed.region[alike]),
            placed.region[alike],
            self.context,
            placed.units,
        )
        self.spreads[alike, time] = of_steps
        self._rank()

    def front(self) -> list[dict[str, Any]]:
        """The best candidates, in order."""
        return [self.summary(int(at)) for at in self.order[:MOST_LISTED]]

    def summary(self, at: int) -> dict[str, Any]:
        """A candidate with its metrics."""
        figures = self._verified[at].figures if at in self._verified else {}
        return (
            self._placed(at)
            | self.subject.describe(at)
            | figures
            | {
                "metrics": {name: _known(self.metrics[at, c]) for c, name in enumerate(METRICS)},
                "score_ratio": _known(float(np.prod(self.factors[at]))),
            }
        )

    def _placed(self, at: int) -> dict[str, Any]:
        """What of which model stands where, and at what price."""
        placed, context = self.placed, self.context
        region, usd_per_hour = context.regions[placed.region[at]], float(placed.usd_per_hour[at])
        return {
            "model": self.search.models[placed.model[at]].id,
            "accelerator": context.accelerators[placed.offer[at]].id,
            "accelerator_count": int(placed.accelerators[at]),
            "region": region.id,
            "owned": not is_cloud(region),
            "usd_per_hour": _known(usd_per_hour),
            "usd_per_month": _known(usd_per_hour * HOURS_PER_MONTH),
        }

    def _choice(self, at: int, priorities: tuple[Priority, ...]) -> dict[str, Any]:
        checked, steady = self._verified[at], self._robustness(at, priorities[0])
        return {
            "priorities": list(priorities),
            "candidate": self.summary(at),
            "request": checked.request,
            **checked.further(),
            "estimate": checked.estimate,
            "limits": checked.limits,
            "compared": self._compared(at),
            "robustness": steady,
            "nearest_loser": self._nearest_loser(at),
            "agreement": self._agreement(at),
            "confidence": _confidence(steady["share_ratio"], checked.weak),
        }

    def _ordered(self, priority: Priority) -> Iterator[int]:
        last = last_for(priority, self._scarce, self.placed.idle)
        held = self.placed.held
        return map(int, first_for(priority, self.metrics, self.spreads, held, self.order, last))

    def _values(self, metric: Metric) -> FloatArray:
        values: FloatArray = self.metrics[:, METRICS.index(metric)]
        return values

    def _compared(self, at: int) -> list[ComparedMetric]:
        """Each metric against the best of the candidates, and what it makes of the score."""
        found: list[ComparedMetric] = []
        for column, name in enumerate(METRICS):
            values, mine = self.metrics[:, column], float(self.metrics[at, column])
            known = values[np.isfinite(values)]
            best = float(known.min()) if len(known) else None
            found.append(
                {
                    "metric": name,
                    "value": _known(mine),
                    "best": best,
                    "unit": self.subject.units[name],
                    "worse_ratio": _known(mine / best - 1.0) if best else None,
                    "weight_ratio": float(self.weights[column]),
                    "factor_ratio": _known(float(self.factors[at, column])),
                }
            )
        return found

    def _robustness(self, at: int, priority: Priority) -> ChoiceRobustness:
        """How often the choice stays the best for a priority."""
        contenders = np.fromiter(self._ordered(priority), dtype=np.intp)
        metric, weights = PRIORITIES[priority], self.weights
        if metric is not None:
            weights = np.array([float(one == metric) for one in METRICS])
        if priority in {"smallest", "fastest"}:
            as_few = self.placed.held <= self.placed.held[at]
            contenders = contenders[as_few[contenders]]
        last = last_for(priority, self._scarce, self.placed.idle)
        if last is not None:
            contenders = contenders[last[contenders] <= last[at]]
        contenders = contenders[:_MOST_DRAWN]
        if at not in contenders:
            contenders = np.append(contenders, at)
        winner = int(np.flatnonzero(contenders == at)[0])
        share_ratio = robustness(
            self.metrics[contenders],
            self.spreads[contenders],
            self.placed.offer[contenders],
            weights,
            self.least,
            winner,
            # What is as good by its one metric leaves a choice to the others.
            tie_of(priority, self.metrics, self.spreads),
        )
        clear = share_ratio >= CLEAR_SHARE
        told = _how_steady(share_ratio, clear=clear)
        return {"share_ratio": share_ratio, "clear_winner": clear, "in_words": told}

    def _nearest_loser(self, at: int) -> dict[str, Any] | None:
        order = np.concatenate([[at], self.order[self._others(at)[self.order]]])
        flip = nearest_flip(self.metrics, self.weights, self.least, order)
        if flip is None:
            return None
        return {
            "candidate": self.summary(flip.rival),
            "would_win_if": None
            if flip.metric is None
            else {"metric": flip.metric, "change_ratio": flip.change_ratio},
        }

    def _others(self, at: int) -> NDArray[np.bool_]:
        """Candidates that differ from one in hardware, place or a figure that anybody notices."""
        placed, mine = self.placed, self.metrics[at]
        differ = np.abs(self.metrics - mine) > _AS_GOOD_RATIO * np.abs(mine)
        found: NDArray[np.bool_] = (
            (placed.offer != placed.offer[at])
            | (placed.accelerators != placed.accelerators[at])
            | (placed.region != placed.region[at])
            | (differ & (self.weights > 0.0)).any(axis=1)
        )
        return found

    def _agreement(self, at: int) -> Agreement:
        """Whether the figures confirm the deciding factor of the decision matrix."""
        kind = self.search.kind
        decisive: dict[str, Metric] = {
            "memory capacity": "headroom",
            "memory speed": "latency",
            "environment": "carbon",
        }
        metric = decisive.get(kind.focus)
        if metric is None:
            return {
                "focus": kind.focus,
                "agrees": None,
                "because": "the decision matrix names no single factor",
            }
        values = self._values(metric)
        best, mine = float(np.nanmin(values)), float(values[at])
        worse = mine / best - 1.0 if best > 0.0 else 0.0
        agrees = worse <= _AGREEING_RATIO
        return {
            "focus": kind.focus,
            "agrees": agrees,
            "because": _beside_the_best(metric, mine, best, self.subject.units[metric])
            + ("" if agrees else ", but by your priorities its other figures outweigh that"),
        }


def _beside_the_best(metric: Metric, mine: float, best: float, unit: str) -> str:
    """How a figure stands to the lowest of all that keep the limits."""
    verb, comparative = _COMPARED[metric]
    told, least = (_in_words(metric, value, unit) for value in (mine, best))
    if mine <= best * (1.0 + _AS_GOOD_RATIO):
        return f"no other option {verb}s {comparative} ({told})"
    if told == least:
        return f"no other option {verb}s much {comparative} ({told})"
    if mine < 2.0 * best:
        more = f"{mine / best - 1.0:.0%} more {_OF[metric]} than the best"
    else:
        more = f"{mine / best:.2g} times as much {_OF[metric]} as the best"
    return f"it {verb}s {more} ({told} instead of {least})"


def _in_words(metric: Metric, value: float, unit: str) -> str:
    if metric == "headroom":
        return f"{value:.0%}"
    if metric == "latency":
        return duration(value) if value < _LONG_S else days(value / _SECONDS_PER_DAY)
    return f"{value:.3g} {unit}"


def _how_steady(share_ratio: float, *, clear: bool) -> str:
    """How often a choice remained the best of all draws, as people say it."""
    times = f"{round(share_ratio * DRAWS)} of {DRAWS}"
    return f"best in {times} trials with varied figures and weights" + (
        "" if clear else "; compare the others"
    )


def _confidence(share_ratio: float, weak: int) -> Literal["high", "medium", "low"]:
    """By how often a choice stays the best, and in how many ways its estimate is weak."""
    if share_ratio >= CLEAR_SHARE and not weak:
        return "high"
    return "medium" if share_ratio >= _LIKELY_SHARE and weak <= 1 else "low"


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
