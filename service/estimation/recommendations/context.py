"""Resolves what hardware a search may have, where, and at which prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.engines import EngineRelease, EngineWorkload
from service.estimation.calibrations import infrastructure_of
from service.estimation.compliance.check import check_rules
from service.estimation.levels import measured_families
from service.estimation.platforms import in_asked_facility, in_asked_machine
from service.estimation.recommendations.place_requests import RulesLimit
from service.estimation.recommendations.places import (
    NotSearched,
    Sites,
    not_measured,
    placeable,
    that_can_stand,
)
from service.estimation.recommendations.requests import (
    ChoiceRequest,
    DecisionLimitsRequest,
    PlacesRequest,
)
from service.estimation.recommendations.search_context import (
    SearchContext,
    embodied_kgco2e,
    ownership,
    price_list,
    prices_by_id,
    reference_region,
    searched_accelerators,
)
from service.estimation.recommendations.site_limits import site_figures
from service.estimation.recommendations.training.requests import RunLimits
from service.estimation.resolution import Problems

_STRESS, _RULES = "/limits/water_stress_ratio", "/limits/compliance"

#: Limits of either kind of search.
Limits: TypeAlias = DecisionLimitsRequest | RunLimits


def search_context(
    request: ChoiceRequest,
    search: PlacesRequest,
    limits: Limits,
    named: Sequence[Entry[Accelerator]] | None,
    release: EngineRelease,
    workload: EngineWorkload,
    sites: Sites,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> SearchContext:
    """Accelerators, places and prices of a search.

    Parameters
    ----------
    request, search, limits
        What was asked for.
    named
        The accelerators that it names; None where it names none.
    release, workload
        What would run what on them.
    sites
        The places.
    snapshot, problems
        The catalog, and what takes notes. With any, the context is of no use.
    """
    accelerators, unmeasured = _accelerators(
        request, search, named, release, workload, snapshot, problems
    )
    sites, kept_out = _within_limits(sites, search, limits, snapshot, problems)
    regions = tuple(in_asked_facility(one, request.facility, snapshot) for one in sites.regions)
    sites = replace(sites, regions=regions)
    can_stand = placeable(search.placement, named is not None, accelerators, sites, snapshot)
    kept, unplaced = that_can_stand(accelerators, can_stand, sites)
    if accelerators and regions and not can_stand.any() and sites.where is not None:
        problems.add(
            "/search/where",
            f"search.where ({', '.join(sites.where)}) contradicts "
            f"{'search.accelerators' if named is not None else 'what is searched'}: "
            f"{accelerators[0].id} usually stands in {accelerators[0].value.platform.name!r}, "
            "which cannot be had so",
        )
    if named is None:
        can_stand = can_stand[kept]
        accelerators = tuple(one for one, there in zip(accelerators, kept, strict=True) if there)
    names = [entry.id for entry in accelerators]
    around = infrastructure_of(snapshot)[1]
    rents = prices_by_id(
        request.usd_per_accelerator_hour, "/usd_per_accelerator_hour", snapshot, problems
    )
    owning = ownership(request.ownership, accelerators, sites, around, snapshot, problems)
    return SearchContext(
        accelerators=accelerators,
        regions=regions,
        infrastructure=around,
        placeable=can_stand,
        prices=price_list(names, rents, regions, snapshot, request.list_prices, owning),
        embodied_kgco2e=embodied_kgco2e(accelerators, snapshot, around),
        reference_region=reference_region(snapshot),
        not_searched=(*unmeasured, *(unplaced if named is None else ()), *kept_out),
        sites=sites,
        site=site_figures(limits.site, accelerators, snapshot),
    )


def _accelerators(
    request: ChoiceRequest,
    search: PlacesRequest,
    named: Sequence[Entry[Accelerator]] | None,
    release: EngineRelease,
    workload: EngineWorkload,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[tuple[Entry[Accelerator], ...], tuple[NotSearched, ...]]:
    """Accelerators that are searched, in their machines, and what to say of those left out."""
    every = searched_accelerators(named, release, workload, snapshot, problems)
    found = every
    if named is None and not search.include_unmeasured:
        measured = measured_families(snapshot)
        found = tuple(entry for entry in every if entry.value.family in measured)
    if every and not found:
        problems.add(
            "/search/include_unmeasured",
            f"no accelerator that {release.engine} runs on was measured; say true to search "
            "those of other families' efficiency",
        )
    housed = in_asked_machine(
        found, request.platform, request.power_limit_w, named is not None, snapshot, problems
    )
    kept = tuple(entry for entry in housed if entry is not None)
    return kept, not_measured(every, found)


def _within_limits(
    sites: Sites,
    search: PlacesRequest,
    limits: Limits,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[Sites, tuple[NotSearched, ...]]:
    """The places within the limits that they meet or miss whatever stands there.

    Limits that leave none are noted, with the place that comes closest.
    """
    regions = sites.regions
    found: list[NotSearched] = []
    asked = "all places that are searched" if search.regions is None else "search.regions"
    most = limits.water_stress_ratio
    if most is not None and regions:
        kept = tuple(one for one in regions if (_stress(one) or most + 1.0) <= most)
        nearest = min(regions, key=lambda one: _least(_stress(one)))
        told = (
            f"{len(regions) - len(kept)} places: their water stress is above {most:g}, or nobody "
            "publishes it"
        )
        found += _left_out("water_stress_ratio", len(regions) - len(kept), told)
        if not kept:
            least = _stress(nearest)
            known = "no place's is published" if least is None else f"{nearest.id} has {least:.2g}"
            problems.add(
                _STRESS, f"limits.water_stress_ratio {most:g} contradicts {asked}: {known}"
            )
        regions = kept
    rules = limits.compliance
    if rules is not None and regions:
        broken = {one.id: _broken(rules, one, snapshot) for one in regions}
        kept = tuple(one for one in regions if not broken[one.id])
        told = f"{len(regions) - len(kept)} places: rules there are not kept"
        example = next((ids for ids in broken.values() if ids), ())
        told += f", such as {example[0]}" if example else ""
        found += _left_out("compliance", len(regions) - len(kept), told)
        if not kept:
            nearest_id = min(broken, key=lambda id_: len(broken[id_]))
            problems.add(
                _RULES,
                f"limits.compliance contradicts {asked}: {nearest_id} comes closest and does not "
                f"keep {', '.join(broken[nearest_id][:3])}; give the facts that these rules ask "
                "for, or require less",
            )
        regions = kept
    return replace(sites, regions=regions), tuple(found)


def _left_out(reason: str, regions: int, told: str) -> Iterable[NotSearched]:
    return [NotSearched(reason, 0, regions, told)] if regions else []


def _stress(region: Entry[Region]) -> float | None:
    known = region.value.water_stress_ratio
    return None if known is None else float(known.value)


def _least(known: float | None) -> float:
    return float("inf") if known is None else known


def _broken(rules: RulesLimit, region: Entry[Region], snapshot: CatalogSnapshot) -> list[str]:
    """Ids of the rules of a place that are not kept, or that nobody can say are kept."""
    missed = {"fail"} if rules.require == "not_fail" else {"fail", "due", "unknown"}
    found = check_rules(rules, region, snapshot).answer["rules"]
    return [one["id"] for one in found if one["verdict"] in missed]
