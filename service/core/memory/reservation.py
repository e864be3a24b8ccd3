"""What caches in pages save against caches that are reserved in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.explanation import Formula
from service.core.memory.kv_cache import CacheLayout, layout_sequence_bytes

#: Paths start at a ``Reservation``.
RESERVATION = (
    Formula(
        "Saved by paging",
        "sequences * (reserved_bytes - paged_bytes)",
        "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
        "saved_bytes",
        unit="B",
    ),
)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Caches of whole sequences: used, in pages, and reserved in one piece [B a sequence]."""

    sequences: float
    used_bytes: float
    paged_bytes: float
    reserved_bytes: float

    @property
    def saved_bytes(self) -> float:
        """What paging saves over all sequences [B]."""
        return self.sequences * (self.reserved_bytes - self.paged_bytes)

    @property
    def paged_waste_ratio(self) -> float:
        """Share of the pages that holds nothing [-]."""
        return 1.0 - self.used_bytes / self.paged_bytes if self.paged_bytes else 0.0

    @property
    def reserved_waste_ratio(self) -> float:
        """Share of the reservation that holds nothing [-]."""
        return 1.0 - self.used_bytes / self.reserved_bytes if self.reserved_bytes else 0.0


def reservation(
    exact_layout: CacheLayout,
    paged_layout: CacheLayout,
    lengths: Sequence[tuple[float, float]],
    reserved_tokens: float,
    sequences: float,
) -> Reservation:
    """Caches of sequences of different lengths, in pages and in one piece of the longest.

    Parameters
    ----------
    exact_layout, paged_layout
        The caches in pages of one token, and of as many as the engine's pages hold.
    lengths
        Lengths of sequences [token] with the share of sequences that have each [-].
    reserved_tokens
        What is reserved for every sequence [token]; longer ones take what they need.
    sequences
        Sequences at the same time [-].
    """

    def mean(layout: CacheLayout, least_tokens: float) -> float:
        total = sum(share for _, share in lengths)
        return sum(
            share * float(layout_sequence_bytes(layout, max(tokens, least_tokens)))
            for tokens, share in lengths
        ) / max(total, 1e-300)

    return Reservation(
        sequences,
        used_bytes=mean(exact_layout, 0.0),
        paged_bytes=mean(paged_layout, 0.0),
        reserved_bytes=mean(exact_layout, reserved_tokens),
    )
