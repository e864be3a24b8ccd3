"""Use case: memory, time, energy, footprint and cost of distillation, DPO and GRPO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import COSTS
from service.core.deployment import Region
from service.core.estimate.composition import (
    COMPOSITION,
    Composition,
    footprints,
    run_kwh,
)
from service.core.estimate.training import run_energy
from service.core.explanation import EstimateWarning, Step, explain
from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import making
from service.core.interval import Interval, exact, independent_sum, scale
from service.core.memory.training.formulas import MEMORY
from service.core.performance.training.run import RUN, TrainingRun, training_run
from service.estimation import answers as shapes
from service.estimation.answers import Parallelism, figure, frame, grounds, known_figure
from service.estimation.costs.answers import TrainingCost, TrainingRunCost
from service.estimation.costs.estimate import Costs, Prices, costs, resolve_prices, trained_costs
from service.estimation.impacts.footprint_views import basis
from service.estimation.impacts.place import footprint_warnings
from service.estimation.learning.deployments import calibration_used
from service.estimation.learning.learnt import learnt_steps
from service.estimation.platforms import sited
from service.estimation.post_training import answers
from service.estimation.post_training.fitting import all_fit, fitted, sequences_each
from service.estimation.post_training.parts import Parts, Pooled, Prepared, Run
from service.estimation.post_training.requests import PostTrainingRequest
from service.estimation.requests import CostRequest
from service.estimation.resolution import Problems, placed_id, resolve_region
from service.estimation.training.answers import (
    MemoryVerdict,
    RuntimeParts,
    TrainingImpacts,
    TrainingParts,
)
from service.estimation.training.echo import echo_training
from service.estimation.training.estimate import calibration_entries
from service.estimation.training.memory import fit_warnings, largest_micro_batch
from service.estimation.training.speed import failures_of, run_steps
from service.estimation.training.speed_figures import run_figures
from service.estimation.writing import written

_SECONDS_PER_HOUR = 3_600.0
_HOURS_PER_DAY = 24.0
_THOUSAND = 1_000.0
_WATTS = 1_000.0


def post_training_answer(
    request: PostTrainingRequest, snapshot: CatalogSnapshot
) -> answers.PostTrainingAnswer:
    """A step of post-training, with the memory, energy and cost of all that takes part."""
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.year)
    )
    run, parts = fitted(request, snapshot, problems)
    place = sited(problems.resolved(region), run.resolved.machine, request.facility, snapshot)
    region = place.region
    tokens_per_step = parts.updates * run.sequences * run.sequence_tokens
    composition = Composition(
        tuple(each.pool for each in parts.pools), parts.phases, parts.works_ahead, tokens_per_step
    )
    whole = _whole_run(run, composition)
    printed = footprints(composition, region.value)
    priced = [
        _priced(each, run, region, composition, None if printed is None else printed[at])
        for at, each in enumerate(parts.pools)
    ]
    hours = None if whole is None else scale(whole.wall_s, 1.0 / _SECONDS_PER_HOUR)
    pool_costs = [trained_costs(found, composition.tokens_per_s, hours) for found in priced]
    resolved = run.resolved
    return {
        **frame(snapshot.revision),
        "deployment": {**echo_training(resolved), "region": placed_id(region)},
        "objective": request.objective,
        "fits": all_fit(parts),
        "memory": _memory(parts, sequences_each(request)),
        "generation_memory": parts.generation_memory,
        "teacher_memory": parts.teacher_memory,
        "step": _step(parts, composition),
        "pools": [
            _pool(each, composition, cost)
            for each, cost in zip(parts.pools, pool_costs, strict=True)
        ],
        "preparation": None
        if parts.prepared is None
        else _preparation(parts.prepared, run, composition, region.value),
        "run": None if whole is None else run_figures(whole),
        "facility": place.facility,
        "energy": _energy(composition, whole),
        "impacts": None if printed is None else _impacts(printed, composition, whole),
        "cost": {
            "rented": _total(pool_costs, "rented"),
            "owned": _total(pool_costs, "owned"),
            "emissions": _total(pool_costs, "emissions"),
        },
        **grounds(
            snapshot,
            _warnings(run, parts, printed, region, priced),
            [
                *resolved.entries(snapshot),
                *calibration_entries((*run.figures.entries, *run.figures.power_entries), snapshot),
                *parts.entries,
                ("regions", region),
                *(entry for found in priced for entry in found.prices.entries),
            ],
            (lambda: _steps(run, parts, composition, whole, priced)) if request.explain else None,
            calibration_used(request, resolved),
        ),
    }


def _whole_run(run: Run, composition: Composition) -> TrainingRun | None:
    tokens = run.request.training.tokens
    if tokens is None:
        return None
    failures = failures_of(run.request.training.failures, run.figures)
    return training_run(
        tokens,
        composition.tokens_per_step,
        composition.step_s,
        composition.accelerators,
        failures,
    )


def _memory(parts: Parts, sequences_each: float) -> answers.PostTrainingMemory:
    memory, beside = parts.memory, parts.memory.beside
    tokens = memory.micro_batch.sequences * memory.micro_batch.tokens
    each = tokens / memory.deployment.parallelism.context
    return {
        **written(memory, TrainingParts),
        **written(memory, RuntimeParts),
        **written(memory, MemoryVerdict),
        "capacity_bytes": float(memory.capacity_bytes),
        "held_beside_bytes": float(beside.held_bytes),
        "loss_beside_bytes": float(beside.loss_bytes_per_token * each + beside.passing_bytes),
        "host_bytes": figure(exact(memory.host_bytes)),
        "max_micro_batch_size": figure(largest_micro_batch(memory, sequences_each)),
    }


def _step(parts: Parts, composition: Composition) -> answers.PostTrainingStep:
    step_s = composition.step_s
    working_s = sum(float(each.time_s.value) for each in composition.phases)
    alone_s = float(parts.speed.step.step_s) * parts.updates
    return {
        "step_s": figure(step_s),
        "updates_per_step": parts.updates,
        "sequences_per_step": parts.sequences,
        "tokens_per_step": composition.tokens_per_step,
        "generated_tokens_per_step": parts.generated_tokens,
        "tokens_per_s": figure(composition.tokens_per_s),
        "added_step_ratio": float(step_s.value) / alone_s,
        "phases": [
            {
                "phase": each.name,
                "pool": each.pool,
                "time_s": figure(each.time_s),
                "time_ratio": float(each.time_s.value) / working_s,
                "it_energy_kwh": known_figure(each.it_kwh),
            }
            for each in composition.phases
        ],
    }


def _pool(pooled: Pooled, composition: Composition, cost: TrainingCost) -> answers.AcceleratorPool:
    pool = pooled.pool
    busy_s = composition.busy_by_pool_s[pool.name]
    return {
        "pool": pool.name,
        "model": pooled.model,
        "accelerator": pooled.accelerator.id,
        "accelerator_count": pool.accelerators,
        "parallelism": written(pool.deployment.parallelism, Parallelism),
        "busy_s": figure(busy_s),
        "busy_ratio": float(busy_s.value / composition.step_s.value),
        "it_energy_per_step_kwh": known_figure(composition.pool_kwh(pool.name)),
        "cost": cost,
    }


def _preparation(
    prepared: Prepared, run: Run, composition: Composition, region: Region
) -> answers.Preparation:
    """The forward pass over all data once, and what is kept of it."""
    tokens, pool, speed = run.request.training.tokens, prepared.pooled.pool, prepared.speed
    each_bytes = prepared.stored_bytes_per_token
    time_s = hours = kwh = impact = None
    if tokens is not None:
        times = tokens / prepared.epochs / float(speed.step.tokens_per_step)
        time_s = scale(speed.step_s, times)
        hours = scale(time_s, pool.accelerators / _SECONDS_PER_HOUR)
        if pool.deployment.accelerator.thermal_design_power_w is not None:
            around = prepared.figures.infrastructure
            kwh = scale(run_energy(speed, around).step_kwh, times)
            made = making(pool.deployment.accelerator, around)
            impact = basis(footprint(kwh, hours, None, region, around, made))(1.0)
    read = each_bytes * composition.tokens_per_step / float(composition.step_s.value)
    return {
        "stored_bytes_per_token": each_bytes,
        "stored_bytes": None if tokens is None else each_bytes * tokens / prepared.epochs,
        "time_s": known_figure(time_s),
        "accelerator_hours": known_figure(hours),
        "it_energy_kwh": known_figure(kwh),
        "impact": impact,
        "read_bytes_per_s": read / run.deployment.parallelism.accelerator_count,
    }


def _energy(
    composition: Composition, whole: TrainingRun | None
) -> answers.PostTrainingEnergy | None:
    step_kwh = composition.step_kwh
    if step_kwh is None:
        return None
    return {
        "it_power_w": figure(_power_w(composition, step_kwh)),
        "it_energy_per_step_kwh": figure(step_kwh),
        "it_energy_per_1k_tokens_wh": figure(
            scale(step_kwh, _THOUSAND * _WATTS / composition.tokens_per_step)
        ),
        "it_energy_run_kwh": known_figure(None if whole is None else run_kwh(composition, whole)),
    }


def _power_w(composition: Composition, step_kwh: Interval) -> Interval:
    """Mean IT power: energy and time of a step go together [W]."""
    return scale(step_kwh, _WATTS * _SECONDS_PER_HOUR / float(composition.step_s.value))


def _impacts(
    printed: tuple[Footprint, ...], composition: Composition, whole: TrainingRun | None
) -> TrainingImpacts:
    of_step = basis(*printed)
    step_s = float(composition.step_s.value)
    goodput = None if whole is None else float(whole.goodput_ratio.value)
    steps = 0.0 if whole is None else float(whole.steps)
    return {
        "per_step": of_step(1.0),
        "per_1k_tokens": of_step(_THOUSAND / composition.tokens_per_step),
        "per_day": of_step(_HOURS_PER_DAY * _SECONDS_PER_HOUR / step_s),
        "run": of_step(steps / goodput) if goodput else None,
    }


def _priced(
    pooled: Pooled,
    run: Run,
    region: Entry[Region],
    composition: Composition,
    printed: Footprint | None,
) -> Costs:
    """What a pool costs by the hour; the request's prices are those of its own accelerator."""
    asked, pool = run.request.cost, pooled.pool
    if pooled.accelerator.id != run.resolved.accelerator.id:
        asked = asked.model_copy(
            update={
                name: CostRequest.model_fields[name].default
                for name in ("instance", "usd_per_accelerator_hour", "purchase_usd_per_accelerator")
            }
        )
    prices: Prices = resolve_prices(
        asked,
        pooled.accelerator,
        pool.deployment.parallelism,
        region,
        pool.infrastructure.hardware_life_years,
        run.snapshot,
    )
    hourly = _SECONDS_PER_HOUR / float(composition.step_s.value)
    kwh = grams = None
    if printed is not None:
        kwh = scale(printed.facility_energy_kwh, hourly)
        total = printed.total_location_gco2e
        grams = None if total is None else scale(total, hourly)
    return costs(prices, kwh, grams)


