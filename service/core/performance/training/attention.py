"""Attention in training: what of it is computed beside what is asked for, and how long it takes."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    ModelArchitecture,
    Span,
)
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.elementwise import Number, minimum
from service.core.memory.training.settings import TrainingSettings
from service.core.performance.attended import AttentionWork
from service.core.performance.kernels import OPERAND_BITS, peak_flops_per_s
from service.core.performance.steps import StepLoad

#: Tokens of a block of attention where vectors are filled up: 1,024 or 2,048 forward and 2,048
#: backward, weighed by their work. What a mask hides of a block is multiplied with the rest.
#: Source: Google, tpu-recipes, training/ironwood, 2026 (sa_block_q, sa_block_kv and of gradients);
#: jax-ml/jax, splash_attention_kernel.py, 2025 (only blocks that are hidden whole are left out).
_BLOCK_TOKENS = 2048

#: Time of attention in 8 bit over that in 16: the softmax between its products stays as it is.
#: Source: Shah et al., FlashAttention-3, 2024, abstract (740 and 1,200 TFLOPS on an H100), forward,
#: https://arxiv.org/abs/2407.08608; the backward pass is taken to gain as much.
_FP8_ATTENTION_RATIO = 740.0 / 1200.0

#: Time of attention by the first FlashAttention over that by its successor, forward and backward:
#: 1.7 to 3.0 by its kernels of CUDA, 1.3 to 2.5 by those of Triton, so that both are within 1.7 to
#: 2.5. The lower end is taken, as trainers preferred the faster of them.
#: Source: Dao, FlashAttention-2, 2023, section 4.1, https://arxiv.org/abs/2307.08691.
_FIRST_FLASH_RATIO = 1.7

#: Features of heads for which the share of peak that attention reaches is stated, as most have.
_USUAL_FEATURES = 128.0


class Heads(NamedTuple):
    """How attention computes: operands, time by its kernels over that by today's, and features.

    ``per_feature`` is one over the features that each of two products of a score has, averaged
    over the work of all layers, filled lanes counting.
    """

    precision: str
    kernels_ratio: float
    per_feature: float

    def slowdown(self, accelerator: Accelerator, score_features: Number) -> Number:
        """Time over that of today's kernels for as much work of usual heads in 16 bit [-].

        Parameters
        ----------
        accelerator
            Gives the peaks of its operands.
        score_features
            For how many features of a head a score's exponential and sums take as long as its
            products do: narrow heads have fewer features beside the same softmax [-].

        References
        ----------
        Shah et al., FlashAttention-3, 2024, figures 5 and 6, https://arxiv.org/abs/2407.08608
        """
        softmax = (1.0 + score_features * self.per_feature) / (
            1.0 + score_features / _USUAL_FEATURES
        )
        if self.precision == "bf16":
            return self.kernels_ratio * softmax
        if self.precision == "fp8":
            return _FP8_ATTENTION_RATIO * softmax
        usual, _ = peak_flops_per_s(accelerator, "bf16")
        wider, _ = peak_flops_per_s(accelerator, self.precision)
        return self.kernels_ratio * softmax * usual / wider


def attention_of(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    lanes: float | None,
) -> tuple[AttentionWork, ...]:
    """Attention of every group of layers; latents are expanded to heads, as training does.

    Unfused kernels multiply masked pairs as well, and vectors of so many lanes what fills up heads
    and blocks: a window lies in one block more than it is long.
    """
    masked = masked_pairs_ratio(settings)
    attention = []
    for group in architecture.groups:
        match group.mixer:
            case Attention() as mixer:
                heads_of = (mixer.head_dim, mixer.value_head_dim)
                window = mixer.window_tokens or mixer.chosen_tokens
                chunked = mixer.span is Span.CHUNKED
            case LatentAttention() as mixer:
                heads_of = (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim, mixer.v_head_dim)
                window, chunked = mixer.attended_tokens, False
            case _:
                continue
        width = sum(filled(features, lanes) for features in heads_of)
        if lanes is not None and isinstance(mixer, Attention) and window is not None:
            block = _BLOCK_TOKENS
            window = ceil(window / block) * block + (0 if chunked else block)
        heads = ceil(mixer.query_heads / parallelism.tensor)
        summed = mixer.tokens_per_entry if isinstance(mixer, LatentAttention) else 1
        attention.append(
            AttentionWork(
                layers=group.count,
                flops_per_pair=group.count * 2.0 * heads * width * masked / summed,
                cache_bytes_per_token=0.0,
                window_tokens=window,
                chunked=chunked,
                scores_per_pair=group.count * heads / summed,
            )
        )
    return tuple(attention)


def heads_of(
    attention: tuple[AttentionWork, ...], precision: Precision, settings: TrainingSettings
) -> Heads:
    """How attention with so much work computes."""
    flops = sum(one.flops_per_pair for one in attention) / masked_pairs_ratio(settings)
    # Each of a score's two products takes two operations for a feature.
    scores = 4.0 * sum(one.scores_per_pair for one in attention)
    return Heads(
        _operands(precision, settings),
        _FIRST_FLASH_RATIO if settings.attention == "flash-1" else 1.0,
        scores / flops if flops else 1.0 / _USUAL_FEATURES,
    )


def in_blocks(load: StepLoad, span_tokens: Number, settings: TrainingSettings) -> StepLoad:
    """A load whose tokens attend to all of the blocks that a causal mask leaves in part.

    Half a block more for the average token; unfused kernels multiply whole squares anyway.

    Parameters
    ----------
    load
        What is computed, in which each token attends to those before it.
    span_tokens
        Tokens of a sequence, or of a document in it.
    settings
        Which kernels run.
    """
    if settings.attention == "eager":
        return load
    beside = minimum(span_tokens, _BLOCK_TOKENS) / 2.0
    return replace(load, prefill_context_tokens=load.prefill_context_tokens + beside)


def masked_pairs_ratio(settings: TrainingSettings) -> float:
    """Pairs of tokens that kernels of attention multiply over those that no mask hides [-].

    Unfused kernels multiply whole squares of which a causal mask hides half.
    """
    return 2.0 if settings.attention == "eager" else 1.0


def filled(features: float, lanes: float | None) -> float:
    """Features with those that fill up the last matrix unit [-]."""
    return features if lanes is None else ceil(features / lanes) * lanes


def _operands(precision: Precision, settings: TrainingSettings) -> str:
    if OPERAND_BITS[precision.activations.matrix_precision] > 16:
        return "fp32"
    return "fp8" if settings.attention == "flash-fp8" else "bf16"
