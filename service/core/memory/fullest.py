"""The fullest of several pipeline stages, each element of arrays by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.elementwise import Number
from service.core.interval import Interval

Memory = TypeVar("Memory")


def fullest(stages: Sequence[Memory], size: Callable[[Memory], Number]) -> Memory:
    """Memory of the stage of greatest size; the first of equals.

    With arrays it may be another stage in each element. Figures are then those of the element's
    stage; what describes a stage as a whole is that of the first.
    """
    if len(stages) == 1:
        return stages[0]
    sizes = [size(stage) for stage in stages]
    if not any(type(each) is np.ndarray for each in sizes):
        return stages[sizes.index(max(sizes))]
    index = np.asarray(np.argmax(np.array(np.broadcast_arrays(*sizes)), axis=0))
    # Of no element, and of an array without an axis, there is no first.
    which = int(index.flat[0]) if index.size else 0
    if (index == which).all():
        return stages[which]
    first: Any = stages[0]
    columns = {
        field.name: _chosen([getattr(stage, field.name) for stage in stages], index)
        for field in fields(first)
    }
    together: Memory = replace(first, **columns)
    return together


def _chosen(values: Sequence[Any], index: NDArray[np.intp]) -> Any:
    first = values[0]
    if all(value is first for value in values):
        return first
    if isinstance(first, Interval):
        ends = ("value", "low", "high")
        return Interval(*(_chosen([getattr(each, end) for each in values], index) for end in ends))
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _chosen([each.get(name, 0.0) for each in values], index) for name in names}
    if isinstance(first, int | float | np.ndarray):
        return np.choose(index, np.broadcast_arrays(*values, index)[:-1])
    return first
