"""Which bytes live in which memory: what is touched most goes where it is read fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from service.core.elementwise import Number, Truth, maximum, minimum, where

#: Bytes that rounding of sums may leave over.
_NOTHING_BYTES = 1e-3
#: Stands for nothing where something is divided by it.
_LEAST_BYTES = 1e-300


@dataclass(frozen=True, slots=True)
class Part:
    """Something to store: its size, and what of it a step touches, evenly over its bytes [B].

    ``tier`` is the index of the tier that it goes to, or to those after it as far as that has no
    room; None for wherever there is room.
    """

    name: str
    stored_bytes: Number
    touched_bytes: Number
    tier: int | None = None

    @property
    def intensity(self) -> Number:
        """Bytes touched in a step for each byte stored [-]."""
        stored = maximum(self.stored_bytes, _LEAST_BYTES)
        return where(self.stored_bytes > 0.0, self.touched_bytes / stored, 0.0)


@dataclass(frozen=True, slots=True)
class Room:
    """Space in a tier [B] and the bandwidth at which it is read [B/s]."""

    capacity_bytes: Number
    bandwidth_bytes_per_s: Number


@dataclass(frozen=True, slots=True)
class Stored:
    """As much of a part as a tier holds [B]; ``tier`` is None for what found no room."""

    name: str
    tier: int | None
    stored_bytes: Number
    touched_bytes: Number


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything went."""

    stored: tuple[Stored, ...]

    def without(self, name: str) -> Placement:
        """Everything else, where it is."""
        return Placement(tuple(item for item in self.stored if item.name != name))

    def of(self, tier: int | None) -> tuple[Stored, ...]:
        """What a tier holds."""
        return tuple(item for item in self.stored if item.tier == tier)

    def stored_bytes(self, tier: int | None) -> Number:
        """Bytes that a tier holds; those without a place for None [B]."""
        return sum(item.stored_bytes for item in self.of(tier))

    def touched_bytes(self, tier: int | None) -> Number:
        """Bytes of a tier that a step touches [B]."""
        return sum(item.touched_bytes for item in self.of(tier))

    @property
    def fits(self) -> Truth:
        """Whether everything found a place."""
        placed: Truth = self.stored_bytes(None) <= _NOTHING_BYTES
        return placed


def place(parts: Sequence[Part], rooms: Sequence[Room]) -> Placement:
    """Place parts in tiers so that a step takes least when tiers are read one after the other.

    Parts that are for a certain tier go first, on to the next one where it is full. Of the others,
    those with most bytes touched for each byte stored take the fastest tier; what does not fit
    continues in the next one. As parts may be divided, swapping any two bytes of them could only
    slow a step down.

    Parameters
    ----------
    parts
        What to store. Sizes may be arrays.
    rooms
        The tiers, in the order in which they are named; they may stand in any order of speed.

    Returns
    -------
    Placement
        Parts by tier; those without a place have the tier None.
    """
    left = [room.capacity_bytes for room in rooms]
    bound = [part for part in parts if part.tier is not None]
    free = [part for part in parts if part.tier is None]
    stored: list[Stored] = []
    orders = _orders(
        [room.bandwidth_bytes_per_s for room in rooms], [part.intensity for part in free]
    )
    for elements, fastest_first, hottest_first in orders:
        for part in [*bound, *(free[index] for index in hottest_first)]:
            remaining = part.stored_bytes * elements
            for tier in fastest_first if part.tier is None else range(part.tier, len(rooms)):
                taken = minimum(remaining, maximum(left[tier], 0.0))
                if np.any(taken > 0.0):
                    left[tier] = left[tier] - taken
                    remaining = remaining - taken
                    stored.append(Stored(part.name, tier, taken, taken * part.intensity))
            if np.any(remaining > 0.0):
                stored.append(Stored(part.name, None, remaining, remaining * part.intensity))
    return Placement(tuple(stored))


def _orders(
    bandwidths: Sequence[Number], intensities: Sequence[Number]
) -> Iterator[tuple[Number, Sequence[int], Sequence[int]]]:
    """Tiers and parts by falling bandwidth and intensity, with 1 for elements in that order.

    The other elements have 0, and an order of their own that comes later.
    """
    if not any(isinstance(key, np.ndarray) for key in (*bandwidths, *intensities)):
        yield 1.0, _falling(bandwidths), _falling(intensities)
        return
    keys = np.array(np.broadcast_arrays(*bandwidths, *intensities))
    tiers = len(bandwidths)
    ranked = np.concatenate(
        [np.argsort(-part, axis=0, kind="stable") for part in (keys[:tiers], keys[tiers:])]
    )
    alike = bool((ranked == ranked[:, :1]).all())
    for order in (ranked[:, :1] if alike else np.unique(ranked, axis=1)).T:
        elements = 1.0 if alike else (ranked == order[:, None]).all(axis=0) * 1.0
        yield elements, order[:tiers].tolist(), order[tiers:].tolist()


def _falling(keys: Sequence[Number]) -> Sequence[int]:
    return sorted(range(len(keys)), key=lambda index: keys[index], reverse=True)
