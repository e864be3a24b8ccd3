"""Bytes that sequences keep on an accelerator: keys and values, latents, indexes and states.

Every kind of layer is reduced once per deployment to a :class:`CacheLayout`: bytes per token of
layers that see everything, bytes per token and window of layers that do not, and bytes per
sequence of constant states. Sequence sizes follow from it by page arithmetic.

References
----------
vllm-project/vllm, vllm/v1/kv_cache_interface.py, 2026 (page sizes and pages by kind of layer),
https://github.com/vllm-project/vllm; Kwon et al., Efficient Memory Management for Large Language
Model Serving with PagedAttention, 2023, https://arxiv.org/abs/2309.06180
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil as whole
from typing import TypeAlias

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    Mixer,
    ModelArchitecture,
    Span,
    StateMixer,
)
from service.core.architecture.sharding import stage_layer_counts
from service.core.deployment import Parallelism
from service.core.elementwise import Number, ceil, minimum
from service.core.number_formats import NumberFormat

#: Recurrent states are kept in 32 bit, convolution tails in the 16 bit of activations.
#: Source: ggml-org/llama.cpp (both 32 bit) and SGLang's pools, 2026. vLLM keeps both in 16 bit
#: unless the checkpoint asks for more ("mamba_ssm_dtype": "float32"; mamba_utils.py, 2026).
RECURRENT_STATE_BYTES = 4.0
NARROW_STATE_BYTES = CONVOLUTION_STATE_BYTES = 2.0
#: Kinds of models whose layers with a window have a pool of their own where pools are by kind of
#: layer. Others, Gemma 2 and 3 among them, have one pool for all.
#: Source: sgl-project/sglang, python/sglang/srt/configs/model_config.py, is_hybrid_swa_model, 2026.
_POOLED_WINDOWS = frozenset(
    {"gemma4_text", "gpt_oss", "granite_swa", "llama4_text", "mimo_v2_flash", "step3p5"}
)
#: Groups of layers are as large as the larger kind if that has fewer than this times as many (vLLM,
#: v1/core/kv_cache_utils.py, 2025).
_NEARLY_AS_MANY = 1.25
#: A kind of layers: of a window, chunked or not, of a state by its name, or of all tokens (None).
_Kind: TypeAlias = tuple[int, bool] | str | None
#: Bytes of each element of keys by which blocks are chosen, kept in 16 bits (transformers 5.23).
INDEX_KEY_BYTES = 2.0

#: Elements that share one 32-bit scale in 8-bit latent caches and in the index keys of sparse
#: attention. Source: vLLM fp8_ds_mla layout (512 × 8 bit + 4 × 32 bit + 64 × 16 bit = 656 bytes)
#: and DeepSeek V3.2 indexer cache, 2025.
LATENT_SCALE_BLOCK = 128


@dataclass(frozen=True, slots=True)
class WindowedCache:
    """Layers that keep a window: bytes per token over all of them, and how the window moves."""

    bytes_per_token: float
    window_tokens: int
    chunked: bool

    @property
    def name(self) -> str:
        """Kind and size of the window."""
        return f"{'chunk' if self.chunked else 'window'}_{self.window_tokens}"


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """What one sequence keeps on one rank of a pipeline stage.

    ``full_bytes_per_token`` grows with every token; ``windowed`` layers stop growing at their
    window; ``state_bytes`` is constant. ``context_ranks`` share the tokens of full layers.
    ``encoded_bytes_per_token`` are kept for each feature of an encoder, which are a constant number
    once it has run. Where layers share pages in groups, a token in each of all groups takes
    ``grouped_bytes_per_token``.
    """

    full_bytes_per_token: float
    windowed: tuple[WindowedCache, ...]
    state_bytes: Number
    block_tokens: int
    context_ranks: int
    encoded_bytes_per_token: float = 0.0
    grouped_bytes_per_token: float = 0.0

    def beside(self, encoded_tokens: Number) -> CacheLayout:
        """The same where a sequence keeps so many features of an encoder, in whole pages."""
        if not self.encoded_bytes_per_token:
            return self
        pages = ceil(encoded_tokens / self.block_tokens)
        kept = self.encoded_bytes_per_token * self.block_tokens * pages
        return replace(self, state_bytes=self.state_bytes + kept)

    @property
    def windowed_bytes_per_token(self) -> float:
        """Bytes per token of windowed layers, while within their windows [B/token]."""
        return sum(part.bytes_per_token for part in self.windowed)


@lru_cache(maxsize=4096)
def cache_layout(
    architecture: ModelArchitecture,
    kv_format: NumberFormat,
    parallelism: Parallelism,
    block_tokens: int = 16,
    stage: int | None = None,
    *,
    cross_attended: bool = False,
    pages_windows: bool = False,
    windows_ratio: float = 1.0,
    pages_shared: bool = False,
    keeps_passed: bool = False,
    groups_layers: bool = False,
    narrow_states: bool = False,
) -> CacheLayout:
    """What a sequence keeps on a rank of one pipeline stage, or of the deepest one if None.

    Where layers differ, each stage is taken to hold every kind in proportion. Models that do not
    generate keep nothing. With ``cross_attended`` layers that look at images are given as many
    pages as the others; with ``pages_windows`` so are layers with a window beside others without,
    for ``windows_ratio`` of all tokens in models whose windows have a pool of their own, with
    ``pages_shared`` layers that read caches of others, and with ``keeps_passed`` any attention
    whose window has passed tokens. With ``groups_layers``
    pages are of as many layers of any kind, some of which none may have, and with ``narrow_states``
    states are in 16 bit unless they are wide.
    """
    if not architecture.generates:
        return CacheLayout(0.0, (), 0.0, block_tokens, parallelism.context)
    counts = stage_layer_counts(architecture.layer_count, parallelism.pipeline)
    layers = max(counts) if stage is None else counts[stage]
    share = layers / architecture.layer_count
    ranks = parallelism.tensor
    full = 0.0
    state = encoded = 0.0
    windowed: dict[tuple[int, bool], float] = {}
    kept: dict[_Kind, float] = {}
    images = architecture.images
    every = cross_attended and images is not None and images.cross_attended
    every = every or pages_shared
    windows_ratio = windows_ratio if architecture.model_type in _POOLED_WINDOWS else 1.0
    paged = keeps_passed or (
        pages_windows and any(_sees_all(group.mixer) for group in architecture.groups)
    )
    for group in architecture.groups:
        held = group.count * share
        if group.cross is not None:
            encoded += held * _attention_entry_bytes(group.cross, kv_format, ranks)
        match group.mixer:
            case Attention(shares_kv=shared) as attention if every or not shared:
                entry = held * _attention_entry_bytes(attention, kv_format, ranks)
                if attention.window_tokens is None:
                    full += entry
                    kept[None] = kept.get(None, 0.0) + held
                elif paged:
                    full += windows_ratio * entry
                    kept[None] = kept.get(None, 0.0) + held
                else:
                    key = (attention.window_tokens, attention.span is Span.CHUNKED)
                    windowed[key] = windowed.get(key, 0.0) + entry
                    kept[key] = kept.get(key, 0.0) + held
            case LatentAttention() as latent:
                entry = held * _latent_entry_bytes(latent, kv_format) / latent.tokens_per_entry
                if latent.window_tokens is None:
                    full += entry
                else:
                    key = (latent.window_tokens, False)
                    windowed[key] = windowed.get(key, 0.0) + entry
            case StateMixer() as mixer:
                narrow = narrow_states and not mixer.wide
                state += held * _state_bytes(mixer, ranks, narrow=narrow)
                kept[mixer.kind] = kept.get(mixer.kind, 0.0) + held
            case _:
                pass
    grouped = 0.0
    if groups_layers and len(kept) > 1 and None in kept:
        filled = _filled_ratios(kept)
        layers_of_groups = sum(count * filled[kind] for kind, count in kept.items())
        grouped = full / kept[None] * layers_of_groups
        full *= filled[None]
        windowed = {key: size * filled[key] for key, size in windowed.items() if key in filled}
    return CacheLayout(
        full_bytes_per_token=full,
        windowed=tuple(
            WindowedCache(size, window, chunked)
            for (window, chunked), size in sorted(windowed.items())
        ),
        state_bytes=state,
        block_tokens=block_tokens,
        context_ranks=parallelism.context,
        encoded_bytes_per_token=encoded,
        grouped_bytes_per_token=grouped,
    )


def _filled_ratios(kept: Mapping[_Kind, float]) -> dict[_Kind, float]:
    """Layers of whole groups over those of each kind, where all kinds share pages [-]."""
    most, fewest = max(kept.values()), min(kept.values())
    group = most if most < _NEARLY_AS_MANY * fewest else fewest
    return {kind: whole(round(count / group, 6)) * group / count for kind, count in kept.items()}


def _sees_all(mixer: Mixer | None) -> bool:
    """Whether a layer attends to all tokens, so that it keeps all of them."""
    return isinstance(mixer, Attention | LatentAttention) and mixer.window_tokens is None


def layout_sequence_bytes(layout: CacheLayout, tokens: Number, step_tokens: Number = 1.0) -> Number:
    """Bytes that a sequence of ``tokens`` keeps, in whole pages [B].

    Parameters
    ----------
    layout
        What the rank keeps.
    tokens
        Tokens of the sequence so far [token].
    step_tokens
        Tokens of this sequence that one step may add: 1 while decoding, up to the scheduler's
        batch while prefilling [token]. Windowed layers hold them beside the window until the
        step is over.
    """
    block = layout.block_tokens
    size: Number = layout.state_bytes
    if layout.full_bytes_per_token:
        tokens_here = tokens if layout.context_ranks == 1 else ceil(tokens / layout.context_ranks)
        size = size + layout.full_bytes_per_token * block * ceil(tokens_here / block)
    for part in layout.windowed:
        size = size + windowed_bytes(layout, part, tokens, step_tokens)
    return size


def windowed_bytes(
    layout: CacheLayout, part: WindowedCache, tokens: Number, step_tokens: Number = 1.0
) -> Number:
    """Bytes that layers of one window keep of a sequence; as :func:`layout_sequence_bytes` [B]."""
    pages = window_pages(part, layout.block_tokens, tokens, step_tokens)
    return part.bytes_per_token * layout.block_tokens * pages


def window_pages(
    part: WindowedCache, block_tokens: int, tokens: Number, step_tokens: Number
) -> Number:
    """Pages that a windowed layer holds for one sequence.

    A sliding window may start and end within a page, hence one page more once it slides; a
    chunked window starts at a page.
    """
    if part.chunked:
        return ceil(minimum(part.window_tokens + step_tokens, tokens) / block_tokens)
    held = ceil(minimum(part.window_tokens - 1 + step_tokens, tokens) / block_tokens) + 1.0
    # A sequence shorter than its window cannot touch more pages than it has.
    return minimum(held, ceil(tokens / block_tokens))


def _attention_entry_bytes(attention: Attention, kv_format: NumberFormat, ranks: int) -> float:
    heads = whole(attention.kv_heads / ranks)
    index = 0.0
    if attention.index_head_dim is not None:
        index = INDEX_KEY_BYTES * attention.index_head_dim
    return index + heads * (
        kv_format.vector_bytes(attention.head_dim)
        + kv_format.vector_bytes(attention.value_head_dim)
    )


def _latent_entry_bytes(latent: LatentAttention, kv_format: NumberFormat) -> float:
    if latent.indexer_head_dim is None:
        held = 0 if latent.shares_kv else latent.kv_lora_rank + latent.qk_rope_head_dim
        return kv_format.vector_bytes(held)
    index = latent.indexer_head_dim + 4.0 * whole(latent.indexer_head_dim / LATENT_SCALE_BLOCK)
    if latent.shares_kv:
        return index
    if kv_format.bytes_per_element > 1.5:
        return index + kv_format.vector_bytes(latent.kv_lora_rank + latent.qk_rope_head_dim)
    # Eight bits and fewer: the latent is scaled in blocks and the rotary part stays in 16 bit.
    scales = 4.0 * whole(latent.kv_lora_rank / LATENT_SCALE_BLOCK)
    return (
        index + kv_format.vector_bytes(latent.kv_lora_rank) + scales + 2.0 * latent.qk_rope_head_dim
    )


def _state_bytes(mixer: StateMixer, ranks: int, *, narrow: bool) -> float:
    divided = min(ranks, mixer.heads)
    each = NARROW_STATE_BYTES if narrow else RECURRENT_STATE_BYTES
    return (
        mixer.recurrent_state_elements * each
        + mixer.convolution_state_elements * CONVOLUTION_STATE_BYTES
    ) / divided
