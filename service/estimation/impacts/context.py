"""Place, electricity, hardware and site of an impacts request, and their part of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.explanation import EstimateWarning, Step
from service.core.impacts.footprint import Footprint
from service.core.impacts.infrastructure import Infrastructure
from service.core.impacts.site import land_m2_years
from service.core.impacts.waste import avoided_by_reuse
from service.core.interval import scale
from service.core.platform import share_of
from service.estimation.answers import figure, known_figure
from service.estimation.confidence import footprint_confidence
from service.estimation.detail import Detail
from service.estimation.impacts.answers import Electricity, Hardware, Surroundings
from service.estimation.impacts.equivalences import equivalences
from service.estimation.impacts.footprint_views import DetailedBasis, detailed_basis
from service.estimation.impacts.place import cooled, supplied
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.impacts.sites import Site

_INFRASTRUCTURE = "infrastructure/default"
_GRAMS = 1000.0
#: Figures of a place that a request may change.
_CHANGED = ("market_gco2e_per_kwh", "marginal_gco2e_per_kwh", "wue_l_per_kwh", "pue_ratio")


@dataclass(frozen=True, slots=True)
class ImpactContext:
    """Everything around the computation that a request may have changed."""

    region: Entry[Region]
    accelerator: Entry[Accelerator] | None
    around: Infrastructure
    site: Site | None
    warnings: tuple[EstimateWarning, ...]
    request: ImpactsRequest
    snapshot: CatalogSnapshot
    detail: Detail

    def writer(self, result: Footprint) -> DetailedBasis:
        """Shapes a footprint, with its parts where they are told."""
        asked = self.request.site
        land = None
        if asked is not None and asked.area_m2 is not None and asked.mean_it_kw is not None:
            land = land_m2_years(result.it_energy_kwh, asked.area_m2, asked.mean_it_kw)
        return detailed_basis(result, self._device(), land, self.detail)

    def steps(self) -> tuple[Step, ...]:
        """How the site's figures came about."""
        return () if self.site is None else self.site.steps()

    def described(self, unit: Footprint | None, count: float, days: float) -> Surroundings:
        """Electricity, hardware, site, confidence and equivalences of the period.

        Parameters
        ----------
        unit, count
            Footprint, and how many of it the period holds; None if energy is unknown.
        days
            Length of the period [d].
        """
        if unit is None:
            return {
                "electricity": None,
                "hardware": None,
                "site": None,
                "confidence": None,
                "equivalences": None,
            }
        entries: list[Entry[Any]] = [self.snapshot.calibrations[_INFRASTRUCTURE]]
        if self.accelerator is not None:
            entries.append(self.accelerator)
        entries.append(self.region)
        return {
            "electricity": self._electricity(),
            "hardware": self._hardware(unit, count),
            "site": None if self.site is None else self.site.answer(unit, count, days),
            "confidence": footprint_confidence(unit, entries),
            "equivalences": equivalences(unit, count, self.snapshot),
        }

    def _device(self) -> Accelerator | None:
        return None if self.accelerator is None else self.accelerator.value

    def _electricity(self) -> Electricity:
        region = self.region.value
        grid = self.region.origins.get("grid_gco2e_per_kwh")
        return {
            "grid_gco2e_per_kwh": known_figure(region.grid_gco2e_per_kwh),
            "grid_year": None if grid is None else grid.year,
            "market_gco2e_per_kwh": known_figure(region.market_gco2e_per_kwh),
            "marginal_gco2e_per_kwh": known_figure(region.marginal_gco2e_per_kwh),
            "contracted_ratio": self.request.electricity.contracted_ratio,
            "matching": self.request.electricity.matching,
            "pue_ratio": figure(region.pue_ratio),
            "wue_l_per_kwh": known_figure(region.wue_l_per_kwh),
            "ewif_l_per_kwh": known_figure(region.ewif_l_per_kwh),
        }

    def _hardware(self, unit: Footprint, count: float) -> Hardware:
        around = self.around
        device = self._device()
        making = None if device is None else around.embodied_kgco2e(device)
        avoided = None
        if making is not None and unit.accelerator_hours is not None:
            hours = unit.accelerator_hours.value * count
            avoided = avoided_by_reuse(scale(making, hours * _GRAMS), around)
        return {
            "amortisation": self.request.hardware.amortisation,
            "life_years": figure(around.hardware_life_years),
            "second_life_years": float(around.second_life_years),
            "in_use_ratio": float(around.in_use_ratio),
            "reused_ratio": float(around.reused_ratio),
            "accelerator_embodied_kgco2e": known_figure(
                None if device is None else device.embodied_kgco2e
            ),
            "server_share_embodied_kgco2e": known_figure(
                None
                if device is None
                else share_of(device.platform.embodied_kgco2e, device.platform)
            ),
            "added_memory_embodied_kgco2e": known_figure(around.memory_kgco2e),
            "embodied_basis": self._embodied_basis(),
            "avoided_gco2e": known_figure(avoided),
        }

    def _embodied_basis(self) -> str | None:
        """Which sources the range of the making spans, in the words of the catalog."""
        if self.accelerator is None:
            return None
        stated = self.accelerator.document.get("figures", {}).get("embodied_kgco2e")
        return stated.get("note") if isinstance(stated, dict) else None


def resolve_impact_context(
    request: ImpactsRequest,
    region: Entry[Region],
    accelerator: Entry[Accelerator] | None,
    around: Infrastructure,
    snapshot: CatalogSnapshot,
    detail: Detail,
) -> ImpactContext:
    """Put what a request says about its surroundings into one value."""
    value, warnings = supplied(region.value, request.electricity)
    value, cooling_warnings = cooled(value, request.site, request.facility, snapshot)
    warnings = (*warnings, *cooling_warnings)
    site = None
    if request.site is not None:
        device = None if accelerator is None else accelerator.value
        site = Site(request.site, snapshot, device)
        warnings = (*warnings, *site.warnings())
    given = {name for name in _CHANGED if getattr(value, name) is not getattr(region.value, name)}
    origins = {name: origin for name, origin in region.origins.items() if name not in given}
    placed = Entry(region.id, region.document, value, origins)
    return ImpactContext(placed, accelerator, around, site, warnings, request, snapshot, detail)
