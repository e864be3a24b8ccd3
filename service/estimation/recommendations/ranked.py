"""Candidates in order, the first verified one for each priority, and why it is that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.explanation import EstimateWarning
from service.core.search.ranking import (
    CLEAR_SHARE,
    Anchor,
    nearest_flip,
    ranking,
    robustness,
    scores,
    utilities,
)
from service.core.search.workloads import METRICS, Metric, WorkloadKind
from service.estimation.recommendations.answers import (
    Agreement,
    ChoiceRobustness,
    Contribution,
    GivenUp,
)
from service.estimation.recommendations.placement import PlacedCandidates, metrics_in_regions
from service.estimation.recommendations.search_context import SearchContext
from service.estimation.recommendations.verification import Verified

#: Members of the front that an answer lists, and candidates tried for each priority.
MOST_LISTED = 50
_MOST_TRIED = 25
#: Candidates over which robustness is drawn: those that could win at all.
_MOST_DRAWN = 300

#: How far from the best on the row's own metric a choice may be and still follow the row.
_AGREEING_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class Subject:
    """What is chosen among: how a row is described and verified, and in which units.

    ``describe`` gives a candidate its own members, without metrics and score; ``verify`` estimates
    it, given its description and row, as a single deployment.
    """

    kind: WorkloadKind
    units: Mapping[Metric, str]
    describe: Callable[[int], dict[str, Any]]
    verify: Callable[[Mapping[str, Any], int], Verified | None]


class RankedCandidates:
    """Candidates with their utilities and their order under the weights asked for.

    A search compares thousands by the same formulas but for a steady load. Those that come first
    are estimated in full, which lets requests arrive as they do: these figures replace the
    search's, and the order follows, until what is first is verified.
    """

    def __init__(
        self,
        subject: Subject,
        found: PlacedCandidates,
        context: SearchContext,
        anchored: Mapping[Metric, Anchor],
        weights: FloatArray,
    ) -> None:
        self.subject, self.placed, self.context = subject, found, context
        self.metrics, self.spreads = found.metrics.copy(), found.spreads.copy()
        self.anchors, self.weights = anchored, weights
        self._regions = context.region_values()
        self._verified: dict[int, Verified] = {}
        self._missed: set[int] = set()
        self._rank()

    def _rank(self) -> None:
        self.utility = utilities(self.metrics, self.anchors)
        self.scores = scores(self.utility, self.weights)
        self.order = ranking(self.metrics, self.anchors, self.weights)

    def choices(self, warnings: list[EstimateWarning]) -> list[dict[str, Any]]:
        """The first verified candidate for each priority."""
        priorities = ("balanced", *self.anchors)
        known = -1
        while known < len(self._verified):
            known = len(self._verified)
            first = {priority: self._first_verified(priority) for priority in priorities}
        found = [self._choice(priority, at) for priority, at in first.items() if at is not None]
        if not found:
            warnings.append(
                EstimateWarning(
                    "none_verified",
                    "the candidates found miss a limit once they are estimated in full; relax the "
                    "limits a little",
                )
            )
        return found

    def _first_verified(self, priority: str) -> int | None:
        for _ in range(_MOST_TRIED):
            at = next((at for at in self._ordered(priority) if at not in self._missed), None)
            if at is None or at in self._verified:
                return at
            self._verify(at)
        return next((at for at in self._ordered(priority) if at in self._verified), None)

    def _verify(self, at: int) -> None:
        """Estimate a candidate in full, and take over the figures of the estimate."""
        checked = self.subject.verify(self.summary(at), at)
        if checked is None:
            self._missed.add(at)
            return
        self._verified[at] = checked
        _, metrics, spreads = metrics_in_regions(
            checked.metrics,
            self.placed.usd_per_hour[[at]],
            [self._regions[self.placed.region[at]]],
            self.context,
            self.placed.unit,
        )
        self.metrics[at], self.spreads[at] = metrics[0], spreads[0]
        self._rank()

    def front(self) -> list[dict[str, Any]]:
        """The best candidates, in order."""
        return [self.summary(int(at)) for at in self.order[:MOST_LISTED]]

    def summary(self, at: int) -> dict[str, Any]:
        """A candidate with its metrics."""
        figures = self._verified[at].figures if at in self._verified else {}
        return (
            self.subject.describe(at)
            | figures
            | {
                "metrics": {name: _known(self.metrics[at, c]) for c, name in enumerate(METRICS)},
                "score_ratio": float(self.scores[at]),
            }
        )

    def _choice(self, priority: str, at: int) -> dict[str, Any]:
        checked = self._verified[at]
        return {
            "priority": priority,
            "candidate": self.summary(at),
            "estimate": checked.estimate,
            "limits": checked.limits,
            "contributions": self._contributions(at),
            "given_up": self._given_up(at),
            "robustness": self._robustness(at),
            "nearest_loser": self._nearest_loser(at),
            "agreement": self._agreement(at),
            "confidence": checked.confidence,
        }

    def _ordered(self, priority: str) -> Iterator[int]:
        order = self.order if priority == "balanced" else self._best_on(priority)
        return map(int, order)

    def _best_on(self, priority: str) -> NDArray[np.intp]:
        """By one metric first, near-ties by the order of all."""
        values = self._values(priority)
        best = np.nanmin(values) if np.isfinite(values).any() else np.nan
        # Within two per cent of each other the other metrics decide.
        steps = np.floor(np.log(np.maximum(values, 1e-300) / max(best, 1e-300)) / 0.02)
        place = np.empty(len(self.order), dtype=np.intp)
        place[self.order] = np.arange(len(self.order))
        return np.lexsort((place, np.nan_to_num(steps, nan=np.inf)))

    def _values(self, metric: str) -> FloatArray:
        values: FloatArray = self.metrics[:, [str(one) for one in METRICS].index(metric)]
        return values

    def _contributions(self, at: int) -> list[Contribution]:
        """What each metric adds to the score."""
        return [
            {
                "metric": name,
                "value": _known(self.metrics[at, column]),
                "unit": self.subject.units[name],
                "utility_ratio": float(self.utility[at, column]),
                "weight_ratio": float(self.weights[column]),
                "contribution_ratio": float(self.utility[at, column] * self.weights[column]),
            }
            for column, name in enumerate(METRICS)
        ]

    def _given_up(self, at: int) -> list[GivenUp]:
        """How much worse than the best of the front on each metric."""
        found: list[GivenUp] = []
        for column, name in enumerate(METRICS):
            values = self.metrics[:, column]
            mine = float(values[at])
            if not np.isfinite(mine) or not np.isfinite(values).any():
                continue
            best = float(np.nanmin(values))
            found.append(
                {
                    "metric": name,
                    "best": best,
                    "unit": self.subject.units[name],
                    "worse_ratio": mine / best - 1.0 if best > 0.0 else None,
                }
            )
        return found

    def _robustness(self, at: int) -> ChoiceRobustness:
        contenders = self.order[:_MOST_DRAWN]
        if at not in contenders:
            contenders = np.append(contenders, at)
        winner = int(np.flatnonzero(contenders == at)[0])
        share_ratio = robustness(
            self.metrics[contenders], self.spreads[contenders], self.anchors, self.weights, winner
        )
        return {"share_ratio": share_ratio, "clear_winner": share_ratio >= CLEAR_SHARE}

    def _nearest_loser(self, at: int) -> dict[str, Any] | None:
        order = np.concatenate([[at], self.order[self.order != at]])
        flip = nearest_flip(self.metrics, self.anchors, self.weights, order)
        if flip is None:
            return None
        return {
            "candidate": self.summary(flip.rival),
            "would_win_if": None
            if flip.metric is None
            else {"metric": flip.metric, "change_ratio": flip.change_ratio},
        }

    def _agreement(self, at: int) -> Agreement:
        """Whether the figures confirm the deciding factor of the decision matrix."""
        kind = self.subject.kind
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
            "because": f"its {metric} is {worse:.0%} worse than the best within the limits "
            f"({mine:.3g} against {best:.3g} {self.subject.units[metric]})"
            + ("" if agrees else "; with these weights, other metrics outweigh it"),
        }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
