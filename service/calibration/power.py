"""Power of accelerators and of whole machines over what they do, fitted to measured power."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np

from service.calibration.groups import Group, by_source
from service.calibration.hierarchy import Fitted, Keys, Level, Predict, Term, fit, shared_weights
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.elementwise import FloatArray
from service.core.estimate.inference import inference_energy
from service.core.estimate.training import run_energy
from service.core.impacts.energy import DeploymentPower
from service.core.learning import is_implausible
from service.core.performance.usage import PhaseUse
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.levels import MACHINES, POWER_SPREAD, power_keys
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.views import trained
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training

COMMENT = (
    "What accelerators draw by what they do, for all hardware, for each kind of memory and by",
    "hardware family, and how far power is off for sources left out, of accelerators and of whole",
    "machines. Written by `./headroom calibrate --write` from published power and energy: never",
    "per model, never per row.",
)
#: Graphics cards and accelerators of servers differ by more than their memory, in clocks and
#: voltages, too: by as much as what holds for all is unsure. Who made them tells less.
_LEVELS = (Level("memory", 0.25), Level("hardware", 0.12))

#: What a byte takes from memory that is no stack: graphics memory 7.5 pJ a bit where HBM2E takes 6
#: (Micron, Ultra-bandwidth solutions, 2021), and more in drivers of lines over a board than over an
#: interposer; LPDDR5, whose lines are short, is taken to need 4 pJ.
_J_PER_BYTE = {"gddr": 1.4e-10, "lpddr": 8e-11}

_PROCESSORS = ("cpu-x86", "cpu-arm")
#: What Apple states is drawn with all cores of the processor at work beside those of the graphics,
#: which take about six tenths of it (judged; AnandTech, M1 Max, 2021: 120 W at the socket with
#: both). Cards for graphics are rated for shaders at the highest clocks with matrix units at rest,
#: which kernels that wait for memory keep as busy; those of servers for matrix units (judged).
#: Processors have all their cores at work whatever holds them back: threads wait for each other
#: without sleeping (ggml-cpu.c, ``ggml_barrier``, 2024), so that they draw most of what they do in
#: linear algebra, which what is stated of them is drawn in (judged).
_ACTIVE_RATIO = {
    "lpddr/apple-silicon": 0.25,
    "gddr": 0.5,
    **{f"{memory}/{family}": 0.6 for memory in ("ddr", "lpddr") for family in _PROCESSORS},
}

#: What is fitted. A model that is resident and idle draws 60 to 70 W above an empty accelerator
#: (listings of nvidia-smi), a tenth of what there is above idle. A byte from HBM takes some 4 pJ a
#: bit in the memory and as much again on its way to registers; an operation of matrix units on
#: 16-bit operands half a picojoule in 4 to 7 nm, its share of caches included.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "power": (
        Term("resident_ratio", 0.08, 0.0, 0.3, 0.3, _LEVELS),
        Term("active_ratio", 0.3, 0.0, 1.0, 0.3, _LEVELS, usual_of=_ACTIVE_RATIO),
        Term(
            *("memory_j_per_byte", 1e-10, 2e-11, 5e-10, 0.2, _LEVELS),
            logarithmic=True,
            usual_of=_J_PER_BYTE,
        ),
        Term("matrix_j_per_flop", 5e-13, 1e-13, 3e-12, 0.2, _LEVELS, logarithmic=True),
    )
}
_SHARED_POWER = 0.5
_ASSUMED_WEIGHT = 0.5
#: Figures of whole machines.
_OF_MACHINES = ("it_power_w", "wall_power_w")


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """Measured mean power of an accelerator or, where ``spread`` is that of machines, of them [W].

    ``power`` is what was estimated, of which what was done and the machine count. ``unseen`` is the
    same by constants of speed that were fitted without the source: power goes by what accelerators
    do in a second, and its error for a source that nobody saw is one of speed, too.
    """

    document: MeasurementDocument
    source: str
    model: str
    measured: float
    power: DeploymentPower
    unseen: DeploymentPower
    spread: str
    keys: Keys


def measured_powers(
    documents: Iterable[MeasurementDocument],
    snapshot: CatalogSnapshot,
    without: Callable[[Group], CatalogSnapshot],
) -> list[MeasuredPower]:
    """Power of every run whose power was measured, or energy and rate.

    Parameters
    ----------
    documents
        What was measured.
    snapshot
        The catalog, with the constants of speed that say how hard accelerators work.
    without
        The same with constants that were fitted without a group, which is a source.
    """
    found = []
    documents = list(documents)
    sources = {group.key: group for group in by_source(documents)}
    unseen_by = cache(without)
    for document in documents:
        if document.kind == "impacts" or document.confidence == "low":
            continue
        if not any(name in document.figures for name in (*_POWER_OF, *_OF_MACHINES)):
            continue
        try:
            of_run = _trained if document.kind == "training" else _served
            model, accelerator, power, output_tokens = of_run(document, snapshot)
            _, _, unseen, _ = of_run(document, unseen_by(sources[str(document.source)]))
        except Rejected:
            continue
        if power is None or unseen is None:
            continue
        for measured_w, spread, estimate_w in _measured(document, power, output_tokens):
            if is_implausible(estimate_w, measured_w):
                continue
            keys = power_keys(accelerator.family, accelerator.memory_technology)
            if spread == MACHINES:
                keys["platform"] = power.platform.kind
            source = str(document.source)
            found.append(
                MeasuredPower(document, source, model, measured_w, power, unseen, spread, keys)
            )
    return found


_Run = tuple[str, Accelerator, DeploymentPower | None, float]


def _served(document: MeasurementDocument, snapshot: CatalogSnapshot) -> _Run:
    request = cast("DeploymentRequest", document.request)
    computed = compute_deployment(resolve_deployment(request, snapshot, Problems()).alone)
    resolved = computed.resolved
    accelerator, power = resolved.deployment.accelerator, None
    if accelerator.thermal_design_power_w is not None:
        around = resolved.calibration.infrastructure
        power = inference_energy(computed.estimate, around).power
    return resolved.model.id, accelerator, power, float(resolved.workload.output_tokens)


def _trained(document: MeasurementDocument, snapshot: CatalogSnapshot) -> _Run:
    request = cast("TrainingRequest", document.request)
    resolved = resolve_training(request, snapshot, Problems())
    accelerator, power = resolved.setup.deployment.accelerator, None
    if accelerator.thermal_design_power_w is not None:
        view = trained(resolved, request, snapshot)
        power = run_energy(view.speed, view.infrastructure).power
    return resolved.model.id, accelerator, power, 1.0


def _measured(
    document: MeasurementDocument, power: DeploymentPower, output_tokens: float
) -> Iterable[tuple[float, str, float]]:
    """What was measured, whose spread it tells of, and what was estimated [W]."""
    each_w = _power_w(document, output_tokens, power.accelerator_count)
    if each_w is not None:
        yield each_w, POWER_SPREAD, float(power.accelerator_mean_power_w.value)
    whole_w = next((document.figures[n] for n in _OF_MACHINES if n in document.figures), None)
    if whole_w is not None:
        yield whole_w, MACHINES, float(power.it_power_w.value)


def fit_power(rows: Sequence[MeasuredPower]) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured."""
    alike = [(row.source, row.keys["hardware"]) for row in rows]
    weights = [
        shared * (_ASSUMED_WEIGHT if row.document.assumed else 1.0)
        for row, shared in zip(rows, shared_weights(alike, _SHARED_POWER), strict=True)
    ]
    return fit(
        predictor(rows),
        [row.measured for row in rows],
        [row.keys for row in rows],
        TERMS["power"],
        weights,
    )


