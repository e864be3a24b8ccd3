"""Micro-batches of runs whose requests say nothing of them."""

from __future__ import annotations

import pytest

from service.core.architecture.sharding import divisors
from service.estimation.post_training.estimate import post_training_answer
from service.estimation.post_training.requests import EXAMPLE_GRPO, PostTrainingRequest
from service.estimation.rejection import Rejected
from service.estimation.training.batches import ASSUMED, MOST_STEP_TOKENS, reduced
from service.estimation.training.choices import training_memory_choices
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

SMALL = {"model": "meta-llama/Llama-3.2-1B", "accelerator": "nvidia-h100-sxm-80gb"}
ROUTED = {"model": "Qwen/Qwen3-30B-A3B", "accelerator": "nvidia-b200-sxm-180gb"}
LARGE = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}


@pytest.fixture
def estimated(packaged_snapshot):
    def estimated(model, count=8, parallelism=None, **training):
        body = model | {"accelerator_count": count, "training": training}
        if parallelism is not None:
            body["parallelism"] = parallelism
        request = EstimateTrainingRequest.model_validate(body)
        return training_estimate(request, packaged_snapshot)

    return estimated


def _taken(answer):
    taken = answer["deployment"]["training"]["micro_batch_size"]
    (told,) = [one["message"] for one in answer["warnings"] if one["code"] == ASSUMED]
    assert f"a size of {taken} is assumed" in told
    return taken


@pytest.mark.parametrize(
    ("framework", "tokens", "sequences"),
    [
        ("transformers", 512, 8),  # per_device_train_batch_size
        ("torchtune", 2048, 2),  # batch_size of its recipes
        ("torchtitan", 2048, 8),  # local_batch_size
        ("torchtitan", 8192, 2),
        ("megatron-lm", 2048, 4),
        ("megatron-lm", 8192, 1),
        ("maxtext", 2048, 12),  # per_device_batch_size
        ("default", 1024, 16),
        ("default", 32_768, 1),
    ],
)
def test_a_run_has_the_micro_batch_that_is_usual(estimated, framework, tokens, sequences):
    settings = {"activation_checkpointing": "full", "sequence_length": tokens, "zero_stage": 3}
    assert _taken(estimated(SMALL, framework=framework, **settings)) == sequences


@pytest.mark.parametrize(("tokens", "sequences"), [(8192, 1), (4096, 1), (2048, 2), (1024, 4)])
def test_a_pipeline_is_filled_by_small_micro_batches(estimated, tokens, sequences):
    """Published pipelines take one sequence of 4,096 tokens or more, and two or more of 2,048."""
    run = {"framework": "torchtitan", "zero_stage": 2, "gradient_accumulation_steps": 16}
    layout = {"pipeline": 2, "data": 4}
    taken = _taken(estimated(SMALL, parallelism=layout, sequence_length=tokens, **run))
    assert taken == sequences


def test_recipes_take_more_sequences_where_memory_has_room_for_them(estimated):
    """Megatron Bridge's recipes of Llama 3 8B take one sequence on 80 GB and two on 180."""
    run = {"framework": "megatron-bridge", "sequence_length": 8192}
    large = SMALL | {"accelerator": "nvidia-b200-sxm-180gb"}
    assert _taken(estimated(SMALL, **run)) == 1
    assert _taken(estimated(large, **run)) == 2


def test_more_tokens_are_taken_where_weights_are_gathered_for_each_micro_batch(estimated):
    """Weights of experts do less for each token; tensor-parallel ranks have room for more."""
    run = {"activation_checkpointing": "full", "sequence_length": 4096}

    def taken(model, zero_stage, **layout):
        return _taken(estimated(model, count=64, parallelism=layout, zero_stage=zero_stage, **run))

    assert taken(SMALL, 3, tensor=4, data=16) == 4 * taken(SMALL, 3, data=64) == 16
    assert taken(SMALL, 0, tensor=4, data=16) == taken(SMALL, 0, data=64) == 4
    assert taken(ROUTED, 3, data=64) > taken(SMALL, 3, data=64)
    # Experts that stay where they are need no more tokens.
    assert taken(ROUTED, 3, data=64, expert=8) == taken(SMALL, 3, data=64)


