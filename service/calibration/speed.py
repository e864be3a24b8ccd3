"""Constants of inference speed, fitted together to everything that was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from service.calibration.batches import batched
from service.calibration.hierarchy import Fitted, Keys, Predict, fit, shared_weights
from service.calibration.speed_terms import ALL_TERMS, TERMS
from service.calibration.timed import Spent, TimedPart
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import InferenceWorkload
from service.core.elementwise import FloatArray, Number
from service.core.estimate.inference import InferenceEstimate, running_sequences
from service.core.figures import from_figures
from service.core.interval import exact
from service.core.learning import is_implausible
from service.core.performance.calibration import (
    RUNTIME_FACTS,
    EngineOverhead,
    PerformanceCalibration,
    hardware_efficiency,
)
from service.core.performance.inference.latency import inference_latency
from service.core.performance.inference.shares import time_shares
from service.core.performance.servers import SCRIPT_TOLD_RATIO
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.levels import (
    SPEED_WIDENING,
    SPREAD_OF,
    SPREADS,
    backend_keys,
    host_keys,
    inference_link_of,
    speed_keys,
)
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import Served, quantity_of
from service.estimation.measurements.views import served
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

COMMENT = (
    "Constants of inference speed, each at the level that causes it, written by",
    "`./headroom calibrate --write` from published speed measurements: never per model, never per",
    "row. An entry of a narrower level says only what it has otherwise than the wider one;",
    "`speed/spread` says how far estimates are off for sources that constants were fitted without.",
)
#: A figure that a source leaves open was assumed: such a row says half as much.
_ASSUMED_WEIGHT = 0.5
#: Rows of one source on one kind of deployment say more than one of them, and less than all.
_SHARED_POWER = 0.25
_POWER = "accelerator_power_w"
#: What is fitted where requests arrive at random: their rate says nothing of the speed, and times
#: to the first token say more of queues.
_UNDER_ARRIVALS = frozenset({"tpot_s"})
#: Of what priors let levels deviate that were not measured, errors bear out five sixths, beside a
#: spread of times of 0.2: with it intervals of sources that were left out have the best score, over
#: times of tokens, of prompts and rates. Nobody traced how engines start prompts and join ranks.
_UNMEASURED_RATIO = 5.0 / 6.0 / 0.2
#: Hardware and backends that nobody measured are no better known for how well prompts on others
#: are: beside the narrow spread of these, what they reach of peaks of arithmetic counts half as
#: much again. Intervals of sources that were left out have the best score with 1.5 to 2. What
#: memory of a family reaches scatters about microbenchmarks as its prior says, all of which counts
#: beside a spread of decoding of 0.09.
MECHANISM_RATIOS = {
    ("speed/hardware", "compute"): 1.5,
    ("speed/backends", "compute"): 1.5,
    ("speed/hardware", "memory"): 2.5,
}
#: By how much less well what models with routed experts read and wait for is known: prompts that
#: are bound by arithmetic are as well known with experts as without, and rates of many sequences,
#: whose experts are some of all, less so. Intervals of sources that were left out have the best
#: score with one to two, over all figures.
ROUTED_WIDENINGS = {"choices_spread_ratio": 1.5}
#: What is known of an engine, its kernels and its host, and is not fitted.
_KNOWN = (
    *("launch_bound", "replays_graphs", "half_accumulation", "whole_expert_tiles", "native"),
    *("widened_from_rows", "many_widened_from_rows", "head_reads_exponent_ratio"),
    *("rereads_by_sequence", "expands_latents"),
    *("weight_only", "unrouted_below_bits", "scaled_tile_rows", "waits_for_exponentials"),
    *("default_expert_tiles", "grouped_expert_tiles", "fuses_experts"),
    *("widened_tile_rows", "widened_tile_operations", "widened_tile_ratio"),
    *("widens_all_formats",),
    *("prompt_layer_kernel_count", "core_time_ratio", "bucket_ratio", "sampling_ratio"),
    *("prompt_bucket_tokens", "dense_graph_sequences", "pipelined_log_sigma"),
    *("schedules_ahead", "streamed_s", "received_s"),
    *(
        "loops_experts",
        "multiplies_integers",
        "replayed_accelerators",
        "records_ahead",
        "vector_attention",
        "loaded_bits",
        "loading_lane_count",
        *("reaches_matrix_units", "widening_operations", "warp_ratio", "converting_operations"),
    ),
)
#: What a workload may differ in, for rows to be computed at once.
_LOADS = ("input_tokens", "output_tokens", "concurrency", "requests_per_s", "prefix_cached_ratio")


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """A measured speed [SI units] with the deployment that it was measured of.

    ``keys`` are those of its levels. Rows of the same ``configuration`` share a vote.
    """

    document: MeasurementDocument
    quantity: str
    source: str
    model: str
    measured: float
    configuration: str
    served: Served
    fitting: Number
    keys: Keys

    @property
    def assumed(self) -> bool:
        """Whether anything was assumed."""
        return bool(self.document.assumed)


def measured_speeds(
    documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot
) -> list[MeasuredSpeed]:
    """The figures of speed that can be fitted to: those of known settings and sound value."""
    found = []
    for document in documents:
        names = [name for name in document.figures if name in SPREAD_OF and name != _POWER]
        if not names or document.confidence == "low" or document.kind != "inference":
            continue
        request = cast("DeploymentRequest", document.request)
        try:
            computed = compute_deployment(resolve_deployment(request, snapshot, Problems()).alone)
        except Rejected:
            continue
        if computed.latency.load is not None:
            names = [name for name in names if name in _UNDER_ARRIVALS]
        resolved, estimate = computed.resolved, computed.estimate
        accelerator = resolved.deployment.accelerator
        view = served(computed)
        found += [
            MeasuredSpeed(
                document=document,
                quantity=name,
                source=str(document.source),
                model=resolved.model.id,
                measured=document.figures[name],
                configuration=request.model_dump_json(exclude_defaults=True),
                served=view,
                fitting=running_sequences(
                    resolved.workload, resolved.serving, estimate.memory, estimate.tiers
                ),
                keys=speed_keys(
                    resolved.serving.release,
                    accelerator.family,
                    inference_link_of(accelerator),
                    snapshot.engines,
                )
                | host_keys(accelerator.family, accelerator.platform.kind)
                | backend_keys(resolved.serving.backend, accelerator.family),
            )
            for name in names
            if not is_implausible(
                float(quantity_of(name, "inference").of_served(view).value), document.figures[name]
            )
        ]
    return found


def speed_part(rows: Sequence[MeasuredSpeed], snapshot: CatalogSnapshot) -> TimedPart:
    """Constants at all levels for which the estimates come closest to what was measured."""
    return TimedPart(
        terms=TERMS,
        rows=rows,
        fitted=fit_speed(rows),
        snapshot=snapshot,
        complete=complete,
        spread_of=lambda row: SPREAD_OF[row.quantity],
        spread_levels=SPREADS,
        spent_of=_spent,
        widening_id=SPEED_WIDENING,
        unmeasured_ratio=_UNMEASURED_RATIO,
        routed_widenings=ROUTED_WIDENINGS,
        mechanism_ratios=MECHANISM_RATIOS,
    )


def fit_speed(rows: Sequence[MeasuredSpeed]) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured."""
    return fit(
        predictor(rows),
        [row.measured for row in rows],
        [row.keys for row in rows],
        ALL_TERMS,
        weights_of(rows),
    )


