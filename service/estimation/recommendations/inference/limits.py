"""The limits of deployments for inference."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFigures:
    """Figures of many deployments that limits are held against; None where they do not apply.

    ``missing_replicas`` would have to be added to carry the load.
    """

    sequence_tokens: FloatArray | None = None
    headroom_ratio: FloatArray | None = None
    missing_replicas: FloatArray | None = None
    accelerators: FloatArray | None = None
    ttft_s: FloatArray | None = None
    tpot_s: FloatArray | None = None
    e2e_s: FloatArray | None = None
    task_s: FloatArray | None = None
    usd_per_hour: FloatArray | None = None
    usd_per_month: FloatArray | None = None
    kgco2e_per_year: FloatArray | None = None
    l_per_year: FloatArray | None = None
    it_power_w: FloatArray | None = None
    facility_power_w: FloatArray | None = None
    rack_kw: FloatArray | None = None
    noise_db: FloatArray | None = None
    water_stress_ratio: FloatArray | None = None


def free_ratio(estimate: Written, candidate: Written) -> float:
    """Share of an accelerator's memory that stays free [-]."""
    # What lies outside leaves the accelerator full, and no more than that.
    free = unused_ratio(estimate)
    return max(free, 0.0) if candidate["uses_memory_tiers"] else free


def _year(estimate: Written) -> Written | None:
    year: Written | None = (estimate["impacts"] or {}).get("per_year")
    return year


def _time_s(estimate: Written, candidate: Written, name: str) -> float | None:
    """The mean of a time, or the percentile that is limited [s]."""
    share = candidate["limits_of"]
    if share == "mean":
        return known(estimate["latency"], name)
    return known((estimate["latency"].get("load") or {}).get(name), share)


DEPLOYMENT_LIMITS: tuple[Limit[DeploymentFigures], ...] = (
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
        of_estimate=free_ratio,
        at_least=True,
    ),
    Limit(
        name="carries_the_load",
        unit="replicas",
        label="replicas missing for the load",
        of_candidates=lambda one: one.missing_replicas,
        requested=False,
    ),
    Limit(
        name="max_accelerators",
        unit="accelerators",
        label="accelerators of all replicas",
        of_candidates=lambda one: one.accelerators,
        requested=False,
    ),
    Limit(
        name="ttft_s",
        unit="s",
        label="time to first token",
        of_candidates=lambda one: one.ttft_s,
        of_estimate=lambda estimate, candidate: _time_s(estimate, candidate, "ttft_s"),
    ),
    Limit(
        name="tpot_s",
        unit="s",
        label="time per output token",
        of_candidates=lambda one: one.tpot_s,
        of_estimate=lambda estimate, candidate: _time_s(estimate, candidate, "tpot_s"),
    ),
    Limit(
        name="e2e_s",
        unit="s",
        label="time of a whole request",
        of_candidates=lambda one: one.e2e_s,
        of_estimate=lambda estimate, candidate: _time_s(estimate, candidate, "e2e_s"),
    ),
    Limit(
        name="task_s",
        unit="s",
        label="time of an agent's task",
        of_candidates=lambda one: one.task_s,
        of_estimate=lambda estimate, _: known(estimate["latency"], "task_s"),
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
        name="kgco2e_per_year",
        unit="kgCO2e/year",
        label="greenhouse gases of a year",
        of_candidates=lambda one: one.kgco2e_per_year,
        of_estimate=lambda estimate, _: kgco2e(_year(estimate)),
    ),
    Limit(
        name="l_per_year",
        unit="L/year",
        label="water of a year",
        of_candidates=lambda one: one.l_per_year,
        of_estimate=lambda estimate, _: litres(_year(estimate)),
    ),
    *PLACE_LIMITS,
    WEIGHT_BITS,
)
