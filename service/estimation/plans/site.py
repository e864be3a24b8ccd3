"""Use case: how much of which hardware a site holds, and whether it may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import floor, inf, isfinite
from typing import Any, Literal, cast

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.explanation import EstimateWarning
from service.core.interval import scale
from service.core.platform import Machine
from service.core.years import DAYS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import Constraint, figure, frame, grounds
from service.estimation.compliance.check import RuleCheck, check_rules
from service.estimation.impacts.answers import ImpactsAnswer
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.requests import PlacedRequest
from service.estimation.plans.answers import SiteLimit, SiteOption, SitePlanAnswer, SiteServed
from service.estimation.plans.operation import (
    ALMOST_IDLE_REQUESTS_PER_S,
    DoesNotFit,
    Operation,
    at_rate,
    capacity,
    operation,
    unit_of,
    warnings_of,
    within,
)
from service.estimation.plans.requests import SiteOptionRequest, SitePlanRequest
from service.estimation.plans.sums import times
from service.estimation.platforms import Facility, resolve_placed, sited
from service.estimation.references import FacilityRequest
from service.estimation.rejection import Rejected
from service.estimation.remarks import remarking
from service.estimation.requests import PeriodRequest
from service.estimation.resolution import Problems, resolve_region

_W_PER_KW = 1e3
_HOURS_PER_DAY = 24.0
_KG_PER_G = 1e-3
#: What a site is whose PUE nobody states, whatever machines fill it.
_USUAL_CLASS: Literal["colocation"] = "colocation"
#: A share of a machine that rounding may lose.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class _Filled:
    """A site full of machines of one kind.

    ``water_each_l_per_day`` is what one evaporates on the site, where the water is limited.
    """

    accelerator: Entry[Accelerator]
    machine: Entry[Machine] | None
    machine_kw: float
    accelerators_per_machine: int
    machines: int
    machines_per_rack: int
    racks_used: int
    limited_by: SiteLimit
    facility: FacilityRequest
    pue_ratio: answers.Interval
    water_each_l_per_day: float | None = None

    @property
    def accelerators(self) -> int:
        return self.machines * self.accelerators_per_machine

    @property
    def it_kw(self) -> float:
        return self.machines * self.machine_kw


@remarking(SitePlanAnswer)
def site_plan_answer(request: SitePlanRequest, snapshot: CatalogSnapshot) -> SitePlanAnswer:
    """Machines that a site holds, what they draw, emit and serve, and what stands against them.

    Raises
    ------
    Rejected
        If the place or an option is unknown, an option's power is, or the site's heat by rack is
        stated as well.
    """
    problems = Problems()
    for name in ("rack_kw", "accelerators_per_rack"):
        if getattr(request.site, name) is not None:
            problems.add(f"/site/{name}", "follows from the plan; leave it out")
    region = problems.attempt("/region", lambda: resolve_region(request.region, snapshot))
    problems.stop_if_any()
    place = problems.resolved(region)
    warnings: dict[EstimateWarning, None] = {}
    entries: dict[tuple[str, str], Entry[Any]] = {("regions", place.id): place}
    options: list[SiteOption] = []
    refused: dict[int, Rejected] = {}
    for at, option in enumerate(request.options):
        filled = _filled(option, f"/options/{at}", place, request, snapshot)
        entries["accelerators", filled.accelerator.id] = filled.accelerator
        if filled.machine is not None:
            entries["platforms", filled.machine.id] = filled.machine
        impacts = _impacts(filled, option, f"/options/{at}", request, snapshot)
        watered = _within_water(filled, impacts, request)
        if watered.machines != filled.machines:
            impacts = _impacts(watered, option, f"/options/{at}", request, snapshot)
        filled = watered
        rules = _rules(filled, place, request, impacts, snapshot)
        warnings |= dict.fromkeys(_warnings(filled, request))
        if rules is not None:
            warnings |= dict.fromkeys(rules.warnings)
            entries |= {(kind, entry.id): entry for kind, entry in rules.entries}
        options.append(_written(filled, impacts, rules, request))
        try:
            found = _served(filled, option, request, snapshot)
            if found is not None:
                options[at]["serves"], served = found
                warnings |= dict.fromkeys(warnings_of([served]))
        except Rejected as rejected:
            refused[at] = rejected
            said = "; ".join(error.detail for error in rejected.errors)
            told = f"{filled.accelerator.id} cannot serve this: {said}"
            warnings[EstimateWarning("not_served", told)] = None
    if refused and len(refused) == sum(option["machines"] > 0 for option in options):
        # What no option can do is wrong with what is asked.
        errors = next(iter(refused.values())).errors
        raise Rejected([replace(one, pointer=f"/serves{one.pointer}") for one in errors])
    return {
        **frame(snapshot.revision),
        "region": place.id,
        "facility": _facility(place, request.facility, snapshot),
        "options": options,
        **grounds(
            snapshot, warnings, [(kind, entry) for (kind, _), entry in entries.items()], None
        ),
    }


def _filled(
    option: SiteOptionRequest,
    pointer: str,
    place: Entry[Region],
    request: SitePlanRequest,
    snapshot: CatalogSnapshot,
) -> _Filled:
    """As many machines as power and racks allow."""
    problems = Problems()

    def placed() -> tuple[Entry[Accelerator], Entry[Machine] | None]:
        found, machine = resolve_placed(
            option.accelerator, option.platform, option.power_limit_w, snapshot, problems
        )
        problems.stop_if_any()
        return problems.resolved(found), machine

    accelerator, machine = within(pointer, placed)
    machine_kw = _machine_kw(accelerator.value)
    if machine_kw is None:
        problems.refuse(
            f"{pointer}/accelerator",
            f"{accelerator.id} has no thermal design power; give figures.thermal_design_power_w",
        )
    each = max(1, round(float(accelerator.value.platform.accelerators)))
    facility = _building(place, request.facility)
    pue = sited(place, machine, facility, snapshot).region.value.pue_ratio
    by_supply = floor(request.rack_kw / machine_kw + _NOTHING)
    if request.machines_per_rack is not None:
        by_supply = min(by_supply, request.machines_per_rack)
    in_rack = int(min(by_supply, _cooled_in_rack(request, machine_kw)))
    by_racks = in_rack * request.racks
    usable_kw = request.site_kw * (1.0 - request.reserve_ratio)
    by_power = floor(usable_kw / (machine_kw * float(pue.value)) + _NOTHING)
    machines = min(by_racks, by_power)
    limited_by: SiteLimit = "site_power"
    if not by_supply:
        limited_by = "rack_power"
    elif by_racks <= by_power:
        limited_by = "rack_air_cooling" if in_rack < by_supply else "racks"
    return _Filled(
        accelerator=accelerator,
        machine=machine,
        machine_kw=machine_kw,
        accelerators_per_machine=each,
        machines=machines,
        machines_per_rack=in_rack,
        racks_used=-(-machines // in_rack) if in_rack else 0,
        limited_by=limited_by,
        facility=facility,
        pue_ratio=figure(pue),
    )


def _cooled_in_rack(request: SitePlanRequest, machine_kw: float) -> float:
    """Machines of a rack whose heat the room's air removes; any number where that has no limit."""
    to_air_kw = machine_kw * (1.0 - request.site.liquid_cooled_ratio)
    if request.rack_air_kw is None or to_air_kw <= 0.0:
        return inf
    return floor(request.rack_air_kw / to_air_kw + _NOTHING)


