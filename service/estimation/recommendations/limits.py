"""Hard limits, each declared once.

Searches, the verification of choices, near misses, sweeps, reports and commands all read the same
table: :data:`~service.estimation.recommendations.inference.limits.DEPLOYMENT_LIMITS` or
:data:`~service.estimation.recommendations.training.limits.RUN_LIMITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from service.estimation.recommendations.answers import LimitRow

if TYPE_CHECKING:
    from service.core.elementwise import FloatArray

Figures = TypeVar("Figures")
#: An estimate as it goes over the wire, or a candidate's description.
Written: TypeAlias = Mapping[str, Any]
#: What limits are set to, by name; None does not limit.
Bounds: TypeAlias = Mapping[str, float | None]

_GRAMS_PER_KG = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Generic[Figures]):
    """A hard limit on a figure: at most its bound, or with ``at_least`` at least that.

    ``name`` is the field of the request's limits; without ``requested``, the model, the hardware or
    the load set the bound. ``of_candidates`` takes the figure from those of many candidates, None
    where the limit does not apply to them. ``of_estimate`` takes it from a single estimate and its
    candidate; without it, estimates state the limit among their constraints.
    """

    name: str
    unit: str
    label: str
    of_candidates: Callable[[Figures], FloatArray | None]
    of_estimate: Callable[[Written, Written], float | None] | None = None
    at_least: bool = False
    requested: bool = True

    @property
    def sign(self) -> float:
        """What a figure and its bound are multiplied by, so that less is always better."""
        return -1.0 if self.at_least else 1.0


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A limit with the figures to hold against it and the most they may be, signs included."""

    limit: Limit[Any]
    values: FloatArray
    most: float


def limit_checks(
    limits: Iterable[Limit[Figures]], figures: Figures, bounds: Bounds
) -> Iterator[LimitCheck]:
    """The limits that are set and apply to the figures, in the order of the table."""
    for limit in limits:
        bound = bounds.get(limit.name)
        values = None if bound is None else limit.of_candidates(figures)
        if bound is not None and values is not None:
            signed = limit.sign * values if limit.at_least else values
            yield LimitCheck(limit, signed, limit.sign * bound)


def limit_rows(
    limits: Iterable[Limit[Any]], bounds: Bounds, estimate: Written, candidate: Written
) -> list[LimitRow]:
    """The limits that are set, each with the figure of a single estimate and a verdict."""
    return [
        _row(limit, bound, limit.of_estimate(estimate, candidate))
        for limit in limits
        if limit.of_estimate is not None and (bound := bounds.get(limit.name)) is not None
    ]


def _row(limit: Limit[Any], bound: float, value: float | None) -> LimitRow:
    margin = None if value is None else limit.sign * (bound - value)
    return {
        "name": limit.name,
        "verdict": "unknown" if margin is None else "pass" if margin >= 0.0 else "fail",
        "value": value,
        "limit": bound,
        "margin": margin,
        "unit": limit.unit,
    }


def known(figures: Written | None, *names: str) -> float | None:
    """The first of the figures that is known: a whole, else its largest part."""
    for name in names:
        found = (figures or {}).get(name)
        if found is not None:
            return float(found["value"])
    return None


def unused_ratio(estimate: Written) -> float:
    """Share of an accelerator's memory that is not needed, below zero where it lacks [-]."""
    memory = estimate["memory"]
    return float(memory["headroom_bytes"]["value"] / memory["capacity_bytes"])


def kgco2e(footprint: Written | None) -> float | None:
    """Emissions with the making of hardware, or of operation alone where that is unknown [kg]."""
    grams = known((footprint or {}).get("carbon"), "total_gco2e", "operational_location_gco2e")
    return None if grams is None else grams / _GRAMS_PER_KG


def litres(footprint: Written | None) -> float | None:
    """Water on site and off site, or off site alone where the former is unknown [L]."""
    return known((footprint or {}).get("water"), "total_l", "off_site_l")


@dataclass(frozen=True, slots=True)
class Condition:
    """What excludes candidates without a figure that could come close to it."""

    name: str
    label: str
    unit: str = ""


WITHIN_DOMAIN = Condition(
    "tensor_parallel_group_within_scale_up_domain", "tensor parallelism within fast links"
)
OFFERED = Condition("offered", "rented out by a cloud searched")
FORMATS_AND_POWER = Condition("format_or_power_unknown", "formats, their kernels and power known")
DIVIDES_BATCH = Condition("divides_global_batch", "batch divided among data-parallel ranks")
MAKES_PROGRESS = Condition("makes_progress", "progress despite failures")
MEMORY = Condition("memory_bytes", "memory of an accelerator", "B")
CONDITIONS = (WITHIN_DOMAIN, OFFERED, FORMATS_AND_POWER, DIVIDES_BATCH, MAKES_PROGRESS, MEMORY)

#: The limit on memory left free, which what does not even fit misses too.
HEADROOM = "headroom_ratio_at_least"
