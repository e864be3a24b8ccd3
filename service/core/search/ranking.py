"""Ranking by a weighted product, and how much a ranking can be relied on.

The order of two candidates depends on nothing but those two and the weights: on no unit, no anchor
and no other candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray
from service.core.interval import Z_90
from service.core.search.workloads import METRICS, PRIORITIES, Metric, Priority

#: Draws of inputs and weights over which a choice has to hold, and the seed that makes them alike.
DRAWS = 200
SEED = 20_240_501
#: Range of weights in the draws around those that were asked for.
WEIGHT_SPREAD = 0.5
#: Logarithms of scores closer than this are the same.
_ALIKE = 1e-9
#: Logarithms of a figure closer than this leave the choice to the other metrics.
NEAR_TIE = 0.02
#: Share of draws below which there is no clear winner.
CLEAR_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Flip:
    """Smallest relative change of one metric of the runner-up that would make it first.

    ``change_ratio`` is negative where the metric would have to shrink; None where no change of one
    metric alone suffices.
    """

    rival: int
    metric: Metric | None
    change_ratio: float | None


def weight_row(weights: Mapping[Metric, float], metrics: FloatArray) -> FloatArray:
    """Weights in the order of ``METRICS``, scaled to sum to one over what is known of anything.

    Parameters
    ----------
    weights
        By metric.
    metrics
        One row a candidate, columns as ``METRICS``; a column without any figure has no weight.

    Raises
    ------
    ValueError
        If no metric that is known of any candidate has a weight.
    """
    known = np.isfinite(metrics).any(axis=0)
    row = np.array([weights[m] for m in METRICS]) * known
    total = float(row.sum())
    if total <= 0.0:
        raise ValueError("none of the known metrics has a weight")
    return row / total


def burdens(metrics: FloatArray, weights: FloatArray, least: FloatArray) -> FloatArray:
    """Logarithm of the weighted product of each candidate's metrics [-]; less is better.

    Parameters
    ----------
    metrics
        One row a candidate, columns as ``METRICS``, of all of which less is better.
    weights
        As ``weight_row`` gives them.
    least
        The smallest amount of each metric that makes a difference, in its unit; zero counts as
        that much.

    Returns
    -------
    array
        NaN where a metric with a weight is not known.

    References
    ----------
    Bridgman, Dimensional Analysis, 1922; Triantaphyllou, Multi-Criteria Decision Making Methods,
    2000, section 2.2.2 (weighted product model).
    """
    logs = np.log(np.maximum(metrics, least))
    total: FloatArray = np.where(weights > 0.0, logs, 0.0) @ weights
    return total


def ranking(metrics: FloatArray, weights: FloatArray, least: FloatArray) -> NDArray[np.intp]:
    """Candidates from the best to the worst; ties keep the order given.

    Those of which a metric with a weight is not known come last, among themselves by the others.
    """
    unknown = np.isnan(metrics) & (weights > 0.0)
    known = burdens(np.where(unknown, least, metrics), weights, least)
    return np.lexsort((np.arange(len(metrics)), known, unknown.sum(axis=1)))


def least_first(
    values: FloatArray, order: NDArray[np.intp], last: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """Candidates by one figure first, near-ties in a given order.

    Parameters
    ----------
    values
        The figure; unknown ones come last.
    order
        Candidates by everything, which decides between figures within two per cent.
    last
        Above zero for those that come after all others, whatever their figure.
    """
    best = np.nanmin(values) if np.isfinite(values).any() else np.nan
    steps = np.floor(np.log(np.maximum(values, 1e-300) / max(best, 1e-300)) / NEAR_TIE)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    later = np.zeros(len(values), dtype=np.intp) if last is None else last
    return np.lexsort((place, np.nan_to_num(steps, nan=np.inf), later))


def first_for(
    priority: Priority,
    metrics: FloatArray,
    spreads: FloatArray,
    held: FloatArray,
    order: NDArray[np.intp],
    last: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Candidates from the first to the last for a priority.

    What is ``fastest`` for more accelerators has to be faster by more than its own error: of those
    within one standard error of the least time, known prices and the fewest accelerators come
    first, and of as many those that all work.

    Parameters
    ----------
    priority
        What a choice is to be best at.
    metrics, spreads
        Of each candidate, columns as ``METRICS``, and the ratio of the upper end of each figure's
        90 % interval to its value.
    held
        Accelerators that each pays for.
    order
        Candidates by everything, which decides between near-ties.
    last
        As :func:`last_for` says.
    """
    metric = PRIORITIES[priority]
    if metric is None:
        return order if priority != "smallest" else least_first(held, order, last)
    column = METRICS.index(metric)
    values = metrics[:, column]
    if priority != "fastest" or not np.isfinite(values).any():
        return least_first(values, order, last)
    as_fast = values <= np.nanmin(values) * np.exp(tie_of(priority, metrics, spreads))
    by_time = least_first(values, order)
    working = order if last is None else order[np.argsort(last[order], kind="stable")]
    fewest_first = least_first(held, working)
    unpriced = np.isnan(metrics[fewest_first, METRICS.index("cost")])
    fewest_first = fewest_first[np.argsort(unpriced, kind="stable")]
    return np.concatenate(
        [fewest_first[as_fast[fewest_first]], by_time[np.logical_not(as_fast[by_time])]]
    )


