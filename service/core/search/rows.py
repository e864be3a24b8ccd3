"""Tables of candidates: objects whose every field is an array with an element a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

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
    that the batch of a training step does not divide among.
    """

    too_small: tuple[TooSmall, ...]
    beyond_domain: int
    unable: int
    undivided: int = 0


def taken(table: Table, rows: NDArray[Any]) -> Table:
    """The given rows of a table only."""
    columns = {field.name: getattr(table, field.name)[rows] for field in fields(table)}  # type: ignore[arg-type]
    return type(table)(**columns)


def joined(kind: type[Table], parts: Sequence[Table]) -> Table:
    """Tables below one another; an empty one if there are none."""
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        if parts
        else np.empty(0, dtype=np.intp)
        for field in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**columns)
