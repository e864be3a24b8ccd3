"""Experts in four bits whose weights lanes widen once for each tile of rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import Parallelism, Precision
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.step import rank_steps
from service.core.performance.steps import StepLoad
from service.core.performance.widened_experts import widened_tiles, widens_tiles
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

LANED = replace(H100, peak_flops_per_s={"bf16": 989e12, "fp8": 1979e12, "fp32": 67e12})
BLOCKS = replace(LANED, peak_flops_per_s={**LANED.peak_flops_per_s, "mxfp8": 4.5e15})
TRITON = widened_tiles("tensorrt-llm@1.x", "nvidia-hopper")


def engine_of(**known):
    return replace(CALIBRATION, engine=replace(CALIBRATION.engine, **known))


WIDENING = engine_of(
    widened_tile_rows=TRITON.rows,
    widened_tile_operations=TRITON.operations,
    widened_tile_ratio=TRITON.matrix_ratio,
)


def step(tokens, calibration, accelerator=LANED, weights="mxfp4"):
    one = deployment("mixtral-8x7b")
    bf16 = NUMBER_FORMATS["bf16"]
    work = rank_work(
        one.architecture, Precision(NUMBER_FORMATS[weights], bf16, bf16), Parallelism()
    )
    steps = rank_steps(work, accelerator, Parallelism(), calibration)
    return steps.time(StepLoad(float(tokens), 1.0, 1.0, 0.0, 0.0))


def test_releases_have_the_kernels_that_they_took():
    marlin = widened_tiles("vllm@v1", "nvidia-hopper")
    assert marlin.rows < TRITON.rows
    assert marlin.all_formats
    assert not TRITON.all_formats
    assert widened_tiles("vllm@0.12", "nvidia-hopper") == TRITON
    assert widened_tiles("vllm@0.21", "nvidia-blackwell") is None
    assert widened_tiles("llama.cpp@2025", "nvidia-hopper") is None


@pytest.mark.parametrize(
    ("kernels", "reached"), [("tensorrt-llm@1.x", 485e12), ("vllm@v1", 312e12)]
)
def test_full_tiles_reach_what_was_measured_of_kernels(kernels, reached):
    # An H100's matrix units reach 758 TFLOPS of 989 with other matrices.
    tiles = widened_tiles(kernels, "nvidia-hopper")
    a_weight_s = tiles.operations / 33.5e12
    row_s = 2.0 / (758e12 * tiles.matrix_ratio) + a_weight_s / tiles.rows
    assert 2.0 / row_s == pytest.approx(reached, rel=0.02)


def test_lanes_widen_experts_again_for_each_tile():
    added = [step(n, WIDENING).compute_s - step(n, CALIBRATION).compute_s for n in (1, 8, 64, 4096)]
    # Each expert that is read has a tile, however few its rows are.
    assert 0.0 < added[0] < added[1] < added[2]
    assert added[3] / 4096 < added[2] / 64
    twice = step(8192, WIDENING).compute_s / step(4096, WIDENING).compute_s
    assert twice == pytest.approx(2.0, rel=0.05)


def test_units_that_scale_blocks_and_other_formats_need_no_lanes():
    assert step(512, WIDENING, BLOCKS) == step(512, CALIBRATION, BLOCKS)
    for weights in ("fp8", "bf16", "awq-int4"):
        assert step(512, WIDENING, weights=weights) == step(512, CALIBRATION, weights=weights)
    all_formats = replace(WIDENING, engine=replace(WIDENING.engine, widens_all_formats=True))
    assert step(512, all_formats, weights="awq-int4") != step(512, WIDENING, weights="awq-int4")


def test_matrices_that_are_no_experts_are_widened_as_before():
    one = deployment("mixtral-8x7b")
    bf16 = NUMBER_FORMATS["bf16"]
    work = rank_work(
        one.architecture, Precision(NUMBER_FORMATS["mxfp4"], bf16, bf16), Parallelism()
    )
    widened = {
        bool(item.experts) for item in work.products if widens_tiles(item, 16, WIDENING.engine)
    }
    assert widened == {True}
