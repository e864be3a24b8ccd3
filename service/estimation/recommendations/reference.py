"""What candidates are measured against: the reference accelerator in a usual building and grid.

It depends on the catalog and on the caller's price of that accelerator, never on what is searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.impacts.infrastructure import Infrastructure
from service.core.search.ranking import Anchor
from service.core.search.workloads import Metric
from service.estimation.costs.estimate import list_price_ranges
from service.estimation.recommendations.placement import USUAL_WUE
from service.estimation.recommendations.search_context import embodied_g_per_hour

#: The accelerator that most published deployments run on.
REFERENCE_ACCELERATOR = "nvidia-h100-sxm-80gb"

#: World average of 2024. Source: Ember, Global Electricity Review 2025 (473 gCO2/kWh).
_WORLD_G_PER_KWH = 473.0
#: Average building. Source: Uptime Institute, Global Data Center Survey 2024 (PUE 1.56).
_USUAL_PUE = 1.56
#: Water evaporated in making electricity. Source: Shehabi et al., 2024 United States Data Center
#: Energy Usage Report, LBNL-2001637, 2024 (4.52 L/kWh in 2023).
_USUAL_EWIF = 4.52

#: Utility is 1 at this share of the reference, and 0 at the reference itself.
_BEST_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference accelerator, and what an hour of it makes and costs.

    ``usd_per_hour`` is the caller's price of it, else the dearest list price of any provider; None
    where neither is known.
    """

    accelerator: Entry[Accelerator]
    embodied_g_per_hour: float
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
        operation_g = kwh * _USUAL_PUE * _WORLD_G_PER_KWH
        carbon = (operation_g + hours * self.embodied_g_per_hour) * carbon_unit
        water = kwh * (_USUAL_PUE * _USUAL_EWIF + USUAL_WUE.value)
        found: dict[Metric, Anchor] = {"carbon": up_to(carbon), "water": up_to(water)}
        if priced and self.usd_per_hour is not None:
            found["cost"] = up_to(hours * self.usd_per_hour)
        return found


def reference(
    snapshot: CatalogSnapshot, own_usd_per_hour: Mapping[str, float], around: Infrastructure
) -> Reference:
    """The reference of a catalog.

    Parameters
    ----------
    snapshot
        The catalog; one without the usual reference has its first accelerator of known power.
    own_usd_per_hour
        The caller's prices, by accelerator. Where neither they nor the catalog price the
        reference, the dearest of them stands for it.
    around
        The share of a server, and the life of hardware.
    """
    entry = snapshot.accelerators.get(REFERENCE_ACCELERATOR) or next(
        one
        for one in snapshot.accelerators.values()
        if one.value.thermal_design_power_w is not None
    )
    listed = list_price_ranges(snapshot).get(entry.id)
    price = own_usd_per_hour.get(entry.id, None if listed is None else listed[1])
    return Reference(
        entry,
        float(embodied_g_per_hour((entry,), snapshot, around)[0]),
        max(own_usd_per_hour.values(), default=None) if price is None else price,
    )


def up_to(worst: float) -> Anchor:
    """The anchor of what is better the less there is of it."""
    return Anchor(worst * _BEST_RATIO, worst)
