"""Where what is searched can stand, and what an hour there costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries.entry import Entry
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.elementwise import FloatArray
from service.core.engines import EngineRelease, EngineWorkload
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.interval import Interval, exact
from service.estimation.costs.estimate import Rents, offered_in, rents_in, whole_groups
from service.estimation.recommendations.requests import Placement, PlacesRequest
from service.estimation.references import Reference
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems
from service.estimation.software import check_runs_on

#: The calibration that describes the usual building and grid.
REFERENCE_REGION = "recommendations/reference-region"
#: Where a request names accelerators to choose among.
_NAMED = "/search/accelerators"


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of accelerators, which go by their positions in ``names``.

    ``own_usd_per_hour`` are the caller's prices of an accelerator's hour, ``rents`` what each
    region's cloud asks for its instances (one object where they ask the same).
    """

    names: tuple[str, ...]
    own_usd_per_hour: Mapping[str, float]
    rents: tuple[Rents, ...]

    @property
    def listed(self) -> bool:
        """Whether any accelerator's price is a list price."""
        return any(
            usd is not None
            for rents in {id(one): one for one in self.rents}.values()
            for name in self.names
            if name not in self.own_usd_per_hour
            for _, usd in rents.get(name, ())
        )

    def each_usd_per_hour(self) -> FloatArray:
        """The lowest known price of an hour of each accelerator; NaN where none is known."""
        known: dict[str, float] = {}
        for rents in {id(one): one for one in self.rents}.values():
            for name in self.names:
                each = [usd / size for size, usd in rents.get(name, ()) if usd is not None]
                known[name] = min([*each, known.get(name, np.inf)])
        known |= self.own_usd_per_hour
        found = np.array([known.get(name, np.inf) for name in self.names])
        return np.where(np.isinf(found), np.nan, found)

    def usd_per_hour(
        self,
        rents: Rents,
        offer: NDArray[np.intp],
        accelerators: FloatArray,
        group: NDArray[np.intp],
    ) -> FloatArray:
        """What an hour of so many accelerators costs; NaN where no price is known [USD/h].

        Parameters
        ----------
        rents
            What is rented out in the place: whole instances, as many as hold the accelerators.
        offer, accelerators, group
            Which accelerator, how many, and how many of them one instance has to hold, if any
            does, element by element.
        """
        own = np.array([self.own_usd_per_hour.get(name, np.nan) for name in self.names])
        found: FloatArray = own[offer] * accelerators
        for at in np.unique(offer):
            name = self.names[at]
            if name not in rents or name in self.own_usd_per_hour:
                continue
            mine = offer == at
            for together in np.unique(group[mine]):
                whole = _instances(rents[name], int(together))
                if whole:
                    rows = mine & (group == together)
                    found[rows] = np.min(
                        [np.ceil(accelerators[rows] / size) * usd for size, usd in whole], axis=0
                    )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchContext:
    """Accelerators, regions, which can stand where, and prices.

    ``placeable`` has accelerators as rows, regions as columns; ``embodied_kgco2e`` is the making
    of each accelerator with its share of the server. ``reference_region`` is the usual building
    and grid, whose WUE and water stress stand in for those that nobody published.
    """

    accelerators: tuple[Entry[Accelerator], ...]
    regions: tuple[Entry[Region], ...]
    infrastructure: Infrastructure
    placeable: NDArray[np.bool_]
    prices: PriceList
    embodied_kgco2e: tuple[Interval, ...]
    reference_region: Region

    def memory_bytes(self) -> FloatArray:
        """Memory of each accelerator [B]."""
        return np.array([float(entry.value.memory_bytes) for entry in self.accelerators])

    def regions_without_wue(self) -> tuple[Entry[Region], ...]:
        """Regions whose water on site nobody published."""
        return tuple(entry for entry in self.regions if entry.value.wue_l_per_kwh is None)

    def regions_without_stress(self) -> tuple[Entry[Region], ...]:
        """Regions whose basin's water stress nobody published."""
        return tuple(entry for entry in self.regions if entry.value.water_stress_ratio is None)

    def region_values(self) -> tuple[Region, ...]:
        """Regions as candidates are compared in them.

        With the usual WUE where none is known, and as if water were as scarce as anywhere where
        its stress is not known.
        """
        usual = self.reference_region
        return tuple(
            replace(
                entry.value,
                wue_l_per_kwh=entry.value.wue_l_per_kwh or usual.wue_l_per_kwh,
                water_stress_ratio=entry.value.water_stress_ratio or usual.water_stress_ratio,
            )
            for entry in self.regions
        )


