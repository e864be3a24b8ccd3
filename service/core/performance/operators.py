"""A step's operators one by one, as they stand on the roofline."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.core.architecture.tensors import TensorClass
from service.core.deployment import Accelerator, Parallelism
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
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
    fused: bool | None = None,
) -> tuple[Operator, ...]:
    """The operators of a step by kind; together they take the ``work_s`` of the whole step.

    Attention is ``fused`` as the engine does it where that is None.

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
    nothing = replace(
        work,
        products=(),
        attention=(),
        elementwise_bytes_per_token=0.0,
        unfused_bytes_per_token=0.0,
        state_bytes_per_sequence=0.0,
        state_flops_per_token=0.0,
    )
    parts = (
        *((_name(item), replace(nothing, products=(item,))) for item in work.products),
        *((ATTENTION_OVER_CONTEXT, replace(nothing, attention=(one,))) for one in work.attention),
        (ELEMENTWISE, replace(work, products=(), attention=())),
    )
    for name, part in parts:
        step = step_time(part, load, accelerator, parallelism, calibration, fused)
        operator = Operator(
            name,
            float(step.flops),
            float(step.memory_bytes),
            float(step.work_s),
            float(step.compute_bound_s),
        )
        before = found.get(name)
        found[name] = operator if before is None else _together(before, operator)
    return tuple(part for part in found.values() if part.memory_bytes > 0.0)


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
