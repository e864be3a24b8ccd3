"""The limits of training runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.estimation.recommendations.limits import (
    HEADROOM,
    PLACE_LIMITS,
    WEIGHT_BITS,
    Limit,
    Written,
    hourly_usd,
    kgco2e,
    known,
    litres,
    monthly_usd,
    unused_ratio,
)

if TYPE_CHECKING:
    from service.core.elementwise import FloatArray

_HOURS_PER_DAY = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Figures of many runs that limits are held against; None where they do not apply."""

    sequence_tokens: FloatArray | None = None
    headroom_ratio: FloatArray | None = None
    host_memory_bytes: FloatArray | None = None
    tier_memory_bytes: FloatArray | None = None
    days: FloatArray | None = None
    usd: FloatArray | None = None
    usd_per_hour: FloatArray | None = None
    usd_per_month: FloatArray | None = None
    kgco2e: FloatArray | None = None
    litres: FloatArray | None = None
    it_power_w: FloatArray | None = None
    facility_power_w: FloatArray | None = None
    rack_kw: FloatArray | None = None
    noise_db: FloatArray | None = None
    water_stress_ratio: FloatArray | None = None


def _days(estimate: Written) -> float | None:
    return known(estimate["latency"].get("run"), "days")


def _usd(estimate: Written, candidate: Written) -> float | None:
    days, hourly = _days(estimate), hourly_usd(estimate, candidate)
    return None if days is None or hourly is None else float(hourly * days * _HOURS_PER_DAY)


def _run(estimate: Written) -> Written | None:
    run: Written | None = (estimate["impacts"] or {}).get("run")
    return run


RUN_LIMITS: tuple[Limit[RunFigures], ...] = (
    Limit(
        name="context_length",
        unit="tokens",
        label="tokens of a sequence",
        of_candidates=lambda one: one.sequence_tokens,
        requested=False,
    ),
    Limit(
        name=HEADROOM,
        unit="-",
        label="memory left free, at least",
        of_candidates=lambda one: one.headroom_ratio,
        of_estimate=lambda estimate, _: unused_ratio(estimate),
        at_least=True,
    ),
    Limit(
        name="host_memory_bytes",
        unit="B",
        label="host memory of an accelerator",
        of_candidates=lambda one: one.host_memory_bytes,
        requested=False,
    ),
    Limit(
        name="tier_memory_bytes",
        unit="B",
        label="an accelerator's share of the memory tier",
        of_candidates=lambda one: one.tier_memory_bytes,
        requested=False,
    ),
    Limit(
        name="days",
        unit="d",
        label="length of the run",
        of_candidates=lambda one: one.days,
        of_estimate=lambda estimate, _: _days(estimate),
    ),
    Limit(
        name="usd",
        unit="USD",
        label="budget of the run",
        of_candidates=lambda one: one.usd,
        of_estimate=_usd,
    ),
    Limit(
        name="usd_per_hour",
        unit="USD/h",
        label="price of an hour",
        of_candidates=lambda one: one.usd_per_hour,
        of_estimate=hourly_usd,
    ),
    Limit(
        name="usd_per_month",
        unit="USD/month",
        label="price of a month",
        of_candidates=lambda one: one.usd_per_month,
        of_estimate=monthly_usd,
    ),
    Limit(
        name="kgco2e",
        unit="kgCO2e",
        label="greenhouse gases of the run",
        of_candidates=lambda one: one.kgco2e,
        of_estimate=lambda estimate, _: kgco2e(_run(estimate)),
    ),
    Limit(
        name="litres",
        unit="L",
        label="water of the run",
        of_candidates=lambda one: one.litres,
        of_estimate=lambda estimate, _: litres(_run(estimate)),
    ),
    *PLACE_LIMITS,
    WEIGHT_BITS,
)
