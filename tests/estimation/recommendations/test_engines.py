"""Engines that a search tries, and the formats that each of them holds its cache in."""

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.formats import tried_caches
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import Rejected

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def asked(**overrides):
    return RecommendationRequest.model_validate(
        {
            "model": MODEL,
            "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 1},
            "limits": {"implied": False},
        }
        | overrides
    )


def tried_on(snapshot, **overrides):
    """Engines by the accelerators that they are tried on."""
    search = resolve_search(asked(**overrides), snapshot)
    return {
        search.accelerators[position].id: environment.serving.engine
        for space, environment in zip(search.spaces, search.environments, strict=True)
        for position in space.positions
    }


def test_each_accelerator_is_tried_with_what_people_run_there(packaged_snapshot):
    names = ["nvidia-l4-24gb", "aws-inferentia2", "apple-m3-ultra-512gb"]
    tried = tried_on(packaged_snapshot, search={"accelerators": names})
    assert tried == {
        "nvidia-l4-24gb": "vllm",
        "aws-inferentia2": "transformers-neuronx",
        "apple-m3-ultra-512gb": "llama.cpp",
    }


def test_an_engine_that_is_named_runs_everything(packaged_snapshot):
    names = ["nvidia-l4-24gb", "aws-inferentia2"]
    tried = tried_on(packaged_snapshot, search={"accelerators": names}, serving={"engine": "vllm"})
    assert set(tried.values()) == {"vllm"}


@pytest.mark.parametrize(
    "search",
    [{"where": "cloud", "regions": ["nordics"]}, {"where": "laptop,workstation"}],
)
def test_choices_are_estimates_of_the_engine_that_they_name(packaged_snapshot, search):
    answer = recommendation_answer(asked(search=search), packaged_snapshot)
    assert answer["choices"]
    for choice in answer["choices"]:
        request = InferenceRequest.model_validate(choice["request"])
        estimate = inference_estimate(request, packaged_snapshot)
        assert estimate["deployment"]["serving"]["engine"] == choice["candidate"]["engine"]
        assert estimate["latency"]["tpot_s"]["value"] == choice["candidate"]["tpot_s"]


def test_the_usual_engine_of_an_accelerator_is_not_named_in_requests(packaged_snapshot):
    names = ["nvidia-l4-24gb", "aws-inferentia2"]
    answer = recommendation_answer(asked(search={"accelerators": names}), packaged_snapshot)
    for choice in answer["choices"]:
        assert "engine" not in choice["request"].get("serving", {})


def test_the_checkpoint_that_was_asked_for_is_started(packaged_snapshot):
    formats = {"precisions": ["bf16"], "accelerators": ["nvidia-l40s-48gb"]}
    answer = recommendation_answer(asked(search=formats), packaged_snapshot)
    commands = {choice["start"]["command"].split()[2] for choice in answer["choices"]}
    assert commands == {MODEL}


@pytest.mark.parametrize(
    ("engine", "caches"),
    [
        ("vllm", ("bf16", "fp8")),
        ("llama.cpp", ("bf16", "gguf-q8_0")),
        ("gpt-fast", ("bf16",)),
        # Nothing is said of its caches.
        ("mlc-llm", ("bf16",)),
    ],
)
def test_usual_caches_are_those_that_an_engine_holds(packaged_snapshot, engine, caches):
    assert tried_caches(None, packaged_snapshot.engines[engine].value) == caches


def test_floats_of_8_bits_are_held_where_hardware_has_units_for_them(packaged_snapshot):
    def caches(name, **more):
        search = {"accelerators": [name], "precisions": ["bf16"]} | more
        answer = recommendation_answer(asked(search=search), packaged_snapshot)
        return {choice["candidate"]["precision"]["kv_cache"] for choice in answer["choices"]}

    assert caches("nvidia-a100-sxm-80gb") == {"bf16"}
    assert "fp8" in caches("nvidia-h100-sxm-80gb")
    assert caches("nvidia-a100-sxm-80gb", kv_caches=["fp8"]) == {"fp8"}


def test_caches_that_no_engine_holds_are_refused(packaged_snapshot):
    search = {"accelerators": ["apple-m3-ultra-512gb"], "kv_caches": ["bf16", "fp8"]}
    with pytest.raises(Rejected) as caught:
        resolve_search(asked(search=search), packaged_snapshot)
    (error,) = caught.value.errors
    assert error.pointer == "/search/kv_caches/1"
    assert error.suggestions[0] == "gguf-q8_0"


def test_native_engines_narrow_checkpoints_of_servers(packaged_snapshot):
    search = resolve_search(
        asked(
            model="deepseek-ai/DeepSeek-R1",
            search={"accelerators": ["apple-m3-ultra-512gb"]},
        ),
        packaged_snapshot,
    )
    formats = {name for one in search.tried for name in one.formats}
    assert formats == {"gguf-q4_k_m"}
