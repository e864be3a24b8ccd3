"""What a training step moves between accelerators and to the host, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import ceil

from service.core.architecture.model import Attention, LatentAttention
from service.core.deployment import Accelerator, Deployment
from service.core.elementwise import Number, maximum, minimum, where
from service.core.lightweight import lightweight
from service.core.memory.training.activations import layer_savings
from service.core.memory.training.kept import stored_bytes
from service.core.memory.training.settings import MicroBatch, Offload, Place, TrainingSettings
from service.core.memory.training.state import StageState, stage_state
from service.core.performance.collectives import (
    all_to_all,
    dispatch,
    link_between,
    rate_among,
    scale_out,
)
from service.core.performance.kernels import OPERAND_BITS
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.work import TrainingWork, product_format
from service.core.stacking import FIGURE

#: Share of a micro-batch's work that is its backward pass.
#: Source: Kaplan et al., 2020, section 2.1, https://arxiv.org/abs/2001.08361 (twice the forward).
_BACKWARD_RATIO = 2.0 / 3.0

#: Elements of gradients and weights that are sent together where these are not fully sharded.
#: Source: NVIDIA/Megatron-LM, core/distributed/distributed_data_parallel.py, 2025 (bucket_size).
_BUCKET_ELEMENTS = 4e7

#: Steps inside a machine that take as long as one between machines, 14.0 us and 3.4 us, and those
#: of a ring that passes a machine of eight.
#: Source: NVIDIA/nccl, src/graph/tuning.cc, 2024 (hardware latencies of rings over NVLink and
#: networks).
_STEPS_OUTSIDE = 4.0
_STEPS_OF_EIGHT = 7.0 + _STEPS_OUTSIDE

_BYTE_BITS = 8
_WIDTH = 2.0  # bytes of a weight or activation on its way, in 16 bit


@lightweight
class HostRates:
    """Bandwidths around an accelerator, each of one direction [B/s].

    ``link`` leads to the host, ``memory`` is its share of host memory's where all accelerators of a
    usual host work, ``nvme`` of storage's. Of the peak of a known machine's memory ``memory_ratio``
    is reached [-].
    """

    link_bytes_per_s: Number = field(metadata=FIGURE)
    memory_bytes_per_s: Number = field(metadata=FIGURE)
    nvme_bytes_per_s: Number = field(metadata=FIGURE)
    memory_ratio: float = field(default=0.0, metadata=FIGURE)

    def shared_memory_bytes_per_s(self, deployment: Deployment) -> Number:
        """What an accelerator of a run has of its host's memory, beside others of the run [B/s].

        Processors update states of all accelerators that a run has in a machine; those that it
        leaves alone take nothing. Machines that are known by their memory alone have the usual.
        """
        platform = deployment.accelerator.platform
        known = platform.host_memory_bandwidth_bytes_per_s
        if known is None:
            return self.memory_bytes_per_s
        sharing = minimum(deployment.parallelism.accelerator_count, platform.accelerators_of_a_host)
        own = self.memory_ratio * known.value / sharing
        # What rows of a search do not know is no number.
        return where(own > self.memory_bytes_per_s, own, self.memory_bytes_per_s)


def data_messages_s(
    deployment: Deployment,
    settings: TrainingSettings,
    state: StageState,
    calibration: TrainingCalibration,
) -> Number:
    """Gradients and gathered weights among data- and context-parallel ranks in a step [s].

    Gradients are scattered and, unless divided, gathered again; divided optimizers pass on
    weights in their place. Where groups of ranks divide states, each among itself, they sum
    what a rank has of gradients after these are scattered. Fully sharded weights, frozen ones among
    them, are gathered for the forward and again for the backward pass of every micro-batch, in a
    pipeline once. A ring over several domains uses the links of all its ranks in each, of which
    experts have fewer.

    References
    ----------
    Rajbhandari et al., ZeRO, 2019, section 7, https://arxiv.org/abs/1910.02054;
    Zhao et al., PyTorch FSDP, 2023, section 3.2, https://arxiv.org/abs/2304.11277
    """
    parallelism = deployment.parallelism
    ranks = parallelism.data * parallelism.context
    if ranks == 1:
        return 0.0
    dense = _exchanged_s(
        deployment,
        settings,
        calibration,
        trainable=state.trainable_elements - state.trainable_expert_elements,
        held=state.elements - state.expert_elements,
        layers=state.layers,
        ranks=ranks,
        side_by_side=parallelism.tensor,
    )
    # A rank's experts are held by fewer ranks, which stand further apart.
    sharing = max(1, parallelism.expert * parallelism.expert_tensor // parallelism.tensor)
    experts = _exchanged_s(
        deployment,
        settings,
        calibration,
        trainable=state.trainable_expert_elements,
        held=state.expert_elements,
        layers=state.layers,
        ranks=max(1, ranks // sharing),
        side_by_side=parallelism.tensor * sharing,
    )
    return dense + experts


def _exchanged_s(
    deployment: Deployment,
    settings: TrainingSettings,
    calibration: TrainingCalibration,
    *,
    trainable: float,
    held: float,
    layers: int,
    ranks: int,
    side_by_side: int,
) -> Number:
    """Messages of a step among the ranks that hold the same weights [s].

    Gathering and scattering go round a ring of all ranks of a group, for each layer or bucket anew,
    so that the first byte waits for every machine on its way, however little there is to send; sums
    of gradients go by trees, over groups those of the part that a rank has of its group's, while
    the group's links go on with other layers.

    Parameters
    ----------
    deployment, settings, calibration
        Links, what is divided, and what of links is reached.
    trainable, held
        Elements on a rank that are trained, and all of them [-].
    layers
        Layers that they are in [-].
    ranks
        How many ranks hold the same.
    side_by_side
        Distance of one of these ranks to the next: those between hold something else.

    References
    ----------
    NVIDIA/nccl, src/graph/tuning.cc, 2024 (time of rings by steps inside and between nodes);
    Zhao et al., PyTorch FSDP, 2023, section 3.2.2 (hybrid sharding: gradients are scattered within
    a group and summed over groups), https://arxiv.org/abs/2304.11277; Wang et al., ZeRO++, 2023,
    section 4 (weights in 8 bit, gradients in 4, backward passes within a machine),
    https://arxiv.org/abs/2306.10209
    """
    if ranks == 1 or not held:
        return 0.0
    accelerator = deployment.accelerator
    rings: Number = 0.0
    gradients = trainable * _scattered_bytes(settings)
    width = _gathered_bytes(deployment, settings)
    gathered_nearby: Number = 0.0
    if settings.zero_stage == 3:
        gathers = _gathers(deployment, settings)
        if settings.secondary_ranks and settings.trains:
            # Forward passes gather among all ranks, backward passes in a group.
            gathered_nearby = gathers / layer_passes(settings)
            gathers = gathers - gathered_nearby
        moved = gradients + gathers * held * width
        rings = layers * (gathers + (1.0 if trainable else 0.0))
    elif settings.zero_stage:
        moved = gradients + trainable * width
        if settings.zero_stage == 2:
            rings = 2.0 * min(layers, ceil(trainable / _BUCKET_ELEMENTS))
    else:
        moved = 2.0 * gradients
    groups = min(settings.shard_groups(deployment.parallelism.data), ranks)
    each = ranks // groups
    link_ratio = calibration.performance.hardware.link_ratio
    within_s, hops = _around_s(moved, each, side_by_side, accelerator)
    over_s, _ = _around_s(2.0 * gradients / each, groups, side_by_side * each, accelerator)
    # Links within a domain carry one while those between domains carry the other.
    apart = side_by_side * each <= accelerator.scale_up_domain_accelerators
    sent_s = where(apart, maximum(within_s, over_s), within_s + over_s)
    if settings.secondary_ranks:
        nearby = min(settings.secondary_ranks, ranks)
        sent_s += _around_s(gathered_nearby * held * width, nearby, side_by_side, accelerator)[0]
    return sent_s / link_ratio + rings * hops * calibration.ring_hop_s


def _gathers(deployment: Deployment, settings: TrainingSettings) -> Number:
    """How often a step gathers fully sharded weights [-]."""
    if deployment.parallelism.pipeline > 1:
        return 1.0
    return settings.gradient_accumulation_steps * layer_passes(settings)


def narrowed_messages_bytes(
    deployment: Deployment, settings: TrainingSettings, state: StageState
) -> Number:
    """What kernels read and write in a step to narrow what travels, and to widen what came [B].

    A rank narrows its part of weights for each message, and widens all of them unless products take
    them as they came. Gradients are narrowed whole, and what others have of a rank's part is read
    where it is summed. Copies for other ranks of a machine are small beside these.

    References
    ----------
    deepspeedai/DeepSpeed, deepspeed/runtime/zero/partition_parameters.py (CUDAQuantizer,
    AllGatherHandle.wait) and runtime/comm/coalesced_collectives.py (all_to_all_quant_reduce:
    swizzle_quant, quantized_reduction), 2025; pytorch/ao, torchao/float8/fsdp_utils.py, 2025 (parts
    are cast before they are gathered, and products take them)
    """
    parallelism = deployment.parallelism
    ranks = parallelism.data * parallelism.context
    if ranks == 1:
        return 0.0
    moved: Number = 0.0
    told = settings.gathered_weight_bytes
    held = min(deployment.precision.weights.bits_per_element / 8.0, _WIDTH)
    if settings.zero_stage and told is not None and told < held:
        whole = settings.zero_stage == 3
        elements = state.elements if whole else state.trainable_elements
        times = _gathers(deployment, settings) if whole else 1.0
        format_ = product_format(deployment.precision, settings)
        widened = OPERAND_BITS[format_.matrix_precision] > _BYTE_BITS * told
        moved = times * elements * (held + told) * (1.0 / ranks + widened)
    sent = settings.scattered_gradient_bytes
    if settings.trains and sent is not None and sent < settings.gradient_bytes:
        moved = moved + state.trainable_elements * (settings.gradient_bytes + 2.0 * sent)
    return moved


def _gathered_bytes(deployment: Deployment, settings: TrainingSettings) -> float:
    """What an element of a weight takes on its way to ranks that lack it [B]."""
    held = min(deployment.precision.weights.bits_per_element / 8.0, _WIDTH)
    told = settings.gathered_weight_bytes
    return held if told is None else min(held, told)


def _scattered_bytes(settings: TrainingSettings) -> float:
    """What an element of a gradient takes on its way to the rank that keeps it [B].

    Narrowed ones are exchanged within machines first and between them then, so that each crosses
    links between machines as often as on a ring.
    """
    told = settings.scattered_gradient_bytes
    return settings.gradient_bytes if told is None else min(settings.gradient_bytes, told)


def _around_s(
    moved: Number, ranks: int, side_by_side: int, accelerator: Accelerator
) -> tuple[Number, Number]:
    """Time of bytes around a ring at its links' full rate [s], and machines on the way [-]."""
    joined_fast = accelerator.scale_up_domain_accelerators // side_by_side
    near = maximum(minimum(ranks, joined_fast), 1)
    inside = rate_among(near, accelerator)
    across = minimum(inside, near * scale_out(accelerator).bandwidth_bytes_per_s)
    bandwidth = where(ranks > near, across, inside)
    hops = (ranks / near - 1.0) * (near - 1.0 + _STEPS_OUTSIDE) / _STEPS_OF_EIGHT
    return moved * (ranks - 1) / ranks / bandwidth, hops


