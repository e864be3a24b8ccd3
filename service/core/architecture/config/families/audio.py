"""Models that read audio among the tokens of the prompt: an audio encoder and a projection.

Defaults and quirks are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from service.core.architecture.config.families.seq2seq import audio_encoder
from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import linear
from service.core.architecture.model import AudioEncoder
from service.core.architecture.tensors import Shard, TensorClass

#: Reads the audio section, given the language model's hidden size.
AudioReader: TypeAlias = Callable[[Fields, int], AudioEncoder]

#: Positions that Qwen2-Audio makes one of before it projects them.
_QWEN2_POOLED = 2


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


#: Readers by the ``model_type`` of the whole, with the defaults of their sections.
AUDIO_ENCODERS: Mapping[str, tuple[AudioReader, Mapping[str, object]]] = {
    "qwen2_audio": (
        _qwen2_audio,
        {
            "d_model": 1280,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "num_mel_bins": 128,
            "max_source_positions": 1500,
        },
    ),
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
