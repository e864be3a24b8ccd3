"""The limits of training runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.estimation.recommendations.limits import (
    HEADROOM,
    Limit,
    Written,
    kgco2e,
    known,
    litres,
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
    days: FloatArray | None = None
    usd: FloatArray | None = None
    kgco2e: FloatArray | None = None
    litres: FloatArray | None = None
    it_power_w: FloatArray | None = None


def _days(estimate: Written) -> float | None:
    return known(estimate["latency"]["run"], "days")


def _usd(estimate: Written, candidate: Written) -> float | None:
    days, hourly = _days(estimate), candidate["usd_per_hour"]
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
    Limit(
        name="it_power_w",
        unit="W",
        label="power of the IT equipment",
        of_candidates=lambda one: one.it_power_w,
        of_estimate=lambda estimate, _: known(estimate["energy"], "it_power_w"),
    ),
)
