"""Energy and impacts of a training run: per step, per 1,000 tokens, per day and for the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.catalog.entries.entry import Entry
from service.core.deployment import Accelerator, Region
from service.core.estimate.training import TrainingSpeed, run_energy, training_footprints
from service.core.explanation import EstimateWarning, Step, explain
from service.core.impacts.energy import POWER
from service.core.impacts.footprint import FOOTPRINT
from service.core.impacts.training_energy import TRAINING, TrainingEnergy
from service.core.interval import scale
from service.estimation.answers import figure, known_figure
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.footprint_views import basis
from service.estimation.impacts.place import footprint_warnings
from service.estimation.training import answers
from service.estimation.training.calibrations import TrainingFigures

_TOKENS_PER_BASIS = 1000.0
_HOURS_PER_DAY = 24.0
_WATT_HOURS = 1000.0


@dataclass(frozen=True, slots=True)
class TrainingImpacts:
    """Energy and impacts shaped for the answer; ``steps`` tells on demand how they came about.

    Both are None where the power of the hardware is unknown; the run's are None without one, or
    where it never ends.
    """

    energy: answers.TrainingEnergy | None
    impacts: answers.TrainingImpacts | None
    steps: Callable[[], tuple[Step, ...]]
    warnings: tuple[EstimateWarning, ...]


def training_impacts(
    speed: TrainingSpeed,
    figures: TrainingFigures,
    entry: Entry[Accelerator],
    region: Entry[Region],
    year: int | None,
    detail: Detail = WHOLE,
) -> TrainingImpacts:
    """Energy and impacts of a training run in a region.

    Parameters
    ----------
    speed, figures, entry
        The run with its speed, what that was computed with, and its accelerator in the catalog.
    region, year
        Where it trains, and the year whose factors were asked for, if any.
    detail
        How much is told.
    """
    accelerator, around = speed.setup.deployment.accelerator, figures.infrastructure
    if accelerator.thermal_design_power_w is None:
        message = (
            f"the thermal design power of {accelerator.id} is unknown, and energy and footprint "
            "with it"
        )
        return TrainingImpacts(None, None, tuple, (EstimateWarning("power_unknown", message),))
    energy = run_energy(speed, around)
    footprints = training_footprints(speed, energy, region.value, around)
    per_step, whole = footprints.step, footprints.run
    of_step = basis(per_step, detail=detail)
    per_token = 1.0 / float(speed.step.tokens_per_step)
    return TrainingImpacts(
        energy=_energy(energy, per_token, detail),
        impacts={
            "per_step": of_step(1.0),
            "per_1k_tokens": of_step(_TOKENS_PER_BASIS * per_token),
            "per_day": basis(footprints.hour, detail=detail)(_HOURS_PER_DAY),
            "run": None if whole is None else basis(whole, detail=detail)(1.0),
        },
        steps=lambda: (
            *explain(energy, (*POWER, *TRAINING)),
            *explain(per_step if whole is None else whole, FOOTPRINT),
        ),
        warnings=(
            *figures.power_warnings,
            *footprint_warnings(per_step, entry, region, year, detail),
        ),
    )


def _energy(energy: TrainingEnergy, per_token: float, detail: Detail) -> answers.TrainingEnergy:
    power = energy.power
    told: answers.TrainingEnergy = {
        "accelerator_power_w": figure(power.accelerator_mean_power_w),
        "it_power_w": figure(power.it_power_w),
        "it_energy_per_step_kwh": figure(energy.step_kwh),
        "it_energy_per_1k_tokens_wh": figure(
            scale(energy.step_kwh, _WATT_HOURS * _TOKENS_PER_BASIS * per_token)
        ),
        "it_energy_run_kwh": known_figure(energy.run_kwh),
    }
    if not detail.has("energy.breakdown"):
        return told
    return {
        **told,
        "accelerator_idle_power_w": figure(power.idle_power_w),
        "host_power_per_accelerator_w": figure(power.host_power_w),
        "memory_utilisation_ratio": float(power.usage.memory_utilisation_ratio),
        "compute_utilisation_ratio": float(power.usage.compute_utilisation_ratio),
    }
