"""Tables of candidates: objects whose every field is an array with an element a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.interval import Interval, exact

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class TooSmall:
    """An accelerator on which not even what a rank always holds fits, with what it lacks [B].

    ``choice`` is the position of the formats, or of the way to train, ``layout`` and ``offer``
    those of layout and accelerator.
    """

    choice: int
    layout: int
    offer: int
    lacking_bytes: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Combinations that have no rows.

    ``beyond_domain`` counts those whose tensor-parallel groups reach beyond fast links, ``unable``
    those whose hardware lacks the formats, kernels for them, or a known power, ``undivided`` those
    that the batch of a training step does not divide among, ``roomy`` those with more pipeline
    stages than memory asks for.
    """

    too_small: tuple[TooSmall, ...]
    beyond_domain: int
    unable: int
    undivided: int = 0
    roomy: int = 0

    def __len__(self) -> int:
        counted = self.beyond_domain + self.unable + self.undivided + self.roomy
        return len(self.too_small) + counted


def taken(table: Table, rows: NDArray[Any]) -> Table:
    """The given rows of a table only."""
    columns = {field.name: getattr(table, field.name)[rows] for field in fields(table)}  # type: ignore[arg-type]
    return type(table)(**columns)


def picked(value: Any, rows: Any) -> Any:
    """The given rows of whatever has arrays in it: a figure, or a value or mapping of such."""
    if isinstance(value, np.ndarray):
        return value[rows] if value.ndim else value
    if isinstance(value, Interval) and value.low is value.high:
        return exact(picked(value.value, rows))
    if isinstance(value, Mapping):
        return {key: picked(each, rows) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for each in fields(value):
            before = getattr(value, each.name)
            after = picked(before, rows)
            if after is not before:
                changed[each.name] = after
        return replace(value, **changed) if changed else value
    return value


def joined(kind: type[Table], parts: Sequence[Table]) -> Table:
    """Tables below one another; an empty one if there are none."""
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        if parts
        else np.empty(0, dtype=np.intp)
        for field in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**columns)