def test_what_is_usual_is_halved_until_it_fits(estimated):
    run = {"framework": "transformers", "zero_stage": 3, "sequence_length": 4096}
    run["activation_checkpointing"] = "none"
    open_ = estimated(LARGE, **run)
    most = open_["memory"]["max_micro_batch_size"]["value"]
    assert _taken(open_) == 2 ** (int(most).bit_length() - 1) < 8
    assert open_["memory"]["fits"]
    # The largest that fits does not depend on what is taken.
    said = estimated(LARGE, **run, micro_batch_size=8)
    assert said["memory"]["max_micro_batch_size"]["value"] == most
    assert not said["memory"]["fits"]


def test_a_run_of_which_not_one_sequence_fits_has_one(estimated):
    answer = estimated(LARGE, count=1, framework="transformers")
    assert not answer["memory"]["fits"]
    assert _taken(answer) == 1


@pytest.mark.parametrize(
    ("usual", "most", "taken"), [(8, 8, 8), (12, 12, 12), (12, 11, 8), (8, 5, 4), (8, 0, 1)]
)
def test_a_reduced_micro_batch_is_a_power_of_two(usual, most, taken):
    assert reduced(usual, most) == taken


def test_every_figure_is_that_of_the_micro_batch_that_is_shown(estimated):
    run = {"framework": "torchtitan", "sequence_length": 4096, "tokens": 1e9}
    open_ = estimated(SMALL, **run)
    said = estimated(SMALL, **run, micro_batch_size=_taken(open_))
    null = estimated(SMALL, **run, micro_batch_size=None)
    assert not [one for one in said["warnings"] if one["code"] == ASSUMED]
    assert _taken(open_) > 1
    assert null == open_
    assert said["memory"] == open_["memory"]
    assert said["deployment"] == open_["deployment"]
    for part, name in (
        *(("latency", "step_s"), ("latency", "tokens_per_s"), ("latency", "mfu_ratio")),
        *(("energy", "it_power_w"), ("energy", "it_energy_run_kwh")),
    ):
        assert said[part][name]["value"] == open_[part][name]["value"]


def test_ways_to_divide_and_recompute_are_compared_by_one_micro_batch(estimated, packaged_snapshot):
    run = {"framework": "transformers", "zero_stage": 3}
    taken = _taken(estimated(LARGE, **run))
    bodies = [
        LARGE | {"accelerator_count": 8, "training": run | more}
        for more in ({}, {"micro_batch_size": taken})
    ]
    open_, said = (
        training_memory_choices(EstimateTrainingRequest.model_validate(body), packaged_snapshot)
        for body in bodies
    )
    assert open_ == said


def test_a_micro_batch_fits_beside_a_teacher(packaged_snapshot):
    def asked(**training):
        body = LARGE | {
            "accelerator_count": 8,
            "training": {"framework": "transformers", "zero_stage": 3} | training,
            "distillation": {"teacher": {"model": "meta-llama/Llama-3.1-70B"}},
        }
        return post_training_answer(PostTrainingRequest.model_validate(body), packaged_snapshot)

    open_ = asked(activation_checkpointing="full", sequence_length=2048)
    assert open_["fits"]
    most = open_["memory"]["max_micro_batch_size"]["value"]
    assert _taken(open_) == min(2 ** (int(most).bit_length() - 1), 8)


def test_no_optimizer_step_takes_more_than_is_generated(packaged_snapshot):
    training = {k: v for k, v in EXAMPLE_GRPO["training"].items() if k != "micro_batch_size"}
    training["framework"] = "transformers"
    grpo = EXAMPLE_GRPO["grpo"] | {"prompts": 16, "samples_per_prompt": 8}
    body = EXAMPLE_GRPO | {"training": training, "grpo": grpo}
    answer = post_training_answer(PostTrainingRequest.model_validate(body), packaged_snapshot)
    # 16 prompts with 8 completions each, over 8 accelerators and 8 micro-batches: two in each.
    assert _taken(answer) == 2
    assert answer["step"]["updates_per_step"] == 1.0


def test_whether_layers_are_recomputed_is_decided_of_one_micro_batch(estimated):
    """What recomputing spares would be filled by more sequences, so that nothing seemed spared."""
    run = {"framework": "transformers", "sequence_length": 2048, "zero_stage": 3}
    seventy = {"model": "meta-llama/Llama-3.1-70B", "accelerator": "nvidia-h100-sxm-80gb"}
    answer = estimated(seventy, count=64, **run)
    said = estimated(seventy, count=64, **run, micro_batch_size=_taken(answer))
    assert answer["memory"] == said["memory"]
    kept, recomputed = (
        estimated(
            seventy,
            count=64,
            **run,
            micro_batch_size=_taken(answer),
            activation_checkpointing=checkpointing,
        )["memory"]["total_bytes"]
        for checkpointing in ("none", "full")
    )
    # The range ends where one of both ways ends with that micro-batch, and at no larger one.
    total = answer["memory"]["total_bytes"]
    assert recomputed["value"] < total["high"] <= kept["high"]


