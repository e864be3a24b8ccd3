"""Hard limits, each declared once.

Searches, the verification of choices, near misses, sweeps, reports and commands all read the same
table: :data:`~service.estimation.recommendations.limit_tables.DEPLOYMENT_LIMITS` or
:data:`~service.estimation.recommendations.limit_tables.RUN_LIMITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from service.estimation.answers import LimitRow
from service.estimation.references import Request

if TYPE_CHECKING:
    from service.core.elementwise import FloatArray

#: An estimate as it goes over the wire, or a candidate's description.
Written: TypeAlias = Mapping[str, Any]
#: What limits are set to, by name; None does not limit.
Bounds: TypeAlias = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFigures:
    """Figures of many candidates that limits are held against; None where they do not apply.

    ``missing_replicas`` would have to be added to carry the load. Money, emissions and water are
    those of whatever period or work the limit is on.
    """

    sequence_tokens: FloatArray | None = None
    headroom_ratio: FloatArray | None = None
    missing_replicas: FloatArray | None = None
    accelerators: FloatArray | None = None
    host_memory_bytes: FloatArray | None = None
    tier_memory_bytes: FloatArray | None = None
    ttft_s: FloatArray | None = None
    tpot_s: FloatArray | None = None
    e2e_s: FloatArray | None = None
    task_s: FloatArray | None = None
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


@dataclass(frozen=True, slots=True)
class Limit:
    """A hard limit on a figure: at most its bound, or with ``at_least`` at least that.

    ``name`` is the field of the request's limits; without ``requested``, the model, the hardware or
    the load set the bound, or an object of the request's limits does. ``figure`` is the field of
    :class:`CandidateFigures` that it is on, None where searches decide by it beforehand.
    ``of_estimate`` takes it from a single estimate and its candidate; without it, estimates state
    the limit among their constraints.
    """

    name: str
    figure: str | None
    unit: str
    label: str
    of_estimate: Callable[[Written, Written], float | None] | None = None
    at_least: bool = False
    requested: bool = True

    @property
    def sign(self) -> float:
        """What a figure and its bound are multiplied by, so that less is always better."""
        return -1.0 if self.at_least else 1.0

    def of_candidates(self, figures: CandidateFigures) -> FloatArray | None:
        """The figure of many candidates; None where the limit does not apply to them."""
        found: FloatArray | None = None if self.figure is None else getattr(figures, self.figure)
        return found


def bounds_of(limits: Request) -> dict[str, Any]:
    """What limits of a request are set to, by name, those of rules and of the site among them."""
    return bounds_told(limits.model_dump())


def bounds_told(limits: Written) -> dict[str, Any]:
    """The same of limits as an answer tells them.

    No rule may be broken where rules are to be kept.
    """
    bounds = {name: bound for name, bound in limits.items() if name not in ("compliance", "site")}
    if limits.get("compliance") is not None:
        bounds["compliance"] = 0.0
    site = limits.get("site")
    if site is not None:
        bounds |= {
            "facility_power_w": site["facility_power_w"],
            "rack_kw": site["rack_kw"],
            "noise_db": None if site["noise"] is None else site["noise"]["at_most_db"],
        }
    return bounds


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A limit with the figures to hold against it and the most they may be, signs included."""

    limit: Limit
    values: FloatArray
    most: float


def limit_checks(
    limits: Iterable[Limit], figures: CandidateFigures, bounds: Bounds
) -> Iterator[LimitCheck]:
    """The limits that are set and apply to the figures, in the order of the table."""
    for limit in limits:
        bound = bounds.get(limit.name)
        values = None if bound is None else limit.of_candidates(figures)
        if bound is not None and values is not None:
            signed = limit.sign * values if limit.at_least else values
            yield LimitCheck(limit, signed, limit.sign * bound)


def limit_rows(
    limits: Iterable[Limit], bounds: Bounds, estimate: Written, candidate: Written
) -> list[LimitRow]:
    """The limits that are set, each with the figure of a single estimate and a verdict."""
    return [
        _row(limit, bound, limit.of_estimate(estimate, candidate))
        for limit in limits
        if limit.of_estimate is not None and (bound := bounds.get(limit.name)) is not None
    ]


def _row(limit: Limit, bound: float, value: float | None) -> LimitRow:
    margin = None if value is None else limit.sign * (bound - value)
    return {
        "name": limit.name,
        "verdict": "unknown" if margin is None else "pass" if margin >= 0.0 else "fail",
        "value": value,
        "limit": bound,
        "margin": margin,
        "unit": limit.unit,
    }


@dataclass(frozen=True, slots=True)
class Condition:
    """What excludes candidates without a figure that could come close to it."""

    name: str
    label: str
    unit: str = ""


WITHIN_DOMAIN = Condition(
    "tensor_parallel_group_within_scale_up_domain", "tensor parallelism over fast links"
)
OFFERED = Condition("offered", "rented out by a cloud searched")
FORMATS_AND_POWER = Condition("format_or_power_unknown", "formats and power known")
DIVIDES_BATCH = Condition("divides_global_batch", "batch shared by all ranks")
MAKES_PROGRESS = Condition("makes_progress", "progress despite failures")
MEMORY = Condition("memory_bytes", "memory of an accelerator", "B")
NEEDED_STAGES = Condition("needs_its_pipeline_stages", "no more pipeline stages than memory needs")
CONDITIONS = (
    WITHIN_DOMAIN,
    OFFERED,
    FORMATS_AND_POWER,
    DIVIDES_BATCH,
    NEEDED_STAGES,
    MAKES_PROGRESS,
    MEMORY,
)

#: The limit on memory left free, which what does not even fit misses too.
HEADROOM = "headroom_ratio_at_least"
