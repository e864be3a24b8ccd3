"""What a deployment costs, rented or owned, and what its emissions cost at the caller's price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from service.catalog.derived import derived
from service.catalog.entries.convert import price_name
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core import costs as cost
from service.core.costs import Instance, Price, PriceKind
from service.core.deployment import Accelerator, Parallelism, Region
from service.core.elementwise import Number, minimum
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, exact, independent_sum, product, scale
from service.core.years import HOURS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import figure, known_figure
from service.estimation.costs.answers import (
    InferenceCost,
    Owned,
    Rented,
    ServingCost,
    TotalBasis,
    TrainingCost,
    TrainingRunCost,
)
from service.estimation.costs.groups import joined_from, whole_groups
from service.estimation.costs.price_remarks import age_warnings, amount_warnings
from service.estimation.costs.purchases import purchase
from service.estimation.detail import WHOLE, Detail
from service.estimation.requests import CostRequest, PeriodRequest
from service.estimation.resolution import Problems, is_placed
from service.estimation.writing import written

_RENTAL = "cost/rental"
_HOURS_PER_DAY = 24.0
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Rental:
    """What all instances of a deployment are rented for, by their price, or accelerators by theirs.

    ``instance`` is None where the caller states the rent of an accelerator.
    """

    units: int
    usd_per_unit_hour: Interval
    instance: Entry[Instance] | None
    instances: int | None
    price_kind: PriceKind | None
    price_region: str | None
    price_date: str | None

    @property
    def usd_per_hour(self) -> Interval:
        """Rent of all of them [USD/h]."""
        return scale(self.usd_per_unit_hour, self.units)


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices that apply to a deployment; None where there is none.

    ``accelerators`` are those that are bought: whole boards, unless the caller says what one costs.
    ``purchase_usd`` is of an accelerator with its machine, ``memory_tiers_usd`` of the memory
    beside it that comes on top.
    """

    rental: Rental | None
    accelerators: int
    purchase_usd: Interval | None
    memory_tiers_usd: Interval | None
    amortisation_years: Interval
    electricity_usd_per_kwh: Interval | None
    usd_per_tco2e: float | None
    warnings: tuple[EstimateWarning, ...]
    entries: tuple[tuple[str, Entry[Any]], ...]


