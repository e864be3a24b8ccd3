"""A choice as a single estimate, whose figures stand in place of those of the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.search.workloads import WorkloadKind
from service.estimation.answers import LimitRow
from service.estimation.compliance.requests import RuleFacts
from service.estimation.defaults import assumed_for_speed
from service.estimation.inference.requests import PlacedRequest
from service.estimation.recommendations.limit_tables import hourly_usd, known, monthly_usd
from service.estimation.recommendations.limits import (
    Bounds,
    Limit,
    Written,
    bounds_of,
    limit_rows,
)
from service.estimation.recommendations.metrics import MetricRows
from service.estimation.recommendations.place_requests import RulesLimit
from service.estimation.recommendations.places import is_cloud
from service.estimation.recommendations.requests import ChoiceRequest
from service.estimation.recommendations.search import Search
from service.estimation.recommendations.search_context import SearchContext
from service.estimation.references import CatalogRequest, Request
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import CostRequest
from service.estimation.resolution import resolve_region
from service.estimation.training.requests import PlacedTrainingRequest

#: Warnings that say that a figure rests on other hardware's measurements, or on a price that few
#: will get.
_WEAK = frozenset(
    {
        *("efficiency_not_measured", "power_not_measured"),
        *("more_than_on_demand", "instance_divides_group"),
    }
)

#: Parts of an estimate that an answer with several of them says once.
_SAID_ONCE = ("catalog_revision", "engine_version", "provenance")

#: What of a request says from which catalog it is answered: the answer says so once.
_OF_THE_CATALOG = {"catalog_revision", "as_of"}

_WH_PER_KWH = 1000.0


@dataclass(frozen=True, slots=True)
class Verified:
    """The full estimate of a choice, its limits with margins, and how far it can be trusted.

    ``request`` is the body that gives the estimate, ``further`` makes what else a choice of
    the kind says, ``weak`` counts in how many ways it rests on
    other hardware's measurements or on assumptions. ``figures`` are members of the candidate's
    description, and ``metrics`` what it is compared by (one row), as the estimate says.
    """

    request: dict[str, Any]
    further: Callable[[], dict[str, Any]]
    estimate: dict[str, Any]
    limits: list[LimitRow]
    weak: int
    figures: dict[str, Any]
    metrics: MetricRows


def verified_estimate(
    request: CatalogRequest,
    estimate: Written,
    limits: list[LimitRow],
    figures: dict[str, Any],
    metrics: MetricRows,
    accelerator: Entry[Accelerator],
    further: Callable[[], dict[str, Any]],
) -> Verified | None:
    """An estimate with the limits it was held to, or None where it misses one.

    Stand-ins for what a place or the making of hardware is not published of are in the spreads of
    metrics, and make it no weaker; those for links between accelerators do where it has several.
    """
    if any(row["verdict"] == "fail" for row in (*limits, *estimate["constraints"])):
        return None
    codes = {warning["code"] for warning in estimate["warnings"]}
    body = request.model_dump(mode="json", exclude_defaults=True, exclude=_OF_THE_CATALOG)
    several = float(metrics.accelerators[0]) > 1.0
    weak = len(codes & _WEAK) + (several and bool(assumed_for_speed(accelerator)))
    return Verified(body, further, parts_of(estimate), limits, weak, figures, metrics)


def held_candidate(
    candidate: Written, offer: int, search: Search, estimate: Written, limits: Iterable[Limit]
) -> list[LimitRow]:
    """The limits of a search, with the figures of the estimate of a candidate.

    Parameters
    ----------
    candidate, offer
        What was estimated, and the position of its accelerator.
    search, estimate, limits
        What is held to which limits.
    """
    context, asked = search.context, search.limits
    region = next(one.value for one in context.regions if one.id == candidate["region"])
    stress, rules = region.water_stress_ratio, getattr(asked, "compliance", None)
    count = float(candidate["accelerator_count"])
    held = {
        **candidate,
        # What limits of a place and a site are held against, that no estimate states.
        "water_stress_ratio": None if stress is None else float(stress.value),
        **({} if context.site is None else context.site.of(offer, count)),
        **({} if rules is None else {"require": rules.require}),
        "limits_of": getattr(asked, "percentile", "mean"),
    }
    return limit_rows(limits, bounds_of(asked), estimate, held)


def prices_told(estimate: Written, candidate: Written) -> dict[str, float | None]:
    """The price of an hour and of a month of a candidate, as its estimate states them."""
    return {
        "usd_per_hour": hourly_usd(estimate, candidate),
        "usd_per_month": monthly_usd(estimate, candidate),
    }


def asked_cost(request: ChoiceRequest, candidate: Written, context: SearchContext) -> CostRequest:
    """The prices that an estimate of a candidate is to take."""
    accelerator, prices = candidate["accelerator"], context.prices
    hourly = prices.own_usd_per_hour.get(accelerator)
    if not candidate["owned"]:
        return CostRequest(usd_per_accelerator_hour=hourly)
    owning = {} if prices.owning is None else prices.owning.purchase_usd
    return CostRequest(
        usd_per_accelerator_hour=hourly,
        purchase_usd_per_accelerator=owning.get(accelerator),
        amortisation_years=request.ownership.amortisation_years,
        electricity_usd_per_kwh=request.ownership.electricity_usd_per_kwh,
    )


def asked_rules(rules: RulesLimit | None) -> RuleFacts | None:
    """The facts about which an estimate is to check rules; None where none are to be kept."""
    if rules is None:
        return None
    return RuleFacts.model_validate(rules.model_dump(exclude={"require"}))


def parts_of(estimate: Written) -> dict[str, Any]:
    """An estimate without what an answer with several of them says once."""
    return {name: estimate[name] for name in estimate if name not in _SAID_ONCE}


Asked = TypeVar("Asked", PlacedRequest, PlacedTrainingRequest)


def own_plan(
    plan: Asked | None,
    estimate: Callable[[Asked, CatalogSnapshot], Written],
    limits: Iterable[Limit],
    asked: Request,
    snapshot: CatalogSnapshot,
) -> dict[str, Any] | None:
    """The caller's own plan, estimated and held to the limits of the choices; None if not given.

    Parameters
    ----------
    plan, estimate
        What to estimate how, from the catalog that the whole answer is from.
    limits, asked
        The table of limits, and what they are set to.
    snapshot
        The catalog.

    Raises
    ------
    Rejected
        If it cannot be estimated; pointers lead into the plan.
    """
    if plan is None:
        return None
    for name in ("catalog_revision", "as_of"):
        if getattr(plan, name) is not None:
            raise Rejected(
                [FieldError(f"/baseline/{name}", f"the whole answer is from one {name}; move it")]
            )
    try:
        found = estimate(plan, snapshot)
    except Rejected as rejected:
        raise Rejected(
            [replace(one, pointer=f"/baseline{one.pointer}") for one in rejected.errors]
        ) from None
    region = resolve_region(plan.region, snapshot)
    return {"estimate": parts_of(found), "limits": held_to(found, limits, bounds_of(asked), region)}


def held_to(
    estimate: Written, limits: Iterable[Limit], bounds: Bounds, region: Entry[Region]
) -> list[LimitRow]:
    """The limits that are set, with the figures of an estimate that no search has found.

    Parameters
    ----------
    estimate, limits, bounds
        What is held to which limits.
    region
        Where it stands. In a cloud's region the price is the rent, whatever it costs to own.
    """
    costs, stress = estimate["cost"] or {}, region.value.water_stress_ratio
    paid = costs.get("rented") or (None if is_cloud(region) else costs.get("owned"))
    # What limits ask of a candidate, of a plan that no search has found.
    candidate = {
        "usd_per_hour": known(paid, "usd_per_hour"),
        "limits_of": bounds.get("percentile", "mean"),
        "water_stress_ratio": None if stress is None else float(stress.value),
    }
    return limit_rows(limits, bounds, estimate, candidate)


def estimate_metrics(
    kind: WorkloadKind,
    candidate: Written,
    offer: int,
    sharing: float,
    headroom_ratio: float,
    estimate: Written,
    time_s: tuple[float, float],
    work: Written,
) -> MetricRows:
    """What a single estimate is compared by before it is placed: a table of one row.

    Parameters
    ----------
    kind
        Says how much memory left free is as good as any more.
    candidate, offer
        What was estimated, and the position of its accelerator.
    sharing
        Accelerators that have to share a machine [-].
    headroom_ratio
        Share of memory left free [-].
    estimate
        Has the memory with its interval.
    time_s
        The time that counts, and the upper end of its interval [s].
    work
        Footprint of the unit of work, for its IT energy and accelerator time.
    """

    def column(value: float) -> Any:
        return np.array([value])

    def spread(figure: Mapping[str, float]) -> Any:
        return column(figure["high"] / figure["value"])

    energy, hours = work["it_energy_kwh"], work["accelerator_hours"]
    return MetricRows(
        offer=column(offer),
        accelerators=column(float(candidate["accelerator_count"])),
        sharing=column(sharing),
        filled=column(1.0 - min(headroom_ratio, kind.headroom_target_ratio)),
        memory_spread=spread(estimate["memory"]["total_bytes"]),
        seconds=column(time_s[0]),
        seconds_spread=column(time_s[1] / time_s[0]),
        it_wh=column(energy["value"] * _WH_PER_KWH),
        it_wh_spread=spread(energy),
        accelerator_hours=column(hours["value"]),
        accelerator_hours_spread=spread(hours),
        # Known of the candidate already.
        beside_usd=column(0.0),
        beside_kgco2e=column(0.0),
    )
