"""Where what is searched may stand: in clouds that rent it out, and in places of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries.entry import Entry
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.errors import NotFound
from service.core.explanation import EstimateWarning
from service.core.search.workloads import Where, WorkloadKind
from service.estimation.costs.estimate import offered_in
from service.estimation.recommendations.requests import Placement, PlacesRequest
from service.estimation.resolution import Problems, named_regions

#: Classes of machines that people buy, by where they put them.
_MACHINES: Mapping[Where, frozenset[str]] = MappingProxyType(
    {
        "cloud": frozenset(),
        "owned": frozenset(
            ("server-8", "server-pcie", "server-cpu", "server-superchip", "server-asic", "rack")
        ),
        "workstation": frozenset(("workstation", "desktop", "mini-pc")),
        "laptop": frozenset(("laptop",)),
        "edge": frozenset(("soc-board", "phone", "mini-pc")),
    }
)
#: Vendors that run what they build in their own clouds only.
_NOT_SOLD = frozenset(("google", "aws", "amazon", "microsoft"))
#: Where bought hardware stands if nobody says where.
_ANYWHERE = "grid/world"
_WHERE, _REGIONS = "/search/where", "/search/regions"


@dataclass(frozen=True, slots=True)
class Sites:
    """Regions that are searched, and what may be placed in those that are no cloud's.

    ``where`` is how hardware may be had; None where clouds rent out what they offer, and anything
    stands elsewhere. With ``implied`` it is the workload kind's. ``assumed`` are places that
    nobody named, ``named`` those of one's own that were named without saying how hardware is had.
    """

    regions: tuple[Entry[Region], ...]
    where: tuple[Where, ...] | None
    implied: bool = False
    assumed: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def own(self) -> NDArray[np.bool_]:
        """Which of the regions are places of one's own."""
        return np.array([not is_cloud(region) for region in self.regions], dtype=bool)

    @property
    def bought_only(self) -> bool:
        """Whether nothing may be rented."""
        return self.where is not None and "cloud" not in self.where

    def takes(self, accelerator: Entry[Accelerator]) -> bool:
        """Whether an accelerator may be bought and placed as was asked for."""
        sold = accelerator.value.vendor.casefold() not in _NOT_SOLD
        if self.where is None:
            return sold
        platform = accelerator.value.platform
        return sold and any(platform.kind in _MACHINES[one] for one in self.where)

    def warnings(self) -> tuple[EstimateWarning, ...]:
        """What was taken for granted."""
        if self.named:
            some = self.named[0]
            return (
                EstimateWarning(
                    "place_of_own",
                    f"hardware in {', '.join(self.named)} is taken to be bought and your own; "
                    f"{some.rpartition('/')[2]}/* names the cloud regions there, and search.where "
                    "says whether to rent or to buy",
                ),
            )
        if not self.assumed:
            return ()
        return (
            EstimateWarning(
                "place_assumed",
                f"hardware of your own is assumed to stand in {', '.join(self.assumed)}: name your "
                "country or state to use its electricity, water and prices",
            ),
        )


def is_cloud(region: Entry[Region]) -> bool:
    """Whether a region is one of a cloud, which rents out what stands there."""
    return region.document.get("kind") == "cloud"


def cloud_regions(snapshot: CatalogSnapshot) -> tuple[Entry[Region], ...]:
    """Regions of clouds, without marketplaces."""
    return tuple(
        region
        for region in snapshot.regions.values()
        if is_cloud(region) and not region.document.get("marketplace")
    )


def searched_sites(
    search: PlacesRequest, kind: WorkloadKind, snapshot: CatalogSnapshot, problems: Problems
) -> Sites:
    """The places that a search names, or all that it may mean, but for those that it leaves out.

    Marketplaces, where whoever owns machines rents them out, are searched only by name. Unknown
    regions, and places that contradict how hardware may be had, are noted.
    """
    where, implied = search.where, False
    if where is None and search.accelerators is None and search.placement is None:
        # What a kind usually runs on, unless the caller says what or how.
        implied = kind.where != ("cloud",)
        where = list(kind.where) if implied else None
    named = None
    if search.regions is not None:
        rented = where is None or "cloud" in where
        meant = [_of_clouds(one, snapshot) if rented else one for one in search.regions]
        named = named_regions(meant, _REGIONS, snapshot, problems)
    assumed: tuple[str, ...] = ()
    if where is None:
        found = {one.id: one for one in cloud_regions(snapshot)} if named is None else named
    elif named is None:
        found = {one.id: one for one in cloud_regions(snapshot)} if "cloud" in where else {}
        if set(where) != {"cloud"}:
            own = _places_of({}, snapshot, problems)
            found |= own
            assumed = tuple(own)
    else:
        found, assumed = _of_named(named, where, snapshot, problems)
    without = named_regions(
        search.without_regions or (), "/search/without_regions", snapshot, problems
    )
    kept = tuple(region for id_, region in found.items() if id_ not in without)
    if found and not kept:
        problems.add("/search/without_regions", "leaves no region to search")
    unique = None if where is None else tuple(dict.fromkeys(where))
    mine = () if where is not None else tuple(one.id for one in kept if not is_cloud(one))
    return Sites(kept, unique, implied, tuple(id_ for id_ in assumed if id_ not in without), mine)