@dataclass(frozen=True, slots=True)
class Ownership:
    """What owning a deployment costs by the hour [USD/h], with the accelerators that it takes."""

    accelerators: int
    hardware_usd_per_hour: Interval
    electricity_usd_per_hour: Interval
    memory_tiers_usd_per_hour: Interval | None = None

    @property
    def usd_per_hour(self) -> Interval:
        """All parts together."""
        parts = (self.hardware_usd_per_hour, self.electricity_usd_per_hour)
        memory = self.memory_tiers_usd_per_hour
        return independent_sum(parts if memory is None else (*parts, memory))


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs by the hour, with what they follow from."""

    prices: Prices
    facility_kwh_per_hour: Interval | None
    gco2e_per_hour: Interval | None
    hardware_usd_per_hour: Interval | None
    electricity_usd_per_hour: Interval | None
    emissions_usd_per_hour: Interval | None
    memory_tiers_usd_per_hour: Interval | None

    @property
    def owned(self) -> Ownership | None:
        """Depreciation and electricity; None unless both are known."""
        if self.hardware_usd_per_hour is None or self.electricity_usd_per_hour is None:
            return None
        return Ownership(
            self.prices.accelerators,
            self.hardware_usd_per_hour,
            self.electricity_usd_per_hour,
            self.memory_tiers_usd_per_hour,
        )

    @property
    def total_usd_per_hour(self) -> Interval | None:
        """Owning, else renting, with emissions at their price; None where neither is known."""
        rental, owned = self.prices.rental, self.owned
        paid = owned.usd_per_hour if owned is not None else rental.usd_per_hour if rental else None
        if paid is None or self.emissions_usd_per_hour is None:
            return paid
        return independent_sum((paid, self.emissions_usd_per_hour))


def resolve_prices(
    asked: CostRequest,
    accelerator: Entry[Accelerator],
    parallelism: Parallelism,
    region: Entry[Region],
    life_years: Interval,
    snapshot: CatalogSnapshot,
    memory_tiers_usd: Interval | None = None,
    *,
    trains: bool = False,
) -> Prices:
    """Prices from the request, else from the catalog.

    Parameters
    ----------
    asked
        What the caller says.
    accelerator, parallelism
        What is rented or bought, and how many of it: an instance holds those that have to share a
        machine, if the provider has any that does.
    region
        Where it runs.
    life_years
        Usual life of servers [year], where the caller states no other.
    snapshot
        Has the instances.
    memory_tiers_usd
        Memory beside the machine, for each accelerator [USD].
    trains
        Whether it is a training run.

    Raises
    ------
    Rejected
        If the instance is unknown or has other accelerators.
    """
    count = parallelism.accelerator_count
    host = float(accelerator.value.platform.accelerators_of_a_host)
    group, of_what = parallelism.tensor, "tensor-parallel group"
    if trains and run_shares(count, host) > group:
        group, of_what = int(run_shares(count, host)), "run"
    rental, warnings = _rental(
        snapshot, asked, accelerator.id, region, count, (group, of_what), host
    )
    own = purchase(asked, accelerator, count, region, snapshot, rented=rental is not None)
    if memory_tiers_usd is not None:
        # What stands idle has no use for it.
        memory_tiers_usd = scale(memory_tiers_usd, count / own.accelerators)
    entries: list[tuple[str, Entry[Any]]] = []
    if rental is not None and rental.instance is not None:
        entries.append(("instances", rental.instance))
        if rental.usd_per_hour.low != rental.usd_per_hour.high:
            entries.append(("calibrations", snapshot.calibrations[_RENTAL]))
    return Prices(
        rental=rental,
        accelerators=own.accelerators,
        purchase_usd=own.usd_per_accelerator,
        memory_tiers_usd=memory_tiers_usd,
        amortisation_years=exact(asked.amortisation_years)
        if asked.amortisation_years
        else life_years,
        electricity_usd_per_kwh=own.electricity_usd_per_kwh,
        usd_per_tco2e=asked.usd_per_tco2e,
        warnings=(*warnings, *own.warnings),
        entries=tuple(entries),
    )


def run_shares(count: Number, host: Number) -> Number:
    """Accelerators of a run that are taken to share a machine: all, or those of a host [-].

    How fast they exchange gradients rests on the links within it.
    """
    return minimum(count, host)


def costs(
    prices: Prices, facility_kwh_per_hour: Interval | None, gco2e_per_hour: Interval | None
) -> Costs:
    """Costs by the hour from prices and what the hardware draws and emits in one."""
    hardware = electricity = emissions = memory = None
    if prices.purchase_usd is not None:
        hardware = cost.hardware_usd_per_hour(
            prices.accelerators, prices.purchase_usd, prices.amortisation_years
        )
        if prices.memory_tiers_usd is not None:
            memory = cost.hardware_usd_per_hour(
                prices.accelerators, prices.memory_tiers_usd, prices.amortisation_years
            )
    if prices.electricity_usd_per_kwh is not None and facility_kwh_per_hour is not None:
        electricity = cost.electricity_usd_per_hour(
            facility_kwh_per_hour, prices.electricity_usd_per_kwh
        )
    if prices.usd_per_tco2e is not None and gco2e_per_hour is not None:
        emissions = cost.emissions_usd_per_hour(gco2e_per_hour, prices.usd_per_tco2e)
    by_the_hour = facility_kwh_per_hour, gco2e_per_hour, hardware, electricity, emissions, memory
    return Costs(prices, *by_the_hour)


def served_costs(
    found: Costs,
    requests_per_s: Interval,
    output_tokens: float | None,
    period: PeriodRequest,
    detail: Detail = WHOLE,
) -> InferenceCost:
    """Costs of an inference deployment: by the hour, request, million output tokens and year.

    Without ``output_tokens`` nothing is generated.
    """

    def bases(usd_per_hour: Interval) -> ServingCost:
        per_request = cost.per_unit(usd_per_hour, requests_per_s)
        told: ServingCost = {
            "usd_per_hour": figure(usd_per_hour),
            "usd_per_million_output_tokens": None
            if output_tokens is None
            else figure(cost.usd_per_million_tokens(usd_per_hour, requests_per_s, output_tokens)),
        }
        if output_tokens is None or detail.has("cost.breakdown"):
            told["usd_per_request"] = figure(per_request)
        if detail.has("cost.breakdown"):
            told["usd_per_year"] = figure(scale(usd_per_hour, HOURS_PER_YEAR))
            told["usd_period"] = figure(
                scale(usd_per_hour, period.days * _HOURS_PER_DAY)
                if period.requests is None
                else scale(per_request, period.requests)
            )
        return told

    rental, owned, emissions = found.prices.rental, found.owned, found.emissions_usd_per_hour
    whole = found.total_usd_per_hour
    return {
        "total": None if whole is None else {**_total(found), **bases(whole)},
        "rented": None if rental is None else {**_rented(rental), **bases(rental.usd_per_hour)},
        "owned": None if owned is None else {**written(owned, Owned), **bases(owned.usd_per_hour)},
        "emissions": None if emissions is None else bases(emissions),
    }


def trained_costs(found: Costs, tokens_per_s: Interval, run_hours: Interval | None) -> TrainingCost:
    """Costs of a training run: by the hour, million tokens, and of the whole run."""

    def bases(usd_per_hour: Interval) -> TrainingRunCost:
        whole = None if run_hours is None else product(usd_per_hour, run_hours)
        return {
            "usd_per_hour": figure(usd_per_hour),
            "usd_per_million_tokens": figure(cost.per_unit(usd_per_hour, tokens_per_s, _MILLION)),
            "usd_run": known_figure(whole),
        }

    rental, owned, emissions = found.prices.rental, found.owned, found.emissions_usd_per_hour
    total = found.total_usd_per_hour
    return {
        "total": None if total is None else {**_total(found), **bases(total)},
        "rented": None if rental is None else {**_rented(rental), **bases(rental.usd_per_hour)},
        "owned": None if owned is None else {**written(owned, Owned), **bases(owned.usd_per_hour)},
        "emissions": None if emissions is None else bases(emissions),
    }


def _total(found: Costs) -> TotalBasis:
    """What a total is made of."""
    return {
        "basis": "rented" if found.owned is None else "owned",
        "includes_emissions": found.emissions_usd_per_hour is not None,
    }


def hourly(given: answers.Interval | None, hours: float) -> Interval | None:
    """A figure of an answer over a number of hours, by the hour."""
    if given is None:
        return None
    return scale(Interval(given["value"], given["low"], given["high"]), 1.0 / hours)


def _rented(rental: Rental) -> Rented:
    return {
        "instance": None if rental.instance is None else rental.instance.id,
        "instances": rental.instances,
        "price_kind": rental.price_kind,
        "price_region": rental.price_region,
        "price_date": rental.price_date,
    }


@derived(most=1024)
def _rental(
    snapshot: CatalogSnapshot,
    asked: CostRequest,
    accelerator_id: str,
    region: Entry[Region],
    count: int,
    sharing: tuple[int, str],
    host: float,
) -> tuple[Rental | None, tuple[EstimateWarning, ...]]:
    """What so many accelerators are rented for, and what to say of it.

    ``sharing`` says how many of them have to share a machine, and what they make up; a whole
    machine of the kind has as many as a ``host``.
    """
    group, of_what = sharing
    warnings: list[EstimateWarning] = []
    name = asked.instance
    chosen = None if name is None else _named_instance(name, accelerator_id, snapshot)
    if asked.usd_per_accelerator_hour is not None:
        rent = exact(asked.usd_per_accelerator_hour)
        units = chosen.value.needed(count) if chosen else None
        return Rental(count, rent, chosen, units, None, None, None), ()
    offers = (chosen,) if chosen else _offers(snapshot, accelerator_id, region)
    joined = joined_from(snapshot, accelerator_id)
    if chosen is not None and chosen.value.accelerators < min(group, count, joined):
        message = (
            f"{group} accelerators of a {of_what} have to share a machine, but {chosen.id} has "
            f"{chosen.value.accelerators}: the figures hold only if links as fast join several"
        )
        warnings.append(EstimateWarning("instance_divides_group", message))
    held = whole_groups([offer.value.accelerators for offer in offers], group, joined)
    kind = asked.price_kind
    priced = [
        (offer.value.needed(count) * price.usd_per_hour, offer, price)
        for offer, holds in zip(offers, held, strict=True)
        if holds and (price := offer.value.price_in(region.id, kind)) is not None
    ]
    if not priced:
        if offers:
            message = f"no {kind} price of {offers[0].id} is known: state your own"
            warnings.append(EstimateWarning("price_unknown", message))
        elif region.document.get("kind") == "cloud":
            message = (
                f"no machine with {accelerator_id} is known to be rented out in {region.id}: state "
                "your own price"
            )
            warnings.append(EstimateWarning("price_unknown", message))
        return None, tuple(warnings)
    # Of those that cost the same, the fewest machines.
    _, offer, price = min(priced, key=lambda one: (one[0], one[1].value.needed(count)))
    rent = exact(price.usd_per_hour)
    if price.region is not None and price.region != region.id:
        ratio = snapshot.calibrations[_RENTAL].value["other_region_price_ratio"]
        rent = scale(ratio, price.usd_per_hour)
        message = (
            f"the {kind} price of {offer.id} is known only in {price.region} and is used for "
            f"{region.id}"
        )
        if not is_placed(region):
            message = f"the {kind} price of {offer.id} is that in {price.region}: name your region"
        warnings.append(EstimateWarning("price_of_another_region", message))
    warnings += age_warnings(offer, price, kind, snapshot)
    if chosen is None and offer.value.accelerators < min(group, host, joined):
        message = (
            f"{group} accelerators of a {of_what} have to share a machine, but no machine with "
            f"more than {offer.value.accelerators} has a listed price: that of {offer.id} is "
            "multiplied. Ask the provider for machines with as many"
        )
        warnings.append(EstimateWarning("instance_divides_group", message))
    units, taken = offer.value.needed(count), _at_price(offer, price, kind)
    listed = snapshot.accelerators.get(accelerator_id)
    idle_power_w = None if listed is None else listed.value.idle_power_w
    warnings += amount_warnings(offer, units, count, kind, idle_power_w)
    rental = Rental(units, rent, taken, units, kind, price.region, price.date)
    return rental, tuple(warnings)


def _at_price(offer: Entry[Instance], price: Price, kind: PriceKind) -> Entry[Instance]:
    """The instance with the origin of the one price that is taken, of all that it has."""
    taken = price_name(kind, price.region)
    others = {
        price_name(other, region) for other, each in offer.value.prices.items() for region in each
    } - {taken}
    kept = {name: origin for name, origin in offer.origins.items() if name not in others}
    return replace(offer, origins=kept)


def _named_instance(
    reference: str, accelerator_id: str, snapshot: CatalogSnapshot
) -> Entry[Instance]:
    problems = Problems()
    pointer = "/cost/instance"
    found = problems.attempt(pointer, lambda: snapshot.find("instances", reference))
    if found is not None and found.value.accelerator != accelerator_id:
        problems.add(pointer, f"{found.id} has {found.value.accelerator}, not {accelerator_id}")
    problems.stop_if_any()
    return problems.resolved(found)


@derived(most=1024)
def _offers(
    snapshot: CatalogSnapshot, accelerator_id: str, region: Entry[Region]
) -> tuple[Entry[Instance], ...]:
    """Instances of the region's provider with the accelerator: those in the region, else all."""
    if region.document.get("kind") != "cloud":
        return ()
    provider = region.id.partition("/")[0]
    every = [
        entry
        for entry in _by_provider(snapshot).get(provider, ())
        if entry.value.accelerator == accelerator_id
    ]
    here = [entry for entry in every if entry.value.offered_in(region.id)]
    return tuple(here or every)


