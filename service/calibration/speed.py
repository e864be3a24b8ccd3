"""Constants of inference speed, fitted together to everything that was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from service.calibration.batches import batched
from service.calibration.hierarchy import Fitted, Keys, Level, Predict, Term, fit, shared_weights
from service.calibration.native_terms import BACKEND_TERMS, UNPACKING
from service.calibration.timed import Spent, TimedPart
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import InferenceWorkload
from service.core.elementwise import FloatArray, Number
from service.core.engines import CLASSES
from service.core.estimate.inference import InferenceEstimate, fitting_sequences
from service.core.figures import from_figures
from service.core.interval import exact
from service.core.learning import is_implausible
from service.core.performance.calibration import (
    RUNTIME_FACTS,
    EngineOverhead,
    PerformanceCalibration,
    hardware_efficiency,
)
from service.core.performance.inference.latency import inference_latency, time_shares
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
_HARDWARE = (Level("vendor", 0.10), Level("family", 0.15))
#: Rates over power are known of most families, other than by how far kernels fall short of peaks.
_POWERED = (Level("vendor", 0.04), Level("family", 0.08))
_KERNELS = (Level("class", 0.25), Level("kernels", 0.08))
_TILES = (Level("class", 0.15), Level("kernels", 0.05))
_ATTENTION = (Level("class", 0.15), Level("kernels", 0.10))
_ENGINES = (Level("class", 0.15), Level("engine", 0.12), Level("generation", 0.12))
#: How weights are widened is the engine's: by tiles on the way into products, or whole before them.
_DEQUANTISED = (Level("class", 0.20), Level("engine", 0.12), Level("generation", 0.08))
#: How fast packed weights are read is that of a kernel, which engines bring with them.
_PACKED = (Level("class", 0.08), Level("engine", 0.12), Level("generation", 0.08))
_EXPERTS = (Level("class", 0.10), Level("engine", 0.10), Level("generation", 0.05))
_TOLD = (Level("class", 0.02), Level("engine", 0.04), Level("generation", 0.05))
_LINKS = (Level("link", 0.20),)
_HOSTS = (Level("vendor", 0.03), Level("host", 0.10))

#: Kernels of a step with prompts, of which no graphs are captured, are issued as eager ones are:
#: fewer and fused, about ten in a layer, of some 10 us each from Python (PyTorch, CUDA Graphs,
#: 2021); native code takes 2 to 4 us each.
_PROMPT_LAYER_S = {
    "vllm": 1.5e-4,
    "vllm@before-0.6": 2.5e-4,
    "sglang": 1.5e-4,
}

#: What a sequence adds to a step of engines that wait for its token to be told before they compute
#: the next: output processing of 0.1 ms each in vLLM before 0.6 (RFC 6913 of the project, 2024),
#: which was the smaller half of 62% of the time that its server and scheduler took (vLLM blog,
#: 5 September 2024). Batches of programs of fixed shapes stay as they are until all are answered:
#: nothing is scheduled, and tokens are chosen on the accelerator. TensorRT-LLM and LMDeploy manage
#: batches in C++, others in Python.
_SEQUENCE_S = {
    "fixed-shapes": 2e-6,
    "tensorrt-llm": 5e-6,
    "lmdeploy": 5e-6,
    "vllm@before-0.6": 2.2e-4,
}

#: What choosing a token moves for each entry of the vocabulary [B]: logits are read, widened,
#: normalised and searched. Where a share of the most likely tokens is asked for, as models' own
#: settings do, vLLM sorts all of them: 6.2 ms for 512 times 131,072 (its pull request 40376, 2026),
#: a hundred picoseconds each, at 3 to 4 TB/s.
_SAMPLED_BYTES = {"vllm": 350.0}

#: What a process of the server takes to tell a token, of which the engine's process knows nothing:
#: 12,850 tokens/s of a model of 1.2e9 parameters on an A100, 78 us each (pull request 12287 of
#: vLLM, 2025, before it made some of it cheaper). Others are not known to have such a limit.
_TOLD_S = {"vllm@v1-0.8": 7e-5, "vllm@v1": 7e-5}

#: Layers that ``device_map`` divides run one after the other; llama.cpp got 1.58 times the speed of
#: one card from two with 16 parts of a prompt (its pull request 4918, 2024).
_PIPELINED_RATIO = {"eager": 0.0, "llama.cpp": 0.6}

#: Share of peak that kernels reach where matrix units are instructions of shader cores, fed through
#: their registers: 37 of 59 TFLOPS by hipBLASLt on RDNA 3.5 for large products (ROCm, 2025), of
#: which those of prompts reach some two thirds; Apple's matrix instructions run at the rate of its
#: shaders.
_MATRIX_RATIO = {"amd-rdna3": 0.4, "amd-rdna3.5": 0.4, "amd-rdna4": 0.4, "apple-silicon": 0.75}

#: What large 16-bit products sustain for each watt of thermal design power: MI300X 708 TFLOPS of
#: 750 W, MI325X 843 of 1000 W, MI355X 1600 of 1400 W (AMD, Measuring Max-Achievable FLOPs, 2025);
#: T4 below half of its peak once clocks fall (Jia et al., Dissecting the NVidia Turing T4 GPU,
#: 2019). Others: seven tenths of what the datasheet of the module with the highest limit divides
#: to, where that is no more than generations of their process reach.
_FLOPS_PER_JOULE = {
    "amd-cdna2": 5e11,
    "amd-cdna3": 9e11,
    "amd-cdna4": 1.15e12,
    "amd-rdna3": 3e11,
    "amd-rdna3.5": 5e11,
    "amd-rdna4": 4.5e11,
    "nvidia-volta": 3e11,
    "nvidia-turing": 3.5e11,
    "nvidia-ampere": 6.5e11,
    "nvidia-ampere-ga10x": 5e11,
    "nvidia-ada": 6e11,
    "nvidia-hopper": 1e12,
    "nvidia-blackwell": 1.6e12,
    "nvidia-blackwell-gb20x": 6e11,
}

#: Kernels one by one: from Python some 10 us each, about thirty in a layer (PyTorch, CUDA Graphs,
#: 2021); from native code 2 to 4 us each.
_LAYER_S = {"eager": 5e-4, "llama.cpp-like": 6e-5}

#: Engines that loop over experts: eager code selects rows, multiplies three times, weighs and adds
#: up, some ten kernels (Transformers before grouped products; AutoAWQ takes fused ones); programs
#: of fixed shapes run the experts that they hold one after the other (Optimum Habana). Others
#: multiply all in one kernel.
_EXPERT_S = {
    "compiled": 1e-7,
    "llama.cpp-like": 1e-7,
    "eager": 1e-4,
    "autoawq": 1e-6,
    "fixed-shapes": 6e-6,
}

#: Kernels of AutoAWQ that are faster with many rows (GEMM) take a fifth longer with one than those
#: for vectors (its README, 2023).
_PACKED_MEMORY_RATIO = {"autoawq": 0.8}

#: Elements where products of experts reach half: kernels that gather an expert's rows on their way
#: into a product (llama.cpp) fill fewer of their tiles than those that sort rows ahead. These read
#: 128 experts of two million elements a matrix in 409 us on an H200, 78 % of its bandwidth and nine
#: tenths of what dense products reach (pull request 44818 of vLLM, 2026, 128 tokens in 16 bit).
_HALF_ELEMENTS = {"llama.cpp-like": 1e6, "eager": 1e6, "compiled": 1e5}
_EXPERT_RATIO = {"compiled": 0.92}

#: Rows of partly filled tiles: half of 64 to 128 in cuBLAS and CUTLASS, and of 128 in llama.cpp's
#: own kernels. Those of AWQ for 4-bit weights have 16 (``gemm_forward_4bit_cuda_m16n128k32``).
_TILE_ROWS = {"eager": 16.0, "llama.cpp-like": 64.0}

#: What a product of an expert takes in prompts of engines that loop over experts: llama.cpp
#: gathers, quantises, multiplies and scatters the rows of each, kernels of 5 to 10 us that are too
#: small to fill the accelerator (``ggml_cuda_mul_mat_id``, 2024-2025).
_PROMPT_PRODUCT_S = {"llama.cpp-like": 2.5e-5}

#: The smallest collective: twice round a ring of 24 cores at 1 to 2 us a hop (AWS Neuron
#: documentation, Intra-node Collective Communications, 2025); 43 us for eight bytes over the slots
#: of eight RTX 4090 (issue 1530 of NCCL, 2024). Over Ethernet a message takes 8 to 10 us to the
#: other chip (the catalog's latency of Gaudi 2), and an all-reduce sends two, one after the other.
_COLLECTIVE_S = {"ring": 7e-5, "pcie": 4.3e-5, "ethernet": 3e-5}

#: A ring goes on in one of a link's two directions, and both cores of a chip share its links (AWS,
#: Trn1 and Inf2 architecture, 2025).
_LINK_RATIO = {"ring": 0.3}

#: Terms by what they are a property of, with the levels of ``SPEED_LEVELS``. Usual values: what
#: large products, streaming kernels and collectives reach in vendors' and users' published
#: microbenchmarks, and what engines add that run steps as graphs.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "speed/hardware": (
        Term("matrix_16bit_ratio", 0.62, 0.10, 0.90, 0.15, _HARDWARE, usual_of=_MATRIX_RATIO),
        Term("matrix_8bit_ratio", 0.55, 0.10, 0.90, 0.15, _HARDWARE),
        Term("matrix_4bit_ratio", 0.45, 0.05, 0.90, 0.15, _HARDWARE),
        Term("memory_ratio", 0.82, 0.30, 0.97, 0.10, _HARDWARE),
        Term("overlap_ratio", 0.90, 0.0, 1.0, 0.20, _HARDWARE),
        Term(
            *("matrix_flops_per_joule", 8e11, 5e10, 1e13, 0.10, _POWERED),
            logarithmic=True,
            usual_of=_FLOPS_PER_JOULE,
        ),
    ),
    "speed/kernels": (
        Term(*("tile_rows", 48.0, 2.0, 256.0, 0.15, _TILES), logarithmic=True, usual_of=_TILE_ROWS),
        Term("expert_ratio", 0.75, 0.10, 1.0, 0.20, _KERNELS, usual_of=_EXPERT_RATIO),
        Term(
            *("expert_half_elements", 3e5, 1e3, 3e7, 0.20, _KERNELS),
            logarithmic=True,
            usual_of=_HALF_ELEMENTS,
        ),
        Term("narrow_experts_s", 3e-5, 1e-6, 1e-3, 0.20, _KERNELS, logarithmic=True),
        Term(
            *("prompt_product_s", 1e-7, 1e-8, 1e-3, 0.10, _KERNELS),
            logarithmic=True,
            usual_of=_PROMPT_PRODUCT_S,
        ),
        UNPACKING,
    ),
    "speed/attention": (
        Term("attention_matrix_ratio", 0.55, 0.005, 0.90, 0.25, _ATTENTION),
        Term("attention_memory_ratio", 0.65, 0.05, 0.97, 0.20, _ATTENTION),
        Term("vector_attention_ratio", 0.01, 0.001, 0.5, 0.15, _ATTENTION, logarithmic=True),
    ),
    "speed/engines": (
        Term("step_s", 1e-3, 1e-6, 3e-2, 0.20, _ENGINES, logarithmic=True),
        Term("layer_s", 3e-5, 1e-6, 2e-3, 0.20, _ENGINES, logarithmic=True, usual_of=_LAYER_S),
        Term("expert_s", 1e-6, 1e-8, 1e-3, 0.10, _EXPERTS, logarithmic=True, usual_of=_EXPERT_S),
        Term(
            "sequence_s", 1e-5, 1e-7, 2e-3, 0.17, _ENGINES, logarithmic=True, usual_of=_SEQUENCE_S
        ),
        Term(
            *("sampled_bytes", 12.0, 2.0, 2e3, 0.10, _ENGINES),
            logarithmic=True,
            usual_of=_SAMPLED_BYTES,
        ),
        Term("told_s", 1e-6, 1e-7, 1e-3, 0.05, _TOLD, logarithmic=True, usual_of=_TOLD_S),
        Term(
            *("prompt_layer_s", 4e-5, 1e-6, 2e-3, 0.20, _ENGINES),
            logarithmic=True,
            usual_of=_PROMPT_LAYER_S,
        ),
        Term("pipelined_ratio", 0.8, 0.0, 1.0, 0.3, _ENGINES, usual_of=_PIPELINED_RATIO),
        Term("dequantised_ratio", 0.85, 0.10, 1.0, 0.20, _DEQUANTISED),
        Term(
            *("packed_memory_ratio", 0.95, 0.40, 1.0, 0.10, _PACKED), usual_of=_PACKED_MEMORY_RATIO
        ),
    ),
    "speed/backends": BACKEND_TERMS,
    "speed/hosts": (Term("host_ratio", 1.0, 0.2, 5.0, 0.02, _HOSTS, logarithmic=True),),
    "speed/links": (
        Term("link_ratio", 0.60, 0.10, 0.95, 0.20, _LINKS, usual_of=_LINK_RATIO),
        Term(
            *("collective_s", 1.2e-5, 1e-6, 2e-4, 0.22, _LINKS),
            logarithmic=True,
            usual_of=_COLLECTIVE_S,
        ),
    ),
}
ALL_TERMS = tuple(term for terms in TERMS.values() for term in terms)
#: A figure that a source leaves open was assumed: such a row says half as much.
_ASSUMED_WEIGHT = 0.5
#: Rows of one source on one kind of deployment say more than one of them, and less than all.
_SHARED_POWER = 0.25
_POWER = "accelerator_power_w"
#: What is fitted where requests arrive at random: their rate says nothing of the speed, and times
#: to the first token say more of queues.
_UNDER_ARRIVALS = frozenset({"tpot_s"})
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
            computed = compute_deployment(resolve_deployment(request, snapshot, Problems()))
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
                fitting=fitting_sequences(resolved.workload, estimate.memory, estimate.tiers),
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
    estimate = _estimated(first, estimate, flat, spread(lambda row: row.fitting))
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
    latency = _estimated(row, estimate, values, row.fitting).latency
    channel = SPREAD_OF[row.quantity].rpartition("/")[2]
    # What tiers and drafts add stands in the spreads of the estimate, and not in those before it.
    with_all, before = (
        getattr(one.hardware, f"{channel}_log_sigma")
        for one in (estimate.calibration, setup.calibration)
    )
    return Spent(
        time_shares(latency.state, setup.workload.output_tokens - 1.0)[channel].reading_outside(
            estimate.calibration.outside_ratio
        ),
        setup.deployment.architecture.routes,
        max(float(with_all) ** 2 - float(before) ** 2, 0.0),
    )


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """All figures: 32-bit products reach what 16-bit ones do."""
    if "matrix_16bit_ratio" not in values:
        return dict(values)
    return {"matrix_32bit_ratio": values["matrix_16bit_ratio"], **values}


def _estimated(
    row: MeasuredSpeed, estimate: InferenceEstimate, values: Mapping[str, Any], fitting: Number
) -> InferenceEstimate:
    """The estimate of a row's deployment by given constants, which may be arrays."""
    setup, kind = estimate.setup, CLASSES[row.keys["class"]]
    known = setup.calibration.engine
    figures = {
        name: exact(value)
        for name, value in (
            *complete(values).items(),
            ("launch_bound", kind.launch_bound),
            ("half_accumulation", kind.half_accumulation),
            ("replays_graphs", kind.replays_graphs),
            ("whole_expert_tiles", kind.whole_expert_tiles),
            *((name, getattr(known, name)) for name in RUNTIME_FACTS),
            ("widened_from_rows", known.widened_from_rows),
            ("rereads_heads", known.rereads_heads),
            ("weight_only", known.weight_only),
            ("unrouted_below_bits", known.unrouted_below_bits),
            ("prompt_layer_kernel_count", known.prompt_layer_kernel_count),
            ("loops_experts", known.loops_experts),
            ("vector_attention", known.vector_attention),
            ("core_time_ratio", known.core_time_ratio),
            ("prefill_log_sigma", 0.0),
            ("decode_log_sigma", 0.0),
            ("throughput_log_sigma", 0.0),
        )
    }
    calibration = PerformanceCalibration(
        hardware_efficiency(figures),
        from_figures(EngineOverhead, figures),
        setup.calibration.power,
        "",
        True,
        outside_ratio=estimate.calibration.outside_ratio,
    )
    latency = inference_latency(
        estimate.deployment, setup.workload, setup.serving, calibration, fitting
    )
    return replace(estimate, latency=latency, calibration=calibration)
