"""The limits of deployments for inference."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFigures:
    """Figures of many deployments that limits are held against; None where they do not apply.

    ``missing_replicas`` would have to be added to carry the load.
    """

    sequence_tokens: FloatArray | None = None
    headroom_ratio: FloatArray | None = None
    missing_replicas: FloatArray | None = None
    ttft_s: FloatArray | None = None
    tpot_s: FloatArray | None = None
    e2e_s: FloatArray | None = None
    task_s: FloatArray | None = None
    usd_per_hour: FloatArray | None = None
    kgco2e_per_year: FloatArray | None = None
    l_per_year: FloatArray | None = None
    it_power_w: FloatArray | None = None


def free_ratio(estimate: Written, candidate: Written) -> float:
    """Share of an accelerator's memory that stays free [-]."""
    # What lies outside leaves the accelerator full, and no more than that.
    free = unused_ratio(estimate)
    return max(free, 0.0) if candidate["uses_memory_tiers"] else free


def _year(estimate: Written) -> Written | None:
    year: Written | None = (estimate["impacts"] or {}).get("per_year")
    return year


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
        name="ttft_s",
        unit="s",
        label="time to first token",
        of_candidates=lambda one: one.ttft_s,
        of_estimate=lambda estimate, _: known(estimate["latency"], "ttft_s"),
    ),
    Limit(
        name="tpot_s",
        unit="s",
        label="time per output token",
        of_candidates=lambda one: one.tpot_s,
        of_estimate=lambda estimate, _: known(estimate["latency"], "tpot_s"),
    ),
    Limit(
        name="e2e_s",
        unit="s",
        label="time of a whole request",
        of_candidates=lambda one: one.e2e_s,
        of_estimate=lambda estimate, _: known(estimate["latency"], "e2e_s"),
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
        of_estimate=lambda _, candidate: candidate["usd_per_hour"],
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
    Limit(
        name="it_power_w",
        unit="W",
        label="power of the IT equipment",
        of_candidates=lambda one: one.it_power_w,
        of_estimate=lambda estimate, _: known(estimate["energy"], "it_power_w"),
    ),
    # Decides which formats are tried at all.
    Limit(
        name="weight_bits_at_least",
        unit="bit",
        label="bits of a weight, at least",
        of_candidates=lambda _: None,
        at_least=True,
    ),
)