def data_overlap_ratio(settings: TrainingSettings, calibration: TrainingCalibration) -> Number:
    """Share of computation behind which gradients and gathered weights hide [-].

    References
    ----------
    deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py, 2025 (overlap_comm)
    """
    waits = settings.zero_stage > 0 and not settings.overlaps_zero
    return 0.0 if waits else calibration.data_overlap_ratio


def layer_passes(settings: TrainingSettings) -> float:
    """Passes of a micro-batch through the layers: forward, and backward where it trains [-]."""
    return 2.0 if settings.trains else 1.0


def hideable_ratio(settings: TrainingSettings) -> Number:
    """Share of a step's work, waits for the host among it, during which there is something to send.

    Gathered weights travel all the time, gradients only during the last backward pass.
    """
    if settings.zero_stage == 3:
        return 1.0
    return _BACKWARD_RATIO / settings.gradient_accumulation_steps


def context_messages_s(
    deployment: Deployment,
    settings: TrainingSettings,
    batch: MicroBatch,
    calibration: TrainingCalibration,
) -> Number:
    """Keys and values on their way round, once forward and, with gradients, twice backward [s].

    References
    ----------
    Liu et al., Ring Attention, 2023, section 3, https://arxiv.org/abs/2310.01889
    """
    parallelism, accelerator = deployment.parallelism, deployment.accelerator
    ranks = parallelism.context
    if ranks == 1:
        return 0.0
    elements = 0.0
    for group in deployment.architecture.groups:
        match group.mixer:
            case Attention() as mixer:
                each = mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
                elements += group.count * each / min(parallelism.tensor, mixer.kv_heads)
            case LatentAttention(expands=False) as mixer:
                width = mixer.kv_lora_rank + mixer.qk_rope_head_dim
                elements += group.count * width / mixer.tokens_per_entry
            case LatentAttention() as mixer:
                width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim
                elements += group.count * mixer.query_heads * width / parallelism.tensor
            case _:
                continue
    tokens = batch.sequences * batch.tokens * (ranks - 1) / ranks
    across = parallelism.tensor * ranks > accelerator.scale_up_domain_accelerators
    link = link_between(across, accelerator)
    rate = link.bandwidth_bytes_per_s * calibration.performance.hardware.link_ratio
    return (2.0 * layer_passes(settings) - 1.0) * elements * _WIDTH * tokens / rate


