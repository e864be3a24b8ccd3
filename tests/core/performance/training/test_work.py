"""What a training pass computes and moves: filled lanes, blocks of windows, adapters, integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.architecture.config import parse_config
from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.training.scaling import scaling_of
from service.core.performance.training.step import training_step
from service.core.performance.training.work import training_work
from tests.core.deployments import H100, LLAMA_70B
from tests.core.performance.training.test_step import HOST, USUAL

BF16 = Precision(NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"])
WIDE_HEADS = parse_config({**LLAMA_70B, "head_dim": 128})
#: The same projections in heads of half the size.
NARROW_HEADS = parse_config(
    {**LLAMA_70B, "head_dim": 64, "num_attention_heads": 128, "num_key_value_heads": 16}
)
LANED = replace(H100, vector_lane_count=128.0)
#: Tokens beside which a block of attention is short, and what blocks on the diagonal add there.
LONG, ON_DIAGONAL = 262_144, 0.01


def step(architecture, accelerator, tokens=8192, settings=None, calibration=USUAL):
    deployment = Deployment(architecture, BF16, accelerator, Parallelism(tensor=8))
    chosen = settings or TrainingSettings()
    return training_step(deployment, chosen, MicroBatch(1, tokens), HOST, calibration)


def test_heads_of_half_the_lanes_take_twice_the_time_and_count_the_same_operations():
    narrow, laned = step(NARROW_HEADS, H100, LONG), step(NARROW_HEADS, LANED, LONG)
    assert laned.attention_s == pytest.approx(2 * narrow.attention_s, rel=ON_DIAGONAL)
    assert laned.matrix_products_s == pytest.approx(narrow.matrix_products_s, rel=1e-3)
    assert laned.model_flops == narrow.model_flops
    wide = step(WIDE_HEADS, H100, LONG).attention_s
    assert step(WIDE_HEADS, LANED, LONG).attention_s == pytest.approx(wide, rel=ON_DIAGONAL)


def test_heads_fill_a_part_of_a_wide_matrix_unit():
    # Of 256 rows of a systolic array, heads of 128 use half and heads of 64 a quarter; of products
    # only the narrow ones of a rank's keys and values leave some of it idle.
    arrays = replace(LANED, matrix_unit_width=256.0)
    for heads, idle in ((WIDE_HEADS, 2), (NARROW_HEADS, 4)):
        plain, arrayed = step(heads, H100, LONG), step(heads, arrays, LONG)
        assert arrayed.attention_s == pytest.approx(idle * plain.attention_s, rel=ON_DIAGONAL)
        assert 1.0 < arrayed.matrix_products_s / plain.matrix_products_s < 1.03
        assert arrayed.model_flops == plain.model_flops


def test_the_wider_of_vectors_and_matrix_units_is_filled_and_nothing_where_nobody_says():
    assert H100.filled_features is None
    assert replace(H100, matrix_unit_width=256.0).filled_features == 256.0
    assert replace(LANED, matrix_unit_width=64.0).filled_features == 128.0
    stacked = replace(
        H100,
        vector_lane_count=np.array([np.nan, 128.0, 128.0]),
        matrix_unit_width=np.array([np.nan, np.nan, 256.0]),
    )
    np.testing.assert_array_equal(stacked.filled_features, [np.nan, 128.0, 256.0])


def test_features_of_products_are_filled_up_to_whole_vectors():
    narrow = parse_config({**LLAMA_70B, "intermediate_size": 8 * 2880})
    work = training_work(narrow, BF16, Parallelism(tensor=8), TrainingSettings(), 128.0)
    kept = training_work(narrow, BF16, Parallelism(tensor=8), TrainingSettings())
    assert kept.filled_ratio == 1.0
    parts = {item.output_features: item for item in work.products.products}
    assert 2880.0 in parts or 2 * 2880.0 in parts
    asked = sum(
        item.calls * item.input_features * item.output_features for item in work.products.products
    )
    # 2,880 become 2,944 in each of the three matrices of the feed-forward part.
    more = 80 * 3 * 8192 * (2944 - 2880)
    assert work.filled_ratio == pytest.approx(1 + more / asked, rel=1e-3)


def test_windows_lie_in_one_block_more_than_they_are_long():
    sliding = parse_config(
        {**LLAMA_70B, "model_type": "mistral", "sliding_window": 128, "head_dim": 128}
    )
    few, laned = step(sliding, H100, 65536), step(sliding, LANED, 65536)
    assert laned.attention_s == pytest.approx(few.attention_s * 2 * 2048 / 128, rel=0.05)
    short = step(sliding, LANED, 2048)
    assert short.attention_s <= step(WIDE_HEADS, LANED, 2048).attention_s * 1.001


def test_blocks_on_the_diagonal_are_multiplied_whole():
    # A causal mask leaves half of a square, and half of the blocks on its diagonal besides: all of
    # a sequence that is one block, a quarter more of one of four.
    for tokens, more in ((1024, 2.0), (2048, 2.0), (8192, 1.25)):
        plain, laned = step(WIDE_HEADS, H100, tokens), step(WIDE_HEADS, LANED, tokens)
        assert laned.attention_s == pytest.approx(more * plain.attention_s, rel=1e-3)
        assert laned.model_flops == plain.model_flops
    eager = TrainingSettings(attention="eager")
    squares = [step(WIDE_HEADS, one, 2048, eager).attention_s for one in (H100, LANED)]
    # Kernels that multiply whole squares have no blocks.
    assert squares[1] == squares[0]


def test_a_softmax_takes_as_long_whatever_the_features_of_a_head():
    softmax = replace(USUAL, score_features=64.0)

    def attention_s(heads, calibration):
        return step(heads, H100, calibration=calibration).attention_s

    # Constants are about heads of 128.
    assert attention_s(WIDE_HEADS, softmax) == pytest.approx(attention_s(WIDE_HEADS, USUAL))
    # Half the features have twice the scores for as many products.
    slower = attention_s(NARROW_HEADS, softmax) / attention_s(NARROW_HEADS, USUAL)
    assert slower == pytest.approx((64 + 64) / 64 / ((128 + 64) / 128))
    flops = [step(NARROW_HEADS, H100, calibration=one).model_flops for one in (USUAL, softmax)]
    assert flops[0] == flops[1]


def test_a_sliding_window_is_not_full_for_the_first_tokens():
    sliding = parse_config(
        {**LLAMA_70B, "model_type": "mistral", "sliding_window": 4096, "head_dim": 128}
    )
    windowed, whole = step(sliding, H100, 8192), step(WIDE_HEADS, H100, 8192)
    # Half of the tokens attend to those before them, the others to a full window.
    pairs = 4096 * 4096 / 2 + 4096 * 4096
    assert windowed.attention_s / whole.attention_s == pytest.approx(pairs / (8192 * 8192 / 2))


def test_sequence_parallelism_divides_what_adapters_read_and_write_whole():
    settings = TrainingSettings(method="lora", lora_targets=("q_proj", "o_proj"))

    def elementwise(tensor, **changes):
        chosen = replace(settings, **changes)
        found = training_work(WIDE_HEADS, BF16, Parallelism(tensor=tensor), chosen)
        bare = replace(chosen, lora_targets=("nothing",))
        without = training_work(WIDE_HEADS, BF16, Parallelism(tensor=tensor), bare)
        return found.elementwise_bytes_per_token - without.elementwise_bytes_per_token

    assert elementwise(4) == pytest.approx(elementwise(1) / 4)
    # Whole input of the queries, and whole result of the output twice.
    whole = 80 * 2 * (8192 + 2 * 8192) * (1 - 1 / 4)
    assert elementwise(4, sequence_parallel=False) == pytest.approx(elementwise(4) + whole)


def test_integers_are_scaled_by_rows_and_columns_and_floats_as_is_asked():
    assert scaling_of("int8", None) == "rowwise"
    assert scaling_of("fp8", None) is None
    assert scaling_of("fp8", "mxfp8") == "mxfp8"
