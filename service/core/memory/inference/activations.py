"""Peak of temporary tensors during an inference step on one rank.

A step's peak is the largest of several moments: inside the widest layer, where the layer's
intermediate results stand beside the residual stream, with the scores of attention that is not
fused and a matrix that is widened before it multiplies; after the last layer, where logits are
turned into probabilities beside what the layers returned and what experts keep room for; while the
images of a prompt are encoded; and while a checkpoint is loaded that stores a shared table twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    FeedForward,
    ImageEncoder,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.architecture.tensors import Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.elementwise import Number, maximum
from service.core.lightweight import lightweight
from service.core.number_formats import NumberFormat

#: Copies of the residual stream alive inside a layer: the residual itself, the normalised input of
#: the block and the block's output. Source: order of operations in the decoder layers of Hugging
#: Face transformers and vLLM, 2024 (fused add and norm keeps input and residual apart).
RESIDUAL_COPIES = 4.0


@dataclass(frozen=True, slots=True)
class StepPeak:
    """Temporary bytes of a step on one rank, as coefficients.

    ``layer_bytes_per_token`` for every token of the step inside the widest layer, and there
    ``score_heads`` scores for each pair of a token and one that it attends to;
    ``vocabulary_entries`` are logits per sampled sequence on the rank that samples, beside which
    layers have returned ``output_bytes_per_token`` and experts keep ``experts_bytes_per_token``.
    ``image_bytes`` are taken while the largest image is encoded, of which the language model reads
    ``image_tokens``; ``cross_attended`` as the model's encoder is, and ``widens_logits`` as its own
    code does.
    """

    layer_bytes_per_token: float
    score_heads: float
    vocabulary_entries: float
    output_bytes_per_token: float = 0.0
    experts_bytes_per_token: float = 0.0
    image_bytes: float = 0.0
    image_tokens: float = 0.0
    cross_attended: bool = False
    widens_logits: bool = True


@lightweight
class StepShape:
    """What a step computes at its worst, and what lies beside it.

    ``step_tokens`` are computed at once, each attending to ``attended_tokens`` [token];
    ``sampled_sequences`` are sampled, ``images`` encoded [-]. ``bytes_per_logit`` and
    ``bytes_per_score`` are what sampling takes for each logit, and attention for each score, if it
    stores them [B]; ``bytes_per_entry`` what kernels that choose tokens keep for each entry of the
    vocabulary, however many sequences are sampled [B]; results are ``result_ratio`` times as wide
    as activations [-].
    ``widened_bytes`` are those of the weights, ``repeated_bytes`` what of these is there twice
    while a model is loaded, before any step; ``pooled_bytes`` are held at any moment [B].
    """

    step_tokens: Number
    attended_tokens: Number
    sampled_sequences: Number
    images: Number
    bytes_per_logit: Number
    bytes_per_score: Number
    bytes_per_entry: float = 0.0
    result_ratio: float = 1.0
    widened_bytes: float = 0.0
    repeated_bytes: float = 0.0
    pooled_bytes: float = 0.0


@lru_cache(maxsize=1024)
def step_peak(
    architecture: ModelArchitecture,
    activations_format: NumberFormat,
    parallelism: Parallelism,
    *,
    gathers_tokens: bool = False,
    holds_experts: bool = False,
) -> StepPeak:
    """Coefficients of a step's temporary memory [B/token], and logits per sequence [-].

    Parameters
    ----------
    architecture
        The model.
    activations_format
        Number format of activations; 8-bit and narrower formats quantise inputs of products
        only, so intermediate results count as 16 bit.
    parallelism
        Degrees of parallelism. Logits are gathered on every rank before sampling, so that the
        sampling moment is not divided by tensor parallelism.
    gathers_tokens
        Whether experts have room for full steps of all copies that share them, wherever choices
        fall.
    holds_experts
        Whether room for experts' results stays once it was taken.

    References
    ----------
    Shazeer, GLU Variants Improve Transformer, 2020, https://arxiv.org/abs/2002.05202 (gate, up
    and product stand side by side); vLLM LogitsProcessor, 2024 (gather of logits), and
    v1/worker/gpu_model_runner.py, 2026 (states of all tokens are held while the sampler runs).
    """
    width = max(activations_format.bytes_per_element, 2.0)
    widest = max(
        max(
            _mixer_elements(group, parallelism),
            _feed_forward_elements(
                group,
                parallelism,
                architecture.hidden_size,
                parallelism.joined_copies if gathers_tokens else 1,
            ),
        )
        for group in architecture.groups
    )
    residual = RESIDUAL_COPIES * architecture.hidden_size
    heads = max(architecture.query_head_counts, default=0)
    images = architecture.images
    return StepPeak(
        layer_bytes_per_token=(residual + widest) * width,
        score_heads=heads / parallelism.tensor,
        vocabulary_entries=float(architecture.vocab_size) if architecture.generates else 0.0,
        output_bytes_per_token=architecture.hidden_size * width,
        experts_bytes_per_token=_experts_room(architecture, parallelism) * width
        if holds_experts
        else 0.0,
        image_bytes=_image_bytes(images, width, parallelism),
        image_tokens=0.0 if images is None else float(images.most_tokens),
        cross_attended=images is not None and images.cross_attended,
        widens_logits=architecture.widens_logits,
    )


def step_peak_bytes(peak: StepPeak, shape: StepShape) -> Number:
    """Temporary bytes at the worst moment of the language model [B].

    Parameters
    ----------
    peak
        Coefficients of the deployment.
    shape
        What the step computes.
    """
    inside = layer_bytes(peak, shape)
    logits = shape.sampled_sequences * shape.bytes_per_logit + shape.bytes_per_entry
    beside = beside_logits_bytes_per_token(peak, shape) * shape.step_tokens
    sampling = peak.vocabulary_entries * logits + beside
    return maximum(maximum(inside, sampling), shape.repeated_bytes) + shape.pooled_bytes


def beside_logits_bytes_per_token(peak: StepPeak, shape: StepShape) -> float:
    """What each token of a step holds while its last ones are sampled [B/token]."""
    return peak.output_bytes_per_token * shape.result_ratio + peak.experts_bytes_per_token


def images_peak_bytes(peak: StepPeak, shape: StepShape) -> Number:
    """Temporary bytes while images are encoded [B]."""
    return peak.image_bytes * shape.images if peak.image_bytes else 0.0


def layer_bytes(peak: StepPeak, shape: StepShape) -> Number:
    """Temporary bytes inside the widest layer [B]."""
    each = layer_bytes_per_token(peak, shape, shape.attended_tokens)
    return each * shape.step_tokens + shape.widened_bytes


def layer_bytes_per_token(peak: StepPeak, shape: StepShape, attended_tokens: Number) -> Number:
    """The same for each token of the step, which attends to others [B/token]."""
    scores = peak.score_heads * shape.bytes_per_score * attended_tokens
    return peak.layer_bytes_per_token * shape.result_ratio + scores


def _image_bytes(images: ImageEncoder | None, width: float, parallelism: Parallelism) -> float:
    """Temporary bytes while an image is encoded: inside a layer, or where kept outputs are joined.

    At the end the kept outputs stand beside a stack of them, beside what joins them and the last
    one, and beside the last one without its padding and before its norm. Source: order of
    operations in vLLM's and Hugging Face transformers' vision towers, 2025.
    """
    if images is None:
        return 0.0
    results = 3.0 if images.gated else 2.0
    inside = (RESIDUAL_COPIES + images.kept_layers) * images.width
    inside += results * images.intermediate_size / parallelism.tensor
    joining = (2.0 * images.kept_layers + (images.kept_layers + 1.0) + 3.0) * images.width
    return images.most_patches * max(inside, joining) * width


def _mixer_elements(group: LayerGroup, parallelism: Parallelism) -> float:
    """Elements per token that a mixer produces beside the residual stream."""
    mixer = group.mixer
    if mixer is None:
        return 0.0
    ranks = parallelism.tensor
    produced = _outputs(mixer.tensors, group, parallelism)
    if isinstance(mixer, Attention):
        return produced + mixer.query_heads * mixer.value_head_dim / ranks
    if isinstance(mixer, LatentAttention):
        return produced + mixer.query_heads * mixer.v_head_dim / ranks
    return produced


def _feed_forward_elements(
    group: LayerGroup, parallelism: Parallelism, hidden_size: int, gathered_copies: int
) -> float:
    """Elements per token that a feed-forward part produces beside the residual stream.

    Experts have room for as many tokens of each of ``gathered_copies``.
    """
    match group.feed_forward:
        case None:
            return 0.0
        case DenseFeedForward() as dense:
            return _wide_results(dense) * dense.intermediate_size / parallelism.tensor
        case moe:
            routed = moe.experts_per_token * (
                _wide_results(moe) * moe.expert_intermediate_size / parallelism.expert_tensor
                + hidden_size
            )
            # Choices spread evenly over expert ranks. Ranks beyond the tensor-parallel ones bring
            # the tokens of their own replica, so they do not thin out what arrives.
            routed = routed * gathered_copies / min(parallelism.expert, parallelism.tensor)
            shared = _wide_results(moe) * moe.shared_intermediate_size / parallelism.tensor
            return routed + shared


def _experts_room(architecture: ModelArchitecture, parallelism: Parallelism) -> float:
    """Elements per token that experts' results have room for in two buffers shared by all layers.

    One holds what enters and leaves a token's experts, the other their joined inward results and
    their products; ranks that share experts have room for all of a token's. Source: vLLM,
    fused_moe/experts/triton_moe.py (workspace_shapes) and v1/worker/workspace.py, 2026.
    """
    hidden = float(architecture.hidden_size)
    rooms = [0.0]
    for group in architecture.groups:
        moe = group.feed_forward
        if isinstance(moe, MixtureOfExperts):
            inner = moe.expert_intermediate_size / parallelism.expert_tensor
            joined = (2.0 if moe.gated else 1.0) * inner
            rooms.append(moe.experts_per_token * (max(inner, hidden) + max(joined, hidden)))
    return max(rooms)


def _wide_results(feed_forward: FeedForward) -> float:
    """Results of intermediate width alive at once: gate, up and product, or up and activation."""
    return 3.0 if feed_forward.gated else 2.0


def _outputs(tensors: tuple[Tensor, ...], group: LayerGroup, parallelism: Parallelism) -> float:
    heads = kv_heads(group)
    return sum(
        rank_shape(tensor, parallelism, heads)[2]
        for tensor in tensors
        if tensor.is_matrix and tensor.tensor_class in _MIXER_CLASSES
    )


_MIXER_CLASSES = frozenset({TensorClass.ATTENTION, TensorClass.STATE})
