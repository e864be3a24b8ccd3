"""Choosing tokens: releases that sort all logits, and those that search for the likeliest."""

from __future__ import annotations

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import engine_of_release, generation_of_release
from service.core.performance.samplers import SAMPLERS
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems


def tpot_s(snapshot, accelerator, engine, version, concurrency):
    request = DeploymentRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": accelerator,
            "serving": {"engine": engine, "engine_version": version},
            "workload": {"concurrency": concurrency, "input_tokens": 200, "output_tokens": 400},
        }
    )
    computed = compute_deployment(resolve_deployment(request, snapshot, Problems()))
    return float(computed.estimate.latency.state.tpot_s)


@pytest.mark.parametrize("accelerator", ["nvidia-h100-sxm-80gb", "amd-mi300x-192gb"])
def test_many_sequences_decode_faster_where_nothing_is_sorted(packaged_snapshot, accelerator):
    sorting, searching = (
        tpot_s(packaged_snapshot, accelerator, "vllm", version, 128) for version in ("0.14", "0.17")
    )
    assert 1.03 * searching < sorting < 1.5 * searching
    # One row of logits is next to nothing beside all weights.
    alone = [tpot_s(packaged_snapshot, accelerator, "vllm", one, 1) for one in ("0.14", "0.17")]
    assert alone[0] == pytest.approx(alone[1], rel=5e-3)


def test_what_flashinfer_chooses_is_chosen_on_its_hardware_alone(packaged_snapshot):
    for accelerator, faster in (("nvidia-h100-sxm-80gb", True), ("amd-mi300x-192gb", False)):
        before, after = (
            tpot_s(packaged_snapshot, accelerator, "vllm", version, 128)
            for version in ("0.17", "0.21")
        )
        assert (after < 0.99 * before) is faster


def test_samplers_are_those_of_releases_that_there_are(packaged_snapshot: CatalogSnapshot):
    for one in SAMPLERS:
        assert 0.0 < one.ratio < 1.0
        for release in one.releases:
            engine = packaged_snapshot.engines[engine_of_release(release)].value
            assert generation_of_release(release) in {known.id for known in engine.generations}
