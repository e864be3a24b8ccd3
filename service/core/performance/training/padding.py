"""Sequences that are filled up to the longest of their micro-batch, rather than packed.

References
----------
Order statistics of independent draws: David and Nagaraja, Order Statistics, 2003, chapter 2; Blom,
Statistical Estimates and Transformed Beta-Variables, 1958 (expected largest of normal draws)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

from service.core.deployment import LengthSpread

_NORMAL = NormalDist()
_BLOM = 0.375


@dataclass(frozen=True, slots=True)
class Padding:
    """Tokens of a sequence: ``useful_tokens`` on average, and ``computed_tokens`` with filling.

    The latter are those of the slowest data-parallel rank, for which the others wait.
    """

    useful_tokens: float
    computed_tokens: float

    @property
    def useful_ratio(self) -> float:
        """Share of computed tokens that are no filling, and of no waiting for it [-]."""
        return self.useful_tokens / self.computed_tokens


def padding(
    lengths_tokens: tuple[float, ...],
    shares: tuple[float, ...],
    most_tokens: float,
    micro_batch_size: float,
    micro_batches: float,
    ranks: int,
) -> Padding:
    """Tokens that sequences of given lengths make a rank compute.

    Parameters
    ----------
    lengths_tokens, shares
        Lengths [token] and how many sequences have each, in any unit.
    most_tokens
        What longer sequences are cut to [token].
    micro_batch_size, micro_batches, ranks
        Sequences that are filled up to the longest of them, such groups in a step, and
        data-parallel ranks, which draw sequences independently [-].
    """
    drawn = sorted(
        (min(length, most_tokens), share)
        for length, share in zip(lengths_tokens, shares, strict=True)
    )
    total = sum(share for _, share in drawn)
    mean = longest = square = below = 0.0
    for length, share in drawn:
        upto = min(below + share / total, 1.0)
        taken = upto**micro_batch_size - below**micro_batch_size
        mean += length * share / total
        longest += length * taken
        square += length * length * taken
        below = upto
    spread = sqrt(max(square - longest * longest, 0.0) / micro_batches)
    slowest = _NORMAL.inv_cdf((ranks - _BLOM) / (ranks + 1.0 - 2.0 * _BLOM))
    return Padding(mean, min(longest + max(slowest, 0.0) * spread, most_tokens))


def log_normal_lengths(
    mean_tokens: float, spread: LengthSpread, parts: int = 512
) -> tuple[float, ...]:
    """Lengths of equal shares of a log-normal distribution [token].

    Parameters
    ----------
    mean_tokens, spread
        Mean length [token], and how lengths differ from it.
    parts
        How many lengths.
    """
    variance = log(float(spread.square_ratio))
    sigma, centre = sqrt(variance), log(mean_tokens) - variance / 2.0
    quantiles = (_NORMAL.inv_cdf((part + 0.5) / parts) for part in range(parts))
    return tuple(exp(centre + sigma * quantile) for quantile in quantiles)
