"""What hardware is bought for: at the caller's price, else at the catalog's."""

from __future__ import annotations

from service.catalog.entries.entry import Entry
from service.catalog.entries.figures import read_figure
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.interval import Interval, scale
from service.estimation.projections.over_time import positive
from service.estimation.requests import CostRequest
from service.estimation.resolution import Problems


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
