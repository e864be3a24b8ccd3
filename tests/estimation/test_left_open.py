"""Requests that name neither release nor backend of their engine: one value, a range over both."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.deployment import ResolvedDeployment, resolve_deployment
from service.estimation.inference.estimate import (
    inference_estimate,
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.inference.requests import InferenceRequest
from service.estimation.requests import DeploymentRequest, LatencyInferenceRequest
from service.estimation.resolution import Problems

H100, B200 = "nvidia-h100-sxm-80gb", "nvidia-b200-sxm-180gb"
RADEON, STRIX_HALO = "amd-rx-7900-xtx-24gb", "amd-ryzen-ai-max-395-128gb"
LOAD = {"input_tokens": 1000, "output_tokens": 300, "concurrency": 16}
#: Codes of what is said of choices that are left open.
SPEED, MEMORY = "speed_left_open", "left_open"


def body(model="meta-llama/Llama-3.1-8B", accelerator=H100, **serving) -> dict[str, Any]:
    serving = {"usage_context": "server", **serving}
    return {"model": model, "accelerator": accelerator, "workload": LOAD, "serving": serving}


def estimated(snapshot: CatalogSnapshot, **asked):
    return inference_estimate(InferenceRequest(**body(**asked), region="country/SE"), snapshot)


def releases(snapshot: CatalogSnapshot, **asked) -> list[str | None]:
    """Generations that a request may mean besides the one that it has the value of."""
    request = DeploymentRequest(**body(**asked))
    return _releases(resolve_deployment(request, snapshot, Problems()), snapshot)


def _releases(found: ResolvedDeployment, snapshot: CatalogSnapshot) -> list[str | None]:
    others = found.left_open.choices
    open_ = {one.release.generation for one in others if one.setting == "engine_version"}
    generations = snapshot.engines[found.setup.serving.engine].value.generations
    return [one.id for one in generations if one.id in open_]


def codes(answer) -> set[str]:
    return {one["code"] for one in answer["warnings"]} & {SPEED, MEMORY}


FIGURES = (
    *(("latency", name) for name in ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s")),
    *(("memory", name) for name in ("total_bytes", "kv_cache_capacity_tokens")),
    *(("energy", name) for name in ("it_power_w", "it_energy_per_request_wh")),
)


@pytest.mark.parametrize(("part", "name"), FIGURES)
def test_ranges_hold_what_older_releases_do_and_values_are_of_the_newest(
    packaged_snapshot, part, name
):
    open_ = estimated(packaged_snapshot)[part][name]
    newest = estimated(packaged_snapshot, engine_version="0.21")[part][name]
    assert open_["value"] == newest["value"]
    assert open_["low"] <= newest["low"]
    assert open_["high"] >= newest["high"]
    for release in releases(packaged_snapshot)[:2]:
        older = estimated(packaged_snapshot, engine_version=release)[part][name]
        assert open_["low"] <= older["value"] <= open_["high"], release


@pytest.mark.parametrize(("part", "name"), [("latency", "tpot_s"), ("memory", "total_bytes")])
def test_what_older_releases_do_otherwise_widens_a_range(packaged_snapshot, part, name):
    open_ = estimated(packaged_snapshot)[part][name]
    newest = estimated(packaged_snapshot, engine_version="0.21")[part][name]
    assert open_["high"] - open_["low"] > newest["high"] - newest["low"]


def test_releases_of_which_all_counts_alike_are_one(packaged_snapshot):
    """Memory of vLLM 0.9 is that of 0.14 with the same settings, which is meant more often."""
    found = releases(packaged_snapshot)
    assert "v1" not in found
    assert "0.14" in found


def test_energy_reaches_no_further_than_releases_that_are_slower_and_draw_less(packaged_snapshot):
    """A rate and a power of different releases are not taken together."""
    open_ = estimated(packaged_snapshot)
    releases_ = ("0.21", *releases(packaged_snapshot))
    highs = [
        estimated(packaged_snapshot, engine_version=one)["energy"]["it_energy_per_request_wh"][
            "high"
        ]
        for one in releases_
    ]
    assert open_["energy"]["it_energy_per_request_wh"]["high"] <= max(highs)
    slowest = open_["latency"]["requests_per_s"]["low"]
    apart = open_["energy"]["it_power_w"]["high"] / slowest / 3600.0
    assert open_["energy"]["it_energy_per_request_wh"]["high"] < apart


def test_footprints_and_costs_reach_as_far(packaged_snapshot):
    open_, newest = (
        estimated(packaged_snapshot, **asked) for asked in ({}, {"engine_version": "0.21"})
    )

    def width(answer, *path):
        for part in path:
            answer = answer[part]
        return answer["high"] / answer["low"]

    for path in (
        ("impacts", "per_1k_tokens", "carbon", "total_gco2e"),
        ("impacts", "per_1k_tokens", "water", "total_l"),
    ):
        assert width(open_, *path) > width(newest, *path)


def test_every_question_has_the_same_figures(packaged_snapshot):
    whole = estimated(packaged_snapshot)
    memory = inference_memory_answer(DeploymentRequest(**body()), packaged_snapshot)
    latency = inference_latency_answer(LatencyInferenceRequest(**body()), packaged_snapshot)
    for name in ("total_bytes", "kv_cache_capacity_tokens", "headroom_bytes"):
        assert memory[name] == whole["memory"][name]
    for name in ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s"):
        assert latency[name] == whole["latency"][name]
    assert codes(whole) == codes(latency) == {SPEED, MEMORY}
    assert codes(memory) == {MEMORY}


def test_both_figures_are_told_and_what_to_state(packaged_snapshot):
    told = {one["code"]: one["message"] for one in estimated(packaged_snapshot)["warnings"]}
    assert told[SPEED].startswith("The release of vLLM is not stated: with the newest ")
    assert " ms, with an older one (" in told[SPEED]
    assert told[SPEED].endswith("Ranges cover both; state it to narrow them.")
    assert told[MEMORY].startswith("The request does not say which release of the engine runs: ")
    assert " GB of caches, with another " in told[MEMORY]


@pytest.mark.parametrize(
    "asked",
    [
        {"engine_version": "0.11.0"},
        {"engine_version": "2025-06"},
        {"engine_version": "newest"},
        {"engine": "vllm-before-0.6"},
        {"engine": "lmdeploy"},
    ],
)
def test_nothing_is_open_where_the_release_is_stated_or_there_is_one(packaged_snapshot, asked):
    assert releases(packaged_snapshot, **asked) == []
    assert codes(estimated(packaged_snapshot, **asked)) == set()


def test_releases_older_than_model_and_accelerator_do_not_count(packaged_snapshot):
    """Of Llama 2 of 2023 on an A100, all; of Qwen3 of April 2025, those since."""
    old = releases(packaged_snapshot, model="meta-llama/Llama-2-7b-hf", accelerator="a100-80gb-sxm")
    assert old[:2] == ["before-0.2.6", "before-0.6"]
    new = releases(packaged_snapshot, model="Qwen/Qwen3-8B")
    assert new
    assert not {"before-0.2.6", "before-0.6", "v0", "v0-0.6.6", "v1-0.8"}.intersection(new)
    newer = releases(packaged_snapshot, model="meta-llama/Llama-2-7b-hf", accelerator=B200)
    assert "v0" not in newer


def test_releases_that_were_replaced_within_weeks_do_not_count(packaged_snapshot):
    """Llama 3.1 is of July 2024, and vLLM 0.6 of the fifth of September."""
    assert releases(packaged_snapshot)[0] == "v0"


def test_a_configuration_is_of_the_year_of_the_first_model_of_its_type(packaged_snapshot):
    """Its month is not known: what was in use in the beginning of that year may have run it."""
    given = packaged_snapshot.models["Qwen/Qwen3-8B"].document["config"]
    named = releases(packaged_snapshot, model="Qwen/Qwen3-8B")
    bare = releases(packaged_snapshot, model={"config": given})
    order = [one.id for one in packaged_snapshot.engines["vllm"].value.generations]
    assert order.index("v0") < order.index(bare[0]) < order.index(named[0])


def test_releases_that_do_not_read_the_weights_do_not_count(packaged_snapshot):
    request = body(model="huggyllama/llama-7b", accelerator="a100-80gb-sxm", engine="exllama")
    for weights, others in (("exl3-4.0bpw", []), ("gptq-int4", ["v1"])):
        asked = DeploymentRequest(**request | {"precision": {"weights": weights}})
        found = resolve_deployment(asked, packaged_snapshot, Problems())
        assert _releases(found, packaged_snapshot) == others


@pytest.mark.parametrize("accelerator", [RADEON, STRIX_HALO])
def test_ranges_reach_over_backends_that_many_run(packaged_snapshot, accelerator):
    asked = {"accelerator": accelerator, "engine": "llama.cpp", "engine_version": "2025"}
    open_ = estimated(packaged_snapshot, **asked)
    for backend in ("vulkan", "hip", "hip-rocblas", "hip-rocwmma"):
        stated = estimated(packaged_snapshot, backend=backend, **asked)
        assert codes(stated) == set()
        for name in ("ttft_s", "tpot_s"):
            time_s = open_["latency"][name]
            assert time_s["low"] <= stated["latency"][name]["value"] <= time_s["high"], backend
    told = [one["message"] for one in open_["warnings"] if one["code"] == SPEED]
    # On the card they are too close to be told of.
    assert len(told) == (accelerator == STRIX_HALO)
    for message in told:
        assert message.startswith("The backend of llama.cpp is not stated: with vulkan ")
        assert message.endswith("Ranges cover both; state it to narrow them.")


def test_ranges_reach_over_other_backends_of_the_release_before(packaged_snapshot):
    """Until the end of 2025 HIP left prompts on Radeon to rocBLAS, which is slow on Strix Halo."""
    asked = {"model": "meta-llama/Llama-2-7b-hf", "accelerator": STRIX_HALO}
    open_ = estimated(packaged_snapshot, engine="llama.cpp", **asked)
    usual, older = (
        estimated(packaged_snapshot, engine="llama.cpp", backend="hip-rocblas", **asked, **one)
        for one in ({}, {"engine_version": "2025"})
    )
    slow_s = older["latency"]["ttft_s"]["value"]
    assert slow_s > 1.5 * usual["latency"]["ttft_s"]["value"]
    assert open_["latency"]["ttft_s"]["high"] >= slow_s
    told = [one["message"] for one in open_["warnings"] if one["code"] == SPEED]
    assert any("with hip-rocblas of an older release (2025) " in one for one in told)


def test_nobody_runs_vulkan_beside_cuda(packaged_snapshot):
    asked = {"accelerator": "nvidia-rtx-4090-24gb", "engine": "llama.cpp", "engine_version": "2025"}
    assert codes(estimated(packaged_snapshot, **asked)) == set()


def test_ranges_reach_over_scripts_where_a_server_holds_steps_up(packaged_snapshot):
    """Until 0.6 vLLM's server answered requests in the process that ran steps."""
    for version, apart in (("before-0.6", True), ("0.17", False)):

        def time_s(use, version=version):
            asked = {"engine_version": version, "usage_context": use}
            request = LatencyInferenceRequest(**body(**asked))
            answer = inference_latency_answer(request, packaged_snapshot)
            return answer["ttft_s"], [one["message"] for one in answer["warnings"]]

        (open_, told), (server, _), (script, _) = map(time_s, (None, "server", "offline"))
        assert open_["value"] == server["value"]
        assert (open_["low"] < server["low"]) is apart
        assert any("with a server the first token takes" in message for message in told) is apart
        if apart:
            assert open_["low"] < script["value"] < server["value"]