def _within_water(
    filled: _Filled, impacts: ImpactsAnswer | None, request: SitePlanRequest
) -> _Filled:
    """As many of the machines as the site's water is enough for; it goes with their energy."""
    most_l = request.water_l_per_day
    on_site = None if impacts is None or most_l is None else _on_site_l_per_day(impacts)
    if on_site is None or most_l is None:
        return filled
    each_l = on_site["value"] / filled.machines
    filled = replace(filled, water_each_l_per_day=each_l)
    if on_site["value"] <= most_l * (1.0 + _NOTHING):
        return filled
    machines = floor(most_l / each_l + _NOTHING)
    racks = -(-machines // filled.machines_per_rack)
    return replace(filled, machines=machines, racks_used=racks, limited_by="water")


def _on_site_l_per_day(impacts: ImpactsAnswer) -> answers.Interval | None:
    bases = impacts["impacts"]
    used = None if bases is None else bases["period"]
    return None if used is None else times(used["water"]["on_site_l"], 1.0 / DAYS_PER_YEAR)


def _facility(place: Entry[Region], asked: FacilityRequest, snapshot: CatalogSnapshot) -> Facility:
    """The building as it is told, by why it was taken."""
    building = _building(place, asked)
    told = sited(place, None, building, snapshot).facility
    if building.site_class == asked.site_class or asked.pue_ratio is not None:
        return told
    reason = f"nobody states one for {place.id}; usual for the class {building.site_class}"
    return {**told, "pue_reason": reason}


def _building(place: Entry[Region], asked: FacilityRequest) -> FacilityRequest:
    """The building of a site, which is one and the same data centre whatever machines fill it."""
    if asked.site_class is not None or not place.value.pue_stood_in:
        return asked
    return asked.model_copy(update={"site_class": _USUAL_CLASS})


def _machine_kw(accelerator: Accelerator) -> float | None:
    """Most power of a machine: as it is rated, else accelerators and host at full load [kW]."""
    most_w, platform = accelerator.most_power_w, accelerator.platform
    if most_w is None:
        return None
    rated_w = float(platform.rated_power_w)
    if isfinite(rated_w) and not isfinite(float(accelerator.power_limit_w)):
        return rated_w / _W_PER_KW
    drawn_w = float(most_w) * float(platform.accelerators) + float(platform.host_load_w.high)
    return drawn_w / float(platform.supply_efficiency_ratio) / _W_PER_KW


def _written(
    filled: _Filled,
    impacts: ImpactsAnswer | None,
    rules: RuleCheck | None,
    request: SitePlanRequest,
) -> SiteOption:
    """A full site as it goes over the wire, without what it serves."""
    bases = None if impacts is None else impacts["impacts"]
    used = None if bases is None else bases["period"]
    site = None if impacts is None else impacts["site"]
    waste = None if used is None else used["e_waste_streams"]
    on_site = None if impacts is None else _on_site_l_per_day(impacts)
    limits = list(_constraints(filled, request, site))
    failed = [] if rules is None else _named(rules, "fail")
    broken = [one["name"] for one in limits if one["verdict"] == "fail"] + failed
    return {
        "accelerator": filled.accelerator.id,
        "platform": None if filled.machine is None else filled.machine.id,
        "accelerators": filled.accelerators,
        "machines": filled.machines,
        "machines_per_rack": filled.machines_per_rack,
        "racks_used": filled.racks_used,
        "limited_by": filled.limited_by,
        "memory_bytes": filled.accelerators * float(filled.accelerator.value.memory_bytes),
        "machine_kw": filled.machine_kw,
        "it_kw": filled.it_kw,
        "facility_kw": cast("answers.Interval", times(filled.pue_ratio, filled.it_kw)),
        "facility_energy_kwh_per_year": None if used is None else used["facility_energy_kwh"],
        "operational_location_kgco2e_per_year": None
        if used is None
        else times(used["carbon"]["operational_location_gco2e"], _KG_PER_G),
        "operational_market_kgco2e_per_year": None
        if used is None
        else times(used["carbon"]["operational_market_gco2e"], _KG_PER_G),
        "marginal_signal_kgco2e_per_year": None
        if used is None
        else times(used["carbon"]["marginal_signal_gco2e"], _KG_PER_G),
        "embodied_kgco2e_per_year": None
        if used is None
        else times(used["carbon"]["embodied_gco2e"], _KG_PER_G),
        "water_on_site_l_per_day": on_site,
        "water_l_per_day": None
        if used is None
        else times(used["water"]["total_l"], 1.0 / DAYS_PER_YEAR),
        "e_waste_kg_per_year": None if used is None else used["e_waste_kg"],
        "e_waste_uncollected_kg_per_year": None if waste is None else waste["uncollected_kg"],
        "land_m2": None if used is None else used["land_m2_years"],
        "treatment_kgco2e_per_year": None
        if waste is None
        else times(waste["treatment_gco2e"], _KG_PER_G),
        "site": site,
        "serves": None,
        "constraints": limits,
        "rules": None if rules is None else rules.answer["verdicts"],
        "failed_rules": failed,
        "missing_facts": [] if rules is None else rules.answer["missing"],
        "permitted": None if rules is None else _permitted(rules),
        "first_broken": broken[0] if broken else None,
    }


def _impacts(
    filled: _Filled,
    option: SiteOptionRequest,
    pointer: str,
    request: SitePlanRequest,
    snapshot: CatalogSnapshot,
) -> ImpactsAnswer | None:
    """A year of the whole site at the usual use of its accelerators; None without any."""
    if not filled.machines:
        return None
    rack_kw = min(filled.machines, filled.machines_per_rack) * filled.machine_kw
    asked = ImpactsRequest(
        region=request.region,
        accelerator=option.accelerator,
        platform=option.platform,
        power_limit_w=option.power_limit_w,
        accelerator_hours=filled.accelerators * _HOURS_PER_DAY * DAYS_PER_YEAR,
        period=PeriodRequest(days=DAYS_PER_YEAR),
        facility=filled.facility,
        electricity=request.electricity,
        hardware=request.hardware,
        site=request.site.model_copy(update={"rack_kw": rack_kw}),
    )
    return within(pointer, lambda: impacts_answer(asked, snapshot))


def _constraints(
    filled: _Filled,
    request: SitePlanRequest,
    site: Any,
) -> Iterator[Constraint]:
    """Hard limits of the site, in the order in which they are met."""
    yield _held("rack_power", filled.machine_kw, request.rack_kw, "kW")
    one_kw = filled.machine_kw * filled.pue_ratio["value"]
    usable_kw = request.site_kw * (1.0 - request.reserve_ratio)
    yield _held(
        "site_power", max(filled.it_kw * filled.pue_ratio["value"], one_kw), usable_kw, "kW"
    )
    if request.rack_air_kw is not None:
        in_rack = min(max(filled.machines, 1), max(filled.machines_per_rack, 1))
        air_kw = in_rack * filled.machine_kw * (1.0 - request.site.liquid_cooled_ratio)
        yield _held("rack_air_cooling", air_kw, request.rack_air_kw, "kW")
    if request.water_l_per_day is not None and filled.water_each_l_per_day is not None:
        used_l = filled.water_each_l_per_day * max(filled.machines, 1)
        yield _held("water", used_l, request.water_l_per_day, "l/d")
    if site is None:
        return
    noise, limit_db = site["noise"], request.site.noise_limit_db
    if noise is not None and limit_db is not None:
        yield _held("noise", noise["sound_pressure_db"]["value"], limit_db, "dBA")


def _held(name: str, value: float, limit: float, unit: str) -> Constraint:
    return {
        "name": name,
        "verdict": "pass" if value <= limit * (1.0 + _NOTHING) else "fail",
        "value": value,
        "limit": limit,
        "margin": limit - value,
        "unit": unit,
    }


def _rules(
    filled: _Filled,
    place: Entry[Region],
    request: SitePlanRequest,
    impacts: ImpactsAnswer | None,
    snapshot: CatalogSnapshot,
) -> RuleCheck | None:
    """Rules of the place, with what follows from the plan where the request does not say it."""
    if request.compliance is None or not filled.machines:
        return None
    facts: dict[str, float] = {"it_power_kw": filled.it_kw, "connected_load_kw": request.site_kw}
    site = None if impacts is None else impacts["site"]
    noise = None if site is None else site["noise"]
    if noise is not None:
        level_db = noise["sound_pressure_db"]["value"]
        facts |= {"noise_day_db": level_db, "noise_night_db": level_db}
    asked = request.compliance
    left_out = {name: value for name, value in facts.items() if getattr(asked, name) is None}
    where = sited(place, filled.machine, filled.facility, snapshot).region
    return check_rules(asked.model_copy(update=left_out), where, snapshot)


def _named(rules: RuleCheck, verdict: str) -> list[str]:
    return [rule["name"] for rule in rules.answer["rules"] if rule["verdict"] == verdict]


def _permitted(rules: RuleCheck) -> Literal["yes", "no", "unknown"]:
    found = rules.answer["verdicts"]
    if found["fail"]:
        return "no"
    return "unknown" if found["unknown"] else "yes"


def _served(
    filled: _Filled,
    option: SiteOptionRequest,
    request: SitePlanRequest,
    snapshot: CatalogSnapshot,
) -> tuple[SiteServed, Operation] | None:
    """Copies on whole machines, on as many of these as hold one; None where all are too few.

    Raises
    ------
    Rejected
        If the option cannot serve it, whatever the number; pointers are those of its estimate.
    """
    asked = request.serves
    machines = 1
    while asked is not None and machines <= filled.machines:
        unit = PlacedRequest(
            model=asked.model,
            precision=asked.precision,
            accelerator=option.accelerator,
            platform=option.platform,
            power_limit_w=option.power_limit_w,
            accelerator_count=machines * filled.accelerators_per_machine,
            region=request.region,
            workload=asked.workload,
            serving=asked.serving,
            limits=asked.limits,
        )
        try:
            return _copies(unit_of(unit, snapshot, ""), filled.machines // machines, snapshot)
        except DoesNotFit:
            machines *= 2
    return None


def _copies(
    unit: PlacedRequest, copies: int, snapshot: CatalogSnapshot
) -> tuple[SiteServed, Operation]:
    one = operation(at_rate(unit, 1, ALMOST_IDLE_REQUESTS_PER_S), snapshot)
    rate = scale(capacity(one, ""), copies)
    tokens = float(one.computed.resolved.workload.output_tokens)
    served: SiteServed = {
        "deployment": unit.model_dump(mode="json", exclude_unset=True),
        "copies": copies,
        "requests_per_s": figure(rate),
        "output_tokens_per_s": figure(scale(rate, tokens)) if one.computed.generates else None,
    }
    return served, one


def _warnings(filled: _Filled, request: SitePlanRequest) -> Iterator[EstimateWarning]:
    """Why nothing fits, where nothing does."""
    if filled.machines:
        return
    machine = f"one machine with {filled.accelerators_per_machine} {filled.accelerator.id}"
    draws = f"{machine} draws up to {filled.machine_kw:.1f} kW"
    why: Mapping[SiteLimit, str] = {
        "rack_power": f"{draws}, a rack has {request.rack_kw:g} kW: none may stand in it",
        "rack_air_cooling": f"{draws}, of whose heat the room's air removes no more than "
        f"{request.rack_air_kw or 0.0:g} kW from a rack: none may stand in it",
        "water": f"{machine} evaporates {filled.water_each_l_per_day or 0.0:.0f} l of water a day "
        f"on the site, which has {request.water_l_per_day or 0.0:g} l",
    }
    usual = f"{draws}, which is more than the site's power leaves for machines"
    yield EstimateWarning("nothing_fits", why.get(filled.limited_by, usual))
