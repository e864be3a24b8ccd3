"""Models that read audio among the tokens of the prompt: an audio encoder and a projection.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from service.core.architecture.config.families.conformer import PHI4_AUDIO, phi4_audio
from service.core.architecture.config.families.seq2seq import audio_encoder, layers_of, stack_of
from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import linear, norm
from service.core.architecture.model import AudioEncoder, Encoder
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Reads the audio section, given the language model's hidden size.
AudioReader: TypeAlias = Callable[[Fields, int], AudioEncoder]

#: Positions that Qwen2-Audio makes one of before it projects them.
_QWEN2_POOLED = 2
#: Positions that Voxtral and GLM-ASR join to one.
_JOINED = 4
#: Width between the projections of Step-Audio 2 (modeling_step_audio_2.py, Adaptor).
_STEP_AUDIO_INNER = 2048
#: Frames of a spectrogram in a second (WhisperFeatureExtractor, hop_length 160 at 16 kHz).
_FRAMES_PER_S = 100.0
#: Convolutions of Qwen3's audio encoder, each of 3 × 3 with a step of two.
_CONVOLUTIONS, _TAPS = 3, 9


def _qwen2_audio(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Qwen2-Audio: pairs of positions are averaged and projected; silence has no tokens.

    References
    ----------
    Chu et al., Qwen2-Audio Technical Report, 2024, section 2, https://arxiv.org/abs/2407.10759
    """
    encoder = audio_encoder(fields)
    projector = linear(
        "multi_modal_projector",
        TensorClass.OTHER,
        encoder.hidden_size,
        text_hidden,
        Shard.COLUMN,
        bias=True,
    )
    return AudioEncoder(encoder, _QWEN2_POOLED, projector)


def _renamed(fields: Fields) -> Fields:
    """A section with Whisper's names of its sizes, where it has a decoder's."""
    if not fields.has("num_hidden_layers"):
        return fields
    return fields.replaced(
        d_model=fields.size("hidden_size"),
        encoder_layers=fields.size("num_hidden_layers", MAX_LAYERS),
        encoder_attention_heads=fields.size("num_attention_heads"),
        encoder_ffn_dim=fields.size("intermediate_size"),
    )


def _two(inputs: int, middle: int, outputs: int, *, bias: bool) -> tuple[Tensor, ...]:
    first = linear("linear_1", TensorClass.OTHER, inputs, middle, Shard.COLUMN, bias=bias)
    return first + linear("linear_2", TensorClass.OTHER, middle, outputs, Shard.ROW, bias=bias)