def test_a_rate_of_requests_has_a_range_with_ends(packaged_snapshot):
    """Near the rate at which an older release saturates, waits of that release have no bound."""
    load = {"input_tokens": 1000, "output_tokens": 300}
    newest = body() | {"workload": LOAD | {"concurrency": 64}}
    most = inference_latency_answer(LatencyInferenceRequest(**newest), packaged_snapshot)
    rate = most["requests_per_s"]["value"]
    asked = body() | {"workload": load | {"requests_per_s": rate}}
    found = inference_latency_answer(LatencyInferenceRequest(**asked), packaged_snapshot)
    assert not found["load"]["saturated"]
    for name in ("ttft_s", "tpot_s", "e2e_s", "requests_per_s"):
        ends = found[name]
        assert 0.0 < ends["low"] <= ends["value"] <= ends["high"]
    limits = {"limits": {"tpot_s": 0.05}, "region": "country/SE"}
    narrow, wide = (
        inference_estimate(InferenceRequest(**body(**serving), **limits), packaged_snapshot)
        for serving in ({"engine_version": "0.21"}, {})
    )
    assert narrow["goodput"]["requests_per_s"]["low"] > wide["goodput"]["requests_per_s"]["low"]


def test_what_does_not_fit_leaves_no_room_for_caches(packaged_snapshot):
    asked = DeploymentRequest(model="llama-3.1-70b", accelerator="h100")
    told = inference_memory_answer(asked, packaged_snapshot)["warnings"]
    (said,) = [one["message"] for one in told if one["code"] == MEMORY]
    assert "room for 0.0 GB of caches" in said
    assert "-" not in said
