"""Attention to a share of the tokens: what it reads and computes."""

from __future__ import annotations

import pytest

from service.core.architecture.config import parse_config
from service.core.deployment import Parallelism, Precision
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import RankWork, rank_work
from tests.core.deployments import CALIBRATION, H100

BF16 = NUMBER_FORMATS["bf16"]
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
MISTRAL = LLAMA | {"model_type": "mistral", "sliding_window": 1024}
DECODE = StepLoad(0.0, 0.0, 0.0, 8.0, 32_768.0)


def work_of(config: dict[str, object]) -> RankWork:
    return rank_work(parse_config(config), Precision(BF16, BF16, BF16), Parallelism())


def read_bytes(work: RankWork) -> float:
    step = step_time(work, DECODE, H100, Parallelism(), CALIBRATION)
    return float(step.memory_bytes)


def test_a_tenth_of_the_tokens_saves_nine_tenths_of_the_reads_of_the_cache():
    whole = work_of(LLAMA)
    saved = read_bytes(whole) - read_bytes(whole.attending_sparsely(0.1))
    # Keys and values of 32 layers and 4,096 elements in 16 bit, of 8 sequences.
    cache = 2 * 32 * 4096 * 2 * 8 * 32_768.0
    assert saved == pytest.approx(0.9 * cache, rel=1e-3)


def test_all_tokens_are_attended_unless_asked_otherwise():
    work = work_of(LLAMA)
    assert work.attending_sparsely(1.0) is work


def test_windows_stay_as_they_are():
    work = work_of(MISTRAL)
    assert read_bytes(work.attending_sparsely(0.1)) == read_bytes(work)
