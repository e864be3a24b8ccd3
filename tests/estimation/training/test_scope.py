"""Every method, framework and format in scope has an answer of its own, or is refused with why."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from service.core.memory.training.settings import Adapter, Optimizer
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer, training_memory_answer
from service.estimation.training.requests import LatencyTrainingRequest, MemoryTrainingRequest

H100, B200, TPU = "nvidia-h100-sxm-80gb", "nvidia-b200-sxm-180gb", "google-tpu-v5p"
#: What is trained where, by framework: one that its users run.
FRAMEWORKS: dict[str, dict[str, Any]] = {
    "megatron-lm": {"parallelism": {"tensor": 4, "data": 2}, "training": {"zero_stage": 1}},
    "megatron-bridge": {"parallelism": {"tensor": 4, "data": 2}, "training": {"zero_stage": 1}},
    "nemo": {"parallelism": {"tensor": 4, "data": 2}, "training": {"zero_stage": 1}},
    "torchtitan": {"training": {"zero_stage": 3}},
    "fsdp2": {"training": {"zero_stage": 3}},
    "pytorch": {"training": {"zero_stage": 0}},
    "verl": {"training": {"zero_stage": 3}},
    "openrlhf": {"training": {"zero_stage": 2}},
    "ms-swift": {"training": {"method": "lora"}},
    "llama-recipes": {"training": {"method": "lora"}},
    "nanotron": {"parallelism": {"tensor": 4, "data": 2}, "training": {"zero_stage": 1}},
    "colossal-ai": {"training": {"zero_stage": 3}},
    "gpt-neox": {"parallelism": {"tensor": 4, "data": 2}, "training": {"zero_stage": 1}},
    "primus": {"accelerator": "amd-mi300x-192gb", "training": {"zero_stage": 1}},
    "mlx-lm": {"accelerator": "apple-m3-ultra-512gb", "training": {"method": "qlora"}},
    "deepspeed": {"training": {"zero_stage": 3}},
    "torchtune": {"training": {"zero_stage": 3}},
    "trl": {"training": {"method": "lora"}},
    "peft": {"training": {"method": "lora"}},
    "transformers": {"training": {"zero_stage": 3}},
    "unsloth": {"training": {"method": "qlora"}},
    "axolotl": {"training": {"method": "qlora"}},
    "llama-factory": {"training": {"method": "lora"}},
    "litgpt": {"training": {"method": "lora"}},
    "llm-foundry": {"training": {"zero_stage": 3}},
    "llm.c": {"training": {"zero_stage": 1}},
    "maxtext": {"accelerator": TPU, "training": {"zero_stage": 3}},
    "optimum-habana": {"accelerator": "intel-gaudi2-96gb", "training": {"zero_stage": 3}},
    "neuron": {"accelerator": "aws-trainium1", "training": {"zero_stage": 1}},
}


@pytest.fixture(scope="module")
def ask(packaged_snapshot):
    def answered(**asked: Any) -> tuple[float, float]:
        """Memory [B] and step [s] of a run, of one sequence at a time unless told otherwise."""
        body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100} | asked
        body["training"] = {"micro_batch_size": 1} | body.get("training", {})
        memory = training_memory_answer(
            MemoryTrainingRequest.model_validate(body), packaged_snapshot
        )
        speed = training_latency_answer(
            LatencyTrainingRequest.model_validate(body), packaged_snapshot
        )
        return memory["total_bytes"]["value"], speed["step_s"]["value"]

    return answered


def refused(ask, **asked: Any) -> dict[str, str]:
    with pytest.raises(Rejected) as rejected:
        ask(**asked)
    return {error.pointer: error.detail for error in rejected.value.errors}


def test_every_adapter_is_its_own(ask):
    found = {name: ask(training={"method": "lora", "adapter": name}) for name in get_args(Adapter)}
    # rsLoRA scales otherwise, which takes nothing; AdaLoRA's own rank adds a vector.
    assert found["rslora"] == found["lora"]
    others = [found[name] for name in found if name != "rslora"]
    assert len(set(others)) == len(others)
    assert found["dora"][1] > found["lora"][1]
    assert found["lora-fa"][0] < found["lora"][0]
    assert found["boft"][1] > found["lora"][1]
    assert found["norms"][0] < found["lora"][0]


def test_every_optimizer_is_its_own(ask):
    kept = {"activation_checkpointing": "none"}
    found = {name: ask(training=kept | {"optimizer": name}) for name in get_args(Optimizer)}
    # Lion and momentum both have one state; all others differ.
    assert found["lion"] == found["sgd-momentum"]
    assert len(set(found.values())) == len(found) - 1
    assert found["galore-adamw"][0] < found["adafactor"][0] + 16e9 < found["adamw"][0]
    # What does not fit is paged, at its time.
    assert found["paged-adamw-8bit"][0] <= found["adamw-8bit"][0]
    assert found["paged-adamw-8bit"][1] > found["adamw-8bit"][1]


@pytest.mark.parametrize("base", ["bnb-nf4", "bnb-int8", "int8", "gptq-int4", "awq-int4"])
def test_adapters_hang_on_every_quantised_base(ask, base):
    quantised = ask(precision={"weights": base}, training={"method": "qlora"})
    half = ask(training={"method": "lora"})
    assert quantised[0] < half[0]
    assert quantised[1] > half[1]  # turned into 16 bit on every use


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_framework_answers_its_recipe(ask, framework):
    asked = {"accelerator_count": 8} | FRAMEWORKS[framework]
    training = asked.pop("training") | {"framework": framework}
    memory, step_s = ask(**asked, training=training)
    assert memory > 0.0
    assert step_s > 0.0


def test_frameworks_take_memory_and_time_of_their_own(ask):
    asked = {"accelerator_count": 8}
    found = {
        name: ask(**asked, training={"framework": name, "zero_stage": 3})
        for name in ("torchtitan", "torchtune", "deepspeed", "transformers", "litgpt")
    }
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    ("framework", "parallelism", "training", "pointer"),
    [
        ("llm.c", {"data": 8}, {"method": "lora"}, "/training/method"),
        ("fms-fsdp", {"data": 8}, {"method": "qlora"}, "/training/method"),
        ("unsloth", {"tensor": 8}, {"method": "lora"}, "/parallelism/tensor"),
        ("litgpt", {"pipeline": 2}, {}, "/parallelism/pipeline"),
    ],
)
def test_a_recipe_that_a_framework_cannot_run_names_the_setting(
    ask, framework, parallelism, training, pointer
):
    reasons = refused(ask, parallelism=parallelism, training=training | {"framework": framework})
    assert pointer in reasons
    assert "another framework" in reasons[pointer]


def test_a_layout_that_does_not_divide_says_which_would(ask):
    heads = refused(ask, parallelism={"tensor": 12})
    [reason] = [text for pointer, text in heads.items() if pointer.startswith("/parallelism")]
    assert "8" in reason
    virtual = refused(
        ask,
        parallelism={"pipeline": 8},
        training={"pipeline_schedule": "interleaved", "virtual_stages": 9},
    )
    assert "at most 4" in virtual["/training/virtual_stages"]
    context = refused(ask, parallelism={"context": 3}, training={"sequence_length": 8192})
    assert "multiple of 3" in context["/parallelism/context"]


@pytest.mark.parametrize(
    ("accelerator", "products", "framework"),
    [(H100, "fp8", "megatron-lm"), (B200, "nvfp4", "megatron-lm"), (TPU, "int8", "maxtext")],
)
def test_narrow_products_are_faster(ask, accelerator, products, framework):
    narrow, half = (
        ask(
            accelerator=accelerator,
            precision={"weights": "bf16", **given},
            training={"framework": framework, "sequence_length": 4096, "micro_batch_size": 2},
        )
        for given in ({"activations": products}, {})
    )
    assert narrow[1] < half[1]


@pytest.mark.parametrize("products", ["mxfp4", "int4"])
def test_products_that_nobody_trains_in_are_refused(ask, products):
    reasons = refused(ask, precision={"weights": "bf16", "activations": products})
    assert "fp8" in reasons["/precision/activations"]


def test_a_format_that_is_not_known_says_what_is():
    with pytest.raises(ValidationError, match="did you mean"):
        MemoryTrainingRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "accelerator": B200,
                "precision": {"activations": "mxfp88"},
            }
        )


DEEPSEEK: dict[str, Any] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "accelerator": "nvidia-gb200-186gb",
    "accelerator_count": 256,
    "parallelism": {"data": 64, "pipeline": 4, "expert": 64},
}
_STEPS = {"gradient_accumulation_steps": 64, "zero_stage": 1}


def deployed(packaged_snapshot, framework: str, **training: Any) -> tuple[dict[str, Any], set[str]]:
    body = DEEPSEEK | {"training": _STEPS | {"framework": framework} | training}
    answer = training_memory_answer(MemoryTrainingRequest.model_validate(body), packaged_snapshot)
    return dict(answer["deployment"]), {warning["code"] for warning in answer["warnings"]}


def test_layers_that_predict_are_trained_where_the_framework_does(ask, packaged_snapshot):
    """Megatron Bridge takes them from the model's configuration, Megatron-LM where asked."""
    bridge, said = deployed(packaged_snapshot, "megatron-bridge")
    assert bridge["training"]["prediction_layers"] == 1
    assert "prediction_layers_left_out" not in said
    megatron, said = deployed(packaged_snapshot, "megatron-lm")
    assert megatron["training"]["prediction_layers"] == 0
    assert "prediction_layers_left_out" in said
    assert bridge["total_parameters"] - megatron["total_parameters"] > 11e9
    with_and_without = [
        ask(**DEEPSEEK, training=_STEPS | {"framework": "megatron-bridge"} | asked)
        for asked in ({}, {"prediction_layers": 0})
    ]
    (held, slow), (less, fast) = with_and_without
    assert held > less
    # The last stage, which has it, has fewer other layers.
    assert fast < slow < 1.15 * fast


