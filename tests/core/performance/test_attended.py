"""Attention of layers alike: what its heads are, and when scores pass through memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
