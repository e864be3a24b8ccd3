"""Ranges over releases of a framework that a request does not name."""

from __future__ import annotations

import pytest

from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

BLOOM = {
    "hidden_size": 14336,
    "model_type": "bloom",
    "n_head": 112,
    "n_layer": 70,
    "seq_length": 2048,
    "vocab_size": 250880,
}
OLD = {
    "model": {"config": BLOOM},
    "accelerator": "nvidia-a100-sxm-80gb",
    "accelerator_count": 384,
    "parallelism": {"tensor": 4, "pipeline": 12, "data": 8},
}
RUN = {
    "framework": "megatron-deepspeed",
    "sequence_length": 2048,
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 128,
    "pipeline_schedule": "1f1b",
    "virtual_stages": 1,
    "activation_checkpointing": "full",
}


@pytest.fixture
def asked(packaged_snapshot):
    def asked(deployment, **training):
        body = deployment | {"training": training}
        return training_estimate(EstimateTrainingRequest.model_validate(body), packaged_snapshot)

    return asked


def _leaves_release_open(answer):
    return any(
        "which release of the framework runs" in one["message"] for one in answer["warnings"]
    )


def test_the_range_reaches_over_releases_with_which_a_model_may_have_been_trained(asked):
    """Megatron-DeepSpeed fused no attention in the year in which BLOOM was trained with it."""
    open_, newest, older = (
        asked(OLD, **RUN, **version)["latency"]["tokens_per_s"]
        for version in ({}, {"framework_version": "2024-01"}, {"framework_version": "2022-03"})
    )
    assert older["value"] < newest["value"] == open_["value"]
    assert open_["low"] < newest["low"]
    assert open_["high"] == pytest.approx(newest["high"])


def test_a_release_that_is_named_is_not_left_open(asked):
    assert _leaves_release_open(asked(OLD, **RUN))
    assert not _leaves_release_open(asked(OLD, **RUN, framework_version="2024-01"))


def test_a_model_is_not_trained_with_releases_of_before_it(asked):
    """Llama 3.1 is newer than the first releases, which fuse no attention."""
    new = OLD | {"model": "meta-llama/Llama-3.1-70B", "parallelism": None}
    layout = {"parallelism": {"tensor": 8, "pipeline": 4, "data": 12}}
    run = {**RUN, "virtual_stages": None, "pipeline_schedule": None}
    assert not _leaves_release_open(asked(new | layout, **run))
