"""What a framework does where nobody says, and what is not known where nobody names one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.core.memory.training.memory import training_memory
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.echo import echo_training
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.memory import CHOICES, left_open_warnings
from service.estimation.training.requests import LatencyTrainingRequest, TrainingRequest
from service.estimation.training.resolve import resolve_training

H100 = "nvidia-h100-sxm-80gb"
DIVIDED = {"parallelism": {"tensor": 4, "pipeline": 2}, "accelerator_count": 8}
SHARDED = {"accelerator_count": 8}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(training: dict[str, Any], **asked: Any) -> Any:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "training": training,
        }
        request = LatencyTrainingRequest.model_validate(body | asked)
        return training_latency_answer(request, packaged_snapshot)

    return answered


def step(answer):
    return answer["step_s"]


def codes(answer):
    return {warning["code"] for warning in answer["warnings"]}


def test_deepspeed_leaves_layers_to_megatron(ask):
    divided = ask({"framework": "deepspeed"}, **DIVIDED)
    named = ask({"framework": "megatron-deepspeed"}, **DIVIDED)
    assert step(divided) == step(named)
    assert "framework_divides" in codes(divided) - codes(named)
    sharded = ask({"framework": "deepspeed", "zero_stage": 3}, **SHARDED)
    assert "framework_divides" not in codes(sharded)
    assert step(sharded) != step(
        ask({"framework": "megatron-deepspeed", "zero_stage": 3}, **SHARDED)
    )


def test_versions_of_deepspeed_are_none_of_megatron(ask):
    assert step(ask({"framework": "deepspeed", "framework_version": "0.14.2"}, **DIVIDED)) == step(
        ask({"framework": "deepspeed"}, **DIVIDED)
    )


def test_operands_are_scaled_as_the_framework_does(ask):
    def fp8(**training):
        return step(ask(training, precision={"activations": "fp8"}, **SHARDED))["value"]

    megatron = {"framework": "megatron-lm"}
    assert fp8(**megatron) == fp8(**megatron, fp8_recipe="delayed")
    assert fp8(**megatron) < fp8(**megatron, fp8_recipe="tensorwise")
    titan = {"framework": "torchtitan", "zero_stage": 3}
    assert fp8(**titan) == fp8(**titan, fp8_recipe="tensorwise")


def test_an_unnamed_framework_is_less_certain(ask):
    def width(**training):
        found = step(ask({"zero_stage": 3} | training, **SHARDED))
        return found["high"] / found["low"]

    assert width() > 1.1 * width(framework="torchtitan")


UNTOLD_OF = {
    "torchtune": {
        "activation_checkpointing": "full",
        "cross_entropy": "chunked",
        "fused_kernels": False,
        "master_weights": False,
        "optimizer_state_dtype": "bf16",
        "lora_targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    },
    "litgpt": {
        "fused_kernels": False,
        "adapter_dropout": True,
        "lora_targets": ["q_proj", "v_proj"],
    },
    "peft": {
        "activation_checkpointing": "full",
        "fused_kernels": False,
        "lora_targets": ["all-linear"],
    },
    "llama-factory": {"activation_checkpointing": "full", "lora_targets": ["all-linear"]},
    "unsloth": {"activation_checkpointing": "full", "cross_entropy": "fused"},
    "torchtitan": {"activation_checkpointing": "selective-operators"},
    "maxtext": {"activation_checkpointing": "full", "fused_kernels": True},
    "llm.q": {"cross_entropy": "chunked"},
    "axolotl": {"activation_checkpointing": "full", "lora_targets": ["all-linear"]},
    "fsdp": {"activation_checkpointing": "none", "fused_kernels": False, "gradient_dtype": "fp32"},
    "verl": {"activation_checkpointing": "full", "cross_entropy": "compiled"},
    "ms-swift": {"activation_checkpointing": "full", "master_weights": False},
    "llama-cookbook": {"activation_checkpointing": "none", "optimizer_state_dtype": "bf16"},
    "default": {
        "activation_checkpointing": "none",
        "adapter_dropout": False,
        "cross_entropy": "plain",
        "fused_kernels": True,
        "lora_targets": ["all-linear"],
        "master_weights": True,
        "optimizer_state_dtype": "fp32",
    },
}


@pytest.fixture(scope="module")
def settings(packaged_snapshot):
    def understood(
        framework: str,
        model: str = "meta-llama/Llama-3.1-8B",
        parallelism: dict[str, int] | None = None,
        **training: Any,
    ) -> Any:
        request = TrainingRequest.model_validate(
            {
                "model": model,
                "accelerator": "nvidia-h100-sxm-80gb",
                "parallelism": parallelism or {},
                "training": {"framework": framework} | training,
            }
        )
        resolved = resolve_training(request, packaged_snapshot, Problems())
        return resolved, echo_training(resolved)["training"]

    return understood


@pytest.mark.parametrize("framework", UNTOLD_OF)
def test_what_a_request_leaves_out_is_as_the_framework_does(settings, framework):
    resolved, told = settings(framework)
    expected = UNTOLD_OF[framework]
    assert {name: told[name] for name in expected} == expected
    assert resolved.setup.settings.fused_kernels is told["fused_kernels"]
    assert resolved.setup.settings.lora_targets == tuple(told["lora_targets"])
    assert resolved.setup.settings.optimizer_state_bytes == (
        2.0 if told["optimizer_state_dtype"] == "bf16" else 4.0
    )


@pytest.mark.parametrize(
    ("framework", "degrees", "training", "expected"),
    [
        # States are divided where there are ranks to divide them among.
        ("torchtitan", {"data": 8}, {}, (3, "1f1b", 1)),
        ("torchtitan", {"tensor": 8}, {}, (0, "1f1b", 1)),
        # In a pipeline weights stay whole, since every micro-batch would collect them.
        ("torchtitan", {"data": 2, "pipeline": 4}, {}, (2, "1f1b", 1)),
        ("torchtitan", {"data": 8}, {"zero_stage": 0}, (0, "1f1b", 1)),
        # Copies of the model share nothing, unless PyTorch is told to shard.
        ("pytorch", {"data": 8}, {"method": "lora"}, (0, "1f1b", 1)),
        ("fsdp", {"data": 8}, {"method": "lora"}, (3, "1f1b", 1)),
        ("litgpt", {"data": 8}, {}, (3, "1f1b", 1)),
        ("openrlhf", {"data": 8}, {}, (2, "1f1b", 1)),
        # Without being told DeepSpeed divides nothing, by which this model does not fit.
        ("deepspeed", {"data": 8}, {}, (1, "1f1b", 1)),
        ("deepspeed", {"data": 8}, {"zero_stage": 0}, (0, "1f1b", 1)),
        # 32 layers on 4 ranks: 4 stages of two layers each.
        ("megatron-lm", {"pipeline": 4}, {"gradient_accumulation_steps": 8}, (0, "interleaved", 4)),
        # 6 micro-batches are no whole rounds of 4; 5 ranks have no layers alike.
        ("megatron-lm", {"pipeline": 4}, {"gradient_accumulation_steps": 6}, (0, "1f1b", 1)),
        ("megatron-lm", {"pipeline": 5}, {"gradient_accumulation_steps": 5}, (0, "1f1b", 1)),
        ("megatron-lm", {"pipeline": 4}, {"pipeline_schedule": "1f1b"}, (0, "1f1b", 1)),
        ("deepspeed", {"pipeline": 4}, {"virtual_stages": 2}, (0, "interleaved", 2)),
        (
            "torchtitan",
            {"pipeline": 4},
            {"pipeline_schedule": "interleaved"},
            (0, "interleaved", 4),
        ),
    ],
)
def test_what_depends_on_the_layout_is_as_those_who_use_the_framework_run_it(
    settings, framework, degrees, training, expected
):
    _, told = settings(framework, parallelism=degrees, **training)
    names = ("zero_stage", "pipeline_schedule", "virtual_stages")
    assert tuple(told[name] for name in names) == expected


@pytest.mark.parametrize("framework", ["litgpt", "llama-cookbook"])
@pytest.mark.parametrize(("data", "recomputed"), [(1, "none"), (8, "full")])
def test_what_a_framework_recomputes_depends_on_whether_it_shards(
    settings, framework, data, recomputed
):
    told = settings(framework, method="lora", parallelism={"data": data})[1]
    assert told["activation_checkpointing"] == recomputed


@pytest.mark.parametrize(
    ("version", "recomputed", "adapters"),
    [
        ("2023-11", "none", None),
        ("0.15.2", "none", "fp32"),
        # What QLoRA prepares a base with has always turned it on.
        ("0.22", "full", "fp32"),
        (None, "full", "fp32"),
    ],
)
def test_trl_recomputes_since_it_does(settings, version, recomputed, adapters):
    told = settings("trl", method="lora", framework_version=version)[1]
    assert (told["activation_checkpointing"], told["adapter_dtype"]) == (recomputed, adapters)
    quantised = settings("trl", method="qlora", framework_version=version)[1]
    assert quantised["activation_checkpointing"] == "full"


@pytest.mark.parametrize("framework", ["fsdp", "pytorch"])
def test_optimizers_of_pytorch_copy_no_adapters(settings, framework):
    told = settings(framework, method="lora")[1]
    assert not told["master_weights"]
    assert told["optimizer_state_dtype"] == "bf16"


@pytest.mark.parametrize(("framework", "base"), [("mlx", "mlx-4bit"), ("torchtune", "bnb-nf4")])
def test_a_quantised_base_has_the_format_of_the_framework(packaged_snapshot, framework, base):
    request = TrainingRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "apple-m3-ultra-512gb",
            "training": {"framework": framework, "method": "qlora"},
        }
    )
    resolved = resolve_training(request, packaged_snapshot, Problems())
    assert resolved.setup.deployment.precision.weights.id == base


@pytest.mark.parametrize("weights", ["int8", "bnb-int8", "bnb-nf4"])
def test_adapters_of_a_quantised_base_are_trained_as_qlora_is(packaged_snapshot, weights):
    """What prepares a base of few bits turns recomputation on, whatever the run is called."""

    def resolved(**changed):
        request = TrainingRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "accelerator": "nvidia-a100-sxm-80gb",
                "training": {"framework": "transformers", **changed.pop("training")},
                **changed,
            }
        )
        return resolve_training(request, packaged_snapshot, Problems()).setup

    run = resolved(training={"method": "lora"}, precision={"weights": weights})
    assert run.settings.activation_checkpointing == "full"
    assert run.deployment.precision.weights.id.startswith("bnb-")
    whole = resolved(training={"method": "lora"})
    assert whole.settings.activation_checkpointing == "none"


def test_a_framework_alike_by_its_name_is_told_where_none_is_near(ask):
    with pytest.raises(Rejected, match="the nearest of its kind is maxtext"):
        ask({"framework": "paxml"})


def test_what_a_request_says_outdoes_the_framework(settings):
    told = {"cross_entropy": "plain", "master_weights": True, "lora_targets": ["k_proj"]}
    assert settings("torchtune", method="lora", **told)[1].items() >= told.items()


def test_megatron_of_before_sequence_parallelism_has_none_and_recomputes_all(settings):
    for framework, version in (("megatron-lm", "2021-06"), ("megatron-deepspeed", "2022-02")):
        old = settings(framework, framework_version=version)[1]
        assert not old["sequence_parallel"]
        assert old["activation_checkpointing"] == "full"
        new = settings(framework)[1]
        assert new["sequence_parallel"]
        assert new["activation_checkpointing"] == "none"
        # What a request says outdoes it.
        told = {"sequence_parallel": True, "activation_checkpointing": "none"}
        assert settings(framework, framework_version=version, **told)[1].items() >= told.items()


def test_torchtune_recomputes_but_where_adapters_train_on_several_accelerators(settings):
    def recomputed(**training):
        return settings("torchtune", **training)[1]["activation_checkpointing"]

    several = {"parallelism": {"data": 2}}
    assert recomputed() == recomputed(**several) == recomputed(method="lora") == "full"
    assert recomputed(method="lora", sequence_length=1024, **several) == "none"


def test_matrices_are_named_as_the_model_names_them(settings):
    """Falcon makes queries, keys and values by one matrix; where no name fits, all are adapted."""
    assert settings("litgpt", "tiiuae/falcon-7b")[1]["lora_targets"] == ["query_key_value"]
    state_space = settings("litgpt", "state-spaces/mamba-2.8b-hf")[1]
    assert state_space["lora_targets"] == ["all-linear"]


def test_memory_without_a_framework_is_less_certain(settings, packaged_snapshot):
    def width(framework):
        resolved, _ = settings(framework, activation_checkpointing="full", fused_kernels=True)
        setup = resolved.setup
        memory = training_memory(
            setup.deployment, setup.micro_batch, setup.settings, resolved.overheads
        )
        return memory.total_bytes.high / memory.total_bytes.low

    assert width("default") > 1.1 * width("torchtitan")


def test_what_no_measurement_bears_out_is_less_certain(settings):
    """A framework that nobody compared, or a kind of run that nobody measured; not both of them."""

    def width(framework, model="meta-llama/Llama-3.1-8B", **training):
        chosen = {"activation_checkpointing": "full", "cross_entropy": "plain"}
        chosen["micro_batch_size"] = 1
        resolved, _ = settings(
            framework, model, fused_kernels=True, **{"method": "lora", **chosen, **training}
        )
        setup = resolved.setup
        setting = replace(setup.settings, left_open=())
        memory = training_memory(setup.deployment, setup.micro_batch, setting, resolved.overheads)
        return memory.total_bytes.high / memory.total_bytes.low

    known = width("transformers")
    assert known < 1.2
    unmeasured = [
        width("transformers", adapter="vera"),
        width("transformers", optimizer="lion"),
        width("transformers", "Qwen/Qwen3-30B-A3B", lora_targets=["q_proj"]),
    ]
    unread = [width("llama-factory"), width("axolotl"), width("llm-foundry")]
    assert min(unmeasured + unread) > 1.25 > known
    # What is unknown of a framework covers what is unknown of its methods.
    assert width("llama-factory", adapter="vera") == pytest.approx(unread[0], rel=0.1)


def test_unsloth_adapts_no_experts_unless_asked_to(settings):
    routed, _ = settings("unsloth", "Qwen/Qwen3-30B-A3B", method="qlora")
    assert routed.setup.settings.lora_targets == ("q_proj", "k_proj", "v_proj", "o_proj")
    # Other ways to load it do, which memory reaches over.
    [choice] = [c for c in routed.setup.settings.left_open if c.names == ("lora_targets",)]
    assert (("lora_targets", ("all-linear",)),) in choice.others
    dense, _ = settings("unsloth", method="qlora")
    assert dense.setup.settings.lora_targets == ("all-linear",)
    asked, _ = settings(
        "unsloth", "Qwen/Qwen3-30B-A3B", method="qlora", lora_targets=["all-linear"]
    )
    assert asked.setup.settings.lora_targets == ("all-linear",)


@pytest.mark.parametrize(
    ("framework", "model", "sites"),
    [
        ("transformers", "google-bert/bert-base-uncased", {"attention", "residual"}),
        ("peft", "openai-community/gpt2", {"attention", "residual"}),
        ("transformers", "facebook/opt-1.3b", {"residual"}),
        ("transformers", "microsoft/phi-2", {"residual"}),
        ("transformers", "bigcode/starcoder2-3b", {"attention", "residual"}),
        ("transformers", "meta-llama/Llama-3.1-8B", set()),
        ("litgpt", "microsoft/phi-2", set()),
        ("torchtitan", "openai-community/gpt2", set()),
        ("default", "facebook/opt-1.3b", {"residual"}),
    ],
)
def test_models_have_the_dropout_of_their_configurations_where_frameworks_read_them(
    settings, framework, model, sites
):
    resolved, told = settings(framework, model)
    assert resolved.setup.settings.dropout == sites
    assert told["dropout"] is bool(sites)
    again, _ = settings(framework, model, dropout=told["dropout"])
    assert again.setup.settings.dropout == sites


def test_dropout_on_request_is_everywhere_where_a_configuration_has_none(settings):
    resolved, told = settings("torchtitan", dropout=True)
    assert resolved.setup.settings.dropout == {"attention", "residual"}
    assert told["dropout"] is True
    without, _ = settings("transformers", "facebook/opt-1.3b", dropout=False)
    assert not without.setup.settings.dropout


def test_gradients_stay_through_the_next_step_where_pytorch_sets_them_to_zero(settings):
    def late(version):
        resolved, _ = settings("transformers", framework_version=version, master_weights=False)
        setup = resolved.setup
        memory = training_memory(
            setup.deployment, setup.micro_batch, setup.settings, resolved.overheads
        )
        return memory.moments.late_bytes

    assert late("2022") == 0.0
    assert late("2023-11") > 15e9


@pytest.mark.parametrize(
    ("framework", "micro_batches", "working"),
    [
        ("megatron-lm", 6, "4 or 8"),
        ("megatron-bridge", 3, "4"),
        ("nemo", 8, None),
        # Two rounds of five, but no two of eleven halves.
        ("torchtitan", 10, None),
        ("torchtitan", 11, "8 or 12"),
        ("default", 11, None),
    ],
)
def test_an_interleaved_schedule_takes_micro_batches_in_rounds(
    ask, framework, micro_batches, working
):
    training = {"pipeline_schedule": "interleaved", "virtual_stages": 2, "framework": framework}
    training |= {"gradient_accumulation_steps": micro_batches}
    layout = {"parallelism": {"pipeline": 4}, "accelerator_count": 4}
    if working is None:
        assert step(ask(training, **layout))["value"] > 0.0
        return
    with pytest.raises(Rejected, match=f"use {working}, or pipeline_schedule 1f1b"):
        ask(training, **layout)


def test_a_framework_that_nobody_knows_is_answered_with_those_that_train(ask):
    with pytest.raises(Rejected) as refused:
        ask({"framework": "megatronn"})
    [error] = refused.value.errors
    assert error.pointer == "/training/framework"
    assert "did you mean megatron-lm" in error.detail
    assert "For training there are axolotl, colossalai, deepspeed, default, " in error.detail
    assert "leave it out" in error.detail
    assert "tensorrt-llm" not in error.detail


@pytest.mark.parametrize(
    ("framework", "method", "weights"),
    [
        ("torchtitan", "full", "fp32"),
        ("maxtext", "full", "fp32"),
        ("llm-foundry", "full", "fp32"),
        ("torchtitan", "lora", "bf16"),
        ("megatron-lm", "full", "bf16"),
        ("torchtune", "full", "bf16"),
    ],
)
def test_weights_are_held_as_the_framework_holds_them(settings, framework, method, weights):
    resolved, _ = settings(framework, method=method)
    precision = resolved.setup.deployment.precision
    assert (precision.weights.id, precision.activations.id) == (weights, "bf16")


def test_adapters_of_megatron_hang_on_every_linear_layer(settings):
    for framework in ("nemo", "megatron-bridge", "megatron-lm"):
        assert settings(framework, method="lora")[1]["lora_targets"] == ["all-linear"]


def test_adapters_hang_on_what_those_of_the_day_hung_on(settings):
    # NeMo adapted queries, keys and values until 2.0; Megatron-LM's adapters are NeMo's.
    for framework, version, targets in (
        ("nemo", "24.07", ["q_proj", "k_proj", "v_proj"]),
        ("nemo", "24.09", ["all-linear"]),
        ("megatron-lm", "2024-06", ["q_proj", "k_proj", "v_proj"]),
    ):
        told = settings(framework, method="lora", framework_version=version)[1]
        assert told["lora_targets"] == targets


def test_unsloth_keeps_inputs_of_recomputed_layers_in_host_memory(settings):
    def places(**training):
        resolved, told = settings("unsloth", method="qlora", **training)
        assert resolved.setup.settings.offload.activations == told["offload"]["activations"]
        return told["offload"]["activations"]

    assert places() == "cpu"
    assert places(activation_checkpointing="none") == "none"
    assert places(offload={"activations": "none"}) == "none"
    assert settings("peft", activation_checkpointing="full")[1]["offload"]["activations"] == "none"


@pytest.mark.parametrize(
    ("framework", "version", "model", "attention"),
    [
        ("litgpt", None, "google/gemma-2-2b", "eager"),
        ("peft", None, "google/gemma-2-9b", "eager"),
        ("torchtitan", None, "google/gemma-2-9b", "flash"),
        ("litgpt", None, "google/gemma-2b", "flash"),
        ("megatron-deepspeed", "2022-01", "bigscience/bloom", "eager"),
        ("megatron-lm", "2021", "bigscience/bloom", "eager"),
        ("megatron-lm", None, "bigscience/bloom", "flash"),
    ],
)
def test_attention_is_fused_where_framework_and_release_fuse_it(
    settings, framework, version, model, attention
):
    resolved, told = settings(framework, model, framework_version=version)
    assert told["attention"] == resolved.setup.settings.attention == attention
    again = settings(framework, model, framework_version=version, attention="flash")[0]
    assert again.setup.settings.attention == "flash"


@pytest.mark.parametrize(
    ("framework", "training", "expected"),
    [
        ("transformers", {}, (True, "fp32")),
        # Adam makes its states like the weights that it changes.
        ("transformers", {"master_weights": False}, (False, "bf16")),
        ("unsloth", {"method": "qlora", "adapter_dtype": "bf16"}, (False, "bf16")),
        ("transformers", {"method": "lora"}, (False, "fp32")),
        # Tables beside adapters have the format of the base, and are most of what is trained.
        (
            "transformers",
            {"method": "lora", "trained_tensors": ["embed_tokens", "lm_head"]},
            (False, "bf16"),
        ),
        # DeepSpeed and FSDP keep copies.
        ("transformers", {"method": "lora", "zero_stage": 2}, (True, "fp32")),
        (
            "unsloth",
            {"master_weights": False, "method": "lora", "adapter_dtype": "fp32"},
            (0, "fp32"),
        ),
        # The paged one is that of bitsandbytes.
        ("transformers", {"master_weights": False, "optimizer": "paged-adamw"}, (False, "fp32")),
        # These hold weights in 32 bit, so that there is nothing to copy.
        ("torchtitan", {"master_weights": False}, (False, "fp32")),
        # DeepSpeed's and Megatron's states have 32 bit whatever they change.
        ("deepspeed", {"master_weights": False}, (False, "fp32")),
        ("megatron-lm", {"master_weights": False}, (False, "fp32")),
        ("transformers", {"optimizer": "galore-adamw-8bit"}, (False, "bf16")),
        ("llama-factory", {"optimizer": "apollo"}, (False, "bf16")),
        ("transformers", {"optimizer": "galore-adamw", "master_weights": True}, (True, "fp32")),
    ],
)
def test_states_are_like_what_has_no_copy_in_32_bit(settings, framework, training, expected):
    resolved, told = settings(framework, **training)
    assert (told["master_weights"], told["optimizer_state_dtype"]) == expected
    assert resolved.setup.settings.master_weights is told["master_weights"]


@pytest.mark.parametrize(
    ("framework", "grows"), [("unsloth", True), ("axolotl", True), ("transformers", False)]
)
def test_segments_grow_where_the_framework_asks_for_it(settings, framework, grows):
    resolved, told = settings(framework)
    assert told["expandable_segments"] is resolved.setup.settings.expandable_segments is grows
    assert settings(framework, expandable_segments=not grows)[1]["expandable_segments"] is not grows


def memory(training, snapshot):
    request = TrainingRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "training": training,
        }
    )
    resolved = resolve_training(request, snapshot, Problems())
    setup = resolved.setup
    found = training_memory(setup.deployment, setup.micro_batch, setup.settings, resolved.overheads)
    return found, {one.about for one in left_open_warnings(found)}


def test_what_a_request_says_is_not_left_open(packaged_snapshot):
    adapters = {"framework": "peft", "method": "lora", "lora_rank": 64, "micro_batch_size": 1}
    bare, told = memory(adapters, packaged_snapshot)
    assert told == {
        *("training.lora_targets", "training.cross_entropy", "training.adapter_dtype"),
        # Of which some recompute nothing by themselves.
        "training.framework_version",
    }
    said, told = memory(
        {
            **adapters,
            "framework_version": "1.7",
            "activation_checkpointing": "full",
            "adapter_dtype": "fp32",
            "lora_targets": ["all-linear"],
            "cross_entropy": "plain",
            "fused_kernels": False,
        },
        packaged_snapshot,
    )
    assert not told
    assert not said.otherwise
    assert said.total_bytes.value == bare.total_bytes.value
    assert bare.total_bytes.low < said.total_bytes.low
    few = {"framework": "litgpt", "method": "lora", "lora_rank": 64, "sequence_length": 2048}
    open_, told = memory(few, packaged_snapshot)
    assert told == {"training.lora_targets"}
    closed, _ = memory({**few, "lora_targets": ["q_proj", "v_proj"]}, packaged_snapshot)
    assert closed.total_bytes.high < open_.total_bytes.high
    # Of longer sequences only adapters of some matrices fit, so that nobody has them on all.
    filled, told = memory({**few, "sequence_length": 4096}, packaged_snapshot)
    assert filled.fits
    assert told == set()


def test_older_releases_leave_open_what_they_had(packaged_snapshot):
    names = {
        version: {
            choice.names[0]
            for choice in memory(
                {"framework": "transformers", "framework_version": version}, packaged_snapshot
            )[0].otherwise
        }
        for version in ("2023-11", "2026")
    }
    # Liger kernels came in 2024.
    assert names["2026"] - names["2023-11"] == {"cross_entropy"}
    assert names["2023-11"] == {"activation_checkpointing", "master_weights"}


@pytest.mark.parametrize(
    ("framework", "training", "adapters", "gradients"),
    [
        ("transformers", {"method": "lora"}, "fp32", "fp32"),
        ("transformers", {"method": "lora", "framework_version": "2023-11"}, None, "bf16"),
        ("transformers", {"method": "qlora", "framework_version": "2023-11"}, "fp32", "fp32"),
        ("transformers", {"method": "lora", "zero_stage": 2}, None, "bf16"),
        ("torchtune", {"method": "lora"}, None, "bf16"),
        ("torchtune", {"method": "lora", "adapter_dtype": "fp32"}, "fp32", "fp32"),
        ("transformers", {}, None, "bf16"),
    ],
)
def test_adapters_have_the_format_that_releases_give_them(
    settings, framework, training, adapters, gradients
):
    told = settings(framework, **training)[1]
    assert (told["adapter_dtype"], told["gradient_dtype"]) == (adapters, gradients)


@pytest.mark.parametrize(
    ("framework", "weights", "training", "expected"),
    [
        ("megatron-deepspeed", "bf16", {}, "fp32"),
        ("megatron-deepspeed", "fp16", {}, "none"),
        ("megatron-deepspeed", "bf16", {"zero_stage": 2}, "none"),
        ("megatron-deepspeed", "bf16", {"optimizer_in_backward": True}, "none"),
        ("megatron-deepspeed", "bf16", {"gradient_sum_dtype": "none"}, "none"),
        ("torchtitan", "bf16", {}, "none"),
    ],
)
def test_gradients_in_bf16_are_summed_as_the_framework_sums_them(
    packaged_snapshot, framework, weights, training, expected
):
    request = TrainingRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "precision": {"weights": weights},
            "training": {"framework": framework} | training,
        }
    )
    resolved = resolve_training(request, packaged_snapshot, Problems())
    assert echo_training(resolved)["training"]["gradient_sum_dtype"] == expected
    assert resolved.setup.settings.gradient_sum_bytes == {"fp32": 4.0, "none": 0.0}[expected]


def test_weights_in_32_bit_have_gradients_in_it(packaged_snapshot):
    def gradients(framework):
        request = TrainingRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.2-1B",
                "accelerator": "nvidia-h100-sxm-80gb",
                "precision": {"weights": "fp32"},
                "training": {"framework": framework},
            }
        )
        return resolve_training(request, packaged_snapshot, Problems()).asked.gradient_dtype

    assert gradients("transformers") == "fp32"
    # It holds weights in 32 bit by itself, and says that it exchanges gradients in 16.
    assert gradients("llm-foundry") == "bf16"


def test_encoders_leave_open_whether_attention_is_fused(packaged_snapshot):
    def choices(model, **training):
        request = TrainingRequest.model_validate(
            {
                "model": model,
                "accelerator": "nvidia-v100-sxm-16gb",
                "training": {"framework": "transformers", "sequence_length": 512} | training,
            }
        )
        resolved = resolve_training(request, packaged_snapshot, Problems())
        return {name for one in resolved.setup.settings.left_open for name in one.names}

    assert "attention" in choices("BAAI/bge-base-en-v1.5")
    assert "attention" not in choices("BAAI/bge-base-en-v1.5", framework_version="5.0")
    assert "attention" not in choices("meta-llama/Llama-3.2-1B")


@pytest.mark.parametrize(
    ("accelerator", "degrees", "training", "framework"),
    [
        ("google-tpu-v5p", {"data": 8}, {}, "maxtext"),
        ("aws-trainium1", {"data": 8}, {}, "neuron"),
        ("intel-gaudi2-96gb", {"data": 8}, {}, "optimum-habana"),
        # It divides no model; Megatron's layers on DeepSpeed do.
        ("intel-gaudi2-96gb", {"tensor": 8}, {}, "megatron-deepspeed"),
        # Many are in use on GPUs.
        (H100, {"data": 8}, {}, "default"),
        # What is usual does not train like this.
        ("aws-trainium1", {"data": 8}, {"optimizer": "lion"}, "default"),
        # Any framework is what was asked for.
        ("google-tpu-v5p", {"data": 8}, {"framework": "default"}, "default"),
    ],
)
def test_an_unnamed_framework_is_the_usual_one_where_there_is_one(
    packaged_snapshot, accelerator, degrees, training, framework
):
    body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": accelerator, "parallelism": degrees}
    request = TrainingRequest.model_validate(body | {"training": training})
    found = resolve_training(request, packaged_snapshot, Problems())
    assert found.asked.framework == found.setup.settings.framework == framework
    told = {warning.code for warning in found.warnings}
    assert ("framework_assumed" in told) is (framework != "default")


def test_no_accelerator_has_two_usual_frameworks(packaged_snapshot):
    engines = [entry.value for entry in packaged_snapshot.engines.values()]
    for accelerator in packaged_snapshot.accelerators.values():
        hardware = accelerator.value.hardware
        usual = [one for one in engines if one.usual_to_train.has(hardware)]
        assert len(usual) <= 1
        assert all("training" in one.workloads and one.runs_on(hardware) for one in usual)


def test_every_choice_that_a_framework_leaves_open_can_be_told_of(packaged_snapshot):
    for entry in packaged_snapshot.engines.values():
        for one in entry.value.recipes.also_usual:
            assert next(iter(one.settings)) in CHOICES, entry.value.id