def expert_messages_s(
    deployment: Deployment,
    settings: TrainingSettings,
    work: TrainingWork,
    tokens: Number,
    calibration: TrainingCalibration,
) -> Number:
    """Tokens on their way to their experts and back, in a pass through all layers [s].

    Parameters
    ----------
    deployment, settings, calibration
        Ranks and links, how tokens are sent, and what of links is reached.
    work
        How often they are sent, and how large they are.
    tokens
        Tokens of a rank [-].
    """
    if not work.exchanges:
        return 0.0
    accelerator, ranks = deployment.accelerator, deployment.parallelism.expert
    link_ratio = calibration.performance.hardware.link_ratio
    floor_s = calibration.performance.engine.collective_s
    if settings.expert_dispatch == "per-machine":
        message = dispatch(
            ranks,
            work.token_copies,
            settings.expert_machines,
            accelerator,
            link_ratio,
            floor_s,
        )
    else:
        message = all_to_all(ranks, accelerator, link_ratio, floor_s)
    each_bytes = work.exchanged_bytes_per_token / deployment.parallelism.tensor
    return work.exchanges * (message.fixed_s + message.byte_s * each_bytes * tokens)


def summed_gradients_bytes(deployment: Deployment, settings: TrainingSettings) -> Number:
    """What a micro-batch moves to add its gradients of weights to those of others, full depth [B].

    Sums are written by each micro-batch and read by all but the first, whole on each rank that
    computes with whole weights, however few sequences a micro-batch has: an average over those of
    a step. Gradients of adapters alone are few.

    References
    ----------
    NVIDIA/Megatron-LM, core/tensor_parallel/layers.py, 2025 (gradient_accumulation_fusion:
    wgrad_gemm_accum_fp32); Zhao et al., PyTorch FSDP, 2023, section 3.3 (gradients of whole
    weights are reduced after each micro-batch), https://arxiv.org/abs/2304.11277
    """
    if not settings.trains:
        return 0.0
    model = deployment.architecture, deployment.precision
    whole = stage_state(*model, deployment.parallelism.of_layers, settings.structural, 0)
    each_bytes = settings.gradient_bytes + settings.gradient_sum_bytes
    uses = 2.0 - 1.0 / settings.gradient_accumulation_steps
    return uses * whole.trainable_elements * each_bytes


