"""Use cases about training: memory per accelerator, speed, and everything in one answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import COSTS
from service.core.deployment import Accelerator
from service.core.estimate.training import TrainingSpeed
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import Interval, exact, scale
from service.core.memory.training.formulas import MEMORY
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.estimation.answers import frame, grounds
from service.estimation.compliance.check import check_rules
from service.estimation.concerns import OF_ALL, OF_MEMORY, OF_TIMES
from service.estimation.costs.estimate import Costs, costs, hourly, resolve_prices, trained_costs
from service.estimation.costs.price_remarks import OF_ONE_PERSON, run_use_warnings
from service.estimation.detail import WHOLE, Detail
from service.estimation.inference.constraints import training_constraints
from service.estimation.learning.deployments import calibration_used, learnt_training
from service.estimation.learning.learnt import learnt_steps
from service.estimation.platforms import sited
from service.estimation.remarks import remarking
from service.estimation.resolution import Problems, placed_id, resolve_region
from service.estimation.training.answers import (
    EstimateTrainingAnswer,
    LatencyTrainingAnswer,
    MemoryTrainingAnswer,
)
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.echo import echo_training
from service.estimation.training.impacts import training_impacts
from service.estimation.training.memory import fit_warnings, memory_figures
from service.estimation.training.mitigations import planning_figures
from service.estimation.training.requests import (
    LatencyTrainingRequest,
    MemoryTrainingRequest,
    PlacedTrainingRequest,
)
from service.estimation.training.setup import ResolvedTraining
from service.estimation.training.speed import resolved_speed, run_steps, run_warnings
from service.estimation.training.speed_figures import speed_figures
from service.estimation.training.tiers import around_with_tier, tier_price_usd

_HOURS_PER_DAY = 24.0
_SECONDS_PER_HOUR = 3_600.0


def training_memory_answer(
    request: MemoryTrainingRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> MemoryTrainingAnswer:
    """Memory per accelerator of a training run, and what fits."""
    resolved = learnt_training(request, snapshot, Problems())
    memory = _memory(resolved)
    warnings, entries, concern = [*resolved.warnings], resolved.entries(snapshot), OF_MEMORY
    if not memory.fits and detail.has("remedies"):
        planned = planning_figures(memory, snapshot)
        warnings += planned.warnings
        entries += calibration_entries(planned.entries, snapshot)
        concern = OF_ALL
    return {
        **frame(snapshot.revision),
        "deployment": echo_training(resolved, detail),
        **memory_figures(resolved, memory, snapshot, detail),
        **grounds(
            snapshot,
            concern.warnings((*warnings, *fit_warnings(resolved, memory))),
            concern.entries(entries),
            (lambda: (*learnt_steps(resolved.learnt), *explain(memory, MEMORY)))
            if request.explain or detail.has("explanation")
            else None,
            calibration_used(request, resolved),
            detail,
            detail.untold | concern.untold,
        ),
    }


def training_latency_answer(
    request: LatencyTrainingRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> LatencyTrainingAnswer:
    """Step time, throughput and bottleneck of a training run, and the length of the whole run."""
    resolved = learnt_training(request, snapshot, Problems())
    memory = _memory(resolved)
    figures = resolved.figures(snapshot)
    speed = resolved_speed(resolved.setup, figures, memory, request)
    return {
        **frame(snapshot.revision),
        "deployment": echo_training(resolved, detail),
        "fits": bool(memory.fits),
        **speed_figures(speed, detail),
        **grounds(
            snapshot,
            OF_TIMES.warnings(
                (
                    *resolved.warnings,
                    *fit_warnings(resolved, memory),
                    *run_warnings(speed, figures),
                )
            ),
            OF_TIMES.entries(
                (*resolved.entries(snapshot), *speed_entries(speed, figures, snapshot))
            ),
            (lambda: (*learnt_steps(resolved.learnt), *run_steps(speed)))
            if request.explain or detail.has("explanation")
            else None,
            calibration_used(request, resolved),
            detail,
            detail.untold | OF_TIMES.untold,
        ),
    }


@remarking(EstimateTrainingAnswer)
def training_estimate(
    request: PlacedTrainingRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> EstimateTrainingAnswer:
    """Memory, speed, energy and impacts of a training run in one answer."""
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.year)
    )
    resolved = learnt_training(request, snapshot, problems)
    place = sited(problems.resolved(region), resolved.machine, request.facility, snapshot)
    region = place.region
    memory = _memory(resolved)
    figures = resolved.figures(snapshot)
    figures = replace(figures, infrastructure=around_with_tier(figures.infrastructure, memory))
    speed = resolved_speed(resolved.setup, figures, memory, request)
    impacts = training_impacts(speed, figures, resolved.accelerator, region, request.year, detail)
    prices = resolve_prices(
        request.cost,
        resolved.accelerator,
        resolved.setup.deployment.parallelism,
        region,
        figures.infrastructure.hardware_life_years,
        snapshot,
        tier_price_usd(memory),
        trains=True,
    )
    rules = None
    if request.compliance is not None:
        flops = _training_flop(speed)
        known = {} if flops is None else {"training_flop": exact(flops)}
        rules = check_rules(request.compliance, region, snapshot, known)
    day = None if impacts.impacts is None else impacts.impacts["per_day"]
    costed = costs(
        prices,
        None if day is None else hourly(day["facility_energy_kwh"], _HOURS_PER_DAY),
        None if day is None else hourly(day["carbon"]["total_gco2e"], _HOURS_PER_DAY),
    )

    run_hours = None if speed.run is None else scale(speed.run.wall_s, 1.0 / _SECONDS_PER_HOUR)

    def steps() -> tuple[Step, ...]:
        found = (
            *learnt_steps(resolved.learnt),
            *explain(memory, MEMORY),
            *run_steps(speed),
            *impacts.steps(),
            *explain(costed, COSTS),
        )
        return found + (rules.steps if rules is not None else ())

    return {
        **frame(snapshot.revision),
        "deployment": {**echo_training(resolved, detail), "region": placed_id(region)},
        "memory": memory_figures(resolved, memory, snapshot, detail),
        "latency": speed_figures(speed, detail),
        "facility": place.facility,
        "energy": impacts.energy,
        "impacts": impacts.impacts,
        "cost": trained_costs(
            costed,
            speed.tokens_per_s,
            run_hours,
        ),
        "constraints": training_constraints(memory),
        "compliance": None if rules is None else rules.answer,
        **grounds(
            snapshot,
            (
                *resolved.warnings,
                *fit_warnings(resolved, memory),
                *run_warnings(speed, figures),
                *impacts.warnings,
                *prices.warnings,
                *_use_warnings(resolved.accelerator.value, costed, run_hours),
                *(rules.warnings if rules is not None else ()),
            ),
            [
                *resolved.entries(snapshot),
                *speed_entries(speed, figures, snapshot),
                *calibration_entries(figures.power_entries, snapshot),
                ("regions", region),
                *prices.entries,
                *(rules.entries if rules is not None else ()),
            ],
            steps if request.explain or detail.has("explanation") else None,
            calibration_used(request, resolved),
            detail,
            detail.untold,
        ),
    }


def _use_warnings(
    accelerator: Accelerator, costed: Costs, run_hours: Interval | None
) -> Iterator[EstimateWarning]:
    """What it takes to have the cost of a run on a person's own machine."""
    owned, prices = costed.owned, costed.prices
    if owned is None or run_hours is None or prices.purchase_usd is None:
        return
    if accelerator.platform.kind in OF_ONE_PERSON:
        yield from run_use_warnings(
            float(owned.usd_per_hour.value * run_hours.value),
            float(prices.purchase_usd.value * prices.accelerators),
            float(prices.amortisation_years.value),
        )


def _training_flop(speed: TrainingSpeed) -> float | None:
    """Computation that goes into the model, 6 a parameter and token; None without a run."""
    if speed.run is None:
        return None
    return 6.0 * speed.setup.deployment.architecture.active_parameters * float(speed.run.tokens)


def speed_entries(
    speed: TrainingSpeed, figures: TrainingFigures, snapshot: CatalogSnapshot
) -> list[tuple[str, Entry[Any]]]:
    """Calibrations that speed and the run's length were computed with."""
    used = figures.entries
    if speed.run is not None:
        used = (*used, figures.failure_entry)
    return calibration_entries(used, snapshot)


def calibration_entries(
    ids: Iterable[str], snapshot: CatalogSnapshot
) -> list[tuple[str, Entry[Any]]]:
    """Calibrations by their ids, as provenance lists them."""
    return [("calibrations", snapshot.calibrations[id_]) for id_ in ids]


def _memory(resolved: ResolvedTraining) -> TrainingMemory:
    setup = resolved.setup
    return training_memory(setup.deployment, setup.micro_batch, setup.settings, resolved.overheads)
