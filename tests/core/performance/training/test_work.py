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
from tests.core.deployments import H100, LLAMA_70B, MIXTRAL_8X7B
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


HIDDEN, LAYERS = 8192, 80


def moved(tensor=1, targets=("q_proj",), model=WIDE_HEADS, parallelism=None, **told):
    """Bytes that an adapter's operators move of a token in a layer, forward and backward."""
    settings = TrainingSettings(method="lora", lora_targets=targets, **told)
    layout = parallelism or Parallelism(tensor=tensor)
    found = training_work(model, BF16, layout, settings).adapters
    per_layer = (found.forward_bytes_per_token, found.backward_bytes_per_token)
    return tuple(each / LAYERS for each in per_layer)


def test_adapters_move_what_their_operators_read_and_write():
    # Elements of 2 B: the input is read, the result written, scaled (2) and added (3); backward
    # the factor's (2) and two products read gradients, one reads the input, one writes its
    # gradient, and that is added to the other (3).
    assert moved() == (2 * 7 * HIDDEN, 2 * (4 + 5) * HIDDEN)
    # Dropout reads, writes and keeps a mask of a byte, and so does its gradient.
    dropped = moved(adapter_dropout=True)
    assert dropped == (moved()[0] + 5 * HIDDEN, moved()[1] + 5 * HIDDEN)
    # Adapters of 32 bit: widened, dropped out of in 32 bit, narrowed for products.
    wide = moved(adapter_dropout=True, adapter_bytes=4.0)
    assert wide == (moved()[0] + (12 + 9) * HIDDEN, moved()[1] + (12 + 9) * HIDDEN)
    # What has one matrix frozen lacks its gradient's product; vectors that scale have their own.
    assert moved(adapter="lora-fa")[1] == moved()[1] - 2 * HIDDEN
    assert moved(adapter="vera")[1] == moved()[1] + (-2 - 2 + 8) * HIDDEN
    assert moved(adapter="dora") > moved()
    assert moved(adapter="ia3") == (4 * HIDDEN, 12 * HIDDEN)
    assert moved(adapter="boft") == moved(adapter="norms") == (0.0, 0.0)


def test_products_that_add_in_place_move_less_and_one_matrix_is_read_once():
    within = moved(adapter_kernels="within-products")
    assert within == (2 * 3 * HIDDEN, 2 * (4 + 2) * HIDDEN)
    # They have no dropout, and adapters of 32 bit are narrowed instead of activations.
    assert moved(adapter_kernels="within-products", adapter_bytes=4.0) == within
    told = {"adapter_kernels": "within-products", "adapter_dropout": True}
    assert moved(**told) == moved(adapter_dropout=True)
    three = ("q_proj", "k_proj", "v_proj")
    apart, joint = (moved(targets=three, adapter_kernels=each)[0] for each in ("each", "joint"))
    assert apart - joint == 2 * 2 * HIDDEN


def test_ranks_read_whole_inputs_and_write_parts_of_whole_results():
    for there, back in zip(moved(4), moved(), strict=True):
        assert back / 4 < there < back
    assert moved(4)[0] == 2 * (HIDDEN + 6 * HIDDEN / 4)
    ending = {"targets": ("o_proj",)}
    assert moved(4, **ending)[0] == 2 * 7 * HIDDEN / 4
    # Without sequence parallelism what sums of ranks make is whole on each.
    whole = moved(4, sequence_parallel=False, **ending)
    assert whole[0] == 2 * (HIDDEN / 4 + 6 * HIDDEN)


def test_experts_of_a_rank_adapt_tokens_of_others():
    routed = parse_config(MIXTRAL_8X7B)
    alone = moved(targets=("w2",), model=routed)
    # Two experts for each token, of 32 layers.
    assert alone[0] == pytest.approx(32 / LAYERS * 2 * (2 * 14336 + 12 * 4096))
    for experts in (2, 8):
        layout = Parallelism(data=8, expert=experts)
        assert moved(targets=("w2",), model=routed, parallelism=layout) == pytest.approx(alone)


def test_integers_are_scaled_by_rows_and_columns_and_floats_as_is_asked():
    assert scaling_of("int8", None) == "rowwise"
    assert scaling_of("fp8", None) is None
    assert scaling_of("fp8", "mxfp8") == "mxfp8"
