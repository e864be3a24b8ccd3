"""Picks the measured efficiencies of training that apply to a run from the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import hypot

from service.catalog.derived import derived
from service.catalog.entries.engines import kin_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.engines import FALLBACK_ENGINE, engine_of_release
from service.core.explanation import EstimateWarning
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact
from service.core.learning import Corrections
from service.core.performance.calibration import PowerModel
from service.core.performance.kernels import sums_at_half_rate
from service.core.performance.training.calibration import TrainingCalibration, training_calibration
from service.core.performance.training.traffic import HostRates
from service.core.techniques.setup import TrainingSetup
from service.estimation.calibrations import infrastructure_of, power_of
from service.estimation.levels import (
    TRAINING,
    TRAINING_SPREAD,
    UNSTATED_FRAMEWORK,
    Held,
    engine_keys,
    held,
    log_sigma,
    speed_keys,
    training_link_of,
    widening,
)
from service.estimation.wording import named_software

_PAIRS = "training"
_HOST = "training/host"
_FAILURES = "training/failures"
#: Parts whose levels are told where they were not measured, as warnings call their terms.
_TOLD = ("training-speed/hardware", "training-speed/kernels", "training-speed/frameworks")


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Everything measured that a training estimate uses besides hardware, model and memory.

    ``releases`` hold efficiencies of other releases that may be meant. ``framework_class`` is that
    of a framework that was named. ``entries`` are the ids of the
    calibrations used, those of ``power`` apart; ``warnings`` say where a fallback was taken,
    ``power_warnings`` where it was one of power.
    """

    efficiency: TrainingCalibration
    infrastructure: Infrastructure
    failures_per_accelerator_day: Interval
    checkpoint_write_s: float
    restart_s: float
    other_losses_ratio: Interval
    host_memory_bytes_per_s: float
    host_memory_ratio: float
    host_link_bytes_per_s: float
    nvme_bytes_per_s: float
    framework_class: str | None
    entries: tuple[str, ...]
    power_entries: tuple[str, ...]
    failure_entry: str
    warnings: tuple[EstimateWarning, ...]
    power_warnings: tuple[EstimateWarning, ...]
    releases: Mapping[str, TrainingCalibration] = field(default_factory=dict)

    def corrected(self, corrections: Corrections) -> TrainingFigures:
        """The figures as own measurements correct them."""
        return replace(
            self,
            efficiency=self.efficiency.corrected(corrections),
            releases={key: one.corrected(corrections) for key, one in self.releases.items()},
        )

    def host(self, accelerator: Accelerator) -> HostRates:
        """Bandwidths around an accelerator, with the usual link where its own is not known."""
        known = accelerator.host_link_bandwidth_bytes_per_s
        link = self.host_link_bytes_per_s if known is None else known
        return HostRates(
            link, self.host_memory_bytes_per_s, self.nvme_bytes_per_s, self.host_memory_ratio
        )


def setup_figures(setup: TrainingSetup, snapshot: CatalogSnapshot) -> TrainingFigures:
    """Figures of the framework and the hardware of a training run, and of other releases of it."""
    settings, accelerator = setup.settings, setup.deployment.accelerator
    found = training_figures(snapshot, settings.release, accelerator)
    others = {
        one.release: training_figures(snapshot, one.release, accelerator).efficiency
        for choice in settings.left_open
        for one in settings.otherwise(choice)
        if one.release != settings.release
    }
    return replace(found, releases=others) if others else found


def training_figures(
    snapshot: CatalogSnapshot, release: str, accelerator: Accelerator
) -> TrainingFigures:
    """Figures of a framework on an accelerator, with documented fallbacks.

    Parameters
    ----------
    snapshot
        The catalog, whose calibrations are read.
    release
        Key of the release of a training framework, or the framework's id.
    accelerator
        The accelerator, of which hardware family, memory, kind of link, class of machine, and
        whether its sums are at half rate count.

    Returns
    -------
    TrainingFigures
        With a warning for each part that had to fall back on figures of something else.
    """
    return _figures(
        snapshot,
        release,
        accelerator.family,
        accelerator.memory_technology,
        training_link_of(accelerator),
        accelerator.platform.kind,
        sums_at_half_rate(accelerator),
    )