def _of_clouds(name: str, snapshot: CatalogSnapshot) -> str:
    """A place by what people call it ("US", "UK", "Texas") as its clouds' regions, if it has any.

    An id ("country/US") is the place itself.
    """
    if "/" in name:
        return name
    try:
        (place,) = regions_meant(name, snapshot)
        if is_cloud(place):
            return name
        regions_meant(f"{name}/*", snapshot)
    except (NotFound, ValueError):
        return name
    return f"{name}/*"


def usually_bought(sites: Sites, snapshot: CatalogSnapshot) -> tuple[Entry[Accelerator], ...]:
    """Accelerators that may be bought as was asked for, whose usual engine is to be taken."""
    return tuple(one for one in snapshot.delivered_accelerators().values() if sites.takes(one))


def _of_named(
    named: Mapping[str, Entry[Region]],
    where: Sequence[Where],
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[dict[str, Entry[Region]], tuple[str, ...]]:
    """Of named places those where hardware may be had as asked for; and those that stand in."""
    clouds = {id_: one for id_, one in named.items() if is_cloud(one)}
    own = {id_: one for id_, one in named.items() if not is_cloud(one)}
    asked = ", ".join(where)
    if own and set(where) == {"cloud"}:
        problems.add(
            _WHERE,
            f"search.where ({asked}) contradicts search.regions: {next(iter(own))} is not a "
            "cloud region; add owned, workstation, laptop or edge to search.where, or name the "
            "cloud regions there with /* behind it",
        )
        return {}, ()
    if "cloud" not in where:
        # Nothing is rented: a group or a provider beside other places means the countries it is in.
        assumed = _places_of(clouds, snapshot, problems) if clouds or not own else {}
        return own | assumed, tuple(one for one in assumed if one not in own)
    if set(where) == {"cloud"} or own:
        return clouds | own, ()
    assumed = _places_of(clouds, snapshot, problems)
    return clouds | assumed, tuple(assumed)


def _places_of(
    clouds: Mapping[str, Entry[Region]], snapshot: CatalogSnapshot, problems: Problems
) -> dict[str, Entry[Region]]:
    """Places of one's own in the countries of clouds' regions; else the world's average."""
    ids = dict.fromkeys(f"country/{one.value.country}" for one in clouds.values())
    found = {id_: snapshot.regions[id_] for id_ in ids if id_ in snapshot.regions}
    if not found and _ANYWHERE in snapshot.regions:
        found = {_ANYWHERE: snapshot.regions[_ANYWHERE]}
    if not found:
        problems.add(_REGIONS, "name the country in which your own hardware is to stand")
    return found


def placeable(
    placement: Placement,
    named: bool,
    accelerators: Sequence[Entry[Accelerator]],
    sites: Sites,
    snapshot: CatalogSnapshot,
) -> NDArray[np.bool_]:
    """Which accelerators can stand in which regions.

    Where only what is offered counts, a cloud's region is open to what the cloud is known to rent
    out there, and any other place to everything that may be bought. Accelerators that the caller
    names are placed anywhere if none of the regions is known to have them.

    Parameters
    ----------
    placement
        As asked for; if None, what is offered.
    named
        Whether accelerators are the caller's choice.
    accelerators, sites, snapshot
        Rows, columns, and whose offers count.
    """
    own = sites.own
    bought = np.array([sites.takes(one) for one in accelerators], dtype=bool)
    if placement == "anywhere":
        everywhere: NDArray[np.bool_] = ~own[np.newaxis, :] | bought[:, np.newaxis]
        return everywhere
    offered = [
        None if mine else offered_in(snapshot, region)
        for region, mine in zip(sites.regions, own, strict=True)
    ]
    rows = []
    for accelerator, sold in zip(accelerators, bought, strict=True):
        row = [sold if here is None else accelerator.id in here for here in offered]
        known = any(there for there, here in zip(row, offered, strict=True) if here is not None)
        if named and not known:
            row = [sold or here is not None or sites.where is None for here in offered]
        rows.append(row)
    return np.array(rows, dtype=bool).reshape(len(accelerators), len(sites.regions))


@dataclass(frozen=True, slots=True)
class NotSearched:
    """Accelerators or places that were set aside before anything was computed, and why."""

    reason: str
    accelerators: int
    regions: int
    in_words: str


def that_can_stand(
    accelerators: Sequence[Entry[Accelerator]],
    can_stand: NDArray[np.bool_],
    sites: Sites,
) -> tuple[NDArray[np.bool_], tuple[NotSearched, ...]]:
    """Which accelerators can be had anywhere in the search, and what to say of the others.

    Where none can, all are kept: what comes closest is told of them.
    """
    kept = np.asarray(can_stand.any(axis=1))
    left = int(len(accelerators) - kept.sum())
    if not left or not kept.any():
        return np.ones(len(accelerators), dtype=bool), ()
    how = "rents them out" if sites.where is None else f"has them as {', '.join(sites.where)}"
    some = next(one.id for one, there in zip(accelerators, kept, strict=True) if not there)
    told = f"{left} accelerators, such as {some}: no place searched {how}"
    return kept, (NotSearched("not_offered", left, 0, told),)


def not_measured(
    every: Sequence[Entry[Accelerator]], kept: Sequence[Entry[Accelerator]]
) -> tuple[NotSearched, ...]:
    """What to say of accelerators that were left out because nobody measured their family."""
    left = {one.id for one in every} - {one.id for one in kept}
    if not left:
        return ()
    told = (
        f"{len(left)} accelerators, such as {min(left)}: nobody has published a measurement of "
        "their family's speed; search.include_unmeasured takes them in"
    )
    return (NotSearched("not_measured", len(left), 0, told),)