@dataclass(frozen=True, slots=True)
class RegionGroup:
    """Regions in which the same accelerators can stand at the same prices."""

    regions: NDArray[np.intp]
    placeable: NDArray[np.bool_]
    rents: Rents


def named_accelerators(
    search: PlacesRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[Accelerator], ...] | None:
    """Accelerators that a search names, None where it names none; unknown ones are noted."""
    if search.accelerators is None:
        return None
    found = [
        problems.attempt(
            f"{_NAMED}/{at}",
            lambda name=name: snapshot.find("accelerators", name),  # type: ignore[misc]
        )
        for at, name in enumerate(search.accelerators)
    ]
    return tuple({entry.id: entry for entry in found if entry is not None}.values())


def searched_accelerators(
    named: Sequence[Entry[Accelerator]] | None,
    release: EngineRelease,
    workload: EngineWorkload,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[Entry[Accelerator], ...]:
    """Accelerators that are named, or all to be had that the engine runs on.

    Named ones that it does not run on are noted, once the engine is known.
    """
    engine = snapshot.engines.get(release.engine)
    if named is None:
        return tuple(
            entry
            for entry in snapshot.delivered_accelerators().values()
            if engine is None or engine.value.runs_on(entry.value.hardware)
        )
    if engine is not None:
        for entry in named:
            check_runs_on(release, workload, entry.value, _NAMED, snapshot, problems)
    return tuple(named)


def cloud_regions(snapshot: CatalogSnapshot) -> tuple[Entry[Region], ...]:
    """Regions of clouds, without marketplaces."""
    return tuple(
        region
        for region in snapshot.regions.values()
        if region.document.get("kind") == "cloud" and not region.document.get("marketplace")
    )


def searched_regions(
    search: PlacesRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[Region], ...]:
    """Regions that a search names, or all of clouds, but for those that it leaves out.

    Marketplaces, where whoever owns machines rents them out, are searched only by name. Unknown
    regions are noted.
    """
    if search.regions is None:
        found = {region.id: region for region in cloud_regions(snapshot)}
    else:
        found = _named_regions(search.regions, "/search/regions", snapshot, problems)
    without = _named_regions(
        search.without_regions or (), "/search/without_regions", snapshot, problems
    )
    kept = tuple(region for id_, region in found.items() if id_ not in without)
    if found and not kept:
        problems.add("/search/without_regions", "leaves no region to search")
    return kept


def _named_regions(
    names: Sequence[str], pointer: str, snapshot: CatalogSnapshot, problems: Problems
) -> dict[str, Entry[Region]]:
    """Regions by id that names mean, of which some are groups."""
    found: dict[str, Entry[Region]] = {}
    for at, name in enumerate(names):
        meant = problems.attempt(
            f"{pointer}/{at}",
            lambda name=name: regions_meant(name, snapshot),  # type: ignore[misc]
        )
        found |= {region.id: region for region in meant or ()}
    return found


def own_prices(
    prices: Mapping[Reference, float], snapshot: CatalogSnapshot, problems: Problems
) -> dict[str, float]:
    """The caller's prices by id of the accelerator; unknown ones are noted."""
    return {
        accelerator.id: price
        for name, price in prices.items()
        if (
            accelerator := problems.attempt(
                f"/usd_per_accelerator_hour/{name}",
                lambda name=name: snapshot.find("accelerators", name),  # type: ignore[misc]
            )
        )
        is not None
    }


def price_list(
    names: Sequence[str],
    own: Mapping[str, float],
    regions: Sequence[Entry[Region]],
    snapshot: CatalogSnapshot,
    list_prices: bool,
) -> PriceList:
    """Prices in regions; without list prices, the caller's own alone."""
    if not list_prices:
        return PriceList(tuple(names), own, ({},) * len(regions))
    distinct: dict[tuple[tuple[str, tuple[tuple[int, float | None], ...]], ...], Rents] = {}
    wanted = frozenset(names)
    rents = []
    for region in regions:
        regional = {
            name: each for name, each in rents_in(region, snapshot).items() if name in wanted
        }
        rents.append(distinct.setdefault(tuple(sorted(regional.items())), regional))
    return PriceList(tuple(names), own, tuple(rents))


def placeable(
    placement: Placement,
    named: bool,
    accelerators: Sequence[Entry[Accelerator]],
    regions: Sequence[Entry[Region]],
    snapshot: CatalogSnapshot,
) -> NDArray[np.bool_]:
    """Which accelerators can stand in which regions.

    Where only what is offered counts, a cloud's region is open to what the cloud is known to rent
    out there, and any other place to everything. Accelerators that the caller names are placed
    anywhere if none of the regions is known to have them.

    Parameters
    ----------
    placement
        As asked for; if None, what is offered.
    named
        Whether accelerators are the caller's choice.
    accelerators, regions, snapshot
        Rows, columns, and whose offers count.
    """
    if placement == "anywhere":
        return np.ones((len(accelerators), len(regions)), dtype=bool)
    offered = [
        offered_in(region, snapshot) if region.document.get("kind") == "cloud" else None
        for region in regions
    ]
    rows = []
    for accelerator in accelerators:
        row = [here is None or accelerator.id in here for here in offered]
        anywhere = named and not any(
            there for there, here in zip(row, offered, strict=True) if here is not None
        )
        rows.append([anywhere or there for there in row])
    return np.array(rows, dtype=bool)


def usd_per_hour_in_regions(
    prices: PriceList, offer: NDArray[np.intp], accelerators: FloatArray, group: NDArray[np.intp]
) -> FloatArray:
    """What an hour of so many accelerators costs in each region [USD/h].

    Parameters as for :meth:`PriceList.usd_per_hour`.

    Returns
    -------
    array
        One row an element of ``offer``, one column a region; NaN where no price is known.
    """
    distinct: dict[int, FloatArray] = {}
    for rents in prices.rents:
        if id(rents) not in distinct:
            distinct[id(rents)] = prices.usd_per_hour(rents, offer, accelerators, group)
    return np.column_stack([distinct[id(rents)] for rents in prices.rents])


def region_groups(context: SearchContext) -> tuple[RegionGroup, ...]:
    """Regions with the same offers and prices together, by the first of each."""
    found: dict[tuple[bytes, int], list[int]] = {}
    rents = context.prices.rents
    for at, regional in enumerate(rents):
        found.setdefault((context.placeable[:, at].tobytes(), id(regional)), []).append(at)
    return tuple(
        RegionGroup(
            np.array(regions, dtype=np.intp), context.placeable[:, regions[0]], rents[regions[0]]
        )
        for regions in found.values()
    )


def _instances(
    rents: Sequence[tuple[int, float | None]], group: int
) -> tuple[tuple[int, float], ...]:
    """Instances of known price, of those that hold a tensor-parallel group whole, if any does."""
    holding = whole_groups([size for size, _ in rents], group)
    able = [rent for rent, holds in zip(rents, holding, strict=True) if holds]
    return tuple((size, usd) for size, usd in able if usd is not None)


def embodied_kgco2e(
    accelerators: Sequence[Entry[Accelerator]], snapshot: CatalogSnapshot, around: Infrastructure
) -> tuple[Interval, ...]:
    """Making of each accelerator with its share of the server [kgCO2e].

    Where nobody has published a figure, the largest in the catalog is taken: never the best guess.
    """
    known = [making(entry.value, around).embodied_kgco2e for entry in accelerators]
    if None not in known:
        return tuple(one for one in known if one is not None)
    every = (
        making(entry.value, around).embodied_kgco2e for entry in snapshot.accelerators.values()
    )
    largest = max(
        (one for one in every if one is not None), key=lambda one: one.value, default=exact(0.0)
    )
    return tuple(one or largest for one in known)


def reference_region(snapshot: CatalogSnapshot) -> Region:
    """The usual building and grid, against which places are judged.

    Raises
    ------
    Rejected
        If the catalog's revision is older than these figures.
    """
    entry = snapshot.calibrations.get(REFERENCE_REGION)
    if entry is None or "water_stress_ratio" not in entry.value:
        older = "this revision of the catalog is too old for recommendations; ask a newer one"
        raise Rejected([FieldError("/catalog_revision", older)])
    figures = entry.value
    return Region(
        id=entry.id,
        name="usual building and grid",
        country="",
        grid_gco2e_per_kwh=figures["grid_gco2e_per_kwh"],
        market_gco2e_per_kwh=None,
        pue_ratio=figures["pue_ratio"],
        wue_l_per_kwh=figures["wue_l_per_kwh"],
        ewif_l_per_kwh=figures["ewif_l_per_kwh"],
        water_stress_ratio=figures["water_stress_ratio"],
    )
