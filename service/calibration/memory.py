"""Constants of inference memory, fitted together to everything that was measured of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from service.calibration.batches import batched
from service.calibration.groups import Group
from service.calibration.hierarchy import Fitted, Keys, Level, Predict, Term
from service.calibration.sizes import STEP, WEIGHTS, SizedPart, fit_sizes, log_sigma_of
from service.calibration.spread import FEWEST_SOURCES, quantile, weights_by_source
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import InferenceWorkload
from service.core.elementwise import FloatArray
from service.core.interval import Z_90, Interval, exact, from_log_sigma
from service.core.learning import is_implausible
from service.core.memory.inference.memory import inference_memory
from service.core.memory.inference.runtime import EngineRuntime, RuntimeOverheads
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.levels import MEMORY_SPREAD, engine_keys
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.measurable import NotEstimated, Served
from service.estimation.measurements.quantities import quantity_of
from service.estimation.measurements.views import served
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

COMMENT = (
    "Memory beside what follows from shapes, at the levels that cause it, written by",
    "`./headroom calibrate --write` from published measurements of memory: never per model, never",
    "per row. What engines do with it stands in memory_runtime.yaml; `memory/spread` says how far",
    "sizes and overheads are off for sources that constants were fitted without.",
)
_ENGINES = (Level("class", 0.08), Level("engine", 0.06), Level("generation", 0.06))
_ACTIVATIONS = (Level("class", 0.08), Level("engine", 0.08), Level("generation", 0.04))
#: Workspaces of matrix products: 8 MiB a handle, on Hopper 32 MiB, and one for each stream (PyTorch
#: documentation, CUDA semantics, cuBLAS workspaces, 2025).
_WORKSPACE = (Level("class", 0.04), Level("engine", 0.03), Level("generation", 0.05))

#: Buffers of a communicator on a slow link: two channels with six connections (of a ring and two
#: trees), each with 9.6 MB, that is 4 MiB for large messages and what two protocols take for small
#: ones (NVIDIA, NCCL src/init.cc and src/include/device.h, 2024). They are the library's, whatever
#: engine calls it.
_COLLECTIVES_BYTES = 2.0 * 6.0 * 9.6e6
_COLLECTIVES = (Level("class", 0.01), Level("engine", 0.01), Level("generation", 0.01))

#: Terms by what they are a property of. Modules of kernels and workspaces of libraries outside the
#: allocator take 0.05 to 1 GB, as servers print that profile a step (vLLM's memory profile, 2025):
#: what a row lacks beyond is of another cause. Usual values: what start-up logs and profilers
#: print.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "memory/driver": (
        Term("context_bytes", 7e8, 5e7, 3e9, 0.08, logarithmic=True),
        Term("unified_context_bytes", 2e8, 1e7, 6e8, 0.08, logarithmic=True),
    ),
    "memory/engines": (
        Term("counted_bytes", 2e8, 5e7, 1.2e9, 0.1, _ENGINES, logarithmic=True),
        Term(
            "collectives_bytes", _COLLECTIVES_BYTES, 3e7, 4e9, 0.04, _COLLECTIVES, logarithmic=True
        ),
        Term("workspace_bytes", 3e7, 5e6, 2e9, 0.04, _WORKSPACE, logarithmic=True),
        Term("activation_ratio", 1.0, 0.25, 4.0, 0.02, _ACTIVATIONS, logarithmic=True),
    ),
}
_OF_ENGINES = {"memory/engines": TERMS["memory/engines"]}
ALL_TERMS = tuple(term for terms in TERMS.values() for term in terms)

#: Quantities of memory that are fitted to, and compared without their source.
QUANTITIES = frozenset(
    {
        *("weights_bytes", "kv_cache_bytes"),
        *("allocated_bytes", "allocated_total_bytes", "reserved_bytes", "reserved_total_bytes"),
        *("process_bytes", "process_total_bytes", "activations_bytes", "libraries_bytes"),
        *("kv_cache_budget_bytes", "kv_cache_capacity_tokens"),
    }
)
#: What a workload may differ in, for rows to be computed at once.
_LOADS = ("input_tokens", "output_tokens", "concurrency")
_AS_MEASURED: Mapping[str, Any] = MappingProxyType({})
#: A row that is off by more than this pulls with its error only, and counts as one: sizes are sure,
#: and one that is far off is of something else than of what constants decide [-].
_EXPECTED_LOG_ERROR = 0.02
_WEIGHT = 1.0
_PASSES = 3
#: Share of left-out figures that intervals are to hold. Room that shares and shapes tell is left
#: out of the spread, so that a wider one costs little.
_COVERED_SHARE = 0.93
#: No sizes and no overheads are surer than this, however well a few sources agree: publishers read
#: peaks or what is held at the end, of an allocator or a card, and write GB for GiB or round to one
#: digit, by which figures of the same run differ by some percent [-].
_LEAST_LOG_SIGMAS = (0.025, 0.12)
#: No weights are surer than this: logs print three digits [-].
_LEAST_WEIGHTS_LOG_SIGMA = 0.003
#: Below this, what is left of a size is nothing [B, token].
_LEAST = 1.0
#: What the catalog states, for engines that nothing is fitted for at least.
_STATED = ("collectives_bytes", "counted_bytes", "graphs_bytes", "slack_ratio")


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """A measured size [B or token] with the deployment that it was measured of.

    ``keys`` are those of its levels.
    """

    quantity: str
    source: str
    model: str
    measured: float
    assumed: bool
    served: Served
    keys: Keys
    document: MeasurementDocument


def measured_memory(
    documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot
) -> list[MeasuredMemory]:
    """The figures of memory that can be fitted to: those of known settings and sound value."""
    found = []
    for document in documents:
        names = sorted(QUANTITIES.intersection(document.figures))
        if not names or document.confidence == "low" or document.kind != "inference":
            continue
        request = cast("DeploymentRequest", document.request)
        try:
            computed = compute_deployment(resolve_deployment(request, snapshot, Problems()).alone)
        except Rejected:
            continue
        resolved = computed.resolved
        view = served(computed)
        found += [
            MeasuredMemory(
                quantity=name,
                source=str(document.source),
                model=resolved.model.id,
                measured=document.figures[name],
                assumed=bool(document.assumed),
                served=view,
                keys=engine_keys(resolved.serving.release, snapshot.engines),
                document=document,
            )
            for name in names
            if _is_sound(view, name, document.figures[name])
        ]
    return found


def _is_sound(view: Served, name: str, measured: float) -> bool:
    try:
        estimate = quantity_of(name, "inference").of_served(view)
    except NotEstimated:
        return False
    return not is_implausible(float(estimate.value), measured)


def fit_memory(rows: Sequence[MeasuredMemory]) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured."""
    return fit_sizes(rows, predictor(rows), ALL_TERMS, _WEIGHT, _EXPECTED_LOG_ERROR)


