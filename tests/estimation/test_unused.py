"""Settings that change nothing beside others are told, and only those that somebody asked for."""

from __future__ import annotations

import pytest

from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.requests import MemoryInferenceRequest
from service.estimation.training.estimate import training_memory_answer
from service.estimation.training.requests import MemoryTrainingRequest

ASKED = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}


def unused(answer):
    told = [one for one in answer["warnings"] if one["code"] == "setting_unused"]
    return [(one["pointer"], one["message"]) for one in told]


@pytest.mark.parametrize(
    ("workload", "idle"),
    [
        ({"tool_s": 3.0}, "tool_s"),
        ({"context_growth_tokens": 100, "context_kept_cached": True}, "context_growth_tokens"),
        ({"image_width_px": 512}, "image_width_px"),
        ({"tool_s": 3.0, "calls_per_task": 4}, None),
        ({"tool_s": 0.0, "image_width_px": 1024}, None),
    ],
)
def test_parts_of_a_load_without_meaning_are_told(packaged_snapshot, workload, idle):
    request = MemoryInferenceRequest.model_validate({**ASKED, "workload": workload})
    told = unused(inference_memory_answer(request, packaged_snapshot))
    assert [pointer for pointer, _ in told] == ([] if idle is None else [f"workload.{idle}"])
    assert all(message.endswith("nothing") for _, message in told)


@pytest.mark.parametrize(
    ("training", "idle"),
    [
        ({"lora_rank": 64}, "lora_rank"),
        ({"method": "lora", "lora_rank": 64}, None),
        ({"method": "lora", "adapter": "ia3", "lora_rank": 64}, "lora_rank"),
        ({"method": "lora", "adapter": "prompt", "virtual_tokens": 64}, None),
        ({"method": "lora", "virtual_tokens": 64}, "virtual_tokens"),
        ({"optimizer_rank": 64}, "optimizer_rank"),
        ({"optimizer_rank": 64, "optimizer": "galore-adamw"}, None),
        ({"checkpoint_every": 2}, "checkpoint_every"),
        ({"checkpoint_every": 2, "activation_checkpointing": "full"}, None),
        ({"lora_rank": 16}, None),
    ],
)
def test_settings_of_training_without_meaning_are_told(packaged_snapshot, training, idle):
    request = MemoryTrainingRequest.model_validate({**ASKED, "training": training})
    told = unused(training_memory_answer(request, packaged_snapshot))
    assert [pointer for pointer, _ in told] == ([] if idle is None else [f"training.{idle}"])


@pytest.mark.parametrize(
    ("model", "task_tokens"),
    [("google-bert/bert-base-uncased", 512), ("openai-community/gpt2", 768)],
)
def test_prompts_without_a_length_are_no_longer_than_the_model_reads(
    packaged_snapshot, model, task_tokens
):
    request = MemoryInferenceRequest.model_validate({**ASKED, "model": model})
    answer = inference_memory_answer(request, packaged_snapshot)
    assert answer["deployment"]["workload"]["input_tokens"] == task_tokens
    assert "context_beyond_model" not in {one["code"] for one in answer["warnings"]}
