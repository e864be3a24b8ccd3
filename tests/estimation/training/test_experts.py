"""Messages to experts on other machines: how often a token goes, and what hides."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.performance.collectives import all_to_all, dispatch
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

HOURS_PER_TOKEN = 2.664e6 / 14.8e12


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(expert: int = 64, **training: Any) -> Any:
        body = {
            "model": "deepseek-ai/DeepSeek-V3",
            "accelerator": "nvidia-h800-sxm-80gb",
            "parallelism": {"pipeline": 16, "data": 128, "expert": expert},
            "precision": {"weights": "bf16", "activations": "fp8"},
            "training": {
                "framework": "megatron-lm",
                "gradient_accumulation_steps": 120,
                "zero_stage": 1,
                # Norms and up-projections are computed again, attention is not (section 3.2.3).
                "activation_checkpointing": "none",
                "pipeline_schedule": "zero-bubble",
                **training,
            },
        }
        return training_latency_answer(
            LatencyTrainingRequest.model_validate(body), packaged_snapshot
        )

    return answered


def test_a_token_goes_once_to_each_machine(packaged_snapshot):
    h800 = packaged_snapshot.accelerators["nvidia-h800-sxm-80gb"].value
    slow, fast = 50e9, 200e9
    # A copy for each expert: 56 of 64 lie on other machines, 7 on the own one.
    everywhere = all_to_all(64, h800, 1.0, 0.0)
    assert everywhere.byte_s == pytest.approx(56 / 64 / slow + 7 / 64 / fast)
    # DeepSeek-V3, 2024, section 3.2.2: of at most four machines nearly all are touched.
    touched = 4 * (1 - 0.75**8)
    limited = dispatch(64, 8, 4, h800, 1.0, 0.0)
    assert limited.byte_s == pytest.approx(touched / 8 * 7 / 8 / slow)
    assert dispatch(64, 8, None, h800, 1.0, 0.0).byte_s > limited.byte_s
    # Within a machine it is passed on to all but the one expert of eight that is there.
    assert dispatch(8, 8, None, h800, 1.0, 0.0).byte_s == pytest.approx(7 / 8 / fast)
    assert dispatch(64, 8, 1, h800, 1.0, 0.0).byte_s == pytest.approx(7 / 8 / fast)
    assert dispatch(1, 8, None, h800, 1.0, 0.0).byte_s == 0.0


def test_deepseek_v3_trains_at_its_published_speed(ask):
    # With a layer that predicts the token after the next, at both ends of whose pipeline
    # micro-batches enter (sections 2.2 and 3.2.1). Their kernels lose little by scaling blocks
    # (section 3.3.2), which those of the framework that stands in for theirs do: no recipe is told.
    run = ask(
        expert_dispatch="per-machine",
        expert_machines=4,
        pipeline_schedule="dualpipe",
        prediction_layers=1,
    )
    published = 1 / HOURS_PER_TOKEN / 3600
    assert run["tokens_per_s_per_accelerator"]["value"] == pytest.approx(published, rel=0.10)


def test_messages_to_experts_are_why_deepseek_hides_them(ask):
    plain, limited, hidden = (
        ask(expert_overlap_ratio=0.0),
        ask(expert_dispatch="per-machine", expert_machines=4, expert_overlap_ratio=0.0),
        ask(expert_dispatch="per-machine", expert_machines=4, expert_overlap_ratio=1.0),
    )
    speeds = [one["tokens_per_s_per_accelerator"]["value"] for one in (plain, limited, hidden)]
    assert speeds == sorted(speeds)
    assert speeds[0] < 0.6 / HOURS_PER_TOKEN / 3600
    # Computation and messages to experts take about as long as each other, they say.
    parts = limited["parts"]
    sent = limited["exposed_communication_s"] + limited["hidden_communication_s"]
    computed = parts["matrix_products_s"] + parts["attention_s"] + parts["elementwise_s"]
    assert sent / computed == pytest.approx(1.0, abs=0.5)
    assert hidden["exposed_expert_communication_s"] == 0.0
    assert plain["exposed_expert_communication_s"] == pytest.approx(
        plain["parts"]["exposed_model_messages_s"], rel=0.05
    )


@pytest.mark.parametrize(
    ("asked", "hides"),
    [
        ({}, True),
        # Releases before 2025 had no such schedule.
        ({"framework_version": "2024-06"}, False),
        # Layers that are recomputed whole would send their tokens once more.
        ({"activation_checkpointing": "full"}, False),
        # Within a machine messages are short.
        ({"expert": 8}, False),
        ({"expert_overlap_ratio": 0.0}, False),
    ],
)
def test_newest_megatron_hides_messages_to_experts_on_other_machines(ask, asked, hides):
    answer = ask(pipeline_schedule="1f1b", **asked)
    exposed_s = answer["exposed_expert_communication_s"]
    assert (exposed_s == 0.0) is hides


def test_what_changes_nothing_is_said(ask):
    answer = ask(expert=1, expert_overlap_ratio=0.5)
    assert "no_expert_messages" in {one["code"] for one in answer["warnings"]}
    with pytest.raises(Rejected) as refused:
        ask(expert_machines=4)
    assert [error.pointer for error in refused.value.errors] == ["/training/expert_machines"]


def test_experts_that_do_not_divide_are_refused_with_degrees_that_do(packaged_snapshot):
    body = {
        "model": "Qwen/Qwen3-30B-A3B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "parallelism": {"expert": 6, "data": 12},
        "training": {"framework": "megatron-lm"},
    }
    with pytest.raises(Rejected) as refused:
        training_latency_answer(LatencyTrainingRequest.model_validate(body), packaged_snapshot)
    (error,) = refused.value.errors
    assert error.pointer == "/parallelism/expert"
    assert "128 experts cannot be divided evenly among 6 ranks" in error.detail
    assert error.detail.endswith("these degrees work: 1, 2, 4")


@pytest.mark.parametrize(
    ("model", "framework", "said"),
    [
        ("meta-llama/Llama-3.1-8B", "megatron-lm", "routes no tokens to experts"),
        ("Qwen/Qwen3-30B-A3B", "torchtitan", "another framework, such as megatron-lm"),
    ],
)
def test_a_capacity_that_nothing_has_is_refused(packaged_snapshot, model, framework, said):
    body = {
        "model": model,
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"framework": framework, "expert_capacity_factor": 1.25},
    }
    with pytest.raises(Rejected, match=said):
        training_latency_answer(LatencyTrainingRequest.model_validate(body), packaged_snapshot)


@pytest.mark.parametrize(("framework", "filled"), [("megatron-lm", False), ("maxtext", True)])
def test_experts_with_a_capacity_are_filled_where_the_framework_does(
    packaged_snapshot, framework, filled
):
    body = {
        "model": "Qwen/Qwen3-30B-A3B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"framework": framework, "expert_capacity_factor": 1.25},
        "include": ["deployment"],
    }
    answer = training_latency_answer(LatencyTrainingRequest.model_validate(body), packaged_snapshot)
    assert answer["deployment"]["training"]["expert_padding"] is filled
