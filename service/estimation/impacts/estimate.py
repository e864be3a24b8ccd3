"""Use case: energy, carbon, water and hardware worn, per request, token, task, year and period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Region
from service.core.elementwise import plain
from service.core.estimate.inference import InferenceEnergy, inference_energy, inference_footprints
from service.core.explanation import EstimateWarning, Step, explain
from service.core.impacts.energy import POWER, REQUEST, deployment_power
from service.core.impacts.footprint import FOOTPRINT, Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.interval import Interval, exact, scale
from service.core.performance.calibration import PowerModel
from service.core.performance.usage import PhaseUse, Usage, reference_flops_per_s
from service.core.platform import Machine
from service.core.years import DAYS_PER_YEAR, HOURS_PER_YEAR
from service.estimation.answers import CalibrationUsed, figure, frame, grounds
from service.estimation.calibrations import Calibration, calibration, infrastructure_of
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts import answers
from service.estimation.impacts.context import ImpactContext, resolve_impact_context
from service.estimation.impacts.footprint_views import Basis, DetailedBasis, basis
from service.estimation.impacts.one_at_a_time import load_warnings
from service.estimation.impacts.place import footprint_warnings, kept
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.echo import PlacedDeployment, echo
from service.estimation.inference.spilling import computed_deployment
from service.estimation.learning.deployments import calibration_used
from service.estimation.learning.learnt import Learnt, learnt_steps
from service.estimation.platforms import resolve_machine, resolve_placed, sited
from service.estimation.requests import PeriodRequest
from service.estimation.resolution import (
    Problems,
    resolve_region,
)
from service.estimation.software import resolve_serving_engine

_HOURS_PER_DAY = 24.0
_TOKENS_PER_BASIS = 1000.0
_JOULES_PER_WH = 3600.0

#: Use of an accelerator that is only known to have been in use, the least that is likely, and all
#: there is: shares of time in which kernels run, of peak bandwidth, and of time at the peak of
#: matrix units. Of experts that are shared among accelerators, each reads a few for one sequence.
_USUAL_USE = (0.7, 0.5, 0.35)
_LIGHT_USE = (0.3, 0.1, 0.02)
_FULL_USE = (1.0, 1.0, 1.0)

Energy = TypeVar("Energy")
Bases = TypeVar("Bases")

#: Makes what writes a footprint out of it.
Writer = Callable[[Footprint], Basis]


@dataclass(frozen=True, slots=True)
class ComputedImpacts(Generic[Energy, Bases]):
    """Energy and impacts, shaped for the answer.

    ``steps`` tells on demand how they came about, so that an unexplained answer pays nothing.
    ``unit`` is the footprint that the period is ``unit_count`` times of; None where the power of
    the hardware is unknown.
    """

    energy: Energy | None
    impacts: Bases | None
    steps: Callable[[], tuple[Step, ...]]
    warnings: tuple[EstimateWarning, ...]
    unit: Footprint | None = None
    unit_count: float = 0.0


#: Bases that places are compared by.
BasisOfPlaces: TypeAlias = Literal["per_request", "per_1k_tokens", "per_year"]

DeploymentImpacts: TypeAlias = ComputedImpacts[answers.DeploymentEnergy, answers.DeploymentImpacts]
PlainImpacts: TypeAlias = ComputedImpacts[answers.PlainEnergy, answers.PlainImpacts]


def impacts_answer(
    request: ImpactsRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> answers.ImpactsAnswer:
    """Energy, carbon and water of a deployment, of plain energy, or of accelerator time."""
    answer, _ = impacts_with_result(request, snapshot, detail)
    return answer


def impacts_with_result(
    request: ImpactsRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> tuple[answers.ImpactsAnswer, DeploymentImpacts | PlainImpacts]:
    """The answer of `impacts_answer`, with the computed footprint for whoever reports on it."""
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.period.year)
    )
    entries: list[tuple[str, Entry[Any]]] = []
    warnings: tuple[EstimateWarning, ...] = ()
    computed: ComputedDeployment | None = None
    accelerator: Entry[Accelerator] | None = None
    used: CalibrationUsed | None = None
    learnt: Learnt | None = None
    if request.model is not None:
        computed = computed_deployment(request, snapshot, problems)
        resolved = computed.resolved
        used = calibration_used(request, resolved)
        learnt = resolved.learnt
        accelerator = resolved.accelerator
        entries = resolved.entries()
        machine = resolved.machine
        warnings = (*computed.warnings, *load_warnings(request.workload, computed))
    else:
        accelerator, machine = _given(request, snapshot, problems)
        given = () if accelerator is None else (accelerator.value,)
        release = resolve_serving_engine(request.serving, given, (), snapshot, problems)
        if accelerator is not None:
            entries.append(("accelerators", accelerator))
        if machine is not None:
            entries.append(("platforms", machine))
    around = kept(infrastructure_of(snapshot)[1], request.hardware, snapshot, problems)
    problems.stop_if_any()
    located = sited(problems.resolved(region), machine, request.facility, snapshot)
    region = located.region
    place = resolve_impact_context(request, region, accelerator, around, snapshot, detail)
    echoed: PlacedDeployment | None = None
    result: DeploymentImpacts | PlainImpacts
    if computed is not None:
        echoed = {**echo(computed.resolved, detail), "region": region.id}
        result = deployment_impacts(
            computed, place.region, request.period, around, place.writer, detail
        )
    else:
        of = None if accelerator is None else accelerator.value
        chosen = calibration(snapshot, release.key, of)
        result = _plain_impacts(request, place, accelerator, chosen, around)
    entries.append(("regions", region))
    answer: answers.ImpactsAnswer = {
        **frame(snapshot.revision),
        "deployment": echoed,
        "region": region.id,
        "facility": located.facility,
        "energy": result.energy,
        # The writer of the place writes every basis with its parts.
        "impacts": cast(
            "answers.DetailedDeploymentImpacts | answers.PlainImpacts | None", result.impacts
        ),
        **place.described(result.unit, result.unit_count, request.period.days),
        **grounds(
            snapshot,
            (*warnings, *place.warnings, *result.warnings),
            entries,
            (lambda: (*learnt_steps(learnt), *result.steps(), *place.steps()))
            if request.explain or detail.has("explanation")
            else None,
            used,
            detail,
        ),
    }
    return answer, result


def deployment_impacts(
    computed: ComputedDeployment,
    region: Entry[Region],
    period: PeriodRequest,
    infrastructure: Infrastructure | None = None,
    writer: Writer | None = None,
    detail: Detail = WHOLE,
) -> DeploymentImpacts:
    """Energy and impacts of a computed deployment in a region.

    Idle time and idle accelerators are part of a request's share: a request carries the power of
    the whole deployment over the time between two requests.

    Parameters
    ----------
    computed, region, period
        What runs where, for how long.
    infrastructure
        What stands around the accelerators; the calibration's if None.
    writer
        Shapes a footprint; without further parts if None.
    detail
        How much is told.
    """
    resolved = computed.resolved
    accelerator = resolved.deployment.accelerator
    around = infrastructure or resolved.calibration.infrastructure
    if accelerator.thermal_design_power_w is None:
        return ComputedImpacts(
            None,
            None,
            tuple,
            (
                EstimateWarning(
                    "power_unknown",
                    f"the thermal design power of {accelerator.id} is not published, so that "
                    "energy and footprint are unknown until you state it",
                ),
            ),
        )
    energy = inference_energy(computed.estimate, around)
    made = _made(accelerator, around)
    footprints = inference_footprints(energy, made, region.value, around)
    per_request, per_hour = footprints.request, footprints.hour
    per_token = 1.0 / _tokens_per_request(computed)
    written = writer or partial(basis, detail=detail)
    of_request, of_hour = written(per_request), written(per_hour)
    period_hours = period.days * _HOURS_PER_DAY
    unit, unit_count, of_unit = per_hour, period_hours, of_hour
    if period.requests is not None:
        unit, unit_count, of_unit = per_request, period.requests, of_request
    bases: answers.DeploymentImpacts = {
        "per_request": of_request(1.0),
        "per_1k_tokens": of_request(_TOKENS_PER_BASIS * per_token),
        "per_year": of_hour(HOURS_PER_YEAR),
    }
    calls, every = resolved.workload.calls_per_task, detail.has("impacts.breakdown")
    if every or calls != 1:
        bases["per_task"] = of_request(float(calls))
    if every or not period.model_fields_set.isdisjoint(("days", "requests")):
        bases["period"] = of_unit(unit_count)
    return ComputedImpacts(
        energy=_energy(energy, per_token if computed.generates else None, detail),
        impacts=bases,
        steps=lambda: (*explain(energy, (*POWER, *REQUEST)), *explain(per_request, FOOTPRINT)),
        warnings=footprint_warnings(per_request, resolved.accelerator, region, period.year, detail),
        unit=unit,
        unit_count=unit_count,
    )


def footprints_by_place(
    computed: ComputedDeployment, basis: BasisOfPlaces
) -> Callable[[Region], tuple[Footprint, float]] | None:
    """What a basis of a deployment comes to in a place, as a footprint and how many times it.

    Energy is the same everywhere, and is computed once; None where it is unknown.
    """
    resolved = computed.resolved
    accelerator, around = resolved.deployment.accelerator, resolved.calibration.infrastructure
    if accelerator.thermal_design_power_w is None:
        return None
    energy = inference_energy(computed.estimate, around)
    made = making(accelerator, around)
    count = {
        "per_request": 1.0,
        "per_1k_tokens": _TOKENS_PER_BASIS / _tokens_per_request(computed),
        "per_year": HOURS_PER_YEAR,
    }[basis]

    def placed(region: Region) -> tuple[Footprint, float]:
        found = inference_footprints(energy, made, region, around)
        return (found.hour if basis == "per_year" else found.request), count

    return placed


def _tokens_per_request(computed: ComputedDeployment) -> float:
    """Tokens that a request is counted by: those that it generates, else those that it reads."""
    workload = computed.resolved.workload
    return plain(workload.output_tokens if computed.generates else workload.input_tokens)


#: Making of a single accelerator is the same for all loads of it.
_made = lru_cache(maxsize=512)(making)


def _given(
    request: ImpactsRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[Accelerator] | None, Entry[Machine] | None]:
    """The accelerator without a model, and its machine; a machine alone says where it stands."""
    given, platform = request.accelerator, request.platform
    if given is not None:
        return resolve_placed(given, platform, request.power_limit_w, snapshot, problems)
    if platform is None:
        return None, None
    return None, problems.attempt("/platform", lambda: resolve_machine(platform, snapshot))


def _plain_impacts(
    request: ImpactsRequest,
    place: ImpactContext,
    accelerator: Entry[Accelerator] | None,
    chosen: Calibration,
    around: Infrastructure,
) -> PlainImpacts:
    device = accelerator.value if accelerator is not None else None
    hours = None if request.accelerator_hours is None else exact(request.accelerator_hours)
    warnings: list[EstimateWarning] = []
    if request.energy_kwh is not None:
        energy_kwh = exact(request.energy_kwh)
    elif device is not None and device.most_power_w is not None:
        power_w = assumed_power_w(device, chosen.performance.power, around)
        energy_kwh = scale(power_w, (request.accelerator_hours or 0.0) * 1e-3)
        warnings.append(
            EstimateWarning(
                "power_assumed",
                "energy is estimated from accelerator time at a typical load; state the energy "
                "if it was measured",
            )
        )
    else:
        return ComputedImpacts(
            None,
            None,
            tuple,
            (
                EstimateWarning(
                    "power_unknown",
                    "the thermal design power of the accelerator is unknown, and energy and "
                    "footprint with it",
                ),
            ),
        )
    total = footprint(energy_kwh, hours, device, place.region.value, around)
    return ComputedImpacts(
        energy={"it_energy_kwh": figure(energy_kwh)},
        impacts=_plain_bases(place.writer(total), request.period),
        steps=lambda: explain(total, FOOTPRINT),
        warnings=(
            *warnings,
            *footprint_warnings(
                total, None if hours is None else accelerator, place.region, request.period.year
            ),
        ),
        unit=total,
        unit_count=1.0,
    )


def assumed_power_w(device: Accelerator, power: PowerModel, around: Infrastructure) -> Interval:
    """IT power of one accelerator with its host, of which only the time in use is known [W].

    Parameters
    ----------
    device
        Has a known thermal design power.
    power
        What it draws by what it does.
    around
        What stands around it.
    """

    def power_in_use(use: tuple[float, float, float]) -> Interval:
        usage = _usage(device, *use)
        return deployment_power(device, 1, usage, power, around).it_power_w

    light, usual, full = (power_in_use(use) for use in (_LIGHT_USE, _USUAL_USE, _FULL_USE))
    return Interval(usual.value, light.low, full.high)


def _usage(device: Accelerator, kernels: float, moved: float, computed: float) -> Usage:
    """Shares of time and of peaks as what an accelerator does."""
    matrix_flops_per_s = computed * reference_flops_per_s(device)
    moved_per_s = moved * device.memory_bandwidth_bytes_per_s
    use = PhaseUse(1.0, kernels, moved_per_s, matrix_flops_per_s)
    return Usage(moved, computed, 1.0, (use,))


def _plain_bases(of_total: DetailedBasis, period: PeriodRequest) -> answers.PlainImpacts:
    """The total, and what follows from it for a request or a year where the period says how."""
    requests = period.requests
    dated = "days" in period.model_fields_set
    return {
        "period": of_total(1.0),
        "per_request": None if requests is None else of_total(1.0 / requests),
        "per_year": of_total(DAYS_PER_YEAR / period.days) if dated else None,
    }


def _energy(
    energy: InferenceEnergy, per_token: float | None, detail: Detail
) -> answers.DeploymentEnergy:
    power, request = energy.power, energy.request
    told: answers.DeploymentEnergy = {
        "it_power_w": figure(power.it_power_w),
        "busy_ratio": plain(power.usage.busy_ratio),
        "it_energy_per_request_wh": figure(request.it_wh),
    }
    if not detail.has("energy.breakdown"):
        return told
    return {
        **told,
        "accelerator_busy_power_w": figure(power.busy_power_w),
        "accelerator_idle_power_w": figure(power.waiting_power_w),
        "accelerator_mean_power_w": figure(power.accelerator_mean_power_w),
        "host_power_per_accelerator_w": figure(power.host_power_w),
        "memory_tiers_power_per_accelerator_w": None
        if energy.tiers_kgco2e is None
        else figure(power.tiers_power_w),
        "accelerator_prefill_power_w": figure((power.prefill or power.main).power_w),
        "accelerator_decode_power_w": figure(power.main.power_w),
        "memory_utilisation_ratio": plain(power.usage.memory_utilisation_ratio),
        "compute_utilisation_ratio": plain(power.usage.compute_utilisation_ratio),
        "accelerator_energy_per_request_wh": figure(request.accelerators_wh),
        "host_energy_per_request_wh": figure(request.host_wh),
        "accelerator_energy_per_output_token_j": None
        if per_token is None
        else figure(scale(request.accelerators_wh, _JOULES_PER_WH * per_token)),
    }
