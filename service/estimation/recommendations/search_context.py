"""Where what is searched can stand, and what an hour there costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.elementwise import FloatArray, Number
from service.core.engines import EngineRelease, EngineWorkload
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.interval import Interval, exact
from service.core.search.regions import stacked
from service.core.years import HOURS_PER_YEAR
from service.estimation.costs.estimate import Rents, rents_in
from service.estimation.costs.groups import joined_from, whole_groups
from service.estimation.costs.purchases import electricity_price, listed_purchase_usd
from service.estimation.recommendations.place_requests import OwnershipRequest
from service.estimation.recommendations.places import NotSearched, Sites, is_cloud
from service.estimation.recommendations.requests import PlacesRequest
from service.estimation.recommendations.site_limits import SiteFigures
from service.estimation.references import Reference
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems
from service.estimation.software import check_runs_on

#: The calibration that describes the usual building and grid.
REFERENCE_REGION = "recommendations/reference-region"
#: Where a request names accelerators to choose among.
_NAMED = "/search/accelerators"


@dataclass(frozen=True, slots=True)
class Ownership:
    """What owning accelerators costs, which go by their positions in the search.

    ``usd_per_hour`` is what an accelerator loses of its price in an hour [USD/h], all of it in
    ``hours``, and ``together`` how many are bought as one, 1 where the caller states a price;
    ``electricity_usd_per_kwh`` the price in each region, 0 where hardware is rented and the rent
    contains it. NaN where unknown. ``own`` says which regions are places of one's own, and
    ``purchase_usd`` the prices that the caller states [USD].
    """

    purchase_usd: Mapping[str, float]
    usd_per_hour: FloatArray
    hours: float
    together: FloatArray
    electricity_usd_per_kwh: FloatArray
    own: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of accelerators, which go by their positions in ``names``.

    ``own_usd_per_hour`` are the caller's prices of an accelerator's hour, ``rents`` what each
    region's cloud asks for its instances (one object where they ask the same), ``owning`` what
    hardware of one's own costs; None where nothing is bought. Instances of at least ``joined``
    accelerators, by their names, hold a group together.
    """

    names: tuple[str, ...]
    own_usd_per_hour: Mapping[str, float]
    rents: tuple[Rents, ...]
    owning: Ownership | None = None
    joined: Mapping[str, float] = field(default_factory=dict)

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

    def least_usd_per_hour(self, offer: NDArray[np.intp], accelerators: FloatArray) -> FloatArray:
        """The lowest known price of an hour of so many, wherever; NaN where none is known [USD/h].

        Rents are told by the accelerator; what is bought is bought in whole boards.
        """
        known: dict[str, float] = {}
        for rents in {id(one): one for one in self.rents}.values():
            for name in self.names:
                each = [usd / size for size, usd in rents.get(name, ()) if usd is not None]
                known[name] = min([*each, known.get(name, np.nan)])
        known |= self.own_usd_per_hour
        least: FloatArray = np.array([known.get(name, np.nan) for name in self.names])
        found: FloatArray = least[offer] * accelerators
        if self.owning is None or not self.owning.own.any():
            return found
        return np.fmin(found, self.owned(offer, accelerators)[0])

    def metered_usd_per_kwh(self, offer: NDArray[np.intp], region: NDArray[np.intp]) -> FloatArray:
        """Price of electricity that comes on top of the price of hours, element by element."""
        if self.owning is None:
            return np.zeros(np.broadcast_shapes(offer.shape, region.shape))
        contained = np.array([name in self.own_usd_per_hour for name in self.names])
        local = self.owning.electricity_usd_per_kwh[region]
        found: FloatArray = np.where(contained[offer], 0.0, local)
        return found

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
        return self.rented(rents, offer, accelerators, group)[0]

    def rented(
        self,
        rents: Rents,
        offer: NDArray[np.intp],
        accelerators: FloatArray,
        group: NDArray[np.intp],
    ) -> tuple[FloatArray, FloatArray]:
        """The same, and how many accelerators are rented: those of whole instances [-].

        Parameters as for :meth:`usd_per_hour`.
        """
        own = np.array([self.own_usd_per_hour.get(name, np.nan) for name in self.names])
        usd_per_hour: FloatArray = own[offer] * accelerators
        held: FloatArray = accelerators.copy()
        for rows in _alike(offer, group):
            name = self.names[offer[rows[0]]]
            if name not in rents or name in self.own_usd_per_hour:
                continue
            joined = self.joined.get(name, np.inf)
            whole = _instances(tuple(rents[name]), int(group[rows[0]]), joined)
            if not whole:
                continue
            sizes, usd = np.array(whole).T[:, :, np.newaxis]
            needed = np.ceil(accelerators[rows] / sizes)
            cheapest = np.argmin(np.where(np.isnan(usd), np.inf, needed * usd), axis=0)
            each = np.arange(len(rows))
            usd_per_hour[rows] = (needed * usd)[cheapest, each]
            held[rows] = (needed * sizes)[cheapest, each]
        return usd_per_hour, held

    def owned(
        self, offer: NDArray[np.intp], accelerators: FloatArray, beside_usd: Number = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Likewise of one's own: what an hour costs without electricity, and how many are bought.

        Those that are sold together are bought together, and memory beside its machine costs
        ``beside_usd`` for each that is used [USD]. The caller's price of an hour is that of an
        accelerator, and contains electricity; NaN where no price is known.
        """
        own = np.array([self.own_usd_per_hour.get(name, np.nan) for name in self.names])
        stated: FloatArray = own[offer] * accelerators
        if self.owning is None:
            return stated, accelerators
        together = np.where(np.isnan(stated), self.owning.together[offer], 1.0)
        bought = np.ceil(accelerators / together) * together
        lost = self.owning.usd_per_hour[offer] * bought
        lost = lost + beside_usd * accelerators / self.owning.hours
        return np.where(np.isnan(stated), lost, stated), bought


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """Accelerators, regions, which can stand where, and prices.

    ``placeable`` has accelerators as rows, regions as columns; ``embodied_kgco2e`` is the making
    of each accelerator with its share of the server. ``reference_region`` is the usual building
    and grid, whose water stress stands in for what nobody published. ``not_searched``
    says what was set aside beforehand, ``sites`` how the places were chosen, ``site`` what
    accelerators ask of a site, where that is limited.
    """

    accelerators: tuple[Entry[Accelerator], ...]
    regions: tuple[Entry[Region], ...]
    infrastructure: Infrastructure
    placeable: NDArray[np.bool_]
    prices: PriceList
    embodied_kgco2e: tuple[Interval, ...]
    reference_region: Region
    not_searched: tuple[NotSearched, ...]
    sites: Sites
    site: SiteFigures | None

    def memory_bytes(self) -> FloatArray:
        """Memory of each accelerator [B]."""
        return np.array([float(entry.value.memory_bytes) for entry in self.accelerators])

    def regions_without_wue(self) -> tuple[Entry[Region], ...]:
        """Regions whose water on site nobody published."""
        return tuple(entry for entry in self.regions if entry.value.wue_stood_in)

    def regions_without_stress(self) -> tuple[Entry[Region], ...]:
        """Regions whose basin's water stress nobody published."""
        return tuple(entry for entry in self.regions if entry.value.water_stress_ratio is None)

    @cached_property
    def stacked_regions(self) -> Region:
        """The same as one, with arrays of an element a region."""
        return stacked(self.region_values)

    @cached_property
    def region_values(self) -> tuple[Region, ...]:
        """Regions as candidates are compared in them.

        As if water were as scarce as anywhere where its stress is not known.
        """
        usual = self.reference_region
        return tuple(
            replace(
                entry.value,
                water_stress_ratio=entry.value.water_stress_ratio or usual.water_stress_ratio,
            )
            for entry in self.regions
        )


@dataclass(frozen=True, slots=True)
class RegionGroup:
    """Regions in which the same accelerators can stand at the same prices.

    In places of one's ``own`` they are bought.
    """

    regions: NDArray[np.intp]
    placeable: NDArray[np.bool_]
    rents: Rents
    own: bool


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


def prices_by_id(
    prices: Mapping[Reference, float], pointer: str, snapshot: CatalogSnapshot, problems: Problems
) -> dict[str, float]:
    """The caller's prices by id of the accelerator; unknown ones are noted under a pointer."""
    return {
        accelerator.id: price
        for name, price in prices.items()
        if (
            accelerator := problems.attempt(
                f"{pointer}/{name}",
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
    owning: Ownership | None = None,
) -> PriceList:
    """Prices in regions; without list prices, the caller's own and those of owning alone."""
    if not list_prices:
        return PriceList(tuple(names), own, ({},) * len(regions), owning)
    distinct: dict[tuple[tuple[str, tuple[tuple[int, float | None], ...]], ...], Rents] = {}
    wanted = frozenset(names)
    rents = []
    for region in regions:
        regional = {
            name: each for name, each in rents_in(snapshot, region).items() if name in wanted
        }
        rents.append(distinct.setdefault(tuple(sorted(regional.items())), regional))
    joined = {name: joined_from(snapshot, name) for name in names}
    return PriceList(tuple(names), own, tuple(rents), owning, joined)


def ownership(
    asked: OwnershipRequest,
    accelerators: Sequence[Entry[Accelerator]],
    sites: Sites,
    around: Infrastructure,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> Ownership:
    """What owning accelerators costs in each region; unknown accelerators are noted.

    Parameters
    ----------
    asked
        The caller's own prices, which come before the catalog's.
    accelerators, sites
        What may be bought, and where it would stand.
    around
        Has the usual life of servers.
    snapshot, problems
        The catalog, and what takes notes.
    """
    own = prices_by_id(
        asked.purchase_usd_per_accelerator,
        "/ownership/purchase_usd_per_accelerator",
        snapshot,
        problems,
    )
    years = asked.amortisation_years or float(around.hardware_life_years.value)
    listed = [listed_purchase_usd(one, snapshot) for one in accelerators]
    purchase = [
        own.get(one.id) or (None if price is None else float(price.value))
        for one, price in zip(accelerators, listed, strict=True)
    ]
    known = [electricity_price(one, snapshot) for one in sites.regions]
    stated = asked.electricity_usd_per_kwh
    local = [None if one is None else float(one.value) for one in known]
    return Ownership(
        purchase_usd=own,
        usd_per_hour=np.array(
            [np.nan if usd is None else usd / (years * HOURS_PER_YEAR) for usd in purchase]
        ),
        hours=years * HOURS_PER_YEAR,
        together=np.array(
            [
                1.0 if own.get(one.id) is not None else one.value.platform.board_accelerators
                for one in accelerators
            ]
        ),
        electricity_usd_per_kwh=np.array(
            [
                0.0 if not mine else np.nan if price is None else price
                for mine, price in zip(
                    sites.own, local if stated is None else [stated] * len(local), strict=True
                )
            ]
        ),
        own=sites.own,
    )


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
    found: dict[tuple[bytes, int, bool], list[int]] = {}
    rents = context.prices.rents
    for at, regional in enumerate(rents):
        own = not is_cloud(context.regions[at])
        key = (context.placeable[:, at].tobytes(), id(regional), own)
        found.setdefault(key, []).append(at)
    return tuple(
        RegionGroup(
            np.array(regions, dtype=np.intp),
            context.placeable[:, regions[0]],
            rents[regions[0]],
            own,
        )
        for (_, _, own), regions in found.items()
    )


def _alike(offer: NDArray[np.intp], group: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Rows of each accelerator in groups of each size."""
    if not len(offer):
        return []
    key = offer * (int(group.max()) + 1) + group
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1)


@lru_cache(maxsize=4096)
def _instances(
    rents: tuple[tuple[int, float | None], ...], group: int, joined: float
) -> tuple[tuple[int, float], ...]:
    """Instances that hold a tensor-parallel group whole, if any does: their size and price [USD/h].

    Those of known price, if any has one; else NaN.
    """
    holding = whole_groups([size for size, _ in rents], group, joined)
    able = [rent for rent, holds in zip(rents, holding, strict=True) if holds]
    priced = tuple((size, usd) for size, usd in able if usd is not None)
    return priced or tuple((size, np.nan) for size, _ in able)


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
