"""A deployment at a rate of requests with everything that plans add up, as estimates compute it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Region
from service.core.estimate.inference import goodput_of
from service.core.explanation import EstimateWarning
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, scale
from service.core.performance.inference.goodput import TimeLimit
from service.estimation.costs.estimate import Costs
from service.estimation.impacts.estimate import DeploymentImpacts, deployment_impacts
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.estimate import deployment_costs
from service.estimation.inference.goodput import goodput_answer, resolve_limits
from service.estimation.inference.requests import PlacedRequest
from service.estimation.inference.spilling import computed_deployment
from service.estimation.platforms import sited
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems, resolve_region

_Found = TypeVar("_Found")
#: Rate at which a copy is looked at to see what it can carry, which depends on no rate.
ALMOST_IDLE_REQUESTS_PER_S = 1e-6


class DoesNotFit(Rejected):
    """One copy of a deployment does not fit on its accelerators."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A deployment under a load: what it does, draws, emits and costs."""

    request: PlacedRequest
    computed: ComputedDeployment
    region: Entry[Region]
    around: Infrastructure
    impacts: DeploymentImpacts
    costs: Costs
    limits: tuple[TimeLimit, ...]

    @property
    def accelerators(self) -> int:
        """Accelerators of all copies."""
        return self.computed.resolved.deployment.parallelism.accelerator_count


def operation(
    request: PlacedRequest,
    snapshot: CatalogSnapshot,
    keep: Callable[[Infrastructure], Infrastructure] = lambda around: around,
) -> Operation:
    """What an estimate of the request computes, before it is written as an answer.

    Parameters
    ----------
    request
        The deployment with its load.
    snapshot
        The catalog.
    keep
        Changes how long hardware is kept.

    Raises
    ------
    Rejected
        As the estimate would.
    """
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.period.year)
    )
    computed = computed_deployment(request, snapshot, problems)
    limits = resolve_limits(request.limits, computed, problems)
    problems.stop_if_any()
    place = sited(
        problems.resolved(region), computed.resolved.machine, request.facility, snapshot
    ).region
    around = keep(computed.resolved.calibration.infrastructure)
    impacts = deployment_impacts(computed, place, request.period, around)
    costs = deployment_costs(
        computed, place, request.cost, impacts, snapshot, around.hardware_life_years
    )
    return Operation(request, computed, place, around, impacts, costs, limits)


def unit_of(request: PlacedRequest, snapshot: CatalogSnapshot, pointer: str) -> PlacedRequest:
    """One copy of what serves a load, with the layout that it runs best in when it is full.

    Raises
    ------
    DoesNotFit
        If it does not fit.
    Rejected
        If the request says how much it has to do, or cannot be estimated. Pointers start with
        ``pointer``.
    """
    problems = Problems()
    for part, name in (("workload", "requests_per_s"), ("workload", "concurrency"), ("", "period")):
        stated = getattr(request, part) if part else request
        if name in stated.model_fields_set and getattr(stated, name) is not None:
            where = f"{pointer}/{part}/{name}" if part else f"{pointer}/{name}"
            problems.add(where, "leave it out: the load of each copy follows from the plan")
    for name in ("catalog_revision", "as_of"):
        if getattr(request, name) is not None:
            problems.add(f"{pointer}/{name}", f"the whole answer is from one {name}; move it")
    problems.stop_if_any()
    full = request.model_copy(
        update={"workload": request.workload.model_copy(update={"concurrency": "max"})}
    )
    computed = within(pointer, lambda: operation(full, snapshot)).computed
    if not computed.fits:
        memory = computed.memory
        need, room = float(memory.total_bytes.value), float(memory.usable_bytes)
        told = (
            f"one copy does not fit: an accelerator would need {need / 1e9:.1f} GB and has "
            f"{room / 1e9:.1f} GB"
        )
        raise DoesNotFit([FieldError(pointer, told)])
    layout = computed.resolved.deployment.parallelism
    return request.model_copy(
        update={
            "accelerator_count": layout.accelerator_count,
            "parallelism": ParallelismRequest(
                tensor=layout.tensor,
                pipeline=layout.pipeline,
                expert=layout.expert,
                data=layout.data,
                context=layout.context,
            ),
        }
    )


def at_rate(unit: PlacedRequest, copies: int, requests_per_s: float) -> PlacedRequest:
    """A number of copies of what :func:`unit_of` made, sharing a rate of requests."""
    layout = unit.parallelism or ParallelismRequest()
    return unit.model_copy(
        update={
            "accelerator_count": (unit.accelerator_count or 1) * copies,
            "parallelism": layout.model_copy(update={"data": (layout.data or 1) * copies}),
            "workload": unit.workload.model_copy(
                update={"requests_per_s": requests_per_s, "concurrency": 1}
            ),
        }
    )


