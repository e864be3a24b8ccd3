"""What candidates are measured against: the reference accelerator in a usual building and grid.

It depends on the catalog and on the caller's price of that accelerator, never on what is searched.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.impacts.footprint import footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import exact
from service.core.search.ranking import Anchor
from service.core.search.workloads import Metric
from service.estimation.costs.estimate import list_price_ranges
from service.estimation.recommendations.search_context import SearchContext, embodied_kgco2e

#: The accelerator that most published deployments run on.
REFERENCE_ACCELERATOR = "nvidia-h100-sxm-80gb"

#: Utility is 1 at this share of the reference, and 0 at the reference itself.
_BEST_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference accelerator in the usual building and grid, and what an hour of it costs.

    ``usd_per_hour`` is the caller's price of it, else the dearest list price of any provider; None
    where neither is known.
    """

    accelerator: Entry[Accelerator]
    accelerator_power_w: float
    region: Region
    infrastructure: Infrastructure
    making: Making
    usd_per_hour: float | None

    def anchors(
        self, kwh: float, hours: float, carbon_unit: float, priced: bool
    ) -> dict[Metric, Anchor]:
        """Anchors of what a unit of work emits, evaporates and costs.

        Parameters
        ----------
        kwh, hours
            IT energy and accelerator time that the reference takes for it [kWh, h].
        carbon_unit
            What grams are multiplied by.
        priced
            Whether any candidate can have a price.
        """
        work = footprint(
            exact(kwh), exact(hours), None, self.region, self.infrastructure, self.making
        )
        found: dict[Metric, Anchor] = {}
        if work.total_location_gco2e is not None:
            found["carbon"] = up_to(float(work.total_location_gco2e.value) * carbon_unit)
        if work.water_total_l is not None:
            found["water"] = up_to(float(work.water_total_l.value))
        if priced and self.usd_per_hour is not None:
            found["cost"] = up_to(hours * self.usd_per_hour)
        return found


def reference(snapshot: CatalogSnapshot, context: SearchContext) -> Reference:
    """The reference of a catalog.

    Parameters
    ----------
    snapshot
        The catalog; one without the usual reference has its first accelerator of known power.
    context
        What stands around accelerators, and the caller's prices. Where neither they nor the
        catalog price the reference, the dearest of them stands for it.
    """
    entry, power_w = next(
        (entry, float(entry.value.thermal_design_power_w))
        for entry in (
            snapshot.accelerators.get(REFERENCE_ACCELERATOR),
            *snapshot.accelerators.values(),
        )
        if entry is not None and entry.value.thermal_design_power_w is not None
    )
    listed = list_price_ranges(snapshot).get(entry.id)
    own = context.prices.own_usd_per_hour
    price = own.get(entry.id, None if listed is None else listed[1])
    (embodied,) = embodied_kgco2e((entry,), snapshot, context.infrastructure)
    return Reference(
        entry,
        power_w,
        context.reference_region,
        context.infrastructure,
        Making(embodied, None, None, None, context.infrastructure.service_hours()),
        max(own.values(), default=None) if price is None else price,
    )


def up_to(worst: float) -> Anchor:
    """The anchor of what is better the less there is of it."""
    return Anchor(worst * _BEST_RATIO, worst)
