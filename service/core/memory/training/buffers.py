"""What a training step holds beside states and activations: gathered weights, buckets, the loss."""

from __future__ import annotations

from service.core.deployment import Deployment, Parallelism
from service.core.elementwise import Number, minimum
from service.core.memory.training.activations import HALF_BYTES, gathered_bytes_per_token
from service.core.memory.training.runtime import FrameworkRuntime
from service.core.memory.training.settings import TrainingSettings
from service.core.memory.training.state import StageState

_HALF, _FULL = 2.0, 4.0  # bytes of an element in 16 and in 32 bit

#: Bytes of a logit of a forward pass alone: in 16 bit, and as probability in 32 bit or in 16; a
#: loss by parts keeps but a part of the latter, a fused one of both.
#: Source: huggingface/trl trl/experimental/gkd and trl/trainer/dpo_trainer.py, 2025;
#: linkedin/Liger-Kernel liger_kernel/chunked_loss, 2025.
_FORWARD_LOGIT_BYTES = {
    "plain": _HALF + _FULL,
    "half-precision": _HALF + _HALF,
    "compiled": _HALF,
    "chunked": _HALF,
    "fused": 0.0,
}


def result_bytes(deployment: Deployment, *, wide: bool = False) -> float:
    """Size of an activation as it is computed, of at least 16 bit or, if ``wide``, of 32 [B]."""
    return max(deployment.precision.activations.bytes_per_element, _FULL if wide else HALF_BYTES)


def kinds_of_groups(parallelism: Parallelism, settings: TrainingSettings) -> int:
    """Kinds of groups of accelerators that exchange messages, each with buffers of its own [-]."""
    degrees = (
        parallelism.tensor,
        parallelism.pipeline,
        parallelism.data * parallelism.context,
        parallelism.expert,
        settings.shard_groups(parallelism.data),
    )
    return sum(degree > 1 for degree in degrees)


def reduces_apart(settings: TrainingSettings, parallelism: Parallelism) -> bool:
    """Whether gradients are reduced on a stream of their own, whose memory no other stream gets.

    References
    ----------
    torch/distributed/fsdp (reduce-scatter stream) and c10/cuda/CUDACachingAllocator (a pool for
    each stream), PyTorch 2.6, 2025
    """
    return settings.zero_stage == 3 and parallelism.data * parallelism.context > 1


def gathered_bytes(
    deployment: Deployment,
    settings: TrainingSettings,
    framework: FrameworkRuntime,
    state: StageState,
) -> tuple[dict[str, float], float]:
    """Gathered parameters and message buckets, and gradients that are whole in the backward pass.

    Fully sharded parameters are gathered for a layer and those ahead, and for what lies outside the
    layers, which stays unless the framework gathers all as it is used. In a pipeline they stay
    gathered, and gradients whole, until the last micro-batch, because every micro-batch would have
    to gather and scatter them again. Of the buckets of ZeRO 2 one fills while the other is sent,
    and DeepSpeed makes both before the backward pass. A quantised base has its largest matrix in 16
    bit while this is multiplied.

    References
    ----------
    Zhao et al., PyTorch FSDP, 2023, sections 3.2 and 4, https://arxiv.org/abs/2304.11277;
    pytorch/torchtitan torchtitan/parallelisms, 2024 (no resharding after the forward pass in
    pipelines); deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py (backward) and
    runtime/engine.py (stage 1 has no such buffers), 2025; Dettmers et al., QLoRA,
    2023, https://arxiv.org/abs/2305.14314
    """
    parallelism = deployment.parallelism
    messages = {}
    if settings.method != "full" and state.largest_quantised_elements > 0.0:
        messages["dequantised_matrix"] = state.largest_quantised_elements * result_bytes(
            deployment, wide=framework.widens_matrices(deployment, settings)
        )
    replicas = parallelism.data * parallelism.context
    offloaded = settings.offload.parameters != "none"
    whole_gradients = 0.0
    if offloaded or (settings.zero_stage == 3 and replicas > 1):
        trained = settings.gradient_bytes * state.trainable_elements / state.elements
        if parallelism.pipeline > 1:
            messages["gathered_weights"] = state.whole_bytes
            messages["gathered_gradients"] = state.elements * trained
        else:
            layers = (1.0 + settings.prefetch_layers) * state.layer_bytes
            if framework.gathers_as_used:
                messages["gathered_layers"] = max(layers, state.largest_end_bytes)
            else:
                messages["gathered_layers"] = layers
                messages["gathered_ends"] = state.end_bytes
            whole_gradients = max(state.layer_elements, state.end_elements) * trained
    elif replicas > 1 and settings.zero_stage >= 1:
        bucket = min(settings.bucket_elements, state.trainable_elements)
        if settings.zero_stage == 2 and framework.whole_bucket_elements and settings.trains:
            bucket = framework.whole_bucket_elements
        each = settings.gradient_sum_bytes or _HALF
        each += settings.gradient_bytes if settings.zero_stage == 2 else 0.0
        messages["buckets"] = bucket * each
    elif replicas > 1 and framework.copies_gradients and settings.trains:
        messages["buckets"] = state.trainable_elements * settings.gradient_bytes
    return messages, whole_gradients