def test_no_states_are_paged_out_to_make_room_for_more_sequences(estimated):
    run = {"method": "lora", "framework": "transformers", "sequence_length": 2048}
    sparing = {"optimizer": "paged-adamw-8bit", "activation_checkpointing": "full"}
    answer = estimated(LARGE, count=1, lora_rank=1024, **run, **sparing)
    plain = estimated(
        LARGE, count=1, lora_rank=1024, **run, **sparing | {"optimizer": "adamw-8bit"}
    )
    assert _taken(answer) == _taken(plain) > 1
    assert answer["memory"]["host_bytes"]["value"] == 0.0


def _of_a_step(answer):
    asked, data = answer["deployment"]["training"], answer["deployment"]["parallelism"]["data"]
    sizes = asked["micro_batch_size"], asked["gradient_accumulation_steps"]
    assert answer["latency"]["global_batch_sequences"] == sizes[0] * sizes[1] * data
    return sizes


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ({"micro_batch_size": 2}, (2, 4)),
        ({"gradient_accumulation_steps": 2}, (4, 2)),
        ({"micro_batch_size": 8, "gradient_accumulation_steps": 1}, (8, 1)),
        # PEFT is usually given 8 sequences at once.
        ({"framework": "peft"}, (8, 1)),
        ({"framework": "megatron-lm", "sequence_length": 4096}, (2, 4)),
    ],
)
def test_a_global_batch_decides_what_nobody_tells_of_micro_batches(estimated, told, taken):
    told = {"sequence_length": 512} | told
    assert _of_a_step(estimated(SMALL, global_batch_size=64, **told)) == taken


def test_a_global_batch_is_the_same_run_as_its_micro_batches(estimated):
    layout = {"tensor": 2, "pipeline": 2, "data": 2}
    whole = estimated(LARGE, parallelism=layout, global_batch_size=32)
    size, steps = _of_a_step(whole)
    told = {"micro_batch_size": size, "gradient_accumulation_steps": steps}
    parts = estimated(LARGE, parallelism=layout, **told)
    for part, figure in (("memory", "total_bytes"), ("latency", "step_s")):
        assert whole[part][figure]["value"] == parts[part][figure]["value"]


def test_micro_batches_share_a_global_batch_where_fewer_sequences_fit(estimated):
    many = {"framework": "peft", "activation_checkpointing": "none", "zero_stage": 3}
    size, steps = _of_a_step(
        estimated(LARGE, global_batch_size=48 * 8, sequence_length=2048, **many)
    )
    assert size < 8
    assert size in divisors(48)
    assert size * steps == 48


def test_what_does_not_divide_a_global_batch_is_refused_with_what_would(estimated):
    with pytest.raises(Rejected, match="56 or 64 can"):
        estimated(SMALL, global_batch_size=60)
    with pytest.raises(Rejected, match="48 or 72 can"):
        estimated(SMALL, global_batch_size=64, micro_batch_size=3)
    with pytest.raises(Rejected, match="make 32 sequences, not 64"):
        estimated(SMALL, global_batch_size=64, micro_batch_size=2, gradient_accumulation_steps=2)
    with pytest.raises(Rejected, match="give one of the two"):
        estimated(SMALL, global_batch_size=64, global_batch_tokens=1e6)


def test_a_batch_in_tokens_is_the_nearest_that_divides(estimated):
    # Four million tokens of 4,096 each are 976.6 sequences, for 64 ranks 15 and 16 each.
    found = estimated(SMALL, 64, global_batch_tokens=4e6, sequence_length=4096)
    assert found["latency"]["global_batch_sequences"] == 960
    (told,) = [one for one in found["warnings"] if one["code"] == "global_batch_rounded"]
    assert "960 sequences (3,932,160 tokens)" in told["message"]
    exact = estimated(SMALL, 64, global_batch_tokens=1024 * 4096, sequence_length=4096)
    assert exact["latency"]["global_batch_sequences"] == 1024
    assert "global_batch_rounded" not in {one["code"] for one in exact["warnings"]}