def predictor(rows: Sequence[MeasuredMemory]) -> Predict:
    """Log estimates of rows, for constants by row and point; loads alone may differ at once."""
    return batched(rows, _batch_of, _batch_logs)


def _batch_of(row: MeasuredMemory) -> tuple[Any, ...]:
    """What rows have to have in common to be computed at once."""
    setup = row.served.estimate.setup
    deployment = setup.deployment
    return (
        row.quantity,
        id(deployment.architecture),
        id(deployment.accelerator),
        deployment.precision,
        deployment.parallelism,
        repr(setup.serving),
        _with_loads(setup.workload, dict.fromkeys(_LOADS, 0.0)),
    )


def _with_loads(workload: InferenceWorkload, loads: Mapping[str, Any]) -> InferenceWorkload:
    return replace(workload, **loads)


def _batch_logs(rows: Sequence[MeasuredMemory], values: Mapping[str, FloatArray]) -> FloatArray:
    """Log estimates of rows that differ in their load alone: rows by points."""
    count, points = next(iter(values.values())).shape
    loads = {
        name: np.repeat(
            [float(getattr(row.served.estimate.setup.workload, name)) for row in rows], points
        )
        for name in _LOADS
    }
    given = {name: exact(column.reshape(-1)) for name, column in values.items()}
    found = np.maximum(_read(rows[0], given, loads=loads).value, _LEAST)
    logs: FloatArray = np.log(np.broadcast_to(found, (count * points,))).reshape(count, points)
    return logs