def test_layers_that_predict_are_refused_where_nothing_trains_them(ask):
    asked = {"training": {"prediction_layers": 1, "framework": "transformers"}}
    assert set(refused(ask, **asked)) == {"/training/prediction_layers"}
    asked = {"training": {"prediction_layers": 1, "method": "lora"}}
    assert "adapters" in refused(ask, **asked)["/training/prediction_layers"]
    asked = {"model": "openai/whisper-large-v3", "training": {"prediction_layers": 1}}
    assert "/training/prediction_layers" in refused(ask, **asked)


def test_gradients_have_the_format_of_the_framework(packaged_snapshot):
    """Megatron Core, distributed optimizer, 2025: 18 bytes a parameter, or 6 + 12/d."""

    def per_parameter(ranks: int, **training: Any) -> float:
        body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100, "accelerator_count": ranks}
        copies = {"parallelism": {"data": ranks}}
        request = MemoryTrainingRequest.model_validate(body | copies | {"training": training})
        memory = training_memory_answer(request, packaged_snapshot)
        kept = sum(
            memory[name]["value"]
            for name in ("weights_bytes", "gradients_bytes", "optimizer_bytes")
        )
        return kept / 8.03e9

    assert per_parameter(1, framework="megatron-lm") == pytest.approx(18.0, rel=0.001)
    divided = {"zero_stage": 1, "activation_checkpointing": "full"}
    assert per_parameter(8, framework="megatron-lm", **divided) == pytest.approx(7.5, rel=0.001)
    half = {"framework": "megatron-lm", "gradient_dtype": "bf16"}
    assert per_parameter(1, **half) == pytest.approx(16.0, rel=0.001)
    assert per_parameter(1, framework="deepspeed") == pytest.approx(16.0, rel=0.001)


