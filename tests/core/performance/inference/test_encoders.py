"""Steps of models that read a sequence once: encoders, and decoders that embed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import for_task, usual_task
from service.core.deployment import Parallelism, Precision
from service.core.memory.kv_cache import cache_layout
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.step import StepLoad, step_time
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