def logits_bytes(
    deployment: Deployment,
    settings: TrainingSettings,
    framework: FrameworkRuntime,
    state: StageState,
    tokens: Number,
) -> tuple[Number, float]:
    """Bytes per token of logits and their gradients, and bytes that do not depend on tokens.

    Models that embed sequences have none. Where the loss goes by parts, the gradient of the matrix
    that makes logits is summed up while they are there. A tangent that caps them keeps its results.
    A framework may make logits of those tokens alone that the loss looks at.

    References
    ----------
    Hsu et al., Liger Kernel, 2024, https://arxiv.org/abs/2410.10989 (fused linear cross-entropy);
    Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024,
    https://arxiv.org/abs/2411.09009; pytorch/torchtune torchtune/modules/loss, 2024
    """
    parallelism = deployment.parallelism
    if state.stage != parallelism.pipeline - 1 or not deployment.architecture.generates:
        return 0.0, 0.0
    vocabulary = deployment.architecture.vocab_size / parallelism.tensor
    heads = 1.0 + deployment.architecture.trained_predictions
    gathered = gathered_bytes_per_token(
        deployment.architecture, parallelism, settings, result_bytes(deployment)
    )
    chunk = vocabulary * settings.cross_entropy_chunk_tokens
    # On average over a sequence's tokens, of which the loss may look at some.
    vocabulary *= settings.loss_ratio if framework.logits_of_loss else 1.0
    if not settings.trains:
        return heads * vocabulary * _FORWARD_LOGIT_BYTES[settings.cross_entropy] + gathered / 2.0, (
            chunk * _FULL if settings.cross_entropy in ("chunked", "fused") else 0.0
        )
    head = state.head_elements * settings.gradient_bytes
    capped = result_bytes(deployment) if deployment.architecture.caps_logits else 0.0
    match settings.cross_entropy:
        case "plain":
            each = _plain_bytes(framework, tokens) + capped
            return heads * vocabulary * each + gathered, 0.0
        case "half-precision":
            # Logits, their shifted copy, log-probabilities and the gradient.
            return heads * vocabulary * (4.0 * _HALF + capped) + gathered, 0.0
        case "compiled":
            # Logits and their gradient; what is in 32 bit never leaves the kernel.
            return heads * vocabulary * 2.0 * _HALF + gathered, 0.0
        case "chunked":
            # All logits in 16 bit; a part at a time goes through 32 bit, and its gradient.
            part = _FULL if settings.fused_kernels else framework.bytes_per_logit
            return heads * vocabulary * _HALF + gathered, chunk * part + head
        case "fused":
            if framework.loss_in_kernel:
                return gathered, head
            return gathered, chunk * framework.bytes_per_logit + head


def _plain_bytes(framework: FrameworkRuntime, tokens: Number) -> Number:
    """What a loss without kernels of its own holds of each logit of a sequence [B]."""
    if not framework.loss_part_tokens:
        return framework.bytes_per_logit
    return 2.0 * _FULL * (1.0 + minimum(framework.loss_part_tokens / tokens, 1.0))
