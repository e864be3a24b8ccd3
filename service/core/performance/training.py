"""Time of a training step, and of a whole run.

A step is ``gradient_accumulation_steps`` micro-batches forward and backward, with whatever is
recomputed, the pipeline's bubble, the messages that do not hide behind computation, and the
optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_elements
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.elementwise import Number, maximum, minimum
from service.core.memory.training_settings import MicroBatch, TrainingSettings
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.collectives import scale_out
from service.core.performance.step import StepLoad, StepTime, peak_flops_per_s, step_time
from service.core.performance.work import RankWork, rank_work

#: Backward attention beside forward: five matrix products instead of two.
#: Source: Dao, FlashAttention-2, 2023, section 3.1, https://arxiv.org/abs/2307.08691.
ATTENTION_BACKWARD = 2.5

#: Share of the forward pass that is computed again.
#: Source: Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198 (full: one more forward);
#: "selective-operators" recomputes every other matrix product.
_RECOMPUTED_PRODUCTS = {
    "none": 0.0,
    "selective": 0.0,
    "selective-operators": 0.5,
    "full": 1.0,
}
_RECOMPUTED_ATTENTION = {
    "none": 0.0,
    "selective": 1.0,
    "selective-operators": 0.0,
    "full": 1.0,
}

#: Bytes that an optimizer reads and writes per trained parameter beside gradient and weight.
#: Source: two passes over the states it keeps, Rajbhandari et al., 2019, section 3,
#: https://arxiv.org/abs/1910.02054; 8-bit states: Dettmers et al., 2021, arXiv:2110.02861.
_STATE_TRAFFIC_BYTES = {
    "adamw": 16.0,
    "paged-adamw": 16.0,
    "adamw-8bit": 4.0,
    "paged-adamw-8bit": 4.0,
    "adafactor": 0.1,
    "lion": 8.0,
    "muon": 8.0,
    "sgd-momentum": 8.0,
    "sgd": 0.0,
}
_MASTER_TRAFFIC_BYTES = 8.0


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Time of an optimizer step [s] by what it is spent on, and the rates that follow.

    ``compute_s`` is forward, backward and recomputation of all micro-batches on one rank;
    ``tensor_messages_s`` cannot hide; ``data_messages_s`` is what of gradient and weight traffic
    does not hide; ``bubble_s`` is the pipeline waiting; ``offload_s`` the host in the way.
    ``model_flops`` per rank and step leave recomputation out, ``hardware_flops`` count it.
    """

    step_s: Number
    compute_s: Number
    tensor_messages_s: Number
    data_messages_s: Number
    hidden_data_messages_s: Number
    bubble_s: Number
    optimizer_s: Number
    offload_s: Number
    overhead_s: Number
    tokens_per_step: Number
    tokens_per_s: Number
    tokens_per_s_per_accelerator: Number
    model_flops: Number
    hardware_flops: Number
    mfu_ratio: Number
    hfu_ratio: Number


@dataclass(frozen=True, slots=True)
class TrainingTraffic:
    """What a training step moves besides its operators, from outside this module.

    ``trained_parameters`` on the fullest rank before data-parallel sharding; bandwidths of the
    way to host memory and of host memory itself per accelerator [B/s].
    """

    trained_parameters: float
    host_link_bytes_per_s: Number | None
    host_memory_bytes_per_s: Number