@derived(most=512)
def _figures(
    snapshot: CatalogSnapshot,
    release: str,
    family: str,
    memory_technology: str,
    link: str,
    machine: str,
    halved: bool,
) -> TrainingFigures:
    known = snapshot.calibrations
    power_ids, power, power_warnings = power_of(snapshot, family, memory_technology, machine)
    infrastructure_id, infrastructure = infrastructure_of(snapshot)
    host = known[_HOST].value
    failures = known[_FAILURES].value
    named = engine_of_release(release) != FALLBACK_ENGINE
    efficiency, entries, warnings = _efficiency(snapshot, release, family, link, power, halved)
    return TrainingFigures(
        efficiency=efficiency,
        infrastructure=infrastructure,
        failures_per_accelerator_day=failures["failures_per_accelerator_day"],
        checkpoint_write_s=float(failures["checkpoint_write_s"].value),
        restart_s=float(failures["restart_s"].value),
        other_losses_ratio=failures.get("other_losses_ratio", exact(0.0)),
        host_memory_bytes_per_s=float(host["host_memory_bytes_per_s"].value),
        host_memory_ratio=float(host.get("host_memory_ratio", exact(0.0)).value),
        host_link_bytes_per_s=float(host["host_link_bytes_per_s"].value),
        nvme_bytes_per_s=float(host["nvme_bytes_per_s"].value),
        framework_class=engine_keys(release, snapshot.engines, "training")["class"]
        if named
        else None,
        entries=(*entries, _HOST),
        power_entries=(*power_ids, infrastructure_id),
        failure_entry=_FAILURES,
        warnings=warnings,
        power_warnings=power_warnings,
    )


def _efficiency(
    snapshot: CatalogSnapshot,
    release: str,
    family: str,
    link: str,
    power: PowerModel,
    halved: bool,
) -> tuple[TrainingCalibration, tuple[str, ...], tuple[EstimateWarning, ...]]:
    """Efficiencies, with the ids of the entries that they come from."""
    pair = _pair(snapshot, release, family)
    if pair is not None:
        figures = snapshot.calibrations[pair].value
        return training_calibration(figures, power, pair, True), (pair,), ()
    keys = speed_keys(release, family, link, snapshot.engines, "training")
    parts = [held(snapshot, part, kinds, keys) for part, kinds in TRAINING.items()]
    spread = held(snapshot, TRAINING_SPREAD, (), keys)
    missing = [(part.part, kind) for part in parts for kind in part.missing]
    merged = {name: one for part in parts for name, one in part.figures.items()}
    sigma = log_sigma(spread.figures, missing)
    if release == FALLBACK_ENGINE and UNSTATED_FRAMEWORK in spread.figures:
        sigma = hypot(sigma, float(spread.figures[UNSTATED_FRAMEWORK].value))
    merged["step_log_sigma"] = exact(sigma)
    warnings = tuple(_warnings(release, family, parts))
    source = ", ".join(part.entries[-1] for part in parts)
    wider = widening(spread.figures, missing)
    efficiency = training_calibration(merged, power, source, not warnings, wider, halved=halved)
    used = (id_ for part in (*parts, spread) for id_ in part.entries)
    return efficiency, tuple(dict.fromkeys(used)), warnings


def _pair(snapshot: CatalogSnapshot, release: str, family: str) -> str | None:
    """Id of the figures that stand for a framework and a hardware family together.

    Revisions of earlier releases have them, and a catalog may add some: they come before levels.
    """
    names = [name for name, _ in kin_of(release, snapshot.engines)]
    ids = (
        *(f"{_PAIRS}/{name}/{family}" for name in names),
        f"{_PAIRS}/{FALLBACK_ENGINE}/{family}",
        f"{_PAIRS}/{FALLBACK_ENGINE}/{FALLBACK_ENGINE}",
    )
    return next((id_ for id_ in ids if id_ in snapshot.calibrations), None)


def _warnings(release: str, family: str, parts: Iterable[Held]) -> Iterator[EstimateWarning]:
    """What to say where levels of a framework or of hardware were not measured."""
    taken = {part.part: part for part in parts}
    if any(taken[part].missing for part in _TOLD):
        said = (
            f"no framework is named: speed on {family} is that of frameworks that were measured, "
            "and the range reaches over them; name one to narrow it"
            if engine_of_release(release) == FALLBACK_ENGINE
            else f"no measurements of training speed are published for {named_software(release)} "
            f"on {family}: those of similar software and hardware are used"
        )
        yield EstimateWarning("efficiency_not_measured", said)
