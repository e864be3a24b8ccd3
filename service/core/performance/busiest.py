"""How far the busiest of some ranks lies above their mean."""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

#: What copies of popular experts leave of how unevenly ranks over machines are chosen: rows deviate
#: by 54 of 1,024, not 492, chance makes 32 (TensorRT-LLM, wide_ep/ep_load_balancer, 2025).
BALANCED_RATIO = 0.09


@cache
def expected_highest(ranks: int) -> float:
    """How many standard deviations the highest of some normal values lies above their mean.

    References
    ----------
    Blom, Statistical Estimates and Transformed Beta-Variables, 1958 (expected order statistics).
    """
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
