"""Picks the measured efficiencies of training that apply to a run from the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from service.catalog.entries.engines import figures_of, kin_of
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.engines import engine_of_release
from service.core.explanation import EstimateWarning
from service.core.figures import Figures
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval
from service.core.memory.training.runtime import CALIBRATIONS, TrainingOverheads, training_overheads
from service.core.performance.training.calibration import TrainingCalibration, training_calibration
from service.core.performance.training.traffic import HostRates
from service.core.techniques.setup import TrainingSetup
from service.estimation.calibrations import (
    figures_by_release,
    infrastructure_of,
    power_of,
    with_stand_ins,
)

_FALLBACK = "default"
_HOST = "training/host"
_FAILURES = "training/failures"


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Everything measured that a training estimate uses besides hardware, model and memory.

    ``entries`` are the ids of the calibrations used, those of ``power`` apart; ``warnings`` say
    where a fallback was taken, ``power_warnings`` where it was one of power.
    """

    efficiency: TrainingCalibration
    infrastructure: Infrastructure
    failures_per_accelerator_day: Interval
    checkpoint_write_s: float
    restart_s: float
    host_memory_bytes_per_s: float
    host_link_bytes_per_s: float
    nvme_bytes_per_s: float
    entries: tuple[str, ...]
    power_entries: tuple[str, ...]
    failure_entry: str
    warnings: tuple[EstimateWarning, ...]
    power_warnings: tuple[EstimateWarning, ...]

    def host(self, accelerator: Accelerator) -> HostRates:
        """Bandwidths around an accelerator, with the usual link where its own is not known."""
        known = accelerator.host_link_bandwidth_bytes_per_s
        link = self.host_link_bytes_per_s if known is None else known
        return HostRates(link, self.host_memory_bytes_per_s, self.nvme_bytes_per_s)


def setup_figures(setup: TrainingSetup, snapshot: CatalogSnapshot) -> TrainingFigures:
    """Figures of the framework and the hardware of a training run."""
    family = setup.deployment.accelerator.family
    return training_figures(snapshot, setup.settings.release, family)


@lru_cache(maxsize=256)
def training_figures(snapshot: CatalogSnapshot, release: str, family: str) -> TrainingFigures:
    """Figures of a framework on a hardware family, with documented fallbacks.

    Parameters
    ----------
    snapshot
        The catalog, whose calibrations are read.
    release, family
        Key of the release of a training framework, or the framework's id; and hardware family.

    Returns
    -------
    TrainingFigures
        With a warning for each part that had to fall back on figures of something else.
    """
    known = snapshot.calibrations
    framework = engine_of_release(release)
    timed = figures_of(release, snapshot.engines, "training")
    kin = dict(kin_of(release, snapshot.engines))
    chosen = next(
        id_
        for id_ in (
            *(f"training/{name}/{family}" for name in kin),
            f"training/{_FALLBACK}/{family}",
            *(f"training/{name}/{family}" for name in timed),
            f"training/{_FALLBACK}/{_FALLBACK}",
        )
        if id_ in known
    )
    own = framework == _FALLBACK or timed.get(chosen.split("/")[1], "") is None
    warnings = _warnings(known[chosen], framework, family, own)
    power_ids, power, power_warnings = power_of(snapshot, family)
    infrastructure_id, infrastructure = infrastructure_of(snapshot)
    host = known[_HOST].value
    failures = known[_FAILURES].value
    return TrainingFigures(
        efficiency=training_calibration(known[chosen].value, power, chosen, not warnings),
        infrastructure=infrastructure,
        failures_per_accelerator_day=failures["failures_per_accelerator_day"],
        checkpoint_write_s=float(failures["checkpoint_write_s"].value),
        restart_s=float(failures["restart_s"].value),
        host_memory_bytes_per_s=float(host["host_memory_bytes_per_s"].value),
        host_link_bytes_per_s=float(host["host_link_bytes_per_s"].value),
        nvme_bytes_per_s=float(host["nvme_bytes_per_s"].value),
        entries=(chosen, _HOST),
        power_entries=(*power_ids, infrastructure_id),
        failure_entry=_FAILURES,
        warnings=warnings,
        power_warnings=power_warnings,
    )


@lru_cache(maxsize=16)
def training_memory_overheads(snapshot: CatalogSnapshot) -> TrainingOverheads:
    """Measured memory of every framework and release; kept for each snapshot."""
    own = training_overheads(figures_by_release(snapshot, CALIBRATIONS)).frameworks
    return TrainingOverheads(with_stand_ins(own, snapshot, "training"))


def _warnings(
    chosen: Entry[Figures], framework: str, family: str, own: bool
) -> tuple[EstimateWarning, ...]:
    if any(origin.kind == "assumed" for origin in chosen.origins.values()):
        return (
            EstimateWarning(
                "efficiency_not_measured",
                f"there are no training speed measurements on {family}; typical efficiencies of "
                "other hardware are used, with a wider interval",
            ),
        )
    if not own:
        return (
            EstimateWarning(
                "efficiency_not_measured",
                f"there are no training speed measurements of {framework} on {family}; the "
                "efficiency of other frameworks is used, with a wider interval",
            ),
        )
    return ()