def _total(
    found: list[TrainingCost], kind: Literal["rented", "owned", "emissions"]
) -> TrainingRunCost | None:
    """The same cost of all pools; None where a price of one is not known."""
    each: list[TrainingRunCost] = []
    for cost in found:
        known = cost[kind]
        if known is None:
            return None
        each.append(known)
    runs = [one["usd_run"] for one in each]
    return {
        "usd_per_hour": _sum(one["usd_per_hour"] for one in each),
        "usd_per_million_tokens": _sum(one["usd_per_million_tokens"] for one in each),
        "usd_run": _sum(one for one in runs if one is not None) if None not in runs else None,
    }


def _sum(figures: Iterable[shapes.Interval]) -> shapes.Interval:
    return figure(
        independent_sum(Interval(one["value"], one["low"], one["high"]) for one in figures)
    )


def _warnings(
    run: Run,
    parts: Parts,
    printed: tuple[Footprint, ...] | None,
    region: Entry[Region],
    priced: list[Costs],
) -> Iterable[EstimateWarning]:
    """What a careful colleague would say of all parts."""
    resolved = run.resolved
    yield from resolved.warnings
    yield from fit_warnings(resolved, parts.memory, sequences_each(run.request))
    yield from run.figures.warnings
    yield from run.figures.power_warnings
    yield from parts.warnings
    short = parts.updates * run.sequences > parts.sequences and parts.sequences % run.sequences
    if short:
        yield EstimateWarning(
            "last_update_short",
            f"the {parts.sequences:.0f} sequences of a step are not a multiple of the "
            f"{run.sequences:.0f} of an optimizer step: the last step is counted as if full",
        )
    if printed is None:
        yield EstimateWarning(
            "power_unknown",
            "the thermal design power of an accelerator is unknown, so energy and footprint are "
            "unknown, too",
        )
    else:
        yield from footprint_warnings(printed[0], resolved.accelerator, region, run.request.year)
    for found in priced:
        yield from found.prices.warnings


def _steps(
    run: Run,
    parts: Parts,
    composition: Composition,
    whole: TrainingRun | None,
    priced: list[Costs],
) -> tuple[Step, ...]:
    return (
        *learnt_steps(run.resolved.learnt),
        *explain(parts.memory, MEMORY),
        *run_steps(parts.speed),
        *explain(composition, COMPOSITION),
        *explain(whole, RUN),
        *(step for found in priced for step in explain(found, COSTS)),
    )