def test_a_cluster_on_slow_ethernet_trains_slower(ask):
    """Sharded weights go between machines in every step: at 25 Gb/s a machine they take longest."""
    body = {
        "accelerator_count": 16,
        "training": {"zero_stage": 3, "activation_checkpointing": "full"},
    }
    network = {"scale_out_bandwidth_bytes_per_s": 25e9 / 8 / 8}
    slow = {"like": "nvidia-dgx-h100", "figures": network}
    (held, usual), (same, late) = ask(**body), ask(**body, platform=slow)
    assert held == same
    assert late > 5.0 * usual


@pytest.fixture(scope="module")
def held(packaged_snapshot):
    def answered(**asked: Any) -> Any:
        """The memory of a run."""
        body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100} | asked
        request = MemoryTrainingRequest.model_validate(body)
        return training_memory_answer(request, packaged_snapshot)

    return answered


def test_models_that_embed_have_no_logits(held):
    memory = held(model="BAAI/bge-m3")
    assert memory["logits_bytes"]["value"] == 0.0
    assert memory["activations_bytes"]["value"] > 0.0


def test_paged_states_give_way_however_much_room_there_is(held):
    """What is paged out is what finds no room: such a run fits if all else does."""
    memory = held(
        training={"optimizer": "paged-adamw", "master_weights": False, "sequence_length": 2048}
        | {"activation_checkpointing": "full", "framework": "transformers"},
    )
    assert memory["host_bytes"]["value"] > 1e9
    assert memory["fits"]
    assert memory["fits_certainty"] == "yes"
    assert memory["shortfall_bytes"]["value"] == 0.0


@pytest.mark.parametrize(
    ("framework", "products", "instead"),
    [
        ("megatron-lm", "int8", "fp8, nvfp4 or bf16"),
        ("torchtitan", "nvfp4", "fp8 or bf16"),
        ("llm.c", "fp8", "use bf16"),
    ],
)
def test_formats_that_a_framework_does_not_multiply_in_are_refused(
    ask, framework, products, instead
):
    told = refused(
        ask,
        accelerator=B200,
        training={"framework": framework},
        precision={"activations": products},
    )
    assert f"has no products in {products}" in told["/precision/activations"]
    assert instead in told["/precision/activations"]


def test_a_framework_that_is_not_estimated_names_those_that_run_on_the_accelerator(ask):
    found = refused(ask, accelerator="apple-m2-ultra-192gb", training={"framework": "llama.cpp"})
    detail = found["/training/framework"]
    assert detail.startswith(
        "llama.cpp is not estimated for training on Apple M2 Ultra 192 GB; these are: "
    )
    assert "litgpt" in detail
    assert "torchtitan" not in detail