def update_s(
    deployment: Deployment,
    settings: TrainingSettings,
    state: StageState,
    host: HostRates,
    calibration: TrainingCalibration,
) -> tuple[Number, Number, Number]:
    """Time of the optimizer on the accelerator, and of one that runs on the host instead [s].

    States are read and written once, and gradients and weights with them. On the host the update
    runs at the speed of host memory while gradients still come down; states on drives stream past,
    those in another memory are read there. The last figure is the time in which its processors
    compute: as long as memory that they read themselves brings states, not while drives or the
    link do.

    References
    ----------
    Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840; Rajbhandari et al.,
    ZeRO-Infinity, 2021, https://arxiv.org/abs/2104.07857
    """
    crossing = state.updated_elements * (settings.gradient_bytes + _WIDTH)
    moved = 2.0 * state.optimizer_bytes + crossing
    if settings.offload.optimizer == "none":
        bandwidth = deployment.accelerator.memory_bandwidth_bytes_per_s
        return moved / (bandwidth * calibration.performance.hardware.memory_ratio), 0.0, 0.0
    states, tier = 2.0 * state.optimizer_bytes, settings.offload.tier
    memory_bytes_per_s = host.shared_memory_bytes_per_s(deployment)
    computing_s = updated_s = moved / memory_bytes_per_s
    if settings.offload.optimizer == "nvme":
        updated_s = maximum(updated_s, states / host.nvme_bytes_per_s)
    elif settings.offload.optimizer == "tier" and tier is not None:
        through_host = moved if tier.is_storage else crossing
        updated_s = maximum(through_host / memory_bytes_per_s, states / tier.bandwidth_bytes_per_s)
        computing_s = computing_s if tier.is_storage else updated_s
    return 0.0, maximum(updated_s, crossing / host.link_bytes_per_s), computing_s


