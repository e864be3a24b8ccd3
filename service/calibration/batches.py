"""Rows that differ in few figures alone, estimated at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from service.calibration.hierarchy import Predict
from service.core.elementwise import FloatArray

Measured = TypeVar("Measured")


def batched(
    rows: Sequence[Measured],
    batch_of: Callable[[Measured], Hashable],
    logs_of: Callable[[Sequence[Measured], Mapping[str, FloatArray]], FloatArray],
) -> Predict:
    """Log estimates of rows, for constants by row and point.

    Parameters
    ----------
    rows
        What was measured.
    batch_of
        What rows have to have in common to be computed at once.
    logs_of
        Log estimates of rows of one batch: rows by points.
    """
    batches: dict[Hashable, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        batches[batch_of(row)].append(number)

    def predict(chosen: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        place = {number: at for at, number in enumerate(chosen)}
        logs = np.empty(next(iter(values.values())).shape)
        for numbers in batches.values():
            at = [place[number] for number in numbers if number in place]
            if at:
                own = {name: column[at] for name, column in values.items()}
                logs[at] = logs_of([rows[chosen[one]] for one in at], own)
        return logs

    return predict