def unseen_predictor(rows: Sequence[MeasuredPower]) -> Predict:
    """As `predictor`, of what accelerators do by constants of speed without the row's source."""
    return predictor([replace(row, power=row.unseen) for row in rows])


def predictor(rows: Sequence[MeasuredPower]) -> Predict:
    """Log power of rows, for constants by row and point, as `deployment_power` computes it."""

    def column(read: Callable[[MeasuredPower], float]) -> FloatArray:
        return np.array([read(row) for row in rows])[:, None]

    idle = column(lambda row: float(row.power.idle_power_w.value))
    waiting = column(lambda row: float(row.power.waiting_power_w.value))
    most = column(lambda row: float(row.power.most_power_w))
    design = column(lambda row: float(row.power.design_power_w))
    span, design_span = (np.maximum(each - idle, 1e-9) for each in (most, design))
    phases = [
        tuple(column(lambda row, read=read, at=at: read(_phase(row, at))) for read in _USES)  # type: ignore[misc]
        for at in (0, -1)
    ]
    busy = column(lambda row: float(row.power.usage.busy_ratio))
    times, host_w = column(_accelerators), column(_host_w)

    def predict(chosen: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
        at = list(chosen)
        busy_w: FloatArray | float = 0.0
        for time_ratio, kernels, moved, computed in phases:
            wanted = (
                design_span[at] * (values["resident_ratio"] + values["active_ratio"] * kernels[at])
                + values["memory_j_per_byte"] * moved[at]
                + values["matrix_j_per_flop"] * computed[at]
            )
            drawn = wanted / np.sqrt(np.sqrt(1.0 + (wanted / span[at]) ** 4))
            busy_w = busy_w + time_ratio[at] * np.maximum(idle[at] + drawn, waiting[at])
        mean_w = busy[at] * busy_w + (1.0 - busy[at]) * waiting[at]
        logs: FloatArray = np.log(times[at] * mean_w + host_w[at])
        return logs

    return predict


_USES: tuple[Callable[[PhaseUse | None], float], ...] = (
    lambda use: 0.0 if use is None else float(use.time_ratio),
    lambda use: 0.0 if use is None else float(use.kernel_ratio),
    lambda use: 0.0 if use is None else float(use.bytes_per_s),
    lambda use: 0.0 if use is None else float(use.matrix_flops_per_s),
)


def _phase(row: MeasuredPower, at: int) -> PhaseUse | None:
    """The first phase where there are two, or the last one."""
    phases = row.power.usage.phases
    return None if at == 0 and len(phases) == 1 else phases[at]


def _accelerators(row: MeasuredPower) -> float:
    """How often an accelerator's power is in what was measured [-]."""
    if row.spread == POWER_SPREAD:
        return 1.0
    power = row.power
    return float(power.accelerator_count / power.platform.supply_efficiency_ratio)


def _host_w(row: MeasuredPower) -> float:
    """Power of hosts in what was measured [W]."""
    if row.spread == POWER_SPREAD:
        return 0.0
    power, platform = row.power, row.power.platform
    hosts_w = power.machines * platform.host_power_w(power.usage.busy_ratio).value
    hosts_w = hosts_w + power.accelerator_count * power.computing_power_w.value
    return float(hosts_w / platform.supply_efficiency_ratio)


def _power_w(
    document: MeasurementDocument, output_tokens: float, accelerators: int
) -> float | None:
    """Mean power of one accelerator: as measured, or from its energy and rate [W]."""
    figures = document.figures
    for name, power_w in _POWER_OF.items():
        found = None if name not in figures else power_w(figures, output_tokens)
        if found is not None:
            return found if name == "accelerator_power_w" else found / accelerators
    return None


def _of_token(figures: Mapping[str, float], _output_tokens: float) -> float | None:
    rate = figures.get("output_tokens_per_s")
    return None if rate is None else figures["accelerator_energy_per_output_token_j"] * rate


def _of_request(figures: Mapping[str, float], output_tokens: float) -> float | None:
    rate = figures.get("output_tokens_per_s")
    if rate is None:
        return None
    return figures["accelerator_energy_per_request_j"] * rate / output_tokens


#: Power [W] of one accelerator or of all, by what of a document tells.
_POWER_OF: Mapping[str, Callable[[Mapping[str, float], float], float | None]] = {
    "accelerator_power_w": lambda figures, _tokens: figures["accelerator_power_w"],
    "accelerator_energy_per_output_token_j": _of_token,
    "accelerator_energy_per_request_j": _of_request,
}