def test_millions_of_tokens_may_be_powers_of_two_where_these_fill_a_pipeline(estimated):
    # 16 million tokens of 8,192 are 1,953 sequences; 16 of each of 128 ranks are 2,048.
    layout = {"tensor": 8, "pipeline": 16, "data": 128}
    body = {"global_batch_tokens": 16e6, "sequence_length": 8192, "framework": "megatron-lm"}
    found = estimated(LARGE, 16_384, layout, **body)
    assert found["latency"]["global_batch_sequences"] == 2048
    assert _of_a_step(found) == (1, 16)


def test_a_model_is_divided_where_a_step_has_no_sequence_for_each_accelerator(estimated):
    for batch in ({"global_batch_size": 512}, {"global_batch_tokens": 2e6}):
        found = estimated(LARGE, 1024, **batch)
        layout = found["deployment"]["parallelism"]
        assert layout["tensor"] * layout["pipeline"] * layout["context"] > 1
        assert "framework_assumed" in {one["code"] for one in found["warnings"]}
        with pytest.raises(Rejected):
            estimated(LARGE, 1024, framework="transformers", **batch)


def test_no_step_has_more_tokens_than_any_that_was_published_where_none_is_told(estimated):
    """FSDP over 16,384 accelerators would take 134 million tokens; Kimi K2 took 67."""
    largest = LARGE | {"model": "meta-llama/Llama-3.1-405B"}
    found = estimated(largest, 16_384, sequence_length=8192)
    assert found["latency"]["global_batch_tokens"] <= MOST_STEP_TOKENS
    assert "framework_assumed" in {one["code"] for one in found["warnings"]}


def test_another_micro_batch_of_the_same_global_batch_changes_no_pipeline(estimated):
    layout = {"pipeline": 4, "data": 2}
    found = estimated(LARGE, parallelism=layout, global_batch_size=64)
    assert _of_a_step(found) == (1, 32)


def test_a_pipeline_is_filled_where_nobody_tells_by_what(estimated):
    run = {"framework": "megatron-lm", "sequence_length": 4096}
    layout = {"tensor": 8, "pipeline": 4, "data": 64}
    bare = estimated(LARGE, parallelism=layout, count=2048, **run)
    size, steps = _of_a_step(bare)
    # A whole number of rounds, and more micro-batches than stages.
    assert steps % 4 == 0
    assert steps >= 16
    told = estimated(
        LARGE,
        parallelism=layout,
        count=2048,
        micro_batch_size=size,
        gradient_accumulation_steps=steps,
        **run,
    )
    assert told["latency"]["step_s"]["value"] == bare["latency"]["step_s"]["value"]
    # The range reaches over fewer, which leave stages idle for longer.
    emptier = estimated(
        LARGE,
        parallelism=layout,
        count=2048,
        micro_batch_size=size,
        gradient_accumulation_steps=4,
        **run,
    )
    ranges = [one["latency"]["tokens_per_s"] for one in (bare, told, emptier)]
    assert ranges[2]["value"] < ranges[1]["value"]
    assert ranges[0]["low"] < ranges[1]["low"]
    said = {w["code"] for w in bare["warnings"]} - {w["code"] for w in told["warnings"]}
    assert "micro_batches_assumed" in said


def test_larger_clusters_fill_a_pipeline_with_fewer(estimated):
    """The batch of all ranks is much the same, so that each copy has a smaller share of it."""
    run = {"framework": "megatron-lm", "sequence_length": 4096}
    few, many = (
        _of_a_step(
            estimated(
                LARGE, parallelism={"tensor": 8, "pipeline": 4, "data": n}, count=32 * n, **run
            )
        )[1]
        for n in (8, 64)
    )
    assert few > many >= 4 * 4


def test_fine_tuning_takes_one_micro_batch_where_nothing_waits_for_more(estimated):
    run = {"framework": "megatron-lm", "sequence_length": 4096}
    tuned = estimated(LARGE, parallelism={"tensor": 8, "data": 8}, count=64, method="lora", **run)
    assert _of_a_step(tuned)[1] == 1
    trained = estimated(LARGE, parallelism={"tensor": 8, "data": 8}, count=64, **run)
    assert _of_a_step(trained)[1] > 1


def test_a_step_without_a_pipeline_has_a_usual_number_of_tokens(estimated):
    """Of micro-batches of any length, as long as there are not too many or too few of them."""
    run = {"framework": "megatron-lm", "activation_checkpointing": "full"}
    for length in (1024, 4096):
        found = estimated(SMALL, parallelism={"data": 64}, count=64, sequence_length=length, **run)
        size, steps = _of_a_step(found)
        assert size * length == 8192
        assert size * length * steps * 64 == 4_194_304
