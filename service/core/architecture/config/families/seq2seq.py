"""Encoder–decoder models: T5, BART and their kin for text, Whisper for speech.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from service.core.architecture.config.fields import (
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCABULARY,
    Fields,
)
from service.core.architecture.config.parts import linear, norm
from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    Encoder,
    LayerGroup,
    ModelArchitecture,
    Span,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Reads an encoder–decoder model.
Seq2SeqBuilder: TypeAlias = Callable[[Fields, str], ModelArchitecture]

#: Rows of BART's position tables before the first position (BartLearnedPositionalEmbedding).
_POSITION_OFFSET = 2
#: Width of both of Whisper's convolutions over time (WhisperEncoder).
_KERNEL = 3
#: A window of Whisper [s] (WhisperFeatureExtractor, chunk_length).
_WINDOW_S = 30.0


@dataclass(frozen=True, slots=True)
class Stack:
    """One side of a model: what its layers have in common."""

    hidden: int
    heads: int
    head_dim: int
    inner: int
    layers: int
    gated: bool = False
    biases: bool = True
    key_bias: bool = True


def _attention(stack: Stack, name: str, *, cached: bool) -> Attention:
    """Attention with as many keys as queries; ``cached`` ones are kept by KV heads."""
    width, kind = stack.heads * stack.head_dim, TensorClass.ATTENTION
    kept = Shard.KV_HEADS if cached else Shard.COLUMN
    tensors = (
        *linear(f"{name}.q_proj", kind, stack.hidden, width, Shard.COLUMN, bias=stack.biases),
        *linear(
            f"{name}.k_proj", kind, stack.hidden, width, kept, bias=stack.biases and stack.key_bias
        ),
        *linear(f"{name}.v_proj", kind, stack.hidden, width, kept, bias=stack.biases),
        *linear(f"{name}.out_proj", kind, width, stack.hidden, Shard.ROW, bias=stack.biases),
    )
    dim = stack.head_dim
    return Attention(stack.heads, stack.heads, dim, dim, Span.FULL, None, False, tensors)


def _feed_forward(stack: Stack) -> DenseFeedForward:
    kind = TensorClass.DENSE_FFN
    tensors: tuple[Tensor, ...] = ()
    for name in ("wi_0", "wi_1") if stack.gated else ("fc1",):
        tensors += linear(name, kind, stack.hidden, stack.inner, Shard.COLUMN, bias=stack.biases)
    tensors += linear("fc2", kind, stack.inner, stack.hidden, Shard.ROW, bias=stack.biases)
    return DenseFeedForward(stack.inner, stack.gated, tensors)


def layers_of(stack: Stack, *, crosses: bool) -> LayerGroup:
    """The layers of one side alike; a decoder's attend to the encoder, too."""
    names = ("self_attn", "cross_attn", "ffn") if crosses else ("self_attn", "ffn")
    return LayerGroup(
        count=stack.layers,
        mixer=_attention(stack, "self_attn", cached=crosses),
        feed_forward=_feed_forward(stack),
        norms=tuple(
            tensor
            for name in names
            for tensor in norm(f"{name}_norm", stack.hidden, bias=stack.biases)
        ),
        cross=_attention(stack, "cross_attn", cached=True) if crosses else None,
    )


def _table(name: str, width: int, rows: int) -> Tensor:
    return Tensor(name, TensorClass.EMBEDDING, width, rows, Shard.REPLICATED)


def _assembled(
    fields: Fields,
    model_type: str,
    encoder: Encoder,
    decoder: Stack,
    *,
    tables: tuple[Tensor, ...],
    final: tuple[Tensor, ...],
    positions: int | None,
) -> ModelArchitecture:
    """A model whose decoder attends to an encoder; both share the table of the vocabulary."""
    hidden = decoder.hidden
    vocabulary = fields.size("vocab_size", maximum=MAX_VOCABULARY)
    tied = fields.flag("tie_word_embeddings")
    head = final
    if not tied:
        head += (Tensor("lm_head", TensorClass.HEAD, hidden, vocabulary, Shard.VOCABULARY),)
    words = Tensor("shared", TensorClass.EMBEDDING, hidden, vocabulary, Shard.VOCABULARY)
    return ModelArchitecture(
        model_type=model_type,
        hidden_size=hidden,
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        tied_embeddings=tied,
        groups=(layers_of(decoder, crosses=True),),
        embedding=(words, *tables),
        head=head,
        other=encoder.tensors,
        encoder=encoder,
    )