@derived()
def _by_provider(snapshot: CatalogSnapshot) -> Mapping[str, tuple[Entry[Instance], ...]]:
    """What providers rent out themselves; their marketplaces' machines are taken by name only."""
    found: dict[str, list[Entry[Instance]]] = {}
    for entry in snapshot.instances.values():
        if entry.document.get("marketplace"):
            continue
        found.setdefault(entry.value.provider, []).append(entry)
    return MappingProxyType({provider: tuple(each) for provider, each in found.items()})


#: Instances by the accelerator in them: how many of it each has, and what its hour costs [USD], or
#: None where its price is not known.
Rents: TypeAlias = Mapping[str, tuple[tuple[int, float | None], ...]]


@derived(most=4096)
def rents_in(snapshot: CatalogSnapshot, region: Entry[Region]) -> Rents:
    """What a region's cloud asks for its instances; nothing where no cloud's region is meant.

    As an estimate takes it: what is rented out in the region itself, else in another one.
    """
    if region.document.get("kind") != "cloud":
        return {}
    elsewhere = snapshot.calibrations[_RENTAL].value["other_region_price_ratio"].value
    found: dict[str, list[tuple[int, float | None]]] = {}
    here = offered_in(snapshot, region)
    for entry in _by_provider(snapshot).get(region.id.partition("/")[0], ()):
        instance = entry.value
        if instance.accelerator in here and not instance.offered_in(region.id):
            continue
        price = instance.price_in(region.id)
        usd = None
        if price is not None:
            ratio = 1.0 if price.region in (None, region.id) else elsewhere
            usd = float(price.usd_per_hour * ratio)
        found.setdefault(instance.accelerator, []).append((instance.accelerators, usd))
    return MappingProxyType({name: tuple(each) for name, each in found.items()})


@derived(most=4096)
def offered_in(snapshot: CatalogSnapshot, region: Entry[Region]) -> frozenset[str]:
    """Accelerators that a region's cloud is known to rent out in it."""
    provider = region.id.partition("/")[0]
    return frozenset(
        entry.value.accelerator
        for entry in _by_provider(snapshot).get(provider, ())
        if entry.value.offered_in(region.id)
    )