def capacity(one: Operation, pointer: str) -> Interval:
    """Highest rate of requests that a deployment carries and keeps its limits at [1/s].

    Raises
    ------
    Rejected
        If it keeps them at no rate.
    """
    if not one.limits:
        return one.computed.latency.saturation_requests_per_s
    found = goodput_of(one.computed.estimate, one.limits).requests_per_s
    if float(found.value) <= 0.0:
        told = goodput_answer(one.computed, one.limits)
        reason = "no rate keeps them" if told is None else told["reason"]
        Problems().refuse(f"{pointer}/limits", reason)
    return found


def capacity_of_copy(
    one: Operation, operated: Callable[[int, float], Operation], pointer: str
) -> Interval:
    """What :func:`capacity` says of one copy among as many as share a host [1/s].

    Copies that share memory outside their accelerators slow each other down, so that one alone
    would carry more.
    """
    if one.computed.tiers is None:
        return capacity(one, pointer)
    domain = one.computed.resolved.deployment.accelerator.scale_up_domain_accelerators
    copies = max(1, int(domain) // one.accelerators)
    full = operated(copies, ALMOST_IDLE_REQUESTS_PER_S)
    return scale(capacity(full, pointer), 1.0 / copies)


def within(pointer: str, compute: Callable[[], _Found]) -> _Found:
    """A part of an answer whose errors point into the whole request."""
    try:
        return compute()
    except Rejected as rejected:
        raise Rejected(
            [replace(one, pointer=f"{pointer}{one.pointer}") for one in rejected.errors]
        ) from None


#: What a plan tells nothing of, by the field of a deployment and its part.
_UNTOLD = {
    ("", "network_round_trip_s"): "the network of users",
    ("", "compliance"): "rules",
    ("serving", "memory_tiers"): "prices of memory beside the machine",
    ("workload", "calls_per_task"): "tasks of several calls",
    ("workload", "tool_s"): "tools between calls",
    ("workload", "context_growth_tokens"): "prompts that grow from call to call",
    ("workload", "context_kept_cached"): "caches kept between calls",
    ("cost", "usd_per_tco2e"): "a price of emissions",
    ("cost", "amortisation_years"): "an amortisation besides the years of use",
}
#: The same of a day of traffic, which tells rent alone.
UNTOLD_OF_A_DAY = {
    ("cost", "purchase_usd_per_accelerator"): "purchase prices",
    ("cost", "electricity_usd_per_kwh"): "prices of electricity",
}


def unused_warnings(
    deployment: PlacedRequest, also: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> Iterator[EstimateWarning]:
    """That fields of a deployment, which an estimate answers, change nothing in a plan."""
    said = [
        words
        for (part, name), words in {**_UNTOLD, **also}.items()
        if name in (getattr(deployment, part) if part else deployment).model_fields_set
    ]
    if said:
        yield EstimateWarning(
            "setting_unused",
            f"the plan does not use {', '.join(said)}: ask for an estimate of the deployment",
            about="deployment",
        )


def warnings_of(operations: Iterable[Operation]) -> Iterator[EstimateWarning]:
    """Warnings of estimates, each once."""
    seen: set[EstimateWarning] = set()
    for one in operations:
        for warning in (*one.computed.warnings, *one.impacts.warnings, *one.costs.prices.warnings):
            if warning not in seen:
                seen.add(warning)
                yield warning


def rented_whole(one: Operation, accelerators_per_copy: int) -> Iterator[EstimateWarning]:
    """That rent does not follow the copies, where a machine holds more than one of them."""
    rental = one.costs.prices.rental
    if rental is None or rental.instance is None:
        return
    instance = rental.instance.value
    if instance.accelerators > accelerators_per_copy:
        yield EstimateWarning(
            "rented_whole",
            f"{rental.instance.id} is rented with all of its {instance.accelerators} accelerators, "
            f"of which a copy takes {accelerators_per_copy}: rent rises by the machine, not by the "
            "copy",
        )


def entries_of(operations: Iterable[Operation]) -> list[tuple[str, Entry[Any]]]:
    """Catalog entries that estimates rest on, each once."""
    found: dict[tuple[str, str], tuple[str, Entry[Any]]] = {}
    for one in operations:
        for collection, entry in (
            *one.computed.resolved.entries(),
            ("regions", one.region),
            *one.costs.prices.entries,
        ):
            found.setdefault((collection, entry.id), (collection, entry))
    return list(found.values())
