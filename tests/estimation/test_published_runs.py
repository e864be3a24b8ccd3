"""Runs whose length and layout were published, estimated as they were laid out.

Where a layout was not published, the usual one of the framework stands in, and the test says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

H100, A100, H800 = "nvidia-h100-sxm-80gb", "nvidia-a100-sxm-80gb", "nvidia-h800-sxm-80gb"
#: Grattafiori et al., The Llama 3 Herd of Models, 2024, table 4 and section 3.3.2.
LLAMA_3_405B: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-405B",
    "accelerator": H100,
    "training": {
        "framework": "megatron-lm",
        "framework_version": "2024-03",
        "sequence_length": 8192,
        "zero_stage": 1,
        "pipeline_schedule": "interleaved",
        "virtual_stages": 8,
    },
}


def run(snapshot, case: dict[str, Any], *, parallelism: dict[str, int], **training: Any):
    body = case | {
        "parallelism": parallelism,
        "training": case.get("training", {}) | training,
    }
    return training_latency_answer(LatencyTrainingRequest.model_validate(body), snapshot)


def held(figure, published: float) -> bool:
    return figure["low"] <= published <= figure["high"]


@pytest.mark.parametrize(
    ("parallelism", "training", "mfu"),
    [
        ({"tensor": 8, "pipeline": 16, "data": 64}, {"gradient_accumulation_steps": 32}, 0.43),
        ({"tensor": 8, "pipeline": 16, "data": 128}, {"gradient_accumulation_steps": 16}, 0.41),
        (
            {"tensor": 8, "context": 16, "pipeline": 16, "data": 8},
            {"gradient_accumulation_steps": 16, "sequence_length": 131072},
            0.38,
        ),
    ],
)
def test_llama_3_405b_uses_what_its_three_layouts_did(
    packaged_snapshot, parallelism, training, mfu
):
    answer = run(packaged_snapshot, LLAMA_3_405B, parallelism=parallelism, **training)
    assert held(answer["mfu_ratio"], mfu)
    assert answer["mfu_ratio"]["value"] == pytest.approx(mfu, rel=0.25)


def test_llama_3_405b_took_its_hours(packaged_snapshot):
    # 30.84 million hours for 15.6e12 tokens, failures and all else included (model card).
    answer = run(
        packaged_snapshot,
        LLAMA_3_405B,
        parallelism={"tensor": 8, "pipeline": 16, "data": 128},
        gradient_accumulation_steps=16,
        tokens=15.6e12,
    )
    hours = answer["run"]["accelerator_hours"]
    assert held(hours, 30.84e6)
    assert hours["value"] == pytest.approx(30.84e6, rel=0.25)


def test_bloom_took_its_hours(packaged_snapshot):
    # 1,082,990 hours for 366e9 tokens on 384 A100 (Luccioni et al., 2022; layout: BigScience,
    # chronicles of tr11-176B, 2022).
    case = {"model": "bigscience/bloom", "accelerator": A100}
    answer = run(
        packaged_snapshot,
        case,
        parallelism={"tensor": 4, "pipeline": 12, "data": 8},
        framework="megatron-deepspeed",
        framework_version="2022-03",
        sequence_length=2048,
        micro_batch_size=2,
        gradient_accumulation_steps=128,
        zero_stage=1,
        attention="eager",
        sequence_parallel=False,
        activation_checkpointing="full",
        tokens=366e9,
    )
    hours = answer["run"]["accelerator_hours"]
    assert held(hours, 1_082_990.0)
    assert hours["value"] == pytest.approx(1_082_990.0, rel=0.25)


@pytest.mark.parametrize(
    ("model", "parallelism", "training", "hours"),
    [
        (
            "meta-llama/Llama-2-7b-hf",
            {"data": 512},
            {
                "framework": "megatron-lm",
                "framework_version": "2023-06",
                "zero_stage": 1,
                "micro_batch_size": 2,
            },
            184_320.0,
        ),
        (
            "meta-llama/Llama-2-13b-hf",
            {"tensor": 2, "data": 512},
            {
                "framework": "megatron-lm",
                "framework_version": "2023-06",
                "zero_stage": 1,
                "micro_batch_size": 2,
            },
            368_640.0,
        ),
        (
            "meta-llama/Llama-2-70b-hf",
            {"tensor": 8, "pipeline": 4, "data": 64},
            {
                "framework": "megatron-lm",
                "framework_version": "2023-06",
                "gradient_accumulation_steps": 16,
                "zero_stage": 1,
            },
            1_720_320.0,
        ),
    ],
)
def test_llama_2_took_its_hours_in_usual_layouts(
    packaged_snapshot, model, parallelism, training, hours
):
    # 2e12 tokens in batches of 4 million; layouts were not published, but models came in 1, 2 and 8
    # parts, and LLaMA was divided as Megatron does (Touvron et al., 2023, section 2.4).
    answer = run(
        packaged_snapshot,
        {"model": model, "accelerator": A100},
        parallelism=parallelism,
        sequence_length=4096,
        activation_checkpointing="selective",
        tokens=2e12,
        **training,
    )
    assert held(answer["run"]["accelerator_hours"], hours)


@pytest.mark.parametrize(
    ("model", "accelerators", "tokens", "speed", "hours"),
    [
        ("allenai/Olmo-3-1025-7B", 512, 5.93e12, 7_700.0, 234e3),
        ("allenai/Olmo-3-1125-32B", 1024, 5.5e12, 1_900.0, 1.05e6),
    ],
)
def test_olmo_3_took_its_hours(packaged_snapshot, model, accelerators, tokens, speed, hours):
    # Tokens a second and H100, and hours with restarts and checkpoints (Team Olmo, Olmo 3, 2025,
    # section 3; hours as Bradbury, 2025, https://muxup.com/2025q4/minipost-olmo3-training-cost has
    # them of Ai2). Sharded data parallelism, a sequence of 8,192 tokens on each. Assumed: how many
    # tokens the hours are for, added up from stages, and what was computed twice.
    answer = run(
        packaged_snapshot,
        {"model": model, "accelerator": H100},
        parallelism={"data": accelerators},
        framework="torchtitan",
        zero_stage=3,
        sequence_length=8192,
        activation_checkpointing="selective",
        gradient_dtype="fp32",
        tokens=tokens,
    )
    assert held(answer["tokens_per_s_per_accelerator"], speed)
    assert answer["tokens_per_s_per_accelerator"]["value"] == pytest.approx(speed, rel=0.15)
    assert held(answer["run"]["accelerator_hours"], hours)


@pytest.mark.parametrize(
    ("model", "hours"),
    [("meta-llama/Meta-Llama-3-70B", 6.4e6), ("meta-llama/Llama-3.1-70B", 7.0e6)],
)
def test_llama_3_70b_took_its_hours_in_a_usual_layout(packaged_snapshot, model, hours):
    # 15e12 tokens (model cards); the layout was not published. Interleaved, as this framework's
    # runs mostly are, 3.1's would have taken 5.3 million hours, 6.8 at most.
    answer = run(
        packaged_snapshot,
        {"model": model, "accelerator": H100},
        parallelism={"tensor": 8, "pipeline": 4, "data": 64},
        framework="megatron-lm",
        framework_version="2024-03",
        sequence_length=8192,
        gradient_accumulation_steps=16,
        pipeline_schedule="1f1b",
        zero_stage=1,
        tokens=15e12,
    )
    assert held(answer["run"]["accelerator_hours"], hours)


def test_llama_3_8b_took_its_hours_on_all_of_its_cluster(packaged_snapshot):
    # 1.3 million hours for 15e12 tokens (model card) are 18 % of peak. The layout is assumed:
    # the usual one, without tensor parallelism, needs far less, but a batch of 16 million tokens
    # has only 2,048 sequences for the 16,384 accelerators of the cluster (The Llama 3 Herd of
    # Models, 2024, section 3.3): each machine shares one, and gradients hide behind little.
    asked: dict[str, Any] = {
        "framework": "megatron-lm",
        "framework_version": "2024-03",
        "sequence_length": 8192,
        "zero_stage": 1,
        "tokens": 15e12,
    }
    case = {"model": "meta-llama/Meta-Llama-3-8B", "accelerator": H100}
    usual, whole = (
        run(packaged_snapshot, case, parallelism={"data": 2048, **more}, **asked)
        for more in ({}, {"tensor": 8})
    )
    assert usual["run"]["accelerator_hours"]["high"] < 1.3e6
    assert held(whole["run"]["accelerator_hours"], 1.3e6)
    assert whole["mfu_ratio"]["value"] == pytest.approx(0.18, rel=0.3)


@pytest.mark.parametrize(
    ("schedule", "prediction_layers"), [("zero-bubble", 0), ("zero-bubble", 1), ("dualpipe", 1)]
)
def test_deepseek_v3_took_its_hours(packaged_snapshot, schedule, prediction_layers):
    # 2.664 million hours for 14.8e12 tokens on 2,048 H800: 16 stages, 64 ranks of experts, batches
    # of 15,360 sequences, 8-bit products, a schedule almost without bubbles, tokens that go
    # to at most four machines and hide behind computation, one layer that predicts the token after
    # the next (DeepSeek-V3 Technical Report, 2024, sections 2.2, 3 and 4.2). DualPipe has both
    # ends of the pipeline on one rank; otherwise the layer stands on the last.
    case = {
        "model": "deepseek-ai/DeepSeek-V3",
        "accelerator": H800,
        "precision": {"weights": "bf16", "activations": "fp8"},
    }
    answer = run(
        packaged_snapshot,
        case,
        parallelism={"pipeline": 16, "data": 128, "expert": 64},
        framework="megatron-lm",
        sequence_length=4096,
        gradient_accumulation_steps=120,
        zero_stage=1,
        activation_checkpointing="none",
        pipeline_schedule=schedule,
        expert_dispatch="per-machine",
        expert_machines=4,
        expert_overlap_ratio=1.0,
        prediction_layers=prediction_layers,
        tokens=14.8e12,
    )
    assert held(answer["run"]["accelerator_hours"], 2.664e6)


def test_a_run_takes_longer_than_its_benchmark(packaged_snapshot):
    case = {"model": "bigscience/bloom", "accelerator": A100}
    layout = {"tensor": 4, "pipeline": 12, "data": 8}
    asked = {"framework": "megatron-deepspeed", "gradient_accumulation_steps": 64, "tokens": 1e11}
    published = run(packaged_snapshot, case, parallelism=layout, **asked)["run"]
    ideal = run(
        packaged_snapshot,
        case,
        parallelism=layout,
        failures={"per_accelerator_day": 0.0, "other_losses_ratio": 0.0},
        **asked,
    )["run"]
    assert ideal["goodput_ratio"]["low"] == pytest.approx(1.0)
    assert ideal["days"]["value"] == pytest.approx(ideal["useful_days"]["value"])
    assert published["goodput_ratio"]["value"] == pytest.approx(
        published["failures_goodput_ratio"]["value"] * 0.89
    )
    assert published["goodput_ratio"]["low"] < 0.9 < published["failures_goodput_ratio"]["low"]


def test_a_known_utilisation_says_how_long_a_step_takes(packaged_snapshot):
    # 7B, 4,096 tokens on one A100 at 40 %: 1.38 s by six operations a parameter and token, and what
    # attention takes besides.
    case = {"model": "meta-llama/Llama-2-7b-hf", "accelerator": A100}
    known = run(packaged_snapshot, case, parallelism={}, mfu_ratio=0.4)
    assert known["mfu_ratio"] == {name: pytest.approx(0.4) for name in ("value", "low", "high")}
    six_nd_s = 6.0 * 6.738e9 * 4096 / (312e12 * 0.4)
    over = known["operations"]["model_over_six_nd_ratio"]
    assert known["step_s"]["value"] == pytest.approx(six_nd_s * over, rel=1e-3)
    assert known["step_s"]["low"] == known["step_s"]["high"]
    assert sum(known["parts"].values()) == pytest.approx(known["step_s"]["value"])
