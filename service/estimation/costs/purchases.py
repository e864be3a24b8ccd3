"""What hardware is bought for: at the caller's price, else at the catalog's."""

from __future__ import annotations

from dataclasses import dataclass

from service.catalog.entries.entry import Entry
from service.catalog.entries.figures import read_figure
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, exact, scale
from service.estimation.projections.over_time import positive
from service.estimation.requests import CostRequest
from service.estimation.resolution import Problems, is_placed

#: The place whose price of electricity stands in where none is known.
_WORLD = "grid/world"


@dataclass(frozen=True, slots=True)
class Purchase:
    """What is bought, and what its electricity costs; None where no price is known.

    ``accelerators`` are whole boards or racks, unless the caller says what one costs.
    """

    usd_per_accelerator: Interval | None
    accelerators: int
    electricity_usd_per_kwh: Interval | None
    warnings: tuple[EstimateWarning, ...]


def purchase(
    asked: CostRequest,
    accelerator: Entry[Accelerator],
    count: int,
    region: Entry[Region],
    snapshot: CatalogSnapshot,
    *,
    rented: bool,
) -> Purchase:
    """What owning so many accelerators takes, from the request, else from the catalog.

    Parameters
    ----------
    asked, accelerator, count, region
        What the caller says, and what stands where.
    snapshot
        Has the prices.
    rented
        Whether a rent is known: what is rented is not bought, unless the request says at which
        price it would be.

    Raises
    ------
    Rejected
        If the price that the request states is none.
    """
    stated = asked.purchase_usd_per_accelerator is not None
    usd = None if rented and not stated else purchase_usd(asked, accelerator, snapshot)
    warnings: list[EstimateWarning] = []
    bought = count
    if usd is not None and not stated:
        platform = accelerator.value.platform
        together, bought = int(platform.board_accelerators), int(platform.bought(count))
        if bought > count:
            idle = bought - count
            resting = (
                "one that stands idle counts" if idle == 1 else f"{idle} that stand idle count"
            )
            message = (
                f"{accelerator.value.name} is sold {together} at a time, on a board or in a rack: "
                f"the cost is that of {bought}. The {resting} in the cost, not in power or "
                "manufacturing. If you pay for fewer, state your own price"
            )
            warnings.append(EstimateWarning("bought_together", message))
    if asked.electricity_usd_per_kwh is not None:
        return Purchase(usd, bought, exact(asked.electricity_usd_per_kwh), tuple(warnings))
    price = electricity_price(region, snapshot)
    if usd is not None and price is not None and region.value.electricity_usd_per_kwh is None:
        reason = "no place is named"
        if is_placed(region):
            reason = f"no price of electricity for large customers is published for {region.id}"
        message = (
            f"{reason}: the world's average of {price.value:.2g} USD/kWh ({price.low:.2g} to "
            f"{price.high:.2g}) is used. State your own price of electricity"
        )
        warnings.append(EstimateWarning("electricity_price_assumed", message))
    return Purchase(usd, bought, price, tuple(warnings))


def electricity_price(region: Entry[Region], snapshot: CatalogSnapshot) -> Interval | None:
    """Price of electricity in a place, else the world's average [USD/kWh]."""
    known = region.value.electricity_usd_per_kwh
    world = snapshot.regions.get(_WORLD)
    if known is not None or world is None:
        return known
    return world.value.electricity_usd_per_kwh


def purchase_usd(
    asked: CostRequest, accelerator: Entry[Accelerator], snapshot: CatalogSnapshot
) -> Interval | None:
    """Price of an accelerator with its share of the server [USD]; None if nobody states it."""
    stated = asked.purchase_usd_per_accelerator
    if stated is not None:
        problems = Problems()
        found = positive(stated, "/cost/purchase_usd_per_accelerator", problems)
        problems.stop_if_any()
        return found
    return listed_purchase_usd(accelerator, snapshot)


def listed_purchase_usd(
    accelerator: Entry[Accelerator], snapshot: CatalogSnapshot
) -> Interval | None:
    """Price of an accelerator, else its share of the price of the machine it stands in [USD].

    None where neither is known.
    """
    listed = accelerator.document.get("figures", {}).get("price_usd")
    if listed is not None:
        return read_figure(listed, "/figures/price_usd").interval()
    platform = accelerator.value.platform
    machine = snapshot.platforms.get(platform.id)
    whole = None if machine is None else machine.document.get("figures", {}).get("price_usd")
    if whole is None:
        return None
    share = read_figure(whole, "/figures/price_usd").interval()
    return scale(share, 1.0 / float(platform.accelerators))
