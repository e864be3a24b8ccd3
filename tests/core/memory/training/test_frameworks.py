"""What frameworks hold otherwise than others, beside the same states and activations."""

from dataclasses import replace

import pytest

from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import LeftOpen, MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.memory.memory_models import LLAMA_3_8B, accelerator

BF16 = NUMBER_FORMATS["bf16"]
OVERHEADS = packaged_training_overheads()
#: Parameters of a layer of Llama 3 8B in 16 bit [B].
LAYER = 2.0 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096)


def trained(settings, parallelism=None, base="bf16"):
    deployment = Deployment(
        LLAMA_3_8B,
        Precision(NUMBER_FORMATS[base], BF16, BF16),
        accelerator(80e9),
        parallelism or Parallelism(),
    )
    return training_memory(deployment, MicroBatch(1, 4096), settings, OVERHEADS)


def on_a_base(base: str, framework: str, data: int = 1, **settings):
    chosen = TrainingSettings(
        method="qlora",
        framework=framework,
        activation_checkpointing="full",
        master_weights=False,
        **settings,
    )
    return trained(chosen, Parallelism(data=data), base)


def test_peft_holds_in_32_bit_what_a_base_in_4_leaves():
    wide, narrow = on_a_base("bnb-nf4", "transformers"), on_a_base("bnb-nf4", "llama-factory")
    ends = 2 * 128256 * 4096
    assert wide.weights_bytes.value - narrow.weights_bytes.value == pytest.approx(
        2.0 * ends, rel=0.01
    )
    assert wide.stored_activations_bytes == 2.0 * narrow.stored_activations_bytes
    # GPTQ is left as it is, and so is a base that is sharded.
    kept = on_a_base("gptq-int4", "transformers"), on_a_base("gptq-int4", "llama-factory")
    assert kept[0].weights_bytes.value == kept[1].weights_bytes.value
    sharded = [
        on_a_base("bnb-nf4", framework, zero_stage=3, data=2).weights_bytes.value
        for framework in ("transformers", "llama-factory")
    ]
    assert sharded[0] == sharded[1]


def test_layers_of_8_bit_put_out_what_they_take_in_and_keep_it():
    wide, narrow = on_a_base("bnb-int8", "transformers"), on_a_base("bnb-int8", "llama-factory")
    ends = 2 * 128256 * 4096
    assert wide.weights_bytes.value - narrow.weights_bytes.value == pytest.approx(
        2.0 * ends, rel=0.01
    )
    assert wide.stored_activations_bytes == 2.0 * narrow.stored_activations_bytes
    # The gradient of an input goes through the matrix in the input's format.
    matrix = 4096 * 14336
    assert wide.communication_parts_bytes["dequantised_matrix"] == 4.0 * matrix
    assert narrow.communication_parts_bytes["dequantised_matrix"] == 2.0 * matrix

    def kept(base):
        few = {"lora_targets": ("v_proj",), "attention": "flash", "method": "lora"}
        chosen = TrainingSettings(framework="llama-factory", master_weights=False, **few)
        return trained(chosen, base=base).stored_bytes_per_token

    # Adapters of values need one input of each layer; 8-bit products keep all: that of the
    # feed-forward part, and what its activation makes.
    assert kept("bnb-int8") - kept("bnb-nf4") == 32 * 2.0 * (4096 + 14336)


def test_a_loss_in_one_kernel_makes_no_logits():
    def logits(framework):
        chosen = TrainingSettings(method="lora", cross_entropy="fused", framework=framework)
        return trained(chosen).logits_bytes.value

    assert logits("unsloth") == 0.0
    assert logits("transformers") > 1024 * 128256 * 8.0


def test_frameworks_make_logits_of_what_the_loss_looks_at_or_of_all_tokens():
    def logits(framework, ratio):
        chosen = TrainingSettings(method="lora", framework=framework, loss_ratio=ratio)
        return trained(chosen).moments.logits_bytes

    assert logits("transformers", 0.25) == pytest.approx(0.25 * logits("transformers", 1.0))
    assert logits("torchtune", 0.25) == logits("torchtune", 1.0)


def test_buckets_of_data_parallel_ranks_hold_gradients_again():
    def buckets(framework, data=8, **settings):
        chosen = TrainingSettings(framework=framework, gradient_bytes=4.0, **settings)
        found = trained(chosen, Parallelism(data=data))
        return found.communication_parts_bytes.get("buckets", 0.0)

    assert buckets("transformers") == 4.0 * LLAMA_3_8B.total_parameters
    assert buckets("transformers", data=1) == 0.0
    # Megatron and DeepSpeed exchange them where they lie.
    assert buckets("megatron-lm") == buckets("deepspeed") == 0.0
    assert buckets("torchtitan", zero_stage=3) == 0.0


def test_deepspeed_makes_two_whole_buckets_in_zero_2_however_few_gradients_there_are():
    def buckets(framework, zero_stage, **settings):
        chosen = TrainingSettings(
            method="lora",
            framework=framework,
            zero_stage=zero_stage,
            **settings,
        )
        return trained(chosen, Parallelism(data=8)).communication_parts_bytes["buckets"]

    # Of 16 bit, twice, where a tenth as many are trained: 500 million, and 200 million as the
    # Trainer's configurations say.
    assert buckets("deepspeed", 2) == 2 * 2 * 5e8
    assert buckets("transformers", 2) == 2 * 2 * 2e8
    # Stage 1 and other frameworks gather what there is.
    assert buckets("transformers", 1) < buckets("torchtitan", 2) < 0.5 * 2 * 2 * 2e8


def test_deepspeed_makes_flat_gradients_of_a_whole_share():
    def update(framework, zero_stage):
        chosen = TrainingSettings(framework=framework, zero_stage=zero_stage)
        return trained(chosen, Parallelism(data=8)).update_bytes.value

    share = LLAMA_3_8B.total_parameters / 8
    # Beside activations, which leave no tensors of that size.
    assert update("transformers", 2) == update("deepspeed", 2) == pytest.approx(8.0 * share)
    assert update("transformers", 3) < 8.0 * share


def test_programs_of_xla_hold_no_more_than_they_use():
    """Weights are gathered until their last use, and states written where they lie."""
    settings = TrainingSettings(zero_stage=3, activation_checkpointing="full", gradient_bytes=4.0)
    ranks = Parallelism(data=8)

    def run(framework):
        chosen = replace(settings, framework=framework)
        return trained(chosen, ranks)

    xla, torch = run("maxtext"), run("torchtitan")
    # Embedding and head are there while no layer is.
    end = 128256 * 4096 * 2.0
    assert torch.communication_bytes.value == pytest.approx(2 * LAYER + 2 * end, rel=1e-4)
    assert xla.communication_bytes.value == pytest.approx(max(2 * LAYER, end), rel=1e-4)
    assert xla.moments.step_bytes == 0.0
    # Logits and gradients have 16 bits; exponentials never leave what reads them.
    assert xla.logits_bytes_per_token == 4.0 * 128256
    assert xla.unallocated_bytes.value < 0.3 * torch.unallocated_bytes.value


def test_memory_of_a_run_that_does_not_fit_reaches_over_nothing_that_takes_more():
    keeping = LeftOpen(("activation_checkpointing",), ((("activation_checkpointing", "none"),),))
    settings = TrainingSettings(activation_checkpointing="full", left_open=(keeping,))
    found = trained(settings)
    assert not found.fits
    assert not found.otherwise
