"""Ranking by utilities between fixed anchors, and how much a ranking can be relied on.

Anchors do not depend on the candidates, so that adding one changes no other's score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.interval import Z_90
from service.core.search.workloads import METRICS, Metric

#: Draws of inputs and weights over which a choice has to hold, and the seed that makes them alike.
DRAWS = 200
SEED = 20_240_501
#: Range of weights in the draws around those that were asked for.
WEIGHT_SPREAD = 0.5
#: Weight of what lies beyond the best anchors: it parts equal scores and nothing else.
_BEYOND = 1e-6
#: Scores closer than this are the same.
_ALIKE = 1e-9
#: Beyond this many powers of e a figure is as good as nothing.
_FURTHEST = 8.0
#: Share of draws below which there is no clear winner.
CLEAR_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a metric's utility is 1 and where it is 0, in the metric's unit."""

    best: float
    worst: float


@dataclass(frozen=True, slots=True)
class Flip:
    """Smallest relative change of one metric of the runner-up that would make it first.

    ``change_ratio`` is negative where the metric would have to shrink; None where no change of one
    metric alone suffices.
    """

    rival: int
    metric: Metric | None
    change_ratio: float | None


def utilities(metrics: FloatArray, anchors: Mapping[Metric, Anchor]) -> FloatArray:
    """Utility of each metric of each candidate [-], 0 to 1.

    Parameters
    ----------
    metrics
        One row a candidate, columns as ``METRICS``; unknown figures are NaN and have no utility.
    anchors
        By metric; those without one count for nothing.
    """
    utility = np.zeros_like(metrics)
    for column, metric in enumerate(METRICS):
        anchor = anchors.get(metric)
        if anchor is not None:
            span = anchor.worst - anchor.best
            utility[:, column] = np.clip((anchor.worst - metrics[:, column]) / span, 0.0, 1.0)
    return np.nan_to_num(utility, nan=0.0)


def weight_row(weights: Mapping[Metric, float], anchors: Mapping[Metric, Anchor]) -> FloatArray:
    """Weights in the order of ``METRICS``, scaled to sum to one over the metrics with an anchor.

    Raises
    ------
    ValueError
        If no metric with an anchor has any weight.
    """
    row = np.array([weights[m] if m in anchors else 0.0 for m in METRICS])
    total = float(row.sum())
    if total <= 0.0:
        raise ValueError("none of the known metrics has a weight")
    return row / total


def scores(utility: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted sum of utilities of each candidate [-]."""
    total: FloatArray = utility @ weights
    return total


def ranking(
    metrics: FloatArray, anchors: Mapping[Metric, Anchor], weights: FloatArray
) -> NDArray[np.intp]:
    """Candidates from the best to the worst.

    Of those that score alike, as all do that reach every best anchor, the one comes first that goes
    furthest beyond; what ties in that too keeps the order given.
    """
    return np.argsort(-_standing(metrics, anchors, weights), kind="stable")


def _standing(
    metrics: FloatArray, anchors: Mapping[Metric, Anchor], weights: FloatArray
) -> FloatArray:
    """Scores, and far below them the weighted logarithm of how much better than the best anchors.

    The logarithm makes half the cost count as much as half the latency, wherever anchors lie.
    """
    beyond = np.zeros_like(metrics)
    for column, metric in enumerate(METRICS):
        anchor = anchors.get(metric)
        if anchor is not None and anchor.best > 0.0:
            least = anchor.best * np.exp(-_FURTHEST)
            better = np.log(anchor.best / np.maximum(metrics[:, column], least))
            beyond[:, column] = np.nan_to_num(np.maximum(better, 0.0), nan=0.0)
    return scores(utilities(metrics, anchors), weights) + _BEYOND * scores(beyond, weights)


def robustness(
    metrics: FloatArray,
    spreads: FloatArray,
    anchors: Mapping[Metric, Anchor],
    weights: FloatArray,
    winner: int,
) -> float:
    """Rank again with inputs drawn from their intervals and weights varied.

    Parameters
    ----------
    metrics
        Candidates that may win, columns as ``METRICS``.
    spreads
        Ratio of the upper end of each figure's 90 % interval to its value; same shape.
    anchors, weights
        As for the ranking itself.
    winner
        Row that is first with the values as they are.

    Returns
    -------
    float
        Share of draws in which none scores higher [-]. A single candidate is first in all.
    """
    draw = np.random.default_rng(SEED)
    sigma = np.log(np.maximum(np.nan_to_num(spreads, nan=1.0), 1.0)) / Z_90
    wins = 0
    for _ in range(DRAWS):
        varied = metrics * np.exp(sigma * draw.standard_normal(metrics.shape))
        factor = 1.0 + WEIGHT_SPREAD * draw.uniform(-1.0, 1.0, len(weights))
        mixed = weights * factor
        drawn = scores(utilities(varied, anchors), mixed / mixed.sum())
        # What scores alike does not displace the choice.
        wins += bool(drawn[winner] >= drawn.max() - _ALIKE)
    return wins / DRAWS


def nearest_flip(
    metrics: FloatArray,
    anchors: Mapping[Metric, Anchor],
    weights: FloatArray,
    order: NDArray[np.intp],
) -> Flip | None:
    """The runner-up, and the smallest change of one of its metrics that would put it first.

    Returns None for a single candidate.
    """
    if len(order) < 2:
        return None
    first, second = int(order[0]), int(order[1])
    utility = utilities(metrics, anchors)
    total = scores(utility, weights)
    gap = float(total[first] - total[second])
    smallest: tuple[float, Metric] | None = None
    for column, metric in enumerate(METRICS):
        anchor = anchors.get(metric)
        value = float(metrics[second, column])
        if anchor is None or weights[column] <= 0.0 or not np.isfinite(value) or value == 0.0:
            continue
        needed = float(utility[second, column]) + gap / float(weights[column])
        if needed > 1.0:
            continue
        wanted = anchor.worst - needed * (anchor.worst - anchor.best)
        change = wanted / value - 1.0
        if smallest is None or abs(change) < abs(smallest[0]):
            smallest = (change, metric)
    if smallest is None:
        return Flip(second, None, None)
    return Flip(second, smallest[1], smallest[0])
