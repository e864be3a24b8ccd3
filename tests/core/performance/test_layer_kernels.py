"""Kernels of layers that are not dense, and the gaps between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.performance.issued import fused_layers
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import RankWork, rank_work
from tests.core.architecture.published_models import MODELS
from tests.core.deployments import CALIBRATION, H100, deployment

GRAPHS = replace(CALIBRATION.engine, replays_graphs=True)
KERNELS = replace(CALIBRATION.engine, replays_graphs=False)


def work_of(model: str) -> RankWork:
    chosen = deployment(model)
    return rank_work(chosen.architecture, chosen.precision, chosen.parallelism)


def test_a_routed_layer_has_more_kernels_than_a_dense_one_and_fewer_than_two():
    dense, routed = work_of("llama-70b"), work_of("mixtral-8x7b")
    assert fused_layers(dense, GRAPHS) == dense.layers
    assert routed.layers < fused_layers(routed, GRAPHS) < 2 * routed.layers


def test_latent_attention_and_shared_experts_add_kernels_to_routed_layers():
    config, _ = MODELS["deepseek-ai/DeepSeek-V3"]
    chosen = deployment("mixtral-8x7b")
    latent = rank_work(parse_config(config), chosen.precision, chosen.parallelism)
    routed = work_of("mixtral-8x7b")
    assert latent.added_layers / latent.layers > routed.added_layers / routed.layers


def test_engines_without_graphs_have_a_time_for_each_expert_instead():
    routed = work_of("mixtral-8x7b")
    assert fused_layers(routed, KERNELS) == routed.layers


def test_gaps_between_kernels_are_overhead_that_no_load_changes():
    routed = work_of("mixtral-8x7b")
    layout = deployment("mixtral-8x7b").parallelism
    flat = replace(routed, added_layers=0.0)
    calibration = replace(CALIBRATION, engine=GRAPHS)
    few, many = (StepLoad(0.0, 0.0, 0.0, sequences, 500.0) for sequences in (1.0, 64.0))
    added = [
        step_time(routed, load, H100, layout, calibration).overhead_s
        - step_time(flat, load, H100, layout, calibration).overhead_s
        for load in (few, many)
    ]
    assert added[0] == pytest.approx(added[1])
    assert added[0] == pytest.approx(GRAPHS.layer_s * routed.added_layers)
