"""Groups of data-parallel ranks that each hold all states, as they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.launching.training import run_start_of
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

MODEL, H100 = "meta-llama/Llama-3.1-8B", "nvidia-h100-sxm-80gb"
GROUPED = "data_parallel_shard_degree"


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(count: int = 64, model: str = MODEL, **training: Any) -> dict[str, Any]:
        parallelism = training.pop("parallelism", None)
        body = {
            "model": model,
            "accelerator": H100,
            "accelerator_count": count,
            "parallelism": parallelism,
            "training": {"micro_batch_size": 1, "zero_stage": 3} | training,
            "include": ["deployment"],
        }
        return training_estimate(EstimateTrainingRequest.model_validate(body), packaged_snapshot)

    return answered


def told(answer):
    return answer["deployment"]["training"].get(GROUPED)


def step_s(answer):
    return answer["latency"]["step_s"]["value"]


def held(answer):
    return answer["memory"]["total_bytes"]["value"]


def test_ranks_of_a_machine_are_those_beside_what_divides_a_copy(ask):
    assert told(ask(framework="torchtitan", **{GROUPED: "machine"})) == 8
    divided = ask(framework="torchtitan", parallelism={"tensor": 2}, **{GROUPED: "machine"})
    assert told(divided) == 4


def test_groups_cost_memory_and_save_messages_over_many_machines(ask):
    whole = ask(1024, framework="torchtitan")
    grouped = ask(1024, framework="torchtitan", **{GROUPED: 8})
    assert told(whole) is None
    assert held(grouped) > held(whole)
    assert step_s(grouped) < step_s(whole)
    # What is one group is not divided otherwise.
    one = ask(8, framework="torchtitan", **{GROUPED: 8})
    assert step_s(one) == step_s(ask(8, framework="torchtitan"))


def test_what_a_framework_groups_untold_is_one_group_where_it_does_not_fit(ask):
    assert told(ask(framework="fms-fsdp")) == 8
    large = ask(framework="fms-fsdp", model="meta-llama/Llama-3.1-70B")
    assert told(large) == 64
    assert "made_to_fit" in {warning["code"] for warning in large["warnings"]}
    # The echo asks for the same run again.
    again = ask(framework="fms-fsdp", model="meta-llama/Llama-3.1-70B", **{GROUPED: 64})
    assert told(again) == 64


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({GROUPED: 7}, "these work: 2, 4, 8"),
        ({GROUPED: 1}, "use zero_stage 0"),
        ({GROUPED: 8, "framework": "llm.c", "zero_stage": 1}, "all data-parallel ranks"),
    ],
)
def test_groups_that_cannot_be_are_refused(ask, training, said):
    with pytest.raises(Rejected, match=said):
        ask(**training)


def test_a_group_holds_all_experts(ask):
    layout = {"expert": 16}
    model = "Qwen/Qwen3-30B-A3B"
    with pytest.raises(Rejected, match="holds all experts"):
        ask(model=model, framework="torchtitan", parallelism=layout, **{GROUPED: 8})
    assert told(ask(model=model, framework="torchtitan", parallelism=layout, **{GROUPED: 32})) == 32


def test_groups_of_what_is_not_divided_are_said_to_be_unused(ask):
    answer = ask(zero_stage=0, **{GROUPED: 8})
    unused = [one for one in answer["warnings"] if one["code"] == "setting_unused"]
    assert len(unused) == 1
    assert GROUPED in unused[0]["message"]


def test_a_run_is_started_with_its_groups(ask, packaged_snapshot):
    accelerator = packaged_snapshot.accelerators[H100].value

    def command(framework: str, **training: Any) -> str:
        run = ask(framework=framework, **training)["deployment"]
        start = run_start_of(framework, run, 32, 64, accelerator, packaged_snapshot)
        assert start is not None
        return start["command"]

    titan = command("torchtitan", **{GROUPED: 8})
    assert "--parallelism.data_parallel_replicate_degree 8" in titan
    megatron = command("megatron-lm", zero_stage=1, **{GROUPED: 16})
    assert "--num-distributed-optimizer-instances 4" in megatron


def test_searches_try_layouts_that_make_such_groups(packaged_snapshot):
    body = {
        "model": MODEL,
        "training": {"tokens": 2e9, "global_batch_size": 256, GROUPED: 8},
        "search": {
            "accelerators": [H100],
            "regions": ["aws/eu-north-1"],
            "accelerator_counts": [32],
        },
        "include": ["front"],
    }
    request = TrainingRecommendationRequest.model_validate(body)
    found = training_recommendation_answer(request, packaged_snapshot)
    shown = found["front"]
    assert shown
    for candidate in shown:
        divided = candidate["training"]["zero_stage"] > 0
        assert not divided or candidate["parallelism"]["data"] % 8 == 0


SECOND = "secondary_shard_degree"


def test_second_copies_take_memory_and_save_messages_between_machines(ask):
    model = "meta-llama/Llama-3.1-70B"
    told = {"framework": "deepspeed", "activation_checkpointing": "full", "model": model}
    plain, second = ask(**told), ask(**told, **{SECOND: "machine"})
    assert second["deployment"]["training"][SECOND] == 8
    assert held(second) > held(plain)
    assert step_s(second) < step_s(plain)


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({SECOND: 7}, "these work: 1, 2, 4, 8"),
        ({SECOND: 8, "zero_stage": 2}, "use zero_stage 3"),
        ({SECOND: 8, GROUPED: 8}, f"leave out {GROUPED}"),
        ({SECOND: 8, "framework": "torchtitan"}, "no second copy of divided weights"),
        ({"weight_gather_dtype": "int8", "framework": "torchtitan"}, "use fp8, or use another"),
        ({"gradient_scatter_dtype": "int4", "framework": "fsdp"}, "leave it out, or use another"),
    ],
)
def test_second_copies_and_formats_that_cannot_be_are_refused(ask, training, said):
    with pytest.raises(Rejected, match=said):
        ask(**training)
