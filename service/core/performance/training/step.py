"""Time of a training step by what it is spent on, and the throughput that follows.

A step is ``gradient_accumulation_steps`` micro-batches forward and backward, with what is
recomputed, the pipeline's bubble, messages that do not hide behind computation, and the optimizer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

from service.core.architecture.sharding import stage_layers
from service.core.deployment import Deployment
from service.core.elementwise import Number, maximum, minimum
from service.core.lightweight import lightweight
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.memory.training.state import StageState, stage_state
from service.core.performance.kernels import peak_flops_per_s
from service.core.performance.spread import TimeShares
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.micro_batch import MicroBatchTime, micro_batch_time
from service.core.performance.training.pipeline import (
    filling_ratio,
    pipeline_wait_s,
    slowest_stage_ratio,
)
from service.core.performance.training.traffic import (
    HostRates,
    data_messages_s,
    data_overlap_ratio,
    hideable_ratio,
    narrowed_messages_bytes,
    offloaded_transfers_s,
    tier_traffic_bytes,
    update_s,
)
from service.core.performance.training.work import training_work

#: Floating-point operations per parameter and token, forward and backward.
#: Source: Kaplan et al., 2020, section 2.1, https://arxiv.org/abs/2001.08361.
SIX = 6.0


@lightweight
class TrainingStep:
    """Time of an optimizer step [s] by what it is spent on, and the rates that follow.

    ``matrix_products_s``, ``attention_s`` and ``elementwise_s`` are forward, backward and
    recomputation of all micro-batches on one rank, ``recompute_s`` the part of them that is done
    twice; ``narrowed_messages_bytes`` are moved to narrow and widen what travels.
    ``exposed_model_messages_s``, of which ``exposed_expert_messages_s`` are to and from experts,
    and ``exposed_data_messages_s`` are what of the messages within a model copy and between copies
    does not hide; ``pipeline_bubble_s`` is the pipeline
    waiting, ``offload_stall_s`` the host in the way, ``overhead_s`` the accelerator waiting for its
    instructions, and ``unsure_overhead_s`` how much that changes with the logarithm of what the
    host takes. Per accelerator and step, ``model_flops`` leave recomputation out,
    ``hardware_flops`` count it, and ``six_nd_flops`` are six per active parameter and token. They
    follow from the ``micro_batch``, from what of the training ``state`` is updated, and from the
    update and transfers of the host, ``host_computing_s`` the part of the update in which its
    processors compute. ``tier_traffic_bytes`` go to and from a memory tier;
    ``slowest_stage_ratio`` is the time of the slowest stage over
    the average, ``filling_ratio`` for how many shares of a stage all wait for the first and last
    micro-batches. The parts add up to ``published_step_s``, of which own measurements make
    ``step_s``.
    """

    step_s: Number
    published_step_s: Number
    matrix_products_s: Number
    attention_s: Number
    elementwise_s: Number
    recompute_s: Number
    exposed_model_messages_s: Number
    exposed_expert_messages_s: Number
    hidden_tensor_messages_s: Number
    exposed_data_messages_s: Number
    hidden_data_messages_s: Number
    pipeline_bubble_s: Number
    optimizer_s: Number
    offload_stall_s: Number
    overhead_s: Number
    unsure_overhead_s: Number
    memory_bytes: Number
    narrowed_messages_bytes: Number
    tokens_per_step: Number
    tokens_per_s: Number
    tokens_per_s_per_accelerator: Number
    model_flops: Number
    hardware_flops: Number
    six_nd_flops: Number
    peak_flops_per_s: Number
    mfu_ratio: Number
    hfu_ratio: Number
    micro_batch: MicroBatchTime
    state: StageState
    host_update_s: Number
    host_computing_s: Number
    transfers_s: Number
    tier_traffic_bytes: Number
    slowest_stage_ratio: Number
    filling_ratio: float

    def slowed(self, ratio: Number) -> TrainingStep:
        """The same step in a multiple of the time, as own measurements show it."""
        return replace(
            self,
            step_s=self.step_s * ratio,
            tokens_per_s=self.tokens_per_s / ratio,
            tokens_per_s_per_accelerator=self.tokens_per_s_per_accelerator / ratio,
            mfu_ratio=self.mfu_ratio / ratio,
            hfu_ratio=self.hfu_ratio / ratio,
        )

    @property
    def own_correction_ratio(self) -> Number | None:
        """By what own measurements change the time of the step; None where they do not [-]."""
        return None if self.step_s is self.published_step_s else self.step_s / self.published_step_s

    @property
    def moved_data_messages_s(self) -> Number:
        """Messages between model copies, hidden or not [s]."""
        return self.exposed_data_messages_s + self.hidden_data_messages_s

    @property
    def shares(self) -> TimeShares:
        """What the step is spent on, where stages do not wait for each other [-].

        Of overhead it is what is unsure, which a host that nearly holds kernels back has as well.
        """
        messages_s = self.exposed_model_messages_s + self.exposed_data_messages_s
        return TimeShares(
            compute_ratio=(self.matrix_products_s + self.attention_s) / self.published_step_s,
            memory_ratio=(self.elementwise_s + self.optimizer_s) / self.published_step_s,
            interconnect_ratio=messages_s / self.published_step_s,
            overhead_ratio=self.unsure_overhead_s / self.published_step_s,
        )

    @property
    def compute_s(self) -> Number:
        """Forward, backward and recomputation of all micro-batches on one rank [s]."""
        return self.matrix_products_s + self.attention_s + self.elementwise_s


def training_step(
    deployment: Deployment,
    settings: TrainingSettings,
    micro_batch: MicroBatch,
    host: HostRates,
    calibration: TrainingCalibration,
    paged_bytes: Number = 0.0,
) -> TrainingStep:
    """Time of one optimizer step and the throughput that follows.

    Parameters
    ----------
    deployment
        Model, formats, accelerator and layout. ``precision.weights`` is what weights are stored
        in, ``precision.activations`` what they are computed in; products run in the narrower of
        the two if weights of that format can be trained.
    settings, micro_batch
        How it is trained; sequences and tokens may be arrays.
    host
        Bandwidths around the accelerator.
    calibration
        Efficiencies of the framework on the hardware family; its figures may be arrays.
    paged_bytes
        Optimizer states that found no room and are paged in and out for the update [B].

    Returns
    -------
    TrainingStep
        MFU counts the operators' FLOPs without recomputation over dense peak.

    References
    ----------
    Narayanan et al., 2021, https://arxiv.org/abs/2104.04473 (pipeline bubble, interleaving);
    Chowdhery et al., PaLM, 2022, appendix B, https://arxiv.org/abs/2204.02311 (MFU);
    Rajbhandari et al., ZeRO, 2019, section 7, https://arxiv.org/abs/1910.02054 (traffic).
    """
    parallelism = deployment.parallelism
    model, structural = (deployment.architecture, deployment.precision), settings.structural
    filled = partial(training_work, *model, parallelism.of_layers, structural)
    work = filled()
    state = stage_state(*model, parallelism, structural, 0, wide_tables=False)
    micro = micro_batch_time(deployment, settings, micro_batch, work, filled, calibration)
    steps, stages = settings.gradient_accumulation_steps, parallelism.pipeline
    # A rank computes its stage's share of every micro-batch.
    share = steps / stages
    narrowed_bytes = narrowed_messages_bytes(deployment, settings, state)
    elementwise_s = share * micro.elementwise_s + narrowed_bytes / (
        deployment.accelerator.memory_bandwidth_bytes_per_s
        * calibration.performance.hardware.memory_ratio
    )
    compute_s = share * (micro.matrix_s + micro.attention_s) + elementwise_s
    messages_s, overhead_s = share * micro.messages_s, share * micro.waiting_s
    layers = stage_layers(deployment.architecture, parallelism)
    head_ratio = micro.head_s / micro.total_s
    slowest_ratio = slowest_stage_ratio(layers, head_ratio, settings.from_both_ends)
    filling = filling_ratio(settings, stages)
    bubble_s = pipeline_wait_s(micro.total_s, steps, stages, filling, slowest_ratio)

    moved_s = data_messages_s(deployment, settings, state, calibration)
    # They travel while the accelerator waits for the host, too.
    busy_s = compute_s + messages_s + overhead_s
    overlap_ratio = data_overlap_ratio(settings, calibration)
    hidden_s = overlap_ratio * minimum(moved_s, hideable_ratio(settings) * busy_s)
    optimizer_s, host_update_s, host_computing_s = update_s(
        deployment, settings, state, host, calibration
    )
    transfers_s = offloaded_transfers_s(deployment, settings, state, micro_batch, host)
    paged_s = 2.0 * paged_bytes / host.link_bytes_per_s
    offload_s = host_update_s + maximum(transfers_s - compute_s, 0.0) + paged_s
    unsure_overhead_s = share * micro.unsure_waiting_s
    if settings.trains:
        overhead_s = overhead_s + calibration.performance.engine.step_s
        unsure_overhead_s = unsure_overhead_s + calibration.performance.engine.step_s
    step_s = (
        compute_s
        + messages_s
        + overhead_s
        + bubble_s
        + (moved_s - hidden_s)
        + optimizer_s
        + offload_s
    )
    tokens_per_step = micro_batch.sequences * micro_batch.tokens * steps * parallelism.data
    peak, _ = peak_flops_per_s(deployment.accelerator, work.matrix_precision)
    accelerators = parallelism.accelerator_count
    active = deployment.architecture.active_parameters
    return TrainingStep(
        step_s=step_s,
        published_step_s=step_s,
        matrix_products_s=share * micro.matrix_s,
        attention_s=share * micro.attention_s,
        elementwise_s=elementwise_s,
        recompute_s=share * micro.recompute_s,
        exposed_model_messages_s=messages_s,
        exposed_expert_messages_s=share * micro.exposed_experts_s,
        hidden_tensor_messages_s=share * micro.hidden_messages_s,
        exposed_data_messages_s=moved_s - hidden_s,
        hidden_data_messages_s=hidden_s,
        pipeline_bubble_s=bubble_s,
        optimizer_s=optimizer_s,
        offload_stall_s=offload_s,
        overhead_s=overhead_s,
        unsure_overhead_s=unsure_overhead_s,
        memory_bytes=share * micro.memory_bytes + narrowed_bytes,
        narrowed_messages_bytes=narrowed_bytes,
        tokens_per_step=tokens_per_step,
        tokens_per_s=tokens_per_step / step_s,
        tokens_per_s_per_accelerator=tokens_per_step / step_s / accelerators,
        model_flops=share * micro.model_flops,
        hardware_flops=share * micro.hardware_flops,
        six_nd_flops=SIX * active * tokens_per_step / accelerators,
        peak_flops_per_s=peak,
        mfu_ratio=share * micro.model_flops / step_s / peak,
        hfu_ratio=share * micro.hardware_flops / step_s / peak,
        micro_batch=micro,
        state=state,
        host_update_s=host_update_s,
        host_computing_s=host_computing_s,
        transfers_s=transfers_s,
        tier_traffic_bytes=tier_traffic_bytes(deployment, settings, state, micro_batch),
        slowest_stage_ratio=slowest_ratio,
        filling_ratio=filling,
    )


Bottleneck: TypeAlias = Literal[
    "compute", "memory_bandwidth", "interconnect", "pipeline", "offload", "overhead"
]


def bottleneck(step: TrainingStep) -> Bottleneck:
    """What most of a single step's time is spent on."""
    parts: dict[Bottleneck, Number] = {
        "compute": step.matrix_products_s + step.attention_s,
        "memory_bandwidth": step.elementwise_s + step.optimizer_s,
        "interconnect": step.exposed_model_messages_s + step.exposed_data_messages_s,
        "pipeline": step.pipeline_bubble_s,
        "offload": step.offload_stall_s,
        "overhead": step.overhead_s,
    }
    return max(parts, key=lambda part: float(parts[part]))