def _voxtral(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Voxtral: four positions are joined and projected twice."""
    encoder = audio_encoder(_renamed(fields))
    inputs = _JOINED * encoder.hidden_size
    return AudioEncoder(encoder, _JOINED, _two(inputs, text_hidden, text_hidden, bias=False))


def _flamingo(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Audio Flamingo 3: pairs of positions are averaged and projected twice."""
    encoder = audio_encoder(_renamed(fields))
    projector = _two(encoder.hidden_size, text_hidden, text_hidden, bias=True)
    return AudioEncoder(encoder, _QWEN2_POOLED, projector)


def _step_audio(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Step-Audio 2: pairs of positions are averaged, then joined by a convolution."""
    width = fields.size("n_audio_state")
    encoder = audio_encoder(
        fields.replaced(
            d_model=width,
            encoder_layers=fields.size("n_audio_layer", MAX_LAYERS),
            encoder_attention_heads=fields.size("n_audio_head"),
            encoder_ffn_dim=4 * width,
            num_mel_bins=fields.size("n_mels"),
            max_source_positions=fields.size("n_audio_ctx"),
        )
    )
    taps = fields.size("kernel_size", 1000)
    projector = linear(
        "adapter.conv", TensorClass.OTHER, taps * width, width, Shard.REPLICATED, bias=True
    )
    projector += _two(width, _STEP_AUDIO_INNER, text_hidden, bias=True)
    return AudioEncoder(encoder, _JOINED, projector)


def _glm(fields: Fields, text_hidden: int) -> AudioEncoder:
    """GLM-ASR: as Voxtral, with rotary positions, of which no table is stored."""
    encoder = audio_encoder(_renamed(fields))
    stem = tuple(one for one in encoder.stem if one.name != "encoder.embed_positions")
    projector = _two(_JOINED * encoder.hidden_size, 2 * text_hidden, text_hidden, bias=True)
    return AudioEncoder(replace(encoder, stem=stem), _JOINED, projector)


def _qwen25_omni(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Qwen2.5-Omni: as Qwen2-Audio in windows of two seconds, with sinusoids for positions."""
    encoder = audio_encoder(fields)
    window = fields.size("n_window", 100_000)
    stem = tuple(one for one in encoder.stem if one.name != "encoder.embed_positions")
    marks = Tensor("audio_bos_eos_token", TensorClass.EMBEDDING, text_hidden, 2, Shard.REPLICATED)
    projector = linear(
        "proj", TensorClass.OTHER, encoder.hidden_size, text_hidden, Shard.COLUMN, bias=True
    )
    return AudioEncoder(
        replace(
            encoder,
            stem=(*stem, marks),
            window_positions=window,
            window_s=2 * window / _FRAMES_PER_S,
        ),
        _QWEN2_POOLED,
        projector,
    )


def _qwen3(fields: Fields, text_hidden: int) -> AudioEncoder:
    """Qwen3-ASR and Qwen3-Omni: three convolutions make an eighth as many positions of a window.

    Each window is filled up to ``2 n_window`` frames; what several of them attend to each other is
    not counted.
    """
    stack = stack_of(fields, "encoder")
    width, channels = stack.hidden, fields.size("downsample_hidden_size")
    frames, bands = 2 * fields.size("n_window", 100_000), fields.size("num_mel_bins")
    positions, bands_left = frames, bands
    for _ in range(_CONVOLUTIONS):
        positions, bands_left = (positions + 1) // 2, (bands_left + 1) // 2
    other, whole = TensorClass.OTHER, Shard.REPLICATED
    later = _CONVOLUTIONS - 1
    stem = (
        *linear("conv2d1", other, _TAPS, channels, whole, bias=True),
        *linear("conv2d2", other, _TAPS * channels, channels, whole, bias=True, copies=later),
        *linear("conv_out", other, channels * bands_left, width, whole),
        *norm("ln_post", width, bias=True),
    )
    encoder = Encoder(
        width,
        (layers_of(stack, crosses=False),),
        stem,
        window_positions=positions,
        window_s=frames / _FRAMES_PER_S,
    )
    return AudioEncoder(encoder, 1, _two(width, width, text_hidden, bias=True))


_WHISPER_LARGE: Mapping[str, object] = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
}
_QWEN3_ASR: Mapping[str, object] = {
    "d_model": 1024,
    "encoder_layers": 24,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "num_mel_bins": 128,
    "n_window": 50,
    "downsample_hidden_size": 480,
}
_STEP_AUDIO: Mapping[str, object] = {
    "n_mels": 128,
    "n_audio_ctx": 1500,
    "n_audio_state": 1280,
    "n_audio_head": 20,
    "n_audio_layer": 32,
    "kernel_size": 3,
}
_QWEN25_OMNI = {**_WHISPER_LARGE, "n_window": 100}
_QWEN3_OMNI = {**_WHISPER_LARGE, "n_window": 50, "downsample_hidden_size": 480}

#: Readers by the ``model_type`` of the whole, with the defaults of their sections.
AUDIO_ENCODERS: Mapping[str, tuple[AudioReader, Mapping[str, object]]] = {
    "qwen2_audio": (_qwen2_audio, _WHISPER_LARGE),
    "voxtral": (_voxtral, _WHISPER_LARGE),
    "audioflamingo3": (_flamingo, _WHISPER_LARGE),
    "musicflamingo": (_flamingo, _WHISPER_LARGE),
    "glmasr": (_glm, _WHISPER_LARGE),
    "qwen3_asr": (_qwen3, _QWEN3_ASR),
    "step_audio_2": (_step_audio, _STEP_AUDIO),
    "phi4mm": (phi4_audio, PHI4_AUDIO),
    "phi4_multimodal": (phi4_audio, PHI4_AUDIO),
    "qwen2_5_omni": (_qwen25_omni, _QWEN25_OMNI),
    "qwen2_5_omni_thinker": (_qwen25_omni, _QWEN25_OMNI),
    "qwen3_omni_moe": (_qwen3, _QWEN3_OMNI),
    "qwen3_omni_moe_thinker": (_qwen3, _QWEN3_OMNI),
}
#: What language models beside them have where their sections do not say it: Qwen2Config.
TEXT_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "qwen2_audio": {
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
    },
}