def training_step(
    architecture: ModelArchitecture,
    precision: Precision,
    accelerator: Accelerator,
    parallelism: Parallelism,
    settings: TrainingSettings,
    micro_batch: MicroBatch,
    traffic: TrainingTraffic,
    calibration: PerformanceCalibration,
    data_overlap_ratio: float,
) -> TrainingStep:
    """Time of one optimizer step and the throughput that follows.

    Parameters
    ----------
    architecture, precision, accelerator, parallelism
        What is computed where. ``precision.weights`` is the format that products run in.
    settings, micro_batch
        How it is trained; sequences and tokens may be arrays.
    traffic
        Trained parameters and bandwidths around the accelerator.
    calibration
        Efficiencies of the framework on the hardware family.
    data_overlap_ratio
        Share of computation behind which gradient and weight traffic can hide [-].

    Returns
    -------
    TrainingStep
        MFU counts the operators' FLOPs without recomputation over dense peak.

    References
    ----------
    Narayanan et al., 2021, https://arxiv.org/abs/2104.04473 (pipeline bubble, interleaving);
    Rajbhandari et al., ZeRO, 2019, section 7, https://arxiv.org/abs/1910.02054 (traffic).
    """
    work = _all_tokens_work(architecture, precision, parallelism)
    tokens = micro_batch.sequences * micro_batch.tokens
    load = StepLoad(tokens * 1.0, micro_batch.sequences * 1.0, micro_batch.tokens / 2.0, 0.0, 0.0)

    def part(chosen: RankWork) -> StepTime:
        return step_time(chosen, load, accelerator, parallelism, calibration)

    products = part(replace(work, attention=()))
    attention = part(replace(work, products=(), elementwise_bytes_per_token=0.0, reductions=0.0))
    again = settings.activation_checkpointing
    weight_gradients = 1.0 if settings.method == "full" else 0.0
    product_passes = 2.0 + weight_gradients + _RECOMPUTED_PRODUCTS[again]
    attention_passes = 1.0 + ATTENTION_BACKWARD + _RECOMPUTED_ATTENTION[again]
    micro_compute_s = products.work_s * product_passes + attention.work_s * attention_passes
    message_passes = 2.0 + (1.0 if again == "full" else 0.0)
    micro_messages_s = products.interconnect_s * message_passes
    micro_overhead_s = (
        calibration.engine.layer_s * work.layers * (2.0 + _RECOMPUTED_PRODUCTS[again])
    )

    steps = settings.gradient_accumulation_steps
    stages = parallelism.pipeline
    micro_s = micro_compute_s + micro_messages_s + micro_overhead_s
    compute_s = steps * micro_compute_s / stages
    messages_s = steps * micro_messages_s / stages
    overhead_s = steps * micro_overhead_s / stages + calibration.engine.step_s
    bubble_s = (stages - 1) / settings.virtual_stages * micro_s / stages

    moved_s = _data_messages_s(traffic, settings, accelerator, parallelism, calibration)
    hidden_s = minimum(moved_s, data_overlap_ratio * (compute_s + messages_s))
    optimizer_s, offload_s = _update_s(traffic, settings, accelerator, parallelism, calibration)
    step_s = (
        compute_s
        + messages_s
        + overhead_s
        + bubble_s
        + (moved_s - hidden_s)
        + optimizer_s
        + offload_s
    )
    tokens_per_step = tokens * steps * parallelism.data
    peak, _ = peak_flops_per_s(accelerator, precision.weights.matrix_precision)
    model_flops = (
        (products.flops * (2.0 + weight_gradients) + attention.flops * (1.0 + 2.0)) * steps / stages
    )
    hardware_flops = (
        (products.flops * product_passes + attention.flops * attention_passes) * steps / stages
    )
    return TrainingStep(
        step_s=step_s,
        compute_s=compute_s,
        tensor_messages_s=messages_s,
        data_messages_s=moved_s - hidden_s,
        hidden_data_messages_s=hidden_s,
        bubble_s=bubble_s,
        optimizer_s=optimizer_s,
        offload_s=offload_s,
        overhead_s=overhead_s,
        tokens_per_step=tokens_per_step,
        tokens_per_s=tokens_per_step / step_s,
        tokens_per_s_per_accelerator=tokens_per_step / step_s / parallelism.accelerator_count,
        model_flops=model_flops,
        hardware_flops=hardware_flops,
        mfu_ratio=model_flops / step_s / peak,
        hfu_ratio=hardware_flops / step_s / peak,
    )


def rank_parameters(architecture: ModelArchitecture, parallelism: Parallelism) -> float:
    """Parameters on one rank before data-parallel sharding: the mean over pipeline stages."""
    layers = sum(
        group.count
        * sum(rank_elements(tensor, parallelism, kv_heads(group)) for tensor in group.tensors)
        for group in architecture.groups
    )
    ends = sum(
        rank_elements(tensor, parallelism, 1)
        for tensor in architecture.embedding + architecture.head + architecture.other
    )
    return (layers + ends) / parallelism.pipeline


@lru_cache(maxsize=1024)
def _all_tokens_work(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism
) -> RankWork:
    """Work of a pass in which the head runs on every token."""
    work = rank_work(architecture, precision, parallelism)
    products = tuple(replace(item, per_sequence=False) for item in work.products)
    return replace(work, products=products)


def _data_messages_s(
    traffic: TrainingTraffic,
    settings: TrainingSettings,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Number:
    """Gradient and weight traffic of a step among data-parallel ranks, before any hiding."""
    ranks = parallelism.data
    if ranks == 1:
        return 0.0
    gradient_bytes = traffic.trained_parameters * settings.gradient_bytes
    if settings.zero_stage == 3:
        # Weights are gathered before forward and again before backward of every micro-batch.
        moved = settings.gradient_accumulation_steps * 2.0 * traffic.trained_parameters * 2.0
        moved = moved + gradient_bytes
    else:
        moved = 2.0 * gradient_bytes
    inside = max(1, accelerator.scale_up_domain_accelerators // parallelism.tensor)
    link = accelerator.scale_up if ranks <= inside else scale_out(accelerator)
    ratio = calibration.hardware.link_ratio
    return moved * (ranks - 1) / ranks / (link.bandwidth_bytes_per_s * ratio)


def _update_s(
    traffic: TrainingTraffic,
    settings: TrainingSettings,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> tuple[Number, Number]:
    """Time of the optimizer on the accelerator, and of one that runs on the host instead."""
    shards = parallelism.data if settings.zero_stage >= 1 else 1
    parameters = traffic.trained_parameters / shards
    per_parameter = _STATE_TRAFFIC_BYTES[settings.optimizer] + 2.0 * settings.gradient_bytes + 2.0
    if settings.master_weights and settings.method == "full":
        per_parameter += _MASTER_TRAFFIC_BYTES
    moved = parameters * per_parameter
    if settings.offload.optimizer == "none":
        bandwidth = accelerator.memory_bandwidth_bytes_per_s * calibration.hardware.memory_ratio
        return moved / bandwidth, 0.0
    crossing = parameters * (settings.gradient_bytes + 2.0)
    link = traffic.host_link_bytes_per_s or scale_out(accelerator).bandwidth_bytes_per_s
    # Gradients go down while the host still updates others: the slower of the two is seen.
    return 0.0, maximum(moved / traffic.host_memory_bytes_per_s, crossing / link)
