"""Tiles of experts: in blocks of 8-bit floats, and of 16 bit where no kernel was tuned for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.performance.expert_tiles import (
    DEFAULT_TILES,
    FUSED_NARROWING_RATIO,
    GROUPED_TILES,
    fuses_experts,
    has_default_tiles,
    has_grouped_tiles,
    scaled_tile_rows,
    tiled_rows,
    untuned_row_s,
    whole_tiles,
)
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

#: The same without units for 8-bit floats.
WITHOUT_FP8 = replace(
    H100,
    peak_flops_per_s={name: peak for name, peak in H100.peak_flops_per_s.items() if name != "fp8"},
)


def _parts(model, weights):
    chosen = deployment(model, weights=weights)
    return chosen.architecture, chosen.precision, chosen.parallelism


def _work(weights, model_type="qwen3_moe"):
    """Work of a small model of a type that is released in blocks, unless another is named."""
    architecture, precision, layout = _parts("mixtral-8x7b", weights)
    return rank_work(replace(architecture, model_type=model_type), precision, layout), layout


def step(tokens, weights="fp8", accelerator=H100, **figures):
    work, layout = _work(weights)
    calibration = replace(
        CALIBRATION,
        hardware=replace(CALIBRATION.hardware, narrow_experts_s=5e-5),
        engine=replace(CALIBRATION.engine, **figures),
    )
    load = StepLoad(0.0, 0.0, 0.0, tokens, 0.0)
    return step_time(work, load, accelerator, layout, calibration)


@pytest.mark.parametrize("mean", [1.0, 20.0, 64.0, 400.0])
def test_the_last_tile_of_each_matrix_is_full_in_part(mean):
    drawn = np.random.default_rng(7).exponential(mean, 200_000)
    tiles = np.ceil(drawn / 64.0).mean()
    assert whole_tiles(mean * 16.0, 16.0, 64.0) == pytest.approx(16.0 * 64.0 * tiles, rel=0.02)


def test_no_rows_fill_no_tiles_and_arrays_are_computed_alike():
    assert whole_tiles(0.0, 0.0, 64.0) == 0.0
    rows = np.array([0.0, 3.0, 5000.0])
    matrices = np.array([0.0, 3.0, 8.0])
    alone = [whole_tiles(*each, 64.0) for each in zip(rows, matrices, strict=True)]
    assert whole_tiles(rows, matrices, 64.0) == pytest.approx(alone)


def test_few_rows_of_experts_take_as_much_arithmetic_as_a_tile():
    tiled = {"scaled_tile_rows": 64.0}
    # All eight experts are chosen by 32 tokens, with eight rows each.
    assert step(32.0, **tiled).compute_s > 3.0 * step(32.0).compute_s
    # Tiles that are full anyway cost the same but for the last one.
    assert step(8192.0, **tiled).compute_s == pytest.approx(step(8192.0).compute_s, rel=0.05)


def test_padding_costs_time_only_where_arithmetic_takes_longer_than_reading():
    tiled = {"scaled_tile_rows": 64.0}
    fast = step(32.0, **tiled)
    assert fast.work_s < 1.1 * step(32.0).work_s
    slow = step(32.0, **tiled, scaled_tiles_ratio=0.5)
    assert slow.work_s > 1.5 * fast.work_s
    assert slow.memory_bytes == fast.memory_bytes
    assert slow.flops == fast.flops


@pytest.mark.parametrize(("weights", "accelerator"), [("bf16", H100), ("fp8", WITHOUT_FP8)])
def test_formats_without_scaled_blocks_and_hardware_that_widens_them_have_other_kernels(
    weights, accelerator
):
    tiled = step(32.0, weights, accelerator, scaled_tile_rows=64.0, scaled_tiles_ratio=0.5)
    assert tiled == step(32.0, weights, accelerator)


def test_experts_that_have_other_kernels_on_a_family_have_smooth_costs_there():
    work, _ = _work("fp8")
    item = next(item for item in work.products if item.experts)
    engine = replace(CALIBRATION.engine, scaled_tile_rows=64.0)
    deepseek = replace(item, model_type="deepseek_v3")
    blackwell = replace(H100, family="nvidia-blackwell")
    ada = replace(H100, family="nvidia-ada")
    assert tiled_rows(deepseek, 8, ada, engine) == 64.0
    # What was tuned for its experts goes by the number of tokens.
    assert tiled_rows(deepseek, 8, H100, engine) == 0.0
    assert tiled_rows(deepseek, 8, blackwell, engine) == 0.0
    assert tiled_rows(item, 8, blackwell, engine) == 64.0


def test_a_scale_for_each_channel_is_applied_to_whole_sums():
    engine = replace(CALIBRATION.engine, scaled_tile_rows=64.0)
    work, _ = _work("fp8")
    blocks = next(item for item in work.products if item.experts)
    assert tiled_rows(blocks, 8, H100, engine) == 64.0
    # A checkpoint of the same model that somebody else quantised by channels.
    assert tiled_rows(replace(blocks, weight_bits=8.0), 8, H100, engine) == 0.0
    # Nobody released Mixtral in blocks: engines quantise it by tensors as they load it.
    work, _ = _work("fp8", "mixtral")
    whole = next(item for item in work.products if item.experts)
    assert tiled_rows(whole, 8, H100, engine) == 0.0


def test_engines_whose_tiles_were_chosen_by_tokens_have_none():
    assert scaled_tile_rows("vllm@v1") == scaled_tile_rows("sglang") == 64.0
    assert scaled_tile_rows("tensorrt-llm@1.x") == 0.0


def test_one_call_for_all_experts_narrows_what_comes_in_and_fills_no_tiles_of_its_own():
    tiles = {"scaled_tile_rows": 64.0, "scaled_tiles_ratio": 0.5}
    separate, fused = step(16.0, **tiles), step(16.0, **tiles, fuses_experts=True)
    assert separate.narrowing_s > 0.0
    assert fused.narrowing_s == pytest.approx(FUSED_NARROWING_RATIO * separate.narrowing_s)
    assert fused.compute_s < separate.compute_s
    # Experts in 16 bit have nothing to narrow.
    assert step(16.0, "bf16", fuses_experts=True).narrowing_s == 0.0


def test_kernels_of_amd_s_own_fill_tiles_by_the_number_of_tokens():
    work, _ = _work("fp8")
    blocks = next(item for item in work.products if item.experts)
    engine = replace(CALIBRATION.engine, scaled_tile_rows=64.0)
    mi355x = replace(H100, family="amd-cdna4", peak_flops_per_s={"fp8": 5e15, "bf16": 2.5e15})
    assert tiled_rows(blocks, 8, H100, engine) == 64.0
    assert tiled_rows(blocks, 8, mi355x, engine) == 0.0


def test_newest_releases_fuse_experts_on_blackwell():
    assert fuses_experts("vllm@0.21", "nvidia-blackwell")
    assert fuses_experts("sglang@0.5.3", "nvidia-blackwell")
    # Triton's kernels come first there for ranks that hold a part of each expert.
    assert not fuses_experts("vllm@0.21", "nvidia-hopper")
    assert not fuses_experts("vllm@0.14", "nvidia-blackwell")


@pytest.mark.parametrize(
    ("tokens", "measured_us"), [(256, 355), (512, 392), (1024, 536), (2048, 912), (4096, 1648)]
)
def test_default_tiles_take_as_long_as_was_measured_of_128_experts(tokens, measured_us):
    # Eight of 128 experts of 768 by 2,048 for each token, and an H100's 67 TFLOPS of its lanes.
    rows = whole_tiles(8.0 * tokens, 128.0, DEFAULT_TILES.rows)
    flops = rows * 3.0 * 2.0 * 768.0 * 2048.0
    assert flops / (66.9e12 * DEFAULT_TILES.lanes_ratio) == pytest.approx(
        measured_us * 1e-6, rel=0.1
    )


def expert(held=8.0, width=14336, **changes):
    work = rank_work(*_parts("mixtral-8x7b", "bf16"))
    item = next(item for item in work.products if item.experts)
    shape = {"copies": held, "input_features": 4096.0, "output_features": float(width)}
    return replace(item, **shape, **changes)


UNTUNED = replace(CALIBRATION.engine, default_expert_tiles=True)


def test_kernels_were_tuned_for_experts_that_ranks_share_and_not_for_ranks_of_whole_ones():
    assert untuned_row_s(1.0, 1e15, expert(), H100, UNTUNED) is None
    assert untuned_row_s(1.0, 1e15, expert(held=2.0), H100, UNTUNED) is not None
    # On Blackwell only in some widths.
    blackwell = replace(H100, family="nvidia-blackwell")
    assert untuned_row_s(1.0, 1e15, expert(), blackwell, UNTUNED) is not None
    assert untuned_row_s(1.0, 1e15, expert(width=384), blackwell, UNTUNED) is None


def test_default_tiles_are_of_16_bit_and_never_faster_than_tuned_ones():
    tiled = expert(held=2.0)
    assert untuned_row_s(1.0, 1e12, tiled, H100, UNTUNED) == 1e-12
    assert untuned_row_s(1.0, 1e16, tiled, H100, UNTUNED) > 1e-15
    assert untuned_row_s(1.0, 1e15, replace(tiled, weight_bits=8.0), H100, UNTUNED) is None
    assert untuned_row_s(1.0, 1e15, tiled, H100, CALIBRATION.engine) is None


def test_default_tiles_slow_steps_of_more_tokens_than_experts_alone():
    blackwell = replace(H100, family="nvidia-blackwell")
    untuned = {"default_expert_tiles": True}
    for tokens in (1.0, 8.0):
        assert step(tokens, "bf16", blackwell, **untuned) == step(tokens, "bf16", blackwell)
    for tokens in (9.0, 64.0, 4096.0):
        slow = step(tokens, "bf16", blackwell, **untuned)
        assert slow.compute_s > 1.2 * step(tokens, "bf16", blackwell).compute_s
        assert slow.memory_bytes == step(tokens, "bf16", blackwell).memory_bytes
        # Matrix units wait within these tiles: padding keeps them busy, slow operands do not.
        assert 0.0 < slow.mean_compute_s < slow.compute_s
    many = step(np.array([8.0, 64.0]), "bf16", blackwell, **untuned)
    assert many.compute_s[1] == pytest.approx(step(64.0, "bf16", blackwell, **untuned).compute_s)


def test_releases_had_default_tiles_until_they_went_by_tokens():
    assert has_default_tiles("vllm@v1", "nvidia-hopper")
    assert has_default_tiles("vllm@0.12", "nvidia-hopper")
    assert has_default_tiles("sglang@0.5.3", "nvidia-blackwell")
    assert not has_default_tiles("vllm@0.17", "nvidia-hopper")
    assert not has_default_tiles("vllm@v1", "nvidia-ampere")
    assert not has_default_tiles("tensorrt-llm@1.x", "nvidia-hopper")


def test_grouped_products_fill_larger_tiles_and_wait_for_no_scales():
    tiles = {"scaled_tile_rows": 64.0, "scaled_tiles_ratio": 0.5}
    blackwell = replace(H100, family="nvidia-blackwell")
    scaled = step(32.0, "fp8", blackwell, **tiles)
    grouped = step(32.0, "fp8", blackwell, grouped_expert_tiles=True, **tiles)
    assert grouped.work_s < scaled.work_s
    assert grouped.compute_s < scaled.compute_s
    # Padding costs arithmetic all the same, twice as much for the fewest rows.
    unlimited = {"scaled_tile_rows": 64.0}
    halves = step(8.0, "fp8", blackwell, **unlimited)
    wholes = step(8.0, "fp8", blackwell, grouped_expert_tiles=True, **unlimited)
    assert halves.compute_s < wholes.compute_s <= 2.0 * halves.compute_s


def test_kernels_around_grouped_products_pass_over_a_tile_for_each_expert():
    blackwell = replace(H100, family="nvidia-blackwell")
    tiles = {"scaled_tile_rows": 64.0}
    work, _ = _work("fp8")
    row_bytes = sum(
        2.0 * (item.input_features + item.output_features) * item.calls
        for item in work.products
        if item.experts
    )

    def filled_bytes(tokens):
        plain = step(tokens, "fp8", blackwell, **tiles)
        grouped = step(tokens, "fp8", blackwell, grouped_expert_tiles=True, **tiles)
        return grouped.memory_bytes - plain.memory_bytes

    # Eight experts hold as many buffers, whatever the tokens chose.
    assert filled_bytes(1.0) == pytest.approx(8.0 * GROUPED_TILES.rows * row_bytes)
    assert filled_bytes(4096.0) == pytest.approx(filled_bytes(1.0))


def test_on_hopper_they_are_left_to_ranks_that_hold_whole_experts():
    work, _ = _work("fp8")
    item = next(item for item in work.products if item.experts)
    engine = replace(CALIBRATION.engine, scaled_tile_rows=64.0, grouped_expert_tiles=True)
    whole = replace(item, copies=item.experts / 4.0)
    blackwell = replace(H100, family="nvidia-blackwell")
    assert tiled_rows(item, 8, H100, engine) == 64.0
    assert tiled_rows(whole, 8, H100, engine) == GROUPED_TILES.rows
    assert tiled_rows(item, 8, blackwell, engine) == GROUPED_TILES.rows
    assert has_grouped_tiles("vllm@0.14", "nvidia-hopper")
    assert not has_grouped_tiles("vllm@v1-0.8", "nvidia-hopper")
    assert not has_grouped_tiles("vllm@0.14", "nvidia-ada")


@pytest.mark.parametrize(("tokens", "measured_us"), [(128, 6355), (512, 7018)])
def test_grouped_products_take_less_than_was_measured_of_all_around_256_experts(
    tokens, measured_us
):
    # Eight of 256 experts of 2,048 by 7,168 for each token on an H100: DeepSeek-V3's, of one rank.
    elements = 3.0 * 2048.0 * 7168.0
    rows = whole_tiles(8.0 * tokens, 256.0, GROUPED_TILES.rows)
    compute_s = rows * 2.0 * elements / (0.7 * 1.979e15)
    read_s = 256.0 * elements / (0.9 * 3.35e12)
    # Tokens are also sorted, copied, narrowed and summed.
    assert 0.4 * measured_us < 1e6 * max(compute_s, read_s) < measured_us