def _read(
    row: MeasuredMemory,
    given: Mapping[str, Interval],
    sizes: float = 0.0,
    *,
    weights: float = 0.0,
    stated: bool = False,
    loads: Mapping[str, Any] = _AS_MEASURED,
) -> Interval:
    """The estimate of a row by constants, spreads of sizes and weights, perhaps of other loads."""
    memory = row.served.estimate.memory
    engine = _with(memory.engine, given, sizes, weights, stated=stated)
    setup = row.served.estimate.setup
    setup = replace(setup, workload=_with_loads(setup.workload, loads))
    overheads = RuntimeOverheads({setup.serving.release: engine})
    found = inference_memory(memory.deployment, setup.workload, setup.serving, overheads)
    estimate = replace(row.served.estimate, memory=found, setup=replace(setup, runtime=overheads))
    return quantity_of(row.quantity, "inference").of_served(replace(row.served, estimate=estimate))


def _with(
    engine: EngineRuntime,
    given: Mapping[str, Interval],
    sizes: float,
    weights: float,
    *,
    stated: bool,
) -> EngineRuntime:
    """The engine with constants in place of its own, save where it is known to take nothing.

    What the catalog states without a fit is certain, unless its ``stated`` spread is asked for.
    """
    figures: dict[str, Any] = dict(given)
    for name in _STATED:
        own = getattr(engine, name)
        if name not in figures or own.value == 0.0:
            figures[name] = own if stated else exact(own.value)
    return replace(
        engine,
        size_log_sigma=sizes,
        weights_log_sigma=weights,
        mixes_vary=stated,
        **figures,
    )


def memory_part(rows: Sequence[MeasuredMemory], snapshot: CatalogSnapshot) -> SizedPart:
    """The constants of memory as rows give them."""
    return SizedPart(
        terms=TERMS,
        rows=rows,
        fitted=fit_memory(rows),
        snapshot=snapshot,
        complete=dict,
        spread_of=lambda _row: MEMORY_SPREAD,
        spread_levels={MEMORY_SPREAD: ("class",)},
        passes=_PASSES,
        shares_of=_shares,
        besides=partial(_besides, rows),
        of_overheads=_OF_ENGINES,
        covered_share=_COVERED_SHARE,
        least_log_sigmas=_LEAST_LOG_SIGMAS,
    )


def _besides(
    rows: Sequence[MeasuredMemory], class_: str | None, without: Group | None
) -> Mapping[str, float]:
    """Spreads that are not fitted: of drivers, and of weights where enough of a class told them."""
    found = {"driver_log_sigma": max(map(_driver_log_sigma, TERMS["memory/driver"]))}
    told = [
        row
        for row in rows
        if row.quantity == "weights_bytes"
        and row.keys["class"] == class_
        and (without is None or not without.holds(row))
    ]
    if len({row.source for row in told}) >= FEWEST_SOURCES:
        found[WEIGHTS] = _weights_log_sigma(told)
    return found


def _weights_log_sigma(rows: Sequence[MeasuredMemory]) -> float:
    """Spread of weights: nine in ten of those that engines told lie inside [-].

    No constant of memory moves them, so that there is nothing to fit without their source.
    """
    weights = weights_by_source([row.source for row in rows])
    values = [float(_read(row, {}).value) for row in rows]
    errors = np.abs(np.log([row.measured for row in rows]) - np.log(values))
    return max(quantile(errors, weights, 0.9) / Z_90, _LEAST_WEIGHTS_LOG_SIGMA)


def _shares(row: MeasuredMemory, values: Mapping[str, float]) -> tuple[float, ...]:
    """What a log estimate moves by with sizes and overheads, its other spread, and weights."""
    certain = {name: exact(value) for name, value in values.items()}
    of_driver = {term.name: _driver_log_sigma(term) for term in TERMS["memory/driver"]}
    driver = {name: from_log_sigma(values[name], sigma) for name, sigma in of_driver.items()}
    engine = {
        term.name: from_log_sigma(values[term.name], STEP) for term in TERMS["memory/engines"]
    }
    return (
        log_sigma_of(_read(row, certain, STEP)) / STEP,
        log_sigma_of(_read(row, certain | engine)) / STEP,
        log_sigma_of(_read(row, certain | driver, stated=True)),
        log_sigma_of(_read(row, certain, weights=STEP)) / STEP,
    )


def _driver_log_sigma(term: Term) -> float:
    """Spread of what drivers hold: that of the prior, as too few sources measured it [-]."""
    return term.spread * float(np.log(term.high / term.low))