def weights_of(rows: Sequence[MeasuredSpeed]) -> list[float]:
    """How much each row counts: less beside many of its source, or where it assumes something."""
    alike = [(row.source, row.keys["family"], row.keys["engine"]) for row in rows]
    repeated = [(row.configuration, row.quantity) for row in rows]
    return [
        of_source * of_configuration * (_ASSUMED_WEIGHT if row.assumed else 1.0)
        for row, of_source, of_configuration in zip(
            rows, shared_weights(alike, _SHARED_POWER), shared_weights(repeated), strict=True
        )
    ]


def predictor(rows: Sequence[MeasuredSpeed]) -> Predict:
    """Log estimates of rows, for constants by row and point; loads alone may differ at once."""
    return batched(rows, _batch_of, _batch_logs)


def _batch_of(row: MeasuredSpeed) -> tuple[Any, ...]:
    """What rows have to have in common to be computed at once."""
    estimate = row.served.estimate
    workload, deployment = estimate.setup.workload, estimate.deployment
    return (
        id(deployment.architecture),
        deployment.precision,
        deployment.parallelism,
        id(deployment.accelerator),
        id(estimate.setup.deployment.accelerator),
        repr(estimate.setup.serving),
        tuple(sorted(row.keys.items())),
        workload.requests_per_s is None,
        _with_loads(workload, dict.fromkeys(_LOADS, 0.0)),
    )


