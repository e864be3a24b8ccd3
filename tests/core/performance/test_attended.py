"""Attention of layers alike: what its heads are, and when scores pass through memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.performance.attended import AttentionWork
from service.core.performance.attention_cost import attention_costs
from service.core.performance.inference.replica import Requests, prompt_load
from service.core.performance.step import step_time
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

LOAD = prompt_load(Requests(4096, 4096, 1), 8192)


def prompt_s(**engine):
    chosen = deployment("llama-70b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    calibration = replace(CALIBRATION, engine=replace(CALIBRATION.engine, **engine))
    return step_time(work, LOAD, H100, chosen.parallelism, calibration).total_s


def test_heads_have_the_features_of_the_model_on_any_number_of_ranks():
    for tensor in (1, 8):
        chosen = deployment("llama-70b", tensor)
        work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
        assert {one.head_features for one in work.attention} == {128.0}


def test_kernels_that_do_not_take_a_models_heads_store_their_scores():
    stored = {"bytes_per_score": 2.0, "fuses_attention": False}
    fused = {**stored, "fuses_attention": True}
    assert prompt_s(**stored) > 1.05 * prompt_s(**fused)
    # Heads of 128 features are a multiple of 8, and none of 96.
    assert prompt_s(**fused, fused_features_multiple=8.0) == pytest.approx(prompt_s(**fused))
    assert prompt_s(**fused, fused_features_multiple=96.0) == pytest.approx(prompt_s(**stored))


@pytest.mark.parametrize(("peaks", "slower"), [((989e12, 67e12), 1.25), ((2250e12, 80e12), 1.55)])
def test_exponentials_of_narrow_heads_are_waited_for(peaks, slower):
    # An H100 reaches 514 TFLOPS with heads of 64, and 621 with those of 128. Matrix units have
    # grown since, and units for exponentials have not.
    matrix, lanes = peaks
    accelerator = replace(
        H100, family="nvidia-hopper", peak_flops_per_s={"bf16": matrix, "fp32": lanes}
    )
    hardware = replace(CALIBRATION.hardware, attention_matrix_ratio=0.627)
    waiting = replace(
        CALIBRATION,
        hardware=hardware,
        engine=replace(CALIBRATION.engine, waits_for_exponentials=True),
    )
    wide = AttentionWork(1.0, 32 * 512.0, 1.0, None, False, scores_per_pair=32.0)
    narrow = AttentionWork(1.0, 32 * 256.0, 1.0, None, False, scores_per_pair=32.0)

    def pair_s(layer, calibration=waiting):
        return attention_costs((layer,), accelerator, calibration, 0.0, 1e12)[0].pair_s

    assert 2.0 * pair_s(narrow) / pair_s(wide) == pytest.approx(slower, rel=0.05)
    assert pair_s(replace(narrow, compared=True)) == pytest.approx(pair_s(wide) / 2.0)
    idle = replace(waiting, engine=replace(waiting.engine, waits_for_exponentials=False))
    assert pair_s(narrow, idle) == pytest.approx(pair_s(wide, idle) / 2.0)