def offloaded_transfers_s(
    deployment: Deployment,
    settings: TrainingSettings,
    state: StageState,
    batch: MicroBatch,
    host: HostRates,
) -> Number:
    """Parameters and activations on their way from and to the host in a step [s].

    Parameters are fetched for the forward and again for the backward pass; activations go down
    and come back.
    """
    offload = settings.offload
    seconds: Number = 0.0
    for place, moved in _fetched_bytes(deployment, settings, state, batch):
        seconds = seconds + moved / _fetched_bytes_per_s(place, offload, host)
    return seconds


def tier_traffic_bytes(
    deployment: Deployment, settings: TrainingSettings, state: StageState, batch: MicroBatch
) -> Number:
    """What a step reads of and writes to the memory tier, for one accelerator [B].

    Optimizer states are read and written once; weights and activations as in
    :func:`offloaded_transfers_s`.
    """
    total: Number = 2.0 * state.optimizer_bytes if settings.offload.optimizer == "tier" else 0.0
    for place, moved in _fetched_bytes(deployment, settings, state, batch):
        if place == "tier":
            total = total + moved
    return total


def _fetched_bytes(
    deployment: Deployment, settings: TrainingSettings, state: StageState, batch: MicroBatch
) -> Iterator[tuple[Place, Number]]:
    """Weights and activations that a step moves to and from a place outside [B]."""
    micro_batches, offload = settings.gradient_accumulation_steps, settings.offload
    if offload.parameters != "none":
        moved = layer_passes(settings) * micro_batches * state.weights_bytes
        yield offload.parameters, moved
    if offload.activations != "none":
        architecture, parallelism = deployment.architecture, deployment.parallelism
        width = max(deployment.precision.activations.bytes_per_element, _WIDTH)
        kept = stored_bytes(
            layer_savings(architecture, parallelism, settings.structural, element_bytes=width),
            state.layers / architecture.layer_count,
            batch.sequences,
            batch.tokens,
            parallelism.context,
        )
        yield offload.activations, 2.0 * micro_batches * kept


def _fetched_bytes_per_s(place: Place, offload: Offload, host: HostRates) -> Number:
    """Rate at which the accelerator reads from and writes to a place outside it [B/s]."""
    link = host.link_bytes_per_s
    if place == "nvme":
        return minimum(link, host.nvme_bytes_per_s)
    tier = offload.tier
    if place == "tier" and tier is not None:
        own = link if tier.link_bytes_per_s is None else tier.link_bytes_per_s
        return minimum(own * tier.link_efficiency_ratio, tier.bandwidth_bytes_per_s)
    return link