def _with_loads(workload: InferenceWorkload, loads: Mapping[str, Any]) -> InferenceWorkload:
    return replace(workload, **loads)


def _batch_logs(rows: Sequence[MeasuredSpeed], values: Mapping[str, FloatArray]) -> FloatArray:
    """Log estimates of rows that differ in their load alone: rows by points."""
    first = rows[0]
    setup = first.served.estimate.setup
    count, points = next(iter(values.values())).shape

    def spread(read: Callable[[MeasuredSpeed], Number]) -> FloatArray:
        return np.repeat(np.array([float(read(row)) for row in rows]), points)

    loads = {
        name: spread(lambda row, name=name: getattr(row.served.estimate.setup.workload, name))  # type: ignore[misc]
        for name in _LOADS
        if getattr(setup.workload, name) is not None
    }
    estimate = replace(
        first.served.estimate, setup=replace(setup, workload=_with_loads(setup.workload, loads))
    )
    flat = {name: column.reshape(-1) for name, column in values.items()}
    estimate = _estimated(estimate, flat, spread(lambda row: row.fitting))
    logs = np.empty((count, points))
    for quantity in {row.quantity for row in rows}:
        read = quantity_of(quantity, "inference").of_served(
            replace(first.served, estimate=estimate)
        )
        found = np.log(read.value)
        same = [at for at, row in enumerate(rows) if row.quantity == quantity]
        logs[same] = np.broadcast_to(found, (count * points,)).reshape(count, points)[same]
    return logs


def _spent(row: MeasuredSpeed, values: Mapping[str, float]) -> Spent:
    """What the time that a row tells of is spent on, by given constants."""
    estimate = row.served.estimate
    setup = estimate.setup
    latency = _estimated(estimate, values, row.fitting).latency
    channel = SPREAD_OF[row.quantity].rpartition("/")[2]
    # What tiers and drafts add stands in the spreads of the estimate, and not in those before it.
    stages = estimate.deployment.parallelism.pipeline if channel == "prefill" else 1
    chunks = latency.state.chunks
    with_all, before = (
        getattr(one.hardware, f"{channel}_log_sigma")
        for one in (estimate.calibration, setup.calibration)
    )
    return Spent(
        time_shares(latency.state, setup.workload.output_tokens - 1.0)[channel].reading_outside(
            estimate.calibration.outside_ratio
        ),
        setup.deployment.architecture.routes,
        max(float(with_all) ** 2 - float(before) ** 2, 0.0)
        + float(estimate.calibration.added_log_sigma(channel)) ** 2
        + float(latency.calibration.engine.pipelining_log_sigma(stages, chunks)) ** 2,
    )


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """All figures: 32-bit products reach what 16-bit ones do."""
    if "matrix_16bit_ratio" not in values:
        return dict(values)
    return {"matrix_32bit_ratio": values["matrix_16bit_ratio"], **values}


def _estimated(
    estimate: InferenceEstimate, values: Mapping[str, Any], fitting: Number
) -> InferenceEstimate:
    """The estimate of a deployment by given constants, which may be arrays."""
    setup = estimate.setup
    known = setup.calibration.engine
    figures = {
        name: exact(value)
        for name, value in (
            *complete(values).items(),
            *((name, getattr(known, name)) for name in (*RUNTIME_FACTS, *_KNOWN)),
            ("prefill_log_sigma", 0.0),
            ("decode_log_sigma", 0.0),
            ("throughput_log_sigma", 0.0),
        )
    }
    if setup.serving.usage_context == "offline":
        figures["served_s"] = exact(0.0)
        figures["told_s"] = exact(values["told_s"] * SCRIPT_TOLD_RATIO)
    calibration = PerformanceCalibration(
        hardware_efficiency(figures),
        from_figures(
            EngineOverhead,
            figures,
            batched_expert_models=known.batched_expert_models,
            stepwise_state_models=known.stepwise_state_models,
        ),
        setup.calibration.power,
        "",
        True,
        outside_ratio=estimate.calibration.outside_ratio,
    )
    latency = inference_latency(
        estimate.deployment, setup.workload, setup.serving, calibration, fitting
    )
    return replace(estimate, latency=latency, calibration=calibration)
