"""What hardware asks of a site: power of a rack, and noise where neighbours hear it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.elementwise import FloatArray
from service.core.impacts.noise import Path, SoundSource, noise
from service.estimation.impacts.requests import SiteRequest
from service.estimation.impacts.sites import Site
from service.estimation.recommendations.place_requests import NoiseLimit, SiteLimits


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """What accelerators ask of a site, by their positions in the search.

    ``rack_kw`` is the power of a rack full of each; NaN where its power is not known.
    """

    accelerators: tuple[Entry[Accelerator], ...]
    rack_kw: FloatArray
    noise: NoiseLimit | None

    def noise_db(self, offer: NDArray[np.intp], accelerators: FloatArray) -> FloatArray | None:
        """Level at the receptor of all machines that so many accelerators take up [dB(A)]."""
        asked = self.noise
        if asked is None:
            return None
        machines = np.ones(len(offer))
        for at in np.unique(offer):
            mine = offer == at
            platform = self.accelerators[at].value.platform
            machines[mine] = np.ceil(accelerators[mine] / float(platform.accelerators))
        source = SoundSource(
            machines, asked.machine_sound_power_db, building_loss_db=asked.building_loss_db
        )
        path = Path(asked.receptor_distance_m, asked.propagation, barrier_db=asked.barrier_db)
        level: FloatArray = np.asarray(noise([source], path, None).sound_pressure_db.value)
        return level

    def of(self, offer: int, accelerators: float) -> dict[str, float | None]:
        """The figures of one candidate, by the names of their limits."""
        level = self.noise_db(np.array([offer]), np.array([accelerators]))
        rack_kw = float(self.rack_kw[offer])
        return {
            "rack_kw": rack_kw if np.isfinite(rack_kw) else None,
            "noise_db": None if level is None else float(level[0]),
        }


def site_figures(
    limits: SiteLimits | None, accelerators: Sequence[Entry[Accelerator]], snapshot: CatalogSnapshot
) -> SiteFigures | None:
    """What accelerators ask of a site; None where no limit of one is set."""
    if limits is None:
        return None

    def rack_kw(accelerator: Accelerator) -> float:
        in_rack = limits.accelerators_per_rack or int(accelerator.platform.accelerators)
        heat = Site(SiteRequest(accelerators_per_rack=in_rack), snapshot, accelerator).heat
        return np.nan if heat is None else float(heat.rack_kw.value)

    each = np.array([rack_kw(entry.value) for entry in accelerators])
    return SiteFigures(tuple(accelerators), each, limits.noise)
