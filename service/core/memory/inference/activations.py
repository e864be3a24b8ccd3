"""Peak of temporary tensors during an inference step on one rank.

A step's peak is the larger of two moments: inside the widest layer, where the layer's
intermediate results stand beside the residual stream; and after the last layer, where logits are
turned into probabilities for every sampled sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    FeedForward,
    LatentAttention,
    LayerGroup,
    ModelArchitecture,
)
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.architecture.tensors import Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.elementwise import Number, maximum
from service.core.number_formats import NumberFormat

#: Copies of the residual stream alive inside a layer: the residual itself, the normalised input of
#: the block and the block's output. Source: order of operations in the decoder layers of Hugging
#: Face transformers and vLLM, 2024 (fused add and norm keeps input and residual apart).
RESIDUAL_COPIES = 4.0


@dataclass(frozen=True, slots=True)
class StepPeak:
    """Temporary bytes of a step on one rank, as coefficients.

    ``layer_bytes_per_token`` for every token of the step inside the widest layer;
    ``vocabulary_entries`` are logits per sampled sequence on the rank that samples.
    """

    layer_bytes_per_token: float
    vocabulary_entries: float


@lru_cache(maxsize=1024)
def step_peak(
    architecture: ModelArchitecture, activations_format: NumberFormat, parallelism: Parallelism
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

    References
    ----------
    Shazeer, GLU Variants Improve Transformer, 2020, https://arxiv.org/abs/2002.05202 (gate, up
    and product stand side by side); vLLM LogitsProcessor, 2024 (gather of logits).
    """
    width = max(activations_format.bytes_per_element, 2.0)
    widest = max(
        max(
            _mixer_elements(group, parallelism),
            _feed_forward_elements(group, parallelism, architecture.hidden_size),
        )
        for group in architecture.groups
    )
    residual = RESIDUAL_COPIES * architecture.hidden_size
    return StepPeak(
        layer_bytes_per_token=(residual + widest) * width,
        vocabulary_entries=float(architecture.vocab_size) if architecture.generates else 0.0,
    )


def step_peak_bytes(
    peak: StepPeak, step_tokens: Number, sampled_sequences: Number, bytes_per_logit: Number
) -> Number:
    """Temporary bytes at the worst moment of a step [B].

    Parameters
    ----------
    peak
        Coefficients of the deployment.
    step_tokens
        Tokens computed in one step [token].
    sampled_sequences
        Sequences whose next token is sampled [-].
    bytes_per_logit
        Bytes that sampling takes per logit: the logits themselves in 16 and in 32 bit,
        probabilities, and what sorting for top-k and top-p takes [B].
    """
    inside = peak.layer_bytes_per_token * step_tokens
    sampling = peak.vocabulary_entries * sampled_sequences * bytes_per_logit
    return maximum(inside, sampling)


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


def _feed_forward_elements(group: LayerGroup, parallelism: Parallelism, hidden_size: int) -> float:
    """Elements per token that a feed-forward part produces beside the residual stream."""
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
            routed = routed / min(parallelism.expert, parallelism.tensor)
            shared = _wide_results(moe) * moe.shared_intermediate_size / parallelism.tensor
            return routed + shared


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
