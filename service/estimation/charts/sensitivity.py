"""Use case: how far a figure moves with each of what it depends on, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ConfigDict, Field

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.charts.bars import sensitivity
from service.core.deployment import Accelerator, Region
from service.core.interval import Interval, exact, from_log_sigma
from service.estimation.answers import frame, provenance, warning_entries
from service.estimation.charts.answers import ChartFindings
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import PLACED, StyleRequest
from service.estimation.charts.series import axis, chart, limit, point, series, unit_in_words
from service.estimation.formatting import number
from service.estimation.impacts.estimate import deployment_impacts
from service.estimation.inference.deployment import (
    ResolvedDeployment,
    compute_deployment,
)
from service.estimation.inference.echo import echo
from service.estimation.inference.requests import PlacedRequest
from service.estimation.inference.spilling import computed_deployment
from service.estimation.platforms import sited
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems, resolve_region
from service.estimation.verdict.names import deployment_name

#: Name and unit of the figure whose movement is shown.
_FIGURES = {
    "total_bytes": ("memory per accelerator", "B"),
    "ttft_s": ("time to first token", "s"),
    "tpot_s": ("time per output token", "s"),
    "output_tokens_per_s": ("output tokens per second", "1/s"),
    "it_energy_per_request_wh": ("energy per request", "Wh"),
    "gco2e_per_1k_tokens": ("greenhouse gases per 1,000 output tokens", "gCO2e"),
    "l_per_1k_tokens": ("water per 1,000 output tokens", "L"),
}
#: Movement that is rounding, as a share of the figure.
_LEAST_RATIO = 1e-6


@dataclass(frozen=True, slots=True)
class _Case:
    """A deployment in a place."""

    resolved: ResolvedDeployment
    region: Entry[Region]


@dataclass(frozen=True, slots=True)
class _Input:
    """Something that a figure may depend on: its span, and the case with another value of it."""

    name: str
    span: Interval
    changed: Callable[[float], _Case]


class SensitivityChartRequest(PlacedRequest):
    """How much a figure changes with each of its inputs."""

    model_config = ConfigDict(json_schema_extra={"examples": [PLACED]})

    figure: Literal[
        "total_bytes",
        "ttft_s",
        "tpot_s",
        "output_tokens_per_s",
        "it_energy_per_request_wh",
        "gco2e_per_1k_tokens",
        "l_per_1k_tokens",
    ] = "gco2e_per_1k_tokens"
    """Figure to explain: memory of an accelerator, TTFT, TPOT, throughput of the deployment, IT
    energy per request, or carbon or water per 1,000 output tokens."""
    change_ratio: float | None = Field(None, gt=0.0, le=0.9)
    """Relative change, up and down, of every input; if null, each goes over its 90 % interval, and
    those that state none are left out: they are what you ask, or exact."""
    style: StyleRequest = StyleRequest()


def sensitivity_chart(request: SensitivityChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """The figure at both ends of each input, the input that matters most first.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible, or if the figure is not
        known of the deployment.
    """
    problems = Problems()
    region = problems.attempt(
        "/region", lambda: resolve_region(request.region, snapshot, request.period.year)
    )
    resolved = computed_deployment(request, snapshot, problems).resolved
    region = problems.resolved(region)
    region = sited(region, resolved.machine, request.facility, snapshot).region
    case = _Case(resolved, region)
    base = _figure(request, case)
    if base is None and request.region is None:
        named = _FIGURES[request.figure][0]
        raise Rejected([FieldError("/region", f"is needed for {named}; or choose another figure")])
    if base is None:
        raise Rejected([FieldError("/figure", "is not known for this deployment")])
    moved = []
    over = "90 % interval" if request.change_ratio is None else f"±{request.change_ratio:.0%}"
    for one in _inputs(case, request.change_ratio):
        ends = (_figure(request, one.changed(float(end))) for end in (one.span.low, one.span.high))
        low, high = ends
        if low is None or high is None:
            continue
        if max(abs(low - base), abs(high - base)) > _LEAST_RATIO * abs(base):
            moved.append((one, low, high))
    moved.sort(key=lambda item: -abs(item[2] - item[1]))
    name, unit = _FIGURES[request.figure]
    computed = compute_deployment(resolved)
    answer = frame(snapshot.revision) | {
        "warnings": warning_entries(computed.warnings),
        "provenance": provenance(snapshot, [*resolved.entries(), ("regions", region)]),
    }
    return chart(
        f"{_finding(name, base, moved)}: {deployment_name(echo(resolved), snapshot)}",
        _told(name, unit, base, moved, over),
        (None, axis(name, unit)),
        [
            series(
                f"input at its {end}",
                [
                    point(
                        one.name,
                        exact(low if end == "low" else high),
                        exact(one.span.low if end == "low" else one.span.high),
                        over,
                    )
                    for one, low, high in moved
                ],
            )
            for end in ("low", "high")
        ],
        [answer],
        [limit("as asked", "y", exact(base), unit)],
    )


def _figure(request: SensitivityChartRequest, case: _Case) -> float | None:
    computed = compute_deployment(case.resolved)
    if request.figure == "total_bytes":
        return float(computed.memory.total_bytes.value)
    if request.figure in ("tpot_s", "output_tokens_per_s") and not computed.generates:
        return None
    if request.figure in ("ttft_s", "tpot_s", "output_tokens_per_s"):
        return float(getattr(computed.latency, request.figure).value)
    found = deployment_impacts(computed, case.region, request.period)
    if found.energy is None or found.impacts is None:
        return None
    per_tokens = found.impacts["per_1k_tokens"]
    known = {
        "it_energy_per_request_wh": found.energy["it_energy_per_request_wh"],
        "gco2e_per_1k_tokens": per_tokens["carbon"]["total_gco2e"],
        "l_per_1k_tokens": per_tokens["water"]["total_l"],
    }[request.figure]
    return None if known is None else float(known["value"])


def _inputs(case: _Case, change: float | None) -> Iterator[_Input]:
    """What may be another: the load, the accelerator's figures, and the place's."""
    if change is not None:
        yield from _load_inputs(case, change)
    yield from _accelerator_inputs(case, change)
    for name, field in (
        ("grid intensity", "grid_gco2e_per_kwh"),
        ("PUE", "pue_ratio"),
        ("water used on site", "wue_l_per_kwh"),
        ("water of power stations", "ewif_l_per_kwh"),
    ):
        figure: Interval | None = getattr(case.region.value, field)
        if figure is not None and figure.value > 0.0:
            yield from _input(name, figure, change, _placed(case, field))


def _load_inputs(case: _Case, change: float) -> Iterator[_Input]:
    workload = case.resolved.workload
    rate = workload.requests_per_s
    named = [("prompt length", "input_tokens"), ("output length", "output_tokens")]
    named += [("requests in flight", "concurrency")] if rate is None else []
    for name, field in named:
        value = float(getattr(workload, field))
        span = Interval(
            value, max(round(value * (1.0 - change)), 1), max(round(value * (1.0 + change)), 1)
        )
        yield _Input(name, span, _loaded(case, field))
    if rate is not None:
        yield from _input(
            "request rate", exact(float(rate)), change, _loaded(case, "requests_per_s")
        )


def _accelerator_inputs(case: _Case, change: float | None) -> Iterator[_Input]:
    accelerator = case.resolved.deployment.accelerator
    calibration = case.resolved.calibration.performance
    bandwidth = float(accelerator.memory_bandwidth_bytes_per_s)
    yield from _input(
        "memory bandwidth reached",
        from_log_sigma(bandwidth, calibration.decode_log_sigma),
        change,
        lambda value: _with(case, replace(accelerator, memory_bandwidth_bytes_per_s=value)),
    )

    def faster(ratio: float) -> _Case:
        peaks = {name: peak * ratio for name, peak in accelerator.peak_flops_per_s.items()}
        return _with(case, replace(accelerator, peak_flops_per_s=peaks))

    reached = from_log_sigma(1.0, calibration.prefill_log_sigma())
    yield from _input("FLOP/s reached", reached, change, faster)
    power = accelerator.thermal_design_power_w
    if power is not None:
        yield from _input(
            "design power",
            exact(float(power)),
            change,
            lambda value: _with(case, replace(accelerator, thermal_design_power_w=value)),
        )
    made = accelerator.embodied_kgco2e
    if made is not None and made.value > 0.0:
        yield from _input(
            "manufacturing",
            made,
            change,
            lambda value: _with(case, replace(accelerator, embodied_kgco2e=exact(value))),
        )


def _input(
    name: str, figure: Interval, change: float | None, changed: Callable[[float], _Case]
) -> Iterator[_Input]:
    """An input over its own interval, if it has one, or over the change asked for."""
    value = float(figure.value)
    if change is not None:
        span = Interval(value, value * (1.0 - change), value * (1.0 + change))
        yield _Input(name, span, changed)
    elif figure.low < figure.high:
        yield _Input(name, figure, changed)


def _loaded(case: _Case, field: str) -> Callable[[float], _Case]:
    def changed(value: float) -> _Case:
        changes: dict[str, Any] = {field: value}
        workload = replace(case.resolved.workload, **changes)
        return replace(case, resolved=replace(case.resolved, workload=workload))

    return changed


def _placed(case: _Case, field: str) -> Callable[[float], _Case]:
    def changed(value: float) -> _Case:
        changes: dict[str, Any] = {field: exact(value)}
        region = replace(case.region, value=replace(case.region.value, **changes))
        return replace(case, region=region)

    return changed


def _with(case: _Case, accelerator: Accelerator) -> _Case:
    resolved = case.resolved
    return replace(
        case,
        resolved=replace(
            resolved,
            accelerator=replace(resolved.accelerator, value=accelerator),
            deployment=replace(resolved.deployment, accelerator=accelerator),
        ),
    )


def _finding(name: str, base: float, moved: list[tuple[_Input, float, float]]) -> str:
    if not moved:
        return f"No input changes {name}"
    one, low, high = moved[0]
    ends = " to ".join(f"{end / base - 1.0:+.0%}" for end in sorted((low, high))).replace("-", "−")
    return f"{one.name[0].upper()}{one.name[1:]} changes {name} most, by {ends}"


def _told(
    name: str, unit: str, base: float, moved: list[tuple[_Input, float, float]], over: str
) -> str:
    told = f"As asked, {name}: {number(base)} {unit_in_words(unit)}."
    if not moved:
        return f"{told} None of the inputs changes it."
    listed = "; ".join(
        f"{one.name}, to {number(low)} and {number(high)}" for one, low, high in moved[:3]
    )
    scale = "over its 90 % interval" if over.startswith("90") else f"by {over}"
    return f"{told} Each input goes {scale}. These change it most: {listed}."


KINDS = (
    ChartKind(
        "sensitivity",
        "SensitivityChart",
        "Chart: how far a figure moves with each of what it depends on",
        "The figure at both ends of the 90 % interval of each input, one input at a time and the "
        "widest first; with change_ratio, every input goes by that instead.",
        SensitivityChartRequest,
        sensitivity_chart,
        sensitivity,
    ),
)
