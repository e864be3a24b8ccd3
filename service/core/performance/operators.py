"""A step's operators one by one, as they stand on the roofline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.core.architecture.tensors import TensorClass
from service.core.deployment import Accelerator, Parallelism
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.step import (
    Rows,
    StepLoad,
    attention_load,
    product_load,
    product_rates,
)
from service.core.performance.work import MatrixProduct, RankWork

ATTENTION_OVER_CONTEXT = "attention over the context"
ELEMENTWISE = "norms, residuals and states"
_NAMES = {
    TensorClass.ATTENTION: "attention projections",
    TensorClass.DENSE_FFN: "feed-forward",
    TensorClass.EXPERT: "experts",
    TensorClass.SHARED_EXPERT: "shared experts",
    TensorClass.ROUTER: "router",
    TensorClass.HEAD: "output head",
    TensorClass.STATE: "state mixers",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """Operators of one kind over the whole depth, in one step on one rank.

    ``flops`` counts what the model needs, without the padding of tiles; ``work_s`` is the time that
    they take, ``compute_bound_s`` the part of it in which arithmetic takes longer than memory.
    """

    name: str
    flops: float
    memory_bytes: float
    work_s: float
    compute_bound_s: float


def step_operators(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> tuple[Operator, ...]:
    """The operators of a step by kind; together they take the ``work_s`` of the whole step.

    Returns
    -------
    tuple
        Kinds in the order in which they come up in a layer, the output head after them, and last
        what moves memory without multiplying matrices.

    References
    ----------
    Williams, Waterman, Patterson, Roofline, 2009, https://doi.org/10.1145/1498765.1498785.
    """
    found: dict[str, Operator] = {}
    parts = (
        *_products(work, load, accelerator, parallelism, calibration),
        *_attention(work, load, accelerator, parallelism, calibration),
        _elementwise(work, load, accelerator, parallelism, calibration),
    )
    for part in parts:
        before = found.get(part.name)
        found[part.name] = part if before is None else _together(before, part)
    return tuple(part for part in found.values() if part.memory_bytes > 0.0)


def _products(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Iterator[Operator]:
    tile_rows = calibration.hardware.tile_rows
    tokens = (load.prefill_tokens + load.decode_sequences) / parallelism.context
    sequences = load.prefill_sequences + load.decode_sequences
    for item in work.products:
        rows = Rows(sequences if item.per_sequence else tokens, tile_rows)
        padded_flops, memory_bytes = product_load(
            item, rows, tile_rows, parallelism, work.activation_bytes
        )
        flops_per_s, bytes_per_s = product_rates(item, accelerator, calibration)
        yield _operator(
            _name(item),
            float(rows.flops * rows.count),
            float(memory_bytes),
            float(padded_flops / flops_per_s),
            float(memory_bytes / bytes_per_s),
            calibration,
        )


def _attention(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Iterator[Operator]:
    hardware = calibration.hardware
    peak, _ = peak_flops_per_s(accelerator, engine_precision("bf16", calibration.engine))
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * hardware.attention_memory_ratio
    for layer in work.attention:
        flops, memory_bytes = attention_load(layer, load, parallelism.context)
        yield _operator(
            ATTENTION_OVER_CONTEXT,
            float(flops),
            float(memory_bytes),
            float(flops / (peak * hardware.attention_matrix_ratio)),
            float(memory_bytes / bandwidth),
            calibration,
        )


def _elementwise(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Operator:
    tokens = (load.prefill_tokens + load.decode_sequences) / parallelism.context
    sequences = load.prefill_sequences + load.decode_sequences
    memory_bytes = (
        tokens * work.elementwise_bytes_per_token + sequences * work.state_bytes_per_sequence
    )
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * calibration.hardware.memory_ratio
    return Operator(
        ELEMENTWISE,
        float(tokens * work.state_flops_per_token),
        float(memory_bytes),
        float(memory_bytes / bandwidth),
        0.0,
    )


def _operator(
    name: str,
    flops: float,
    memory_bytes: float,
    compute_s: float,
    memory_s: float,
    calibration: PerformanceCalibration,
) -> Operator:
    overlap = calibration.hardware.overlap_ratio
    work_s = max(compute_s, memory_s) + (1.0 - overlap) * min(compute_s, memory_s)
    return Operator(name, flops, memory_bytes, work_s, work_s if compute_s >= memory_s else 0.0)


def _together(first: Operator, second: Operator) -> Operator:
    return Operator(
        first.name,
        first.flops + second.flops,
        first.memory_bytes + second.memory_bytes,
        first.work_s + second.work_s,
        first.compute_bound_s + second.compute_bound_s,
    )


def _name(item: MatrixProduct) -> str:
    return _NAMES.get(item.tensor_class, "other products")
