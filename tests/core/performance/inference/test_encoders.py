"""Steps of models that read something once: encoders, decoders that embed, encoder–decoders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import for_task, usual_task
from service.core.deployment import Parallelism, Precision
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad, StepTime
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100

BF16 = NUMBER_FORMATS["bf16"]
#: Devlin et al., BERT, 2018, https://arxiv.org/abs/1810.04805: BERT-large.
BERT_LARGE = {
    "model_type": "bert",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "vocab_size": 30522,
    "tie_word_embeddings": False,
}


def flops(model: ModelArchitecture, tokens: float, sequences: float) -> float:
    """FLOPs of a step of whole sequences."""
    work = rank_work(model, Precision(BF16, BF16, BF16), Parallelism())
    load = StepLoad(tokens * sequences, sequences, tokens / 2.0, 0.0, 0.0)
    return float(step_time(work, load, H100, Parallelism(), CALIBRATION).flops)


@pytest.mark.parametrize("sequences", [1.0, 8.0])
def test_flops_of_a_pass_of_bert_large(sequences):
    # A layer has 4·1024² + 2·1024·4096 weights; each token multiplies all of them, and attends to
    # all 512 with 2 · 2 · 1024 FLOPs. The pooler multiplies one token and is not counted.
    matrices = 2.0 * 24 * (4 * 1024**2 + 2 * 1024 * 4096) * 512
    attention = 24 * 4.0 * 1024 * 512 * 512
    assert flops(parse_config(BERT_LARGE), 512.0, sequences) == pytest.approx(
        sequences * (matrices + attention)
    )


def test_tokens_of_a_decoder_attend_to_half_as_many():
    decoder = for_task(parse_config(LLAMA), "embed")
    both_ways = replace(decoder, causal=False)
    extra = flops(both_ways, 512.0, 4.0) - flops(decoder, 512.0, 4.0)
    assert extra == pytest.approx(4 * 24 * 4.0 * 1024 * 512 * 256)


def test_a_model_that_embeds_keeps_nothing_and_has_no_output_matrix():
    decoder = parse_config(LLAMA)
    embedder = for_task(decoder, "embed")
    assert decoder.total_parameters - embedder.total_parameters == 30522 * 1024
    assert cache_layout(embedder, BF16, Parallelism()).full_bytes_per_token == 0.0
    assert cache_layout(decoder, BF16, Parallelism()).full_bytes_per_token > 0.0
    # The output matrix multiplies one token of each sequence.
    saved = flops(decoder, 512.0, 4.0) - flops(embedder, 512.0, 4.0)
    assert saved == pytest.approx(2.0 * 4 * 30522 * 1024)


def test_encoders_embed_unless_it_is_said():
    encoder, decoder = parse_config(BERT_LARGE), parse_config(LLAMA)
    assert (usual_task(encoder), usual_task(decoder)) == ("embed", "generate")
    assert for_task(encoder, "rerank") is encoder
    assert for_task(decoder, "generate") is decoder


#: Radford et al., Whisper, 2022, https://arxiv.org/abs/2212.04356: large, of version 3.
WHISPER = {
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "vocab_size": 51866,
}
#: Weights of a layer's four projections of attention, and of both its feed-forward matrices.
ATTENTION, FEED_FORWARD = 4 * 1280**2, 2 * 1280 * 5120


def test_flops_of_whisper_s_encoder_over_a_window():
    work = rank_work(parse_config(WHISPER), Precision(BF16, BF16, BF16), Parallelism())
    assert work.encoder is not None
    load = StepLoad(1500.0, 1.0, 750.0, 0.0, 0.0)
    step = step_time(work.encoder, load, H100, Parallelism(), CALIBRATION)
    layers = 32 * (ATTENTION + FEED_FORWARD)
    convolutions = 3 * 128 * 1280 + 3 * 1280 * 1280
    # Keys and values of the decoder's 32 layers are made of the features here, once.
    crossed = 32 * 2 * 1280**2
    attention = 32 * 4.0 * 1280 * 1500**2
    flops = 2.0 * 1500 * (layers + convolutions + crossed) + attention
    assert step.flops == pytest.approx(flops)
    assert flops == pytest.approx(2.587e12, rel=1e-3)


def test_a_step_of_whisper_s_decoder_reads_the_features_of_each_sequence():
    work = rank_work(parse_config(WHISPER), Precision(BF16, BF16, BF16), Parallelism())

    def step(sequences: float, features: float) -> StepTime:
        load = StepLoad(0.0, 0.0, 0.0, sequences, 100.0)
        return step_time(work.attending_to(features), load, H100, Parallelism(), CALIBRATION)

    # Keys and values of 1280 elements of 16 bit in 32 layers for each of 1500 features.
    read = step(8.0, 1500.0).memory_bytes - step(8.0, 0.0).memory_bytes
    assert read == pytest.approx(8 * 1500 * 32 * 2 * 1280 * 2)
    # Queries and outputs of both attentions, keys and values of the first, the feed-forward part
    # and the output matrix multiply a token; it attends to 100 tokens and 1500 features.
    weights = 32 * (ATTENTION + 2 * 1280**2 + FEED_FORWARD) + 51866 * 1280
    attended = 32 * 4.0 * 1280 * (100 + 1500)
    assert step(1.0, 1500.0).flops == pytest.approx(2.0 * weights + attended)


def test_a_sequence_keeps_its_tokens_and_the_features():
    layout = cache_layout(parse_config(WHISPER), BF16, Parallelism())
    each = 32 * 2 * 1280 * 2
    assert layout.full_bytes_per_token == layout.encoded_bytes_per_token == each
    # In pages of 16: 94 of features, 7 of tokens.
    kept = layout_sequence_bytes(layout.beside(1500.0), 104.0)
    assert kept == (94 + 7) * 16 * each


def test_flops_of_an_audio_encoder_beside_a_language_model():
    text = {"model_type": "qwen2", "vocab_size": 156032, "intermediate_size": 11008}
    model = parse_config({"model_type": "qwen2_audio", "audio_config": {}, "text_config": text})
    work = rank_work(model, Precision(BF16, BF16, BF16), Parallelism()).audio
    assert work is not None
    load = StepLoad(1500.0, 1.0, 750.0, 0.0, 0.0)
    step = step_time(work, load, H100, Parallelism(), CALIBRATION)
    layers = 32 * (ATTENTION + FEED_FORWARD) + 3 * 128 * 1280 + 3 * 1280 * 1280
    attention = 32 * 4.0 * 1280 * 1500**2
    # Pairs of positions are projected to the width of the language model.
    assert step.flops == pytest.approx(2.0 * 1500 * layers + 2.0 * 750 * 1280 * 4096 + attention)
