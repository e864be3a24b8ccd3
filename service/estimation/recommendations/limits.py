"""Hard limits, each declared once.

Searches, the verification of choices, near misses, sweeps, reports and commands all read the same
table: :data:`~service.estimation.recommendations.inference.limits.DEPLOYMENT_LIMITS` or
:data:`~service.estimation.recommendations.training.limits.RUN_LIMITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from service.core.number_formats import NUMBER_FORMATS
from service.core.years import HOURS_PER_MONTH
from service.estimation.answers import LimitRow
from service.estimation.recommendations.place_requests import SiteLimits
from service.estimation.references import Request

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
    the load set the bound, or an object of the request's limits does. ``of_candidates`` takes the
    figure from those of many candidates, None where the limit does not apply to them.
    ``of_estimate`` takes it from a single estimate and its candidate; without it, estimates state
    the limit among their constraints.
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


def bounds_of(limits: Request) -> dict[str, Any]:
    """What limits of a request are set to, those of rules and of the site among them.

    No rule may be broken where rules are to be kept.
    """
    bounds = limits.model_dump(exclude={"compliance", "site"})
    site: SiteLimits | None = getattr(limits, "site", None)
    if getattr(limits, "compliance", None) is not None:
        bounds["compliance"] = 0.0
    if site is not None:
        level = None if site.noise is None else site.noise.at_most_db
        bounds |= {
            "facility_power_w": site.facility_power_w,
            "rack_kw": site.rack_kw,
            "noise_db": level,
        }
    return bounds


def hourly_usd(estimate: Written, candidate: Written) -> float | None:
    """Price of an hour of all accelerators: the rent, or what owning them costs [USD/h]."""
    if candidate.get("owned"):
        cost = estimate["cost"] or {}
        # In places of one's own there is a rent only where the caller states one.
        return known(cost.get("rented") or cost.get("owned"), "usd_per_hour")
    found: float | None = candidate["usd_per_hour"]
    return found


def monthly_usd(estimate: Written, candidate: Written) -> float | None:
    """The same for a month of 730.5 hours [USD/month]."""
    hourly = hourly_usd(estimate, candidate)
    return None if hourly is None else hourly * HOURS_PER_MONTH


def facility_power_w(estimate: Written) -> float | None:
    """Mean power with the building's share [W]."""
    power_w = known(estimate["energy"], "it_power_w")
    pue = known(estimate["facility"], "pue_ratio")
    return None if power_w is None or pue is None else power_w * pue


def broken_rules(estimate: Written, require: str) -> float | None:
    """Rules that are not kept, or of which nobody can say so, where that is asked for [-]."""
    found = estimate.get("compliance")
    if found is None:
        return None
    verdicts = found["verdicts"]
    missed = ("fail",) if require == "not_fail" else ("fail", "due", "unknown")
    return float(sum(verdicts[one] for one in missed))


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


def weight_bits(estimate: Written) -> float | None:
    """Bits of a weight, None for formats of a checkpoint alone, which have no name [bit]."""
    known = NUMBER_FORMATS.get(estimate["deployment"]["precision"]["weights"])
    return None if known is None else float(known.bits_per_element)


#: Decides which formats a search tries at all.
WEIGHT_BITS: Limit[Any] = Limit(
    name="weight_bits_at_least",
    unit="bit",
    label="bits of a weight, at least",
    of_candidates=lambda _: None,
    of_estimate=lambda estimate, _: weight_bits(estimate),
    at_least=True,
)

#: Limits of what stands in a place, the same for serving and for training.
PLACE_LIMITS: tuple[Limit[Any], ...] = (
    Limit(
        name="it_power_w",
        unit="W",
        label="power of the IT equipment",
        of_candidates=lambda one: one.it_power_w,
        of_estimate=lambda estimate, _: known(estimate["energy"], "it_power_w"),
    ),
    Limit(
        name="facility_power_w",
        unit="W",
        label="power with the building's share",
        of_candidates=lambda one: one.facility_power_w,
        of_estimate=lambda estimate, _: facility_power_w(estimate),
        requested=False,
    ),
    Limit(
        name="rack_kw",
        unit="kW",
        label="power of a rack",
        of_candidates=lambda one: one.rack_kw,
        of_estimate=lambda _, candidate: candidate.get("rack_kw"),
        requested=False,
    ),
    Limit(
        name="noise_db",
        unit="dB(A)",
        label="noise where it is heard",
        of_candidates=lambda one: one.noise_db,
        of_estimate=lambda _, candidate: candidate.get("noise_db"),
        requested=False,
    ),
    # Decide which places recommendations search at all.
    Limit(
        name="water_stress_ratio",
        unit="-",
        label="water stress of the place",
        of_candidates=lambda one: one.water_stress_ratio,
        of_estimate=lambda _, candidate: candidate.get("water_stress_ratio"),
    ),
    Limit(
        name="compliance",
        unit="rules",
        label="rules that are not kept",
        of_candidates=lambda _: None,
        of_estimate=lambda estimate, candidate: broken_rules(
            estimate, candidate.get("require", "not_fail")
        ),
        requested=False,
    ),
)
