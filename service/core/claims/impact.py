"""Claims about energy, carbon, noise and rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.claims.facts import Facts, Recompute
from service.core.impacts.projection import projection
from service.core.interval import exact


def _crossover_days(requests_per_day: float) -> float:
    projected = projection(exact(550e6), exact(requests_per_day), exact(0.15), 0.0)
    if projected.crossover_days is None:
        raise ValueError("without decline inference always overtakes training")
    return float(projected.crossover_days.value)


def _days_of_700_million(_: Facts) -> float:
    return _crossover_days(700e6)


def _llama_over_gpt_3(_: Facts) -> float:
    return 11_390.0 / 552.0


def _gwh_of_a_year(_: Facts) -> float:
    return 0.42 * 700e6 * 365.0 / 1e9


def _ten_steps_s(_: Facts) -> float:
    return 10 * 0.1


def _memory_parts_per_bandwidth(_: Facts) -> float:
    """Making of 80 GB of HBM at three times DDR5's, per GB/s of an H100 [GB of DDR5 per GB/s]."""
    return 3.0 * 80.0 / 3350.0


IMPACT_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "prefer-ddr": _memory_parts_per_bandwidth,
        "training-run": _llama_over_gpt_3,
        "inference-overtakes": _days_of_700_million,
        "prompts-of-a-year": _gwh_of_a_year,
        "agent-of-ten-steps": _ten_steps_s,
    }
)