def _t5(fields: Fields, model_type: str) -> ModelArchitecture:
    """T5: biases of attention by relative distance, one table a side; no other biases."""
    hidden, heads = fields.size("d_model"), fields.size("num_heads")
    layers = fields.size("num_layers", MAX_LAYERS)
    activation = fields.text("feed_forward_proj") or "relu"
    encoder = Stack(
        hidden,
        heads,
        fields.size("d_kv"),
        fields.size("d_ff"),
        layers,
        gated=activation.startswith("gated"),
        biases=False,
    )
    later = fields.optional_size("num_decoder_layers", MAX_LAYERS) or layers
    buckets = fields.size("relative_attention_num_buckets")
    # umT5 has a table in every layer.
    each = fields.flag("relative_attention_each_layer")
    distances = Tensor(
        "relative_attention_bias",
        TensorClass.OTHER,
        1,
        buckets * heads,
        Shard.REPLICATED,
        encoder.layers if each else 1,
    )
    stem = (distances, *norm("encoder.final_layer_norm", hidden))
    return _assembled(
        fields,
        model_type,
        Encoder(hidden, (layers_of(encoder, crosses=False),), stem),
        replace(encoder, layers=later),
        tables=(replace(distances, copies=later if each else 1),),
        final=norm("decoder.final_layer_norm", hidden),
        positions=None,
    )


def stack_of(fields: Fields, side: str) -> Stack:
    """Encoder or decoder of a model of BART's form."""
    hidden, heads = fields.size("d_model"), fields.size(f"{side}_attention_heads")
    if hidden % heads:
        raise fields.fault(f"{side}_attention_heads", f"must divide the width {hidden:,}")
    return Stack(
        hidden,
        heads,
        hidden // heads,
        fields.size(f"{side}_ffn_dim"),
        fields.size(f"{side}_layers", MAX_LAYERS),
    )


def _bart(
    fields: Fields, model_type: str, *, final_norm: bool, learned_positions: bool = True
) -> ModelArchitecture:
    """BART and, with norms after the last layers, mBART; sinusoids are not stored."""
    encoder, decoder = stack_of(fields, "encoder"), stack_of(fields, "decoder")
    hidden = encoder.hidden
    positions = fields.size("max_position_embeddings", maximum=MAX_POSITIONS)
    tables: tuple[Tensor, ...] = ()
    if learned_positions:
        tables = (_table("embed_positions", hidden, positions + _POSITION_OFFSET),)
    names = ["layernorm_embedding"] if learned_positions else []
    names += ["layer_norm"] if final_norm else []
    norms = tuple(tensor for name in names for tensor in norm(name, hidden, bias=True))
    return _assembled(
        fields,
        model_type,
        Encoder(hidden, (layers_of(encoder, crosses=False),), tables + norms),
        decoder,
        tables=tables,
        final=norms,
        positions=positions,
    )


def audio_encoder(fields: Fields) -> Encoder:
    """Whisper's encoder, which other models that hear have, too."""
    layers = replace(stack_of(fields, "encoder"), key_bias=False)
    hidden, bands = layers.hidden, fields.size("num_mel_bins")
    window = fields.size("max_source_positions", maximum=MAX_POSITIONS)
    stem = (
        *linear("conv1", TensorClass.OTHER, bands * _KERNEL, hidden, Shard.REPLICATED, bias=True),
        *linear("conv2", TensorClass.OTHER, hidden * _KERNEL, hidden, Shard.REPLICATED, bias=True),
        _table("encoder.embed_positions", hidden, window),
        *norm("encoder.layer_norm", hidden, bias=True),
    )
    return Encoder(
        hidden,
        (layers_of(layers, crosses=False),),
        stem,
        window_positions=window,
        window_s=_WINDOW_S,
    )


def _whisper(fields: Fields, model_type: str) -> ModelArchitecture:
    """Whisper: two convolutions make half as many positions as the spectrogram has frames.

    References
    ----------
    Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 2.2,
    https://arxiv.org/abs/2212.04356
    """
    decoder = replace(stack_of(fields, "decoder"), key_bias=False)
    hidden = decoder.hidden
    positions = fields.size("max_target_positions", maximum=MAX_POSITIONS)
    return _assembled(
        fields,
        model_type,
        audio_encoder(fields),
        decoder,
        tables=(_table("decoder.embed_positions", hidden, positions),),
        final=norm("decoder.layer_norm", hidden, bias=True),
        positions=positions,
    )


_T5_DEFAULTS: Mapping[str, object] = {
    "tie_word_embeddings": True,
    "relative_attention_num_buckets": 32,
    "relative_attention_each_layer": False,
}
_MT5_DEFAULTS: Mapping[str, object] = {
    **_T5_DEFAULTS,
    "tie_word_embeddings": False,
    "feed_forward_proj": "gated-gelu",
}
_TIED: Mapping[str, object] = {"tie_word_embeddings": True}
_WHISPER_DEFAULTS: Mapping[str, object] = {
    **_TIED,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}

#: Builders by ``model_type``, with the defaults of their configurations.
SEQ2SEQ_MODELS: Mapping[str, tuple[Seq2SeqBuilder, Mapping[str, object]]] = {
    "t5": (_t5, _T5_DEFAULTS),
    "mt5": (_t5, _MT5_DEFAULTS),
    "umt5": (_t5, {**_MT5_DEFAULTS, "relative_attention_each_layer": True}),
    "bart": (partial(_bart, final_norm=False), _TIED),
    "mbart": (partial(_bart, final_norm=True), _TIED),
    "pegasus": (partial(_bart, final_norm=True, learned_positions=False), _TIED),
    "whisper": (_whisper, _WHISPER_DEFAULTS),
}
