"""What the service itself draws and emits, by an estimate that says what it stands on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.settings import Settings

_STAND_INS = "catalog/region-stand-ins"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnFactors:
    """What turns the service's processor time into energy and carbon.

    ``processor_w`` [W] for each busy logical processor, ``pue_ratio`` [-] of the site, and
    ``grid_gco2e_per_kwh`` [gCO2e/kWh] of its grid, None where no region is set up or its grid is
    not known. ``described`` says in words where they come from.
    """

    processor_w: float
    pue_ratio: float
    grid_gco2e_per_kwh: float | None
    region: str | None
    described: str


def own_factors(settings: Settings, snapshot: CatalogSnapshot) -> OwnFactors:
    """The factors as they stand when the process starts.

    They are not renewed while it runs, so that the totals made with them only ever grow.
    """
    region = None
    if settings.region is not None:
        try:
            region = snapshot.find("regions", settings.region)
        except UnknownReference as unknown:
            _log.error("HEADROOM_REGION: %s; own carbon is not estimated", unknown)
    watts = f"{settings.processor_w:g} W a busy processor (HEADROOM_PROCESSOR_W)"
    if region is None:
        pue = float(snapshot.calibrations[_STAND_INS].value["pue_ratio"].value)
        described = f"{watts}, average PUE {pue:g}, no region (HEADROOM_REGION)"
        return OwnFactors(settings.processor_w, pue, None, None, described)
    grid = region.value.grid_gco2e_per_kwh
    pue = float(region.value.pue_ratio.value)
    origin = region.origins.get("grid_gco2e_per_kwh")
    grid_from = "" if origin is None else f", grid of {origin.entry_id} in {origin.year}"
    return OwnFactors(
        settings.processor_w,
        pue,
        None if grid is None else float(grid.value),
        region.id,
        f"{watts}, PUE of {region.id}{grid_from}",
    )
