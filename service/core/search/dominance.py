"""Which candidates no other beats: Pareto fronts with a tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import FloatArray

#: Rows compared with the front at once; bounds memory at this times the size of the front.
_BLOCK_ROWS = 4096


def front(metrics: FloatArray, tolerance_ratio: float) -> NDArray[np.intp]:
    """Rows that no other row beats, near-ties included.

    A row is beaten by another that is nowhere worse and somewhere better by more than the
    tolerance: figures closer than their uncertainty do not tell candidates apart. Of rows that
    are alike in everything the first stays.

    Parameters
    ----------
    metrics
        One row a candidate, one column a metric, all to be minimised; shape (n, m), finite.
    tolerance_ratio
        Share of the better value by which the worse must exceed it [-].

    Returns
    -------
    array of int
        Rows of the front in the order given; never empty unless ``metrics`` is.

    References
    ----------
    Kung, Luccio, Preparata, On Finding the Maxima of a Set of Vectors, 1975,
    https://doi.org/10.1145/321906.321910 (sorted scan).
    """
    if len(metrics) == 0:
        return np.empty(0, dtype=np.intp)
    unique, first = np.unique(metrics, axis=0, return_index=True)
    strict = _minima(unique)
    kept = first[_unbeaten(unique, unique[strict], tolerance_ratio)]
    kept.sort()
    return kept


def _minima(rows: FloatArray) -> NDArray[np.intp]:
    """Rows that no other row is nowhere worse than; rows are unique."""
    # A row can only be beaten by one whose metrics, each on its own scale, sum to less.
    known = np.where(np.isfinite(rows), np.abs(rows), 0.0)
    scale = np.maximum(known.max(axis=0), 1e-300)
    order = np.argsort((rows / scale).sum(axis=1), kind="stable")
    kept: list[int] = []
    standing: FloatArray = np.empty((0, rows.shape[1]))
    for start in range(0, len(order), _BLOCK_ROWS):
        block = order[start : start + _BLOCK_ROWS]
        block = block[~_covered(rows[block], standing)]
        columns = _columns(rows[block])
        while len(block):
            kept.append(int(block[0]))
            left = ~_nowhere_better(columns, columns[:, 0])
            block, columns = block[left], columns[:, left]
        standing = rows[kept]
    return np.array(kept, dtype=np.intp)


def _covered(rows: FloatArray, standing: FloatArray) -> NDArray[np.bool_]:
    covered = np.zeros(len(rows), dtype=bool)
    columns = _columns(rows)
    for other in standing:
        covered |= _nowhere_better(columns, other)
    return covered


def _columns(rows: FloatArray) -> FloatArray:
    """Metrics as rows that lie together in memory, over which comparing runs fast."""
    return np.ascontiguousarray(rows.T)


def _nowhere_better(columns: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    """Which candidates, given by columns, are in no metric below another."""
    found: NDArray[np.bool_] = np.logical_and.reduce(other[:, np.newaxis] <= columns, axis=0)
    return found


def _unbeaten(rows: FloatArray, minima: FloatArray, tolerance_ratio: float) -> NDArray[np.bool_]:
    """Rows that none of the strict minima beats.

    A row beaten by any other is beaten by a minimum: the minimum below that other is nowhere
    worse than it, and better by at least as much where it was better.
    """
    beaten = np.zeros(len(rows), dtype=bool)
    columns = _columns(rows)
    for other in minima:
        limits = _exceeded(other, tolerance_ratio)[:, np.newaxis]
        better = np.logical_or.reduce(columns > limits, axis=0)
        beaten |= _nowhere_better(columns, other) & better
    return np.logical_not(beaten)


def _exceeded(better: FloatArray, tolerance_ratio: float) -> FloatArray:
    """What a value must lie above to be worse beyond the tolerance."""
    limit: FloatArray = better + np.abs(better) * tolerance_ratio
    return limit
