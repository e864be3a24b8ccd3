"""Parameters of encoder–decoder models, as their checkpoints hold them."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.architecture.config import ConfigNotUnderstood, parse_config

T5: dict[str, Any] = {
    "model_type": "t5",
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_heads": 8,
    "num_layers": 6,
    "vocab_size": 32128,
}
FLAN_T5_BASE: dict[str, Any] = T5 | {
    "d_model": 768,
    "num_heads": 12,
    "num_layers": 12,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
BART_LARGE: dict[str, Any] = {
    "model_type": "bart",
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "max_position_embeddings": 1024,
    "vocab_size": 50265,
}
WHISPER_LARGE_V3: dict[str, Any] = {
    "model_type": "whisper",
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "num_mel_bins": 128,
    "vocab_size": 51866,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (T5, 60_506_624),
        (FLAN_T5_BASE, 247_577_856),
        (BART_LARGE, 406_291_456),
        (WHISPER_LARGE_V3, 1_543_490_560),
        (WHISPER_LARGE_V3 | {"decoder_layers": 4}, 808_878_080),
    ],
)
def test_parameters_are_those_of_the_checkpoint(config, parameters):
    assert parse_config(config | {"is_encoder_decoder": True}).total_parameters == parameters


def test_an_encoder_reads_text_or_windows_of_audio():
    text, audio = parse_config(T5).encoder, parse_config(WHISPER_LARGE_V3).encoder
    assert text is not None
    assert audio is not None
    assert text.window_positions is None
    assert (audio.window_positions, audio.window_s) == (1500, 30.0)


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (WHISPER_LARGE_V3 | {"encoder_attention_heads": 7}, "/encoder_attention_heads"),
        ({"model_type": "bart", "d_model": 1024}, "/encoder_attention_heads"),
        (T5 | {"d_kv": -1}, "/d_kv"),
        (T5 | {"model_type": "led", "is_encoder_decoder": True}, "/is_encoder_decoder"),
    ],
)
def test_what_is_missing_or_absurd_is_named(config, pointer):
    with pytest.raises(ConfigNotUnderstood) as refused:
        parse_config(config)
    assert refused.value.pointer == pointer