def tie_of(priority: Priority, metrics: FloatArray, spreads: FloatArray) -> float:
    """Logarithm of figures by which candidates are no better than each other for a priority [-].

    Of times, that is one standard error of the least, if it is more than a near-tie. Parameters as
    for :func:`first_for`.
    """
    metric = PRIORITIES[priority]
    if metric is None:
        return _ALIKE
    column = METRICS.index(metric)
    if priority != "fastest" or not np.isfinite(metrics[:, column]).any():
        return NEAR_TIE
    best = int(np.nanargmin(metrics[:, column]))
    error = np.log(max(float(np.nan_to_num(spreads[best, column], nan=1.0)), 1.0)) / Z_90
    return max(float(error), NEAR_TIE)


def shortlist(
    metrics: FloatArray,
    spreads: FloatArray,
    held: FloatArray,
    scarce: NDArray[np.bool_],
    idle: NDArray[np.bool_],
    weights: FloatArray,
    least: FloatArray,
    most: int,
) -> NDArray[np.intp]:
    """Candidates that come first for any priority, so many for each.

    Parameters
    ----------
    metrics, spreads, held, scarce, idle
        Of each candidate: its metrics with their spreads, how many accelerators it pays for,
        whether water is scarce where it stands, and whether some of what it pays for stands idle.
    weights, least
        As for the ranking itself.
    most
        How many are kept for each priority.
    """
    if len(metrics) <= most:
        return np.arange(len(metrics))
    order = ranking(metrics, weights, least)
    found: list[NDArray[np.intp]] = []
    for priority in PRIORITIES:
        last = last_for(priority, scarce, idle)
        found.append(first_for(priority, metrics, spreads, held, order, last)[:most])
    # The least time of all is what others are held against, however many accelerators it takes.
    found.append(least_first(metrics[:, METRICS.index("latency")], order)[:most])
    return np.unique(np.concatenate(found))


def last_for(
    priority: Priority, scarce: NDArray[np.bool_], idle: NDArray[np.bool_]
) -> NDArray[np.intp] | None:
    """Whatever comes after all others for a priority, the highest last; None where nothing does.

    No saving of water is worth taking it from those who lack it, and no footprint is the lowest
    that leaves out what stands idle for it. Of what is ``fastest`` with as many accelerators, those
    come last of which some stand idle.
    """
    if priority == "lowest_water":
        return 2 * scarce.astype(np.intp) + idle
    return idle.astype(np.intp) if priority in {"lowest_carbon", "fastest"} else None


def factors(metrics: FloatArray, weights: FloatArray, least: FloatArray) -> FloatArray:
    """What each metric makes of each candidate's score [-]: (best / own) ^ weight.

    1 where no candidate is better on the metric, NaN where it is not known. Their product is the
    score: 1 for a candidate that is best at everything that has a weight.
    """
    amounts = np.maximum(metrics, least)
    known = np.isfinite(metrics).any(axis=0)
    best = np.where(known, np.nanmin(np.where(known, amounts, 0.0), axis=0), np.nan)
    found: FloatArray = np.where(weights > 0.0, (best / amounts) ** weights, 1.0)
    return found


def robustness(
    metrics: FloatArray,
    spreads: FloatArray,
    alike: NDArray[np.intp],
    weights: FloatArray,
    least: FloatArray,
    winner: int,
    tie: float = _ALIKE,
) -> float:
    """Rank again with inputs drawn from their intervals and weights varied.

    Parameters
    ----------
    metrics
        Candidates that may win, columns as ``METRICS``.
    spreads
        Ratio of the upper end of each figure's 90 % interval to its value; same shape.
    alike
        Candidates of the same number err alike: what is wrong about one's hardware is as wrong
        about the other's.
    weights, least
        As for the ranking itself.
    winner
        Row that is first with the values as they are.
    tie
        Logarithms of scores closer than this are the same [-].

    Returns
    -------
    float
        Share of draws in which none is better [-]. A single candidate is first in all.
    """
    draw = np.random.default_rng(SEED)
    sigma = np.log(np.maximum(np.nan_to_num(spreads, nan=1.0), 1.0)) / Z_90
    kinds, kind = np.unique(alike, return_inverse=True)
    wins = 0
    for _ in range(DRAWS):
        normal = draw.standard_normal((len(kinds), metrics.shape[1]))[kind]
        varied = metrics * np.exp(sigma * normal)
        factor = 1.0 + WEIGHT_SPREAD * draw.uniform(-1.0, 1.0, len(weights))
        mixed = weights * factor
        drawn = burdens(varied, mixed / mixed.sum(), least)
        known = drawn[np.isfinite(drawn)]
        # What scores alike does not displace the choice.
        wins += bool(not len(known) or drawn[winner] <= known.min() + tie)
    return wins / DRAWS


def nearest_flip(
    metrics: FloatArray, weights: FloatArray, least: FloatArray, order: NDArray[np.intp]
) -> Flip | None:
    """The runner-up, and the smallest change of one of its metrics that would put it first.

    Returns None for a single candidate.
    """
    if len(order) < 2:
        return None
    first, second = int(order[0]), int(order[1])
    both = burdens(metrics[[first, second]], weights, least)
    gap = float(both[1] - both[0])
    smallest: tuple[float, Metric] | None = None
    for column, metric in enumerate(METRICS):
        value = max(float(metrics[second, column]), float(least[column]))
        if weights[column] <= 0.0 or not np.isfinite(value) or not np.isfinite(gap):
            continue
        change = float(np.expm1(-gap / weights[column]))
        if value * (1.0 + change) < least[column]:
            continue
        if smallest is None or abs(change) < abs(smallest[0]):
            smallest = (change, metric)
    if smallest is None:
        return Flip(second, None, None)
    return Flip(second, smallest[1], smallest[0])
