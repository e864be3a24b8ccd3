"""Distillation, DPO and GRPO are what their parts are, put together."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.post_training.estimate import post_training_answer
from service.estimation.post_training.requests import (
    EXAMPLE_DISTILLATION,
    EXAMPLE_DPO,
    EXAMPLE_GRPO,
    PostTrainingRequest,
)
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.training.estimate import training_latency_answer, training_memory_answer
from service.estimation.training.requests import LatencyTrainingRequest, MemoryTrainingRequest

LLAMA_8B_BYTES, LLAMA_70B_BYTES = 8.03e9 * 2, 70.55e9 * 2
VOCABULARY = 128_256
OBJECTIVES = ("distillation", "dpo", "grpo")
#: An engine that sleeps holds nothing then.
WITHOUT_GRAPHS = {"grpo__generation__serving": {"enforce_eager": True}}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
        body = deepcopy(base)
        for place, value in changes.items():
            *holders, last = place.split("__")
            target = body
            for holder in holders:
                target = target.setdefault(holder, {})
            target[last] = value
        request = PostTrainingRequest.model_validate(body)
        return dict(post_training_answer(request, packaged_snapshot))

    return answered


def phases(answer: dict[str, Any]) -> dict[str, float]:
    return {one["phase"]: one["time_s"]["value"] for one in answer["step"]["phases"]}


def plain(body: dict[str, Any]) -> dict[str, Any]:
    left_out = {*OBJECTIVES, "region"}
    return {name: value for name, value in body.items() if name not in left_out}


def test_a_training_phase_is_the_training_step(ask, packaged_snapshot):
    answer = ask(EXAMPLE_DISTILLATION)
    request = LatencyTrainingRequest.model_validate(plain(EXAMPLE_DISTILLATION))
    alone = training_latency_answer(request, packaged_snapshot)
    assert phases(answer)["training"] == pytest.approx(alone["step_s"]["value"])
    assert answer["step"]["added_step_ratio"] == pytest.approx(
        answer["step"]["step_s"]["value"] / alone["step_s"]["value"]
    )
    memory = training_memory_answer(
        MemoryTrainingRequest.model_validate(plain(EXAMPLE_DISTILLATION)), packaged_snapshot
    )
    held = answer["memory"]["weights_bytes"]["value"] - memory["weights_bytes"]["value"]
    assert held == pytest.approx(LLAMA_70B_BYTES / 8, rel=0.01)
    assert answer["memory"]["total_bytes"]["value"] > memory["total_bytes"]["value"] + held


def test_a_forward_pass_is_a_third_of_a_step_and_a_quarter_of_one_that_recomputes(ask):
    # Two FLOPs of the six of a parameter and token, or of eight (Kaplan et al., 2020).
    for recomputed, share in (("none", 1 / 3), ("full", 1 / 4)):
        answer = ask(
            EXAMPLE_DPO,
            training__method="full",
            training__activation_checkpointing=recomputed,
            dpo__reference="copy",
        )
        found = phases(answer)
        assert found["reference"] / found["training"] == pytest.approx(share, rel=0.06)


def test_the_largest_micro_batch_counts_pairs_as_the_asked_one_does(ask):
    alone = ask(EXAMPLE_DPO)["memory"]
    most = int(alone["max_micro_batch_size"]["value"])
    assert ask(EXAMPLE_DPO, training__micro_batch_size=most)["memory"]["fits"]
    assert not ask(EXAMPLE_DPO, training__micro_batch_size=most + 1)["memory"]["fits"]


def test_a_base_below_adapters_spares_the_copy(ask):
    copy, base, stored = (
        ask(EXAMPLE_DPO, dpo__reference=kind, training__tokens=1e9)
        for kind in ("copy", "base", "stored")
    )
    assert copy["memory"]["held_beside_bytes"] == pytest.approx(LLAMA_8B_BYTES / 8, rel=0.01)
    assert base["memory"]["held_beside_bytes"] == 0.0
    assert base["memory"]["loss_beside_bytes"] == copy["memory"]["loss_beside_bytes"] > 0.0
    assert stored["memory"]["loss_beside_bytes"] == 0.0
    assert phases(base)["reference"] == phases(copy)["reference"]
    assert "reference" not in phases(stored)
    # A log-probability in 32 bit for each answer: 2 in a pair of 2 · 2048 tokens.
    assert stored["preparation"]["stored_bytes"] == pytest.approx(1e9 / 2048 * 4)
    steps = 1e9 / base["step"]["tokens_per_step"]
    assert stored["preparation"]["time_s"]["value"] == pytest.approx(
        phases(base)["reference"] * steps
    )
    assert base["step"]["sequences_per_step"] == 16.0  # pairs on eight accelerators


def test_stored_logits_are_all_or_the_largest(ask):
    whole = ask(EXAMPLE_DISTILLATION, distillation__teacher__placement="stored")
    largest = ask(
        EXAMPLE_DISTILLATION,
        distillation__teacher__placement="stored",
        distillation__teacher__top_logits=50,
        distillation__teacher__epochs=2,
        training__tokens=1e9,
    )
    assert whole["preparation"]["stored_bytes_per_token"] == 2 * VOCABULARY
    assert whole["preparation"]["stored_bytes"] is None
    assert largest["preparation"]["stored_bytes"] == pytest.approx(1e9 / 2 * 50 * 6)
    assert largest["memory"]["held_beside_bytes"] == 0.0
    # All logits of 0.7 s of training come from storage in less; the run has to read on and on.
    assert phases(whole)["logits_read"] == phases(largest)["logits_read"] == 0.0
    tokens_per_s = whole["step"]["tokens_per_s"]["value"]
    assert whole["preparation"]["read_bytes_per_s"] * 8 == pytest.approx(
        2 * VOCABULARY * tokens_per_s
    )
    assert whole["teacher_memory"]["fits"]


def test_a_teacher_of_its_own_works_ahead(ask):
    answer = ask(
        EXAMPLE_DISTILLATION,
        distillation__teacher__placement="own",
        distillation__teacher__accelerator_count=16,
    )
    student, teacher = answer["pools"]
    assert (student["accelerator_count"], teacher["accelerator_count"]) == (8, 16)
    found = phases(answer)
    assert answer["step"]["step_s"]["value"] == pytest.approx(
        max(found["training"], found["teacher"] + found["logits_sent"])
    )
    # It waits at idle power, and both pools are rented.
    busy = {one["phase"]: one["it_energy_kwh"]["value"] for one in answer["step"]["phases"]}
    assert student["it_energy_per_step_kwh"]["value"] >= busy["training"]
    rents = [pool["cost"]["rented"]["usd_per_hour"]["value"] for pool in answer["pools"]]
    assert answer["cost"]["rented"]["usd_per_hour"]["value"] == pytest.approx(sum(rents))
    hours = answer["impacts"]["per_step"]["accelerator_hours"]["value"] * 3600
    assert hours == pytest.approx(24 * answer["step"]["step_s"]["value"])


def test_rollouts_are_an_inference_deployment(ask, packaged_snapshot):
    answer = ask(EXAMPLE_GRPO, grpo__generation__placement="own")
    request = LatencyInferenceRequest.model_validate(
        {
            "model": EXAMPLE_GRPO["model"],
            "accelerator": EXAMPLE_GRPO["accelerator"],
            "accelerator_count": 8,
            "precision": {"weights": "bf16"},
            "workload": {
                "input_tokens": 512,
                "output_tokens": 1024,
                "concurrency": 64,
                "arrivals": "at_once",
                "prefix_cached_ratio": 7 / 8,
            },
        }
    )
    served = inference_latency_answer(request, packaged_snapshot)
    assert phases(answer)["generation"] == served["burst"]["makespan_s"]["value"]
    assert answer["step"]["generated_tokens_per_step"] == 64 * 1024
    total = answer["step"]["step_s"]["value"]
    assert total == pytest.approx(sum(phases(answer).values()))  # one pool waits for the other
    ahead = ask(EXAMPLE_GRPO, grpo__generation__placement="own", grpo__generation__works_ahead=True)
    assert ahead["step"]["step_s"]["value"] < total


def test_generation_takes_most_of_a_step_of_few_completions(ask):
    # OpenRLHF's authors state 80 % of the time (2024); completions together take less of it each.
    few, many = (ask(EXAMPLE_GRPO, grpo__prompts=count) for count in (8, 128))
    shares = [
        {one["phase"]: one["time_ratio"] for one in answer["step"]["phases"]}["generation"]
        for answer in (few, many)
    ]
    assert shares[0] == pytest.approx(0.8, abs=0.1)
    assert shares[1] < 0.5 * shares[0]
    per_token = [phases(one)["training"] / one["step"]["tokens_per_step"] for one in (few, many)]
    assert per_token[0] == pytest.approx(per_token[1])


def test_several_updates_need_log_probabilities_of_before_the_first(ask):
    answer = ask(
        EXAMPLE_GRPO,
        grpo__prompts=16,
        grpo__iterations=2,
        grpo__kl_reference="copy",
        **WITHOUT_GRAPHS,
    )
    assert answer["step"]["updates_per_step"] == 2 * 16 * 8 / 64
    assert phases(answer)["old_policy"] == phases(answer)["reference"]
    assert answer["memory"]["loss_beside_bytes"] == 0.0  # they are all there before
    assert answer["memory"]["held_beside_bytes"] == pytest.approx(LLAMA_8B_BYTES / 8, rel=0.01)


def test_an_engine_leaves_its_graphs_while_it_sleeps_and_all_it_holds_while_it_does_not(ask):
    asleep, awake = (
        ask(
            EXAMPLE_GRPO,
            grpo__generation__sleeps=sleeps,
            grpo__generation__serving={"memory_utilization_ratio": 0.4},
        )
        for sleeps in (True, False)
    )
    capacity = awake["memory"]["capacity_bytes"]
    # Graphs are no part of what sleeping gives back, and there are none where none are captured.
    assert 0.0 < asleep["memory"]["held_beside_bytes"] < 0.05 * capacity
    assert ask(EXAMPLE_GRPO, **WITHOUT_GRAPHS)["memory"]["held_beside_bytes"] == 0.0
    assert awake["memory"]["held_beside_bytes"] == pytest.approx(0.4 * capacity, rel=0.15)


def test_trl_makes_logits_of_completions_alone(ask):
    def logits(framework, prompt_tokens):
        body = deepcopy(EXAMPLE_GRPO)
        body["training"] |= {"framework": framework, "cross_entropy": "plain"}
        answer = ask(
            body, grpo__prompt_tokens=prompt_tokens, grpo__completion_tokens=2048 - prompt_tokens
        )
        return answer["memory"]["logits_bytes"]["value"]

    # Beside 512 and 1,536 tokens of a prompt; gradients take over no room of logits here.
    assert logits("peft", 512) == pytest.approx(3 * logits("peft", 1536), rel=0.01)
    assert logits("torchtune", 512) == logits("torchtune", 1536)


def test_a_reward_model_is_held_beside_and_passed_through_once(ask):
    few = {"grpo__prompts": 16, **WITHOUT_GRAPHS}
    judged = {**few, "grpo__reward_model": {"model": "meta-llama/Llama-3.1-8B"}}
    plain, same = ask(EXAMPLE_GRPO, **few), ask(EXAMPLE_GRPO, **judged)
    copy = ask(EXAMPLE_GRPO, **few, grpo__kl_reference="copy")
    head_bytes = 128_256 * 4_096 * 2
    # Divided as the run's weights are; a score takes the place of the logits.
    held = same["memory"]["held_beside_bytes"]
    assert held == pytest.approx((LLAMA_8B_BYTES - head_bytes) / 8, rel=0.01)
    assert "reward_model" not in phases(plain)
    assert 0.7 < phases(same)["reward_model"] / phases(copy)["reference"] < 1.0
    whole = ask(EXAMPLE_GRPO, **deepcopy(judged), grpo__reward_model__zero_stage=0)
    assert whole["memory"]["held_beside_bytes"] == pytest.approx(8 * held, rel=0.01)
    both = ask(EXAMPLE_GRPO, **judged, grpo__kl_reference="copy")
    assert both["memory"]["held_beside_bytes"] == pytest.approx(
        held + copy["memory"]["held_beside_bytes"], rel=0.01
    )


def test_a_critic_is_trained_beside_the_policy(ask):
    few = {"grpo__prompts": 16, **WITHOUT_GRAPHS}
    plain = ask(EXAMPLE_GRPO, **few)
    ppo = ask(EXAMPLE_GRPO, **few, grpo__critic={})
    small = ask(EXAMPLE_GRPO, **few, grpo__critic={"model": "meta-llama/Llama-3.2-1B"})
    for one in ("values", "critic"):
        assert one not in phases(plain)
        assert phases(small)[one] < phases(ppo)[one]
    # A step of its own for each update, without a head; a forward pass for the values.
    assert 0.8 < phases(ppo)["critic"] / phases(ppo)["training"] < 1.0
    assert 0.1 < phases(ppo)["values"] / phases(ppo)["critic"] < 0.5
    assert ppo["step"]["step_s"]["value"] > plain["step"]["step_s"]["value"]
    # Weights, gradients and three optimizer states of 32 bit, over eight ranks.
    parameters = LLAMA_8B_BYTES / 2 - VOCABULARY * 4_096
    held = ppo["memory"]["held_beside_bytes"]
    assert held == pytest.approx(parameters * (2 + 2 + 12) / 8, rel=0.01)
    assert small["memory"]["held_beside_bytes"] < held / 5
    added = ppo["memory"]["total_bytes"]["value"] - plain["memory"]["total_bytes"]["value"]
    assert added == pytest.approx(held, rel=0.05)


def test_a_critic_larger_than_the_policy_decides_the_memory(ask):
    body = deepcopy(EXAMPLE_GRPO) | {"model": "meta-llama/Llama-3.2-1B"}
    large = ask(body, grpo__prompts=16, grpo__critic={"model": "meta-llama/Llama-3.1-8B"})
    alone = ask(EXAMPLE_GRPO, grpo__prompts=16)
    assert large["memory"]["total_bytes"]["value"] > 0.8 * alone["memory"]["total_bytes"]["value"]


def test_a_larger_reward_model_takes_longer(ask):
    large = {"grpo__reward_model": {"model": "meta-llama/Llama-3.1-70B"}}
    small = {"grpo__reward_model": {"model": "meta-llama/Llama-3.2-1B"}}
    one, other = (ask(EXAMPLE_GRPO, **asked) for asked in (small, large))
    assert phases(other)["reward_model"] > 10 * phases(one)["reward_model"]
    assert other["step"]["step_s"]["value"] > one["step"]["step_s"]["value"]


@pytest.mark.parametrize(
    ("base", "changes", "pointer"),
    [
        (
            EXAMPLE_GRPO,
            {"grpo__reward_model": {"model": "nothing"}},
            "/grpo/reward_model/model",
        ),
        (EXAMPLE_GRPO, {"grpo__critic": {"model": "nothing"}}, "/grpo/critic/model"),
        (EXAMPLE_DPO, {"training__method": "full"}, "/dpo/reference"),
        (EXAMPLE_GRPO, {"grpo__kl_reference": "base"}, "/grpo/kl_reference"),
        (
            EXAMPLE_GRPO,
            {"grpo__prompt_tokens": 2048, "grpo__completion_tokens": None},
            "/grpo/prompt_tokens",
        ),
        (EXAMPLE_GRPO, {"grpo__completion_tokens": 2000}, "/grpo/completion_tokens"),
        (EXAMPLE_GRPO, {"grpo__generation__works_ahead": True}, "/grpo/generation/works_ahead"),
        (
            EXAMPLE_GRPO,
            {"grpo__generation__serving": {"engine": "nothing"}},
            "/grpo/generation/serving/engine",
        ),
        (
            EXAMPLE_DISTILLATION,
            {"distillation__teacher__model": "nothing"},
            "/distillation/teacher/model",
        ),
        (
            EXAMPLE_DISTILLATION,
            {"distillation__teacher__accelerator_count": 4},
            "/distillation/teacher/accelerator_count",
        ),
    ],
)
def test_what_goes_with_nothing_is_refused_where_it_stands(ask, base, changes, pointer):
    with pytest.raises(Rejected) as refused:
        ask(base, **changes)
    assert pointer in {error.pointer for error in refused.value.errors}


def test_one_objective_is_asked_for():
    for body in ({}, {"dpo": {}, "grpo": {}}):
        with pytest.raises(ValueError, match="one of distillation, dpo and grpo"):
            PostTrainingRequest.model_validate(
                {name: EXAMPLE_DPO[name] for name in ("model", "accelerator", "region")} | body
            )


@pytest.mark.parametrize("base", [EXAMPLE_DISTILLATION, EXAMPLE_DPO, EXAMPLE_GRPO])
def test_a_run_is_its_steps(ask, base):
    answer = ask(base, explain=True, training__tokens=1e9)
    steps = {step["name"]: step for step in answer["explanation"]}
    assert steps["it_energy_per_step_kwh"]["value"] == pytest.approx(
        answer["energy"]["it_energy_per_step_kwh"]["value"]
    )
    run = answer["run"]
    assert run["steps"] == -(-1e9 // answer["step"]["tokens_per_step"])
    assert answer["impacts"]["run"]["it_energy_kwh"]["value"] == pytest.approx(
        answer["energy"]["it_energy_run_kwh"]["value"]
    )


@pytest.mark.parametrize(
    ("model", "training", "objective"),
    [
        # States that are divided by one stage leave no room for a copy of the model.
        ("meta-llama/Llama-3.1-8B", {"method": "full"}, {"dpo": {}}),
        # The base alone fits whole on each accelerator, not twice.
        ("meta-llama/Llama-3.1-70B", {"method": "qlora"}, {"dpo": {"reference": "copy"}}),
        # A teacher is divided as its student is, which need not be for itself.
        (
            "meta-llama/Llama-3.1-8B",
            {},
            {"distillation": {"teacher": {"model": "meta-llama/Llama-3.1-70B"}}},
        ),
    ],
)
def test_what_stands_beside_is_made_room_for_where_nobody_says_how(
    packaged_snapshot, model, training, objective
):
    body = {"model": model, "accelerator": "nvidia-h100-sxm-80gb", "accelerator_count": 8}
    request = PostTrainingRequest.model_validate(body | {"training": training} | objective)
    answer = post_training_answer(request, packaged_snapshot)
    assert answer["fits"]
    assert "made_to_fit" in {one["code"] for one in answer["warnings"]}


def test_what_is_told_is_not_changed_to_make_room(packaged_snapshot):
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"zero_stage": 1, "activation_checkpointing": "none"},
        "dpo": {},
    }
    answer = post_training_answer(PostTrainingRequest.model_validate(body), packaged_snapshot)
    assert not answer["fits"]
    assert answer["deployment"]["training"]["zero_stage"] == 1


@pytest.mark.parametrize(
    ("training", "dpo", "meant"),
    [
        ({"method": "full"}, {}, {"reference": "copy"}),
        ({"method": "lora"}, {}, {"reference": "base"}),
        # Only a copy has a division of its own.
        ({"method": "lora"}, {"reference_zero_stage": 3}, {"reference": "copy"}),
    ],
)
def test_a_reference_that_nobody_names_is_as_trainers_take_it(
    packaged_snapshot, training, dpo, meant
):
    def memory(**told):
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "training": {"micro_batch_size": 1, "zero_stage": 3} | training,
            "dpo": dpo | told,
        }
        request = PostTrainingRequest.model_validate(body)
        return post_training_answer(request, packaged_snapshot)["memory"]["total_bytes"]

    assert memory() == memory(**meant)


@pytest.mark.parametrize(("prompts", "said"), [(None, True), (256, False)])
def test_a_step_whose_prompts_nobody_told_is_said_to_be_small(packaged_snapshot, prompts, said):
    body = EXAMPLE_GRPO | {"grpo": EXAMPLE_GRPO["grpo"] | {"prompts": prompts}}
    answer = post_training_answer(PostTrainingRequest.model_validate(body), packaged_snapshot)
    assert ("prompts_assumed" in {one["code"] for one in answer["warnings"]}) is said
