"""What nobody with experience would do is not recommended."""

import pytest

from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest

H100, MI300X = "nvidia-h100-sxm-80gb", "amd-mi300x-192gb"


def serving(snapshot, **asked):
    return recommendation_answer(RecommendationRequest.model_validate(asked), snapshot)


def training(snapshot, **asked):
    request = TrainingRecommendationRequest.model_validate(asked)
    return training_recommendation_answer(request, snapshot)


def test_servers_are_not_given_files_of_single_users(packaged_snapshot):
    # Google ships Gemma 3 in a GGUF file of 4 bits, which llama.cpp reads and vLLM has no kernels
    # of its own for (vLLM, documentation of GGUF, 2025: highly experimental, under-optimized).
    answer = serving(
        packaged_snapshot,
        model="google/gemma-3-12b-it",
        workload={"input_tokens": 500, "output_tokens": 300, "concurrency": 8},
        search={"accelerators": [MI300X, H100], "regions": ["JP/*", "US"]},
        include=["front"],
    )
    formats = {one["precision"]["weights"] for one in answer["front"]}
    assert formats
    assert not any(name.startswith("gguf-") for name in formats)


@pytest.mark.parametrize("engine", ["tgi", "lmdeploy"])
def test_engines_are_given_no_weights_that_they_have_no_kernels_for(packaged_snapshot, engine):
    # Both read FP8, and neither NVFP4 (their loaders, 2025), in which releases are faster.
    def formats(**more):
        answer = serving(
            packaged_snapshot,
            model="meta-llama/Llama-3.1-8B-Instruct",
            workload={"input_tokens": 500, "output_tokens": 200, "requests_per_s": 2.0},
            serving={"engine": engine},
            search={"accelerators": ["nvidia-b200-sxm-180gb"], "regions": ["US"], **more},
            include=["front"],
        )
        return {one["precision"]["weights"] for one in answer["front"]}

    assert formats()
    assert "nvfp4" not in formats()
    assert formats(precisions=["nvfp4"]) == {"nvfp4"}


@pytest.mark.parametrize("model", ["meta-llama/Llama-2-7b-hf", "openai-community/gpt2"])
def test_weights_that_ship_in_another_format_are_trained_in_bf16(packaged_snapshot, model):
    # Llama 2 ships in fp16 and was trained in bf16; GPT-2 ships in fp32.
    answer = training(
        packaged_snapshot,
        model=model,
        training={"tokens": 1e9, "sequence_length": 1024},
        search={"accelerators": [H100], "max_accelerators": 8, "regions": ["US"]},
    )
    weights = {choice["candidate"]["precision"]["weights"] for choice in answer["choices"]}
    assert weights == {"bf16"}
    assert all("fp16" not in choice["start"]["command"] for choice in answer["choices"])


def test_deepseek_v3_takes_about_the_hours_that_were_published(packaged_snapshot):
    # 2.664 million hours on 2,048 H800: 16 stages, 64 ranks of experts, 15,360 sequences a step,
    # tokens that go to four machines at most and hide behind computation, almost no bubbles
    # (DeepSeek-V3 Technical Report, 2024, sections 2.2, 3 and 4.2).
    def asked(**more):
        return training(
            packaged_snapshot,
            model="deepseek-ai/DeepSeek-V3",
            training={
                "tokens": 14.8e12,
                "sequence_length": 4096,
                "global_batch_size": 15360,
                **more,
            },
            search={
                "accelerators": ["nvidia-h800-sxm-80gb"],
                "accelerator_counts": [2048],
                "regions": ["country/CN"],
            },
            include=["estimates", "front"],
        )

    plain = asked()
    hidden = asked(
        expert_dispatch="per-machine",
        expert_machines=4,
        expert_overlap_ratio=1.0,
        pipeline_schedule="zero-bubble",
    )
    assert "expert_messages_as_usual" in {one["code"] for one in plain["warnings"]}
    assert "expert_messages_as_usual" not in {one["code"] for one in hidden["warnings"]}
    hours = hidden["choices"][0]["estimate"]["latency"]["run"]["accelerator_hours"]
    assert hours["low"] < 2.664e6 < hours["high"]
    assert hours["value"] == pytest.approx(2.664e6, rel=0.25)
    assert hours["value"] < 0.8 * plain["choices"][0]["candidate"]["accelerator_hours"]
    published = [
        one["accelerator_hours"]
        for one in hidden["front"]
        if (one["parallelism"]["pipeline"], one["parallelism"]["expert"]) == (16, 64)
    ]
    assert min(published) < 1.05 * hours["value"]


def test_nobody_divides_a_run_among_laptops(packaged_snapshot):
    answer = training(
        packaged_snapshot,
        model="Qwen/Qwen3-8B",
        training={"tokens": 1e7, "sequence_length": 1024, "methods": ["qlora"]},
        search={"where": "laptop", "regions": ["country/US"]},
    )
    assert {choice["candidate"]["accelerator_count"] for choice in answer["choices"]} == {1}


def test_who_names_a_country_is_told_that_hardware_there_is_their_own(packaged_snapshot):
    def told(region, **where):
        answer = serving(
            packaged_snapshot,
            model="meta-llama/Llama-3.1-8B",
            workload={"concurrency": 4},
            search={"regions": [region], "accelerators": [H100], **where},
        )
        return [one["message"] for one in answer["warnings"] if one["code"] == "place_of_own"]

    assert "JP/* names the cloud regions there" in told("country/JP")[0]
    assert told("JP/*") == told("country/JP", where="owned") == []


def test_what_comes_next_differs_in_more_than_a_name(packaged_snapshot):
    # Weights in 8 bits of the engine's making and of a published release are as fast.
    answer = serving(
        packaged_snapshot,
        model="HuggingFaceTB/SmolLM3-3B",
        workload={"input_tokens": 600, "output_tokens": 200, "requests_per_s": 10.0},
        search={"accelerators": ["nvidia-rtx-4090-24gb", "nvidia-l40s-48gb"]},
    )
    choice = next(one for one in answer["choices"] if "balanced" in one["priorities"])
    mine, other = choice["candidate"], choice["nearest_loser"]["candidate"]
    same_place = all(mine[name] == other[name] for name in ("accelerator", "region"))
    assert not (
        same_place
        and mine["accelerator_count"] == other["accelerator_count"]
        and all(
            abs(mine["metrics"][name] - other["metrics"][name]) <= 0.005 * mine["metrics"][name]
            for name in ("cost", "latency", "carbon", "headroom")
        )
    )
