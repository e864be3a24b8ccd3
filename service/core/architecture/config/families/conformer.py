"""Phi-4-multimodal's ears: a conformer, as Hugging Face transformers has it.

https://github.com/huggingface/transformers, Phi4MultimodalAudioModel, 2025–2026.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import linear, norm, vector
from service.core.architecture.model import (
    Attention,
    AudioEncoder,
    DenseFeedForward,
    Encoder,
    LayerGroup,
    Span,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_OTHER = TensorClass.OTHER
#: Taps of the convolutions that make fewer positions, along both of their sides.
_NINE = 9
#: Positions encoded together (Phi4MultimodalAudioModel, max_seq_len), and spectra a second.
_WINDOW, _FRAMES_PER_S = 500, 100.0
#: Each of two feed-forward parts stands on one side of attention.
_PARTS = 2


def _conv(name: str, taps: int, inputs: int, outputs: int) -> tuple[Tensor, ...]:
    return linear(name, _OTHER, taps * inputs, outputs, Shard.REPLICATED, bias=True)


def _stem(fields: Fields, hidden: int, steps: int) -> tuple[Tensor, ...]:
    channels = fields.size("nemo_conv_channels")
    bands = fields.size("input_size")
    tensors = _conv("embed.conv.0", _NINE, 1, channels)
    left = (bands + 1) // 2
    for step in range(1, steps):
        tensors += _conv(f"embed.conv.{step}.depth", _NINE, 1, channels)
        tensors += _conv(f"embed.conv.{step}.point", 1, channels, channels)
        left = (left + 1) // 2
    buckets = fields.size("bias_max_distance", 10**6)
    buckets *= 1 if fields.flag("bias_symmetric") else 2
    return (
        *tensors,
        *_conv("embed.out", 1, channels * left, hidden),
        vector("relative_attention_bias", buckets * fields.size("num_attention_heads")),
        # Mean and deviation of each band.
        vector("global_norm", 2 * bands),
    )


def _layer(fields: Fields, hidden: int) -> LayerGroup:
    heads, inner = fields.size("num_attention_heads"), fields.size("intermediate_size")
    if hidden % heads:
        raise fields.fault("num_attention_heads", f"must divide the width {hidden:,}")
    outer, taps = fields.size("ext_pw_out_channel"), fields.size("kernel_size", 1000)
    kind, part = TensorClass.ATTENTION, TensorClass.DENSE_FFN
    tensors: tuple[Tensor, ...] = ()
    for name in ("q_proj", "k_proj", "v_proj"):
        tensors += linear(name, kind, hidden, hidden, Shard.COLUMN, bias=True)
    tensors += linear("o_proj", kind, hidden, hidden, Shard.ROW, bias=True)
    tensors += (
        *norm("conv.layer_norm", hidden, bias=True),
        *_conv("conv.glu", 1, hidden, 2 * outer),
        vector("conv.glu.shifts", 2 * outer),
        *_conv("conv.depth", taps, 1, hidden),
        *_conv("conv.point", 1, hidden, hidden),
        *_conv("conv.out", 1, hidden, outer),
    )
    parts: tuple[Tensor, ...] = ()
    for name in ("feed_forward_in", "feed_forward_out"):
        parts += norm(f"{name}.layer_norm", hidden, bias=True)
        parts += linear(f"{name}.gate_up_proj", part, hidden, 2 * inner, Shard.COLUMN, bias=True)
        parts += linear(f"{name}.down_proj", part, inner, hidden, Shard.ROW, bias=True)
    width = hidden // heads
    return LayerGroup(
        count=fields.size("num_blocks", MAX_LAYERS),
        mixer=Attention(heads, heads, width, width, Span.FULL, None, False, tensors),
        feed_forward=DenseFeedForward(_PARTS * inner, True, parts),
        norms=norm("layer_norm_att", hidden, bias=True) + norm("layer_norm", hidden, bias=True),
    )


def phi4_audio(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Eight spectra make a position, projected otherwise where there are images, too.

    Windows of 500 positions are encoded at a time, a shorter one at its length.
    """
    hidden = fields.size("hidden_size")
    reduction = fields.size("time_reduction", 1024)
    steps = reduction.bit_length() - 1
    if reduction != 1 << steps or not steps:
        raise fields.fault("time_reduction", "must be a power of two above one")
    encoder = Encoder(
        hidden,
        (_layer(fields, hidden),),
        _stem(fields, hidden, steps),
        window_positions=_WINDOW,
        window_s=_WINDOW * reduction / _FRAMES_PER_S,
    )
    projector: tuple[Tensor, ...] = ()
    for name in ("speech", "vision_speech"):
        projector += linear(
            f"up_proj_for_{name}", _OTHER, hidden, text_hidden, Shard.COLUMN, bias=True
        )
        projector += linear(
            f"down_proj_for_{name}", _OTHER, text_hidden, text_hidden, Shard.ROW, bias=True
        )
    return AudioEncoder(encoder, 1, projector)


PHI4_AUDIO: Mapping[str, object] = {
    "hidden_size": 1024,
    "intermediate_size": 1536,
    "num_blocks": 24,
    "num_attention_heads": 16,
    "ext_pw_out_channel": 1024,
    "kernel_size": 3,
    "input_size": 80,
    "time_reduction": 8,
    "bias_max_distance": 1000,
    "bias_symmetric": False,
    "nemo_conv_channels": 1024,
}
