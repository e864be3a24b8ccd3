"""Time of a micro-batch forward and backward, by what it is spent on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.core.deployment import Accelerator, Deployment
from service.core.elementwise import Number, exp, maximum, minimum, where
from service.core.lightweight import lightweight
from service.core.memory.training.adapters import virtual_tokens
from service.core.memory.training.settings import (
    MicroBatch,
    TrainingSettings,
    can_hide_far_experts,
)
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.kernels import peak_flops_per_s
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad, StepTime
from service.core.performance.training.adapters import SHORT_KERNEL_S
from service.core.performance.training.attention import in_blocks, masked_pairs_ratio
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.recomputation import (
    attention_again,
    elementwise_again,
    kernels_again,
    layers_again,
    products_again,
)
from service.core.performance.training.scaling import (
    expert_kernels,
    narrowing_ratio,
    scaled_products_ratio,
    scaling_of,
)
from service.core.performance.training.traffic import (
    context_messages_s,
    expert_messages_s,
    layer_passes,
    summed_gradients_bytes,
)
from service.core.performance.training.work import TrainingWork, by_lanes
from service.core.performance.work import RankWork

#: Backward attention beside forward: five matrix products instead of two.
#: Source: Dao, FlashAttention-2, 2023, section 3.1, https://arxiv.org/abs/2307.08691.
ATTENTION_BACKWARD = 2.5

#: Share of elementwise traffic that is the forward pass: results are written and read once
#: forward; backward, results and their gradients are read and gradients written.
FORWARD_TRAFFIC_RATIO = 0.4

#: What the norm of a matrix with its adapter moves of an element in 16 bit: their product is
#: written, scaled, added to the matrix and read once more.
#: Source: Hugging Face PEFT, lora/dora.py, 2025 (get_weight_norm).
_NORM_BYTES = 14.0


#: How far the time to issue kernels is off where the host was measured with other models: a factor
#: of about 1.35 either way, the standard deviation of what waits for it (`WIDENINGS` times the
#: spread of kernels) [-].
_ISSUE_LOG_DOUBT = 0.3


@lightweight
class MicroBatchTime:
    """Forward and backward of one micro-batch through all stages, on one rank of each [s].

    ``adapters_ratio`` is the work of adapters over that of a forward pass, ``adapters_bytes`` what
    their operators move and ``short_kernels_s`` what their kernels take beside that, recomputation
    included, ``normed_bytes`` what norms of whole matrices move, ``gradients_bytes`` what adding
    gradients to those of other micro-batches does. ``passes`` are those of products, of which
    ``recomputed`` ratios come again (``recomputed_layers_ratio`` of those of layers); ``forward``
    is one of them. Of ``attention_flops`` the model asks for the ``unmasked`` ones. ``head_s`` of
    all times is what the last stage of a pipeline takes for logits and their loss.
    ``sent_s`` is the time of messages, ``experts_s`` of those to and from experts, of which
    ``exposed_experts_s`` do not hide, ``ring_s`` of keys and values on their way round, ``issue_s``
    how long the host issues kernels, which counts beyond ``working_s``. ``unsure_waiting_s`` is how
    much waiting changes with the logarithm of that: all of ``issue_s`` where it decides how long a
    micro-batch takes, some where it nearly does, although none of it shows.
    """

    matrix_s: Number
    attention_s: Number
    elementwise_s: Number
    recompute_s: Number
    messages_s: Number
    hidden_messages_s: Number
    waiting_s: Number
    unsure_waiting_s: Number
    total_s: Number
    head_s: Number
    model_flops: Number
    hardware_flops: Number
    memory_bytes: Number
    passes: Number
    recomputed_products_ratio: Number
    recomputed_layers_ratio: Number
    recomputed_attention_ratio: Number
    recomputed_elementwise_ratio: Number
    forward_products_s: Number
    forward_attention_s: Number
    products_flops: Number
    chosen_ratio: Number
    attention_flops: Number
    unmasked_attention_flops: Number
    moved_bytes: Number
    dequantised_bytes: Number
    normed_bytes: Number
    adapters_bytes: Number
    short_kernels_s: Number
    gradients_bytes: Number
    adapters_ratio: Number
    sent_s: Number
    experts_s: Number
    exposed_experts_s: Number
    ring_s: Number
    routing_s: Number
    issue_s: Number
    working_s: Number


def micro_batch_time(
    deployment: Deployment,
    settings: TrainingSettings,
    batch: MicroBatch,
    work: TrainingWork,
    filled: Callable[[float | None], TrainingWork],
    calibration: TrainingCalibration,
) -> MicroBatchTime:
    """Forward and backward of a micro-batch, with what is recomputed [s].

    Parameters
    ----------
    deployment, settings, batch, calibration
        As of :func:`~service.core.performance.training.step.training_step`.
    work
        Work of the forward pass.
    filled
        The same with features filled up to multiples of so many lanes.
    """
    parallelism, accelerator = deployment.parallelism, deployment.accelerator
    tokens = batch.sequences * (batch.tokens + virtual_tokens(settings)) * 1.0
    span = batch.tokens
    if settings.packed_document_tokens is not None:
        span = minimum(settings.packed_document_tokens, span)
    load = StepLoad(tokens, batch.sequences * 1.0, span / 2.0, 0.0, 0.0)

    performance = _with_tiles_of(work.matrix_precision, accelerator, calibration.performance)

    def part(chosen: RankWork, load: StepLoad = load) -> StepTime:
        return step_time(chosen, load, accelerator, parallelism, performance)

    lanes = accelerator.filled_features
    products, attention = part(work.products), part(work.attention)
    recipe = scaling_of(work.matrix_precision, settings.scaling)
    products_s = (
        products.work_s
        * by_lanes(lanes, lambda one: filled(one).filled_ratio)
        * scaled_products_ratio(
            recipe, work.narrow_ratio, calibration.scaled_sums_ratio, accelerator
        )
    )
    through = layer_passes(settings)
    passes = through + (1.0 if settings.method == "full" else 0.0)
    product_again = products_again(settings, work)
    attended_again, moved_again = attention_again(settings), elementwise_again(settings, work)
    used_again = product_again / (1.0 - work.head_ratio)
    # Adapters multiply for their own gradients as well, a rotation of frozen weights does not.
    adapters_ratio = (
        work.adapters.flops_per_token * tokens / parallelism.context * (3.0 + used_again)
        + work.adapters.rotation_flops * (2.0 + used_again)
    ) / products.flops
    if settings.adapter == "boft" and work.adapters.rotation_flops:
        passes = through + 1.0  # gradients of whole matrices, which those of rotations follow from
    matrix_s = products_s * (passes + product_again + adapters_ratio)

    def attended_s(one: float | None) -> Number:
        computed = attention
        if one is not None:
            computed = part(filled(one).filled_attention, in_blocks(load, span, settings))
        slower = filled(one).heads.slowdown(accelerator, calibration.score_features)
        return computed.work_s * slower

    forward_attention_s = by_lanes(lanes, attended_s)
    backward = ATTENTION_BACKWARD if settings.trains else 0.0
    attention_s = forward_attention_s * (1.0 + backward + attended_again)

    here = tokens / parallelism.context
    bandwidth = (
        accelerator.memory_bandwidth_bytes_per_s * calibration.performance.hardware.memory_ratio
    )
    moved = (
        work.elementwise_bytes_per_token * here
        + work.elementwise_bytes_per_pair * here * batch.tokens
    ) * calibration.elementwise_passes
    cast_bytes = calibration.cast_bytes * narrowing_ratio(
        recipe, transposed=settings.method == "full"
    )
    narrowed = work.narrowed_elements_per_token * here * cast_bytes
    forward_ratio = 1.0 if settings.trains else FORWARD_TRAFFIC_RATIO
    head_s: Number = 0.0
    if parallelism.pipeline > 1:
        # Products that make logits have operands of 16 bit, whatever those of layers have.
        logits = work.elementwise_bytes_per_token * work.logits_ratio * here * forward_ratio
        head_s = part(work.head).work_s * passes
        head_s = head_s + logits * calibration.elementwise_passes / bandwidth
    moved = (moved + narrowed) * forward_ratio
    written_again = moved_again * FORWARD_TRAFFIC_RATIO
    packed = deployment.precision.weights.widened_whole
    each_bytes = calibration.unpacked_bytes if packed else calibration.dequantised_bytes
    dequantised = work.quantised_elements * each_bytes
    base_passes = through + used_again
    again = kernels_again(settings)
    adapters: Number = work.adapters.forward_bytes_per_token * here
    short_s: Number = work.adapters.forward_kernel_count * SHORT_KERNEL_S
    adapters_again, short_again_s = adapters * again, short_s * again
    adapters = adapters + adapters_again
    short_s = short_s + short_again_s
    if settings.trains:
        adapters = adapters + work.adapters.backward_bytes_per_token * here
        short_s = short_s + work.adapters.backward_kernel_count * SHORT_KERNEL_S
    normed = work.adapters.normed_elements * _NORM_BYTES
    gradients = summed_gradients_bytes(deployment, settings)
    elementwise_bytes = (
        moved * (1.0 + written_again)
        + adapters
        + dequantised * base_passes
        + normed * (1.0 + used_again)
        + gradients
    )
    elementwise_s = elementwise_bytes / bandwidth + short_s
    recompute_s = (
        products_s * product_again
        + forward_attention_s * attended_again
        + (moved * written_again + adapters_again + (dequantised + normed) * used_again) / bandwidth
        + short_again_s
    )

    routing_s = work.products.routed_layers * calibration.routing_s * (through + used_again)
    message_passes = through + layers_again(settings)
    sent_s = products.interconnect_s * message_passes
    experts_s = message_passes * expert_messages_s(deployment, settings, work, here, calibration)
    exposed_experts_s = experts_s * (1.0 - _experts_hide(deployment, settings, calibration))
    hidden_s = calibration.tensor_overlap_ratio * sent_s
    passed_s = context_messages_s(deployment, settings, batch, calibration)
    exposed_s = maximum(passed_s - attention_s, 0.0)
    busy_s = (
        matrix_s + attention_s + elementwise_s + routing_s + (sent_s - hidden_s) + exposed_experts_s
    )
    attention_passes = 3.0 if settings.trains else 1.0
    unmasked_flops = attention.flops / masked_pairs_ratio(settings)
    issue_s = _issue_s(settings, work, calibration)
    issued_late_s = maximum(issue_s - busy_s, 0.0)
    return MicroBatchTime(
        matrix_s=matrix_s,
        attention_s=attention_s,
        elementwise_s=elementwise_s,
        recompute_s=recompute_s,
        messages_s=sent_s - hidden_s + exposed_experts_s + exposed_s,
        hidden_messages_s=hidden_s + (experts_s - exposed_experts_s) + (passed_s - exposed_s),
        waiting_s=routing_s + issued_late_s,
        unsure_waiting_s=routing_s + _unsure_s(issue_s, busy_s),
        total_s=busy_s + exposed_s + issued_late_s,
        head_s=head_s,
        model_flops=work.chosen_ratio * products.flops * passes + unmasked_flops * attention_passes,
        hardware_flops=products.flops * (passes + product_again)
        + attention.flops * (attention_passes + attended_again)
        + products.flops * adapters_ratio,
        memory_bytes=products.memory_bytes * (passes + product_again) + elementwise_bytes,
        passes=passes,
        recomputed_products_ratio=product_again,
        recomputed_layers_ratio=used_again,
        recomputed_attention_ratio=attended_again,
        recomputed_elementwise_ratio=moved_again,
        forward_products_s=products_s,
        forward_attention_s=forward_attention_s,
        products_flops=products.flops,
        chosen_ratio=work.chosen_ratio,
        attention_flops=attention.flops,
        unmasked_attention_flops=unmasked_flops,
        moved_bytes=moved,
        dequantised_bytes=dequantised,
        normed_bytes=normed,
        adapters_bytes=adapters,
        short_kernels_s=short_s,
        gradients_bytes=gradients,
        adapters_ratio=adapters_ratio,
        sent_s=sent_s,
        experts_s=experts_s,
        exposed_experts_s=exposed_experts_s,
        ring_s=passed_s,
        routing_s=routing_s,
        issue_s=issue_s,
        working_s=busy_s,
    )


def _experts_hide(
    deployment: Deployment, settings: TrainingSettings, calibration: TrainingCalibration
) -> Number:
    """Share of messages to experts that hides behind computation [-]."""
    if settings.expert_overlap_ratio is not None:
        return settings.expert_overlap_ratio
    usual, far_ratio = calibration.tensor_overlap_ratio, settings.far_experts_hide_ratio
    layout = deployment.parallelism
    kept, schedule = settings.activation_checkpointing, settings.pipeline_schedule
    if far_ratio is None or not can_hide_far_experts(kept, schedule, layout.pipeline):
        return usual
    far = layout.expert > deployment.accelerator.scale_up_domain_accelerators
    return where(far, far_ratio, usual)


def _with_tiles_of(
    matrix_precision: str, accelerator: Accelerator, performance: PerformanceCalibration
) -> PerformanceCalibration:
    """What products reach whose tiles cost as much time besides as those of 16 bit do.

    A tile's start and end, where operands come from memory and results of 16 bit go there, are no
    shorter where it is multiplied faster, so that it is padded by more rows.

    References
    ----------
    NVIDIA, Matrix Multiplication Background User's Guide, 2023, sections 3 and 4 (prologue and
    epilogue of tiles); NVIDIA, CUTLASS, Efficient GEMM in CUDA, 2025
    """
    narrow, _ = peak_flops_per_s(accelerator, matrix_precision)
    usual, _ = peak_flops_per_s(accelerator, "bf16")
    hardware = performance.hardware
    tile_rows = hardware.tile_rows * maximum(narrow / usual, 1.0)
    return replace(performance, hardware=replace(hardware, tile_rows=tile_rows))


def _unsure_s(issue_s: Number, busy_s: Number) -> Number:
    """Change of what is issued late with the logarithm of the time to issue it [s]."""
    slower, faster = exp(_ISSUE_LOG_DOUBT), exp(-_ISSUE_LOG_DOUBT)
    most = maximum(slower * issue_s - busy_s, 0.0)
    least = maximum(faster * issue_s - busy_s, 0.0)
    return (most - least) / (2.0 * _ISSUE_LOG_DOUBT)


def _issue_s(
    settings: TrainingSettings, work: TrainingWork, calibration: TrainingCalibration
) -> Number:
    """Time in which the host issues the kernels of a micro-batch, and gathers sharded weights.

    Kernels of experts are issued for each that a rank holds, however few tokens it gets.
    """
    through = layer_passes(settings)
    passes = through + kernels_again(settings)
    launches = 1.0 + work.adapters.kernels_ratio
    each: Number = calibration.performance.engine.layer_s * launches * passes
    if settings.zero_stage == 3:
        each = each + calibration.sharded_layer_s * through
    forward, backward = expert_kernels(
        scaling_of(work.matrix_precision, settings.scaling),
        narrow=work.narrowed_elements_per_token > 0.0,
        trained=settings.method == "full",
    )
    kernels = forward * (passes - through + 1.0) + (backward if settings.trains else 0.0)
    experts_s = work.products.held_experts * kernels * calibration.expert_kernel_s
    return each * work.products.layers + experts_s
