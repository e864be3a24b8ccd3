"""The moments of a step: the loss, the end of the backward pass, the optimizer's step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import Deployment, Parallelism, Precision
from service.core.interval import Interval, exact
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.moments import Moments
from service.core.memory.training.runtime import TrainingOverheads
from service.core.memory.training.settings import MicroBatch, Offload, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.memory.memory_models import LLAMA_3_8B, accelerator

BF16, NF4 = NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bnb-nf4"]
PURE = TrainingSettings(framework="torchtune", master_weights=False, optimizer_state_bytes=2.0)
PARAMETERS = LLAMA_3_8B.total_parameters


def trained(settings, parallelism=None, batch=None, size=80e9, weights=BF16) -> TrainingMemory:
    deployment = Deployment(
        LLAMA_3_8B, Precision(weights, BF16, BF16), accelerator(size), parallelism or Parallelism()
    )
    # Everything but fragmentation, which follows from what is looked at here.
    overheads = packaged_training_overheads()
    framework = replace(
        overheads.of(settings.release), fragmentation_ratio=exact(0.0), activation_ratio=exact(1.0)
    )
    held = TrainingOverheads({**overheads.frameworks, settings.release: framework})
    return training_memory(deployment, batch or MicroBatch(2, 2048), settings, held)


@pytest.mark.parametrize(
    ("stored", "logits", "working", "late", "step"),
    [
        (10, 5, 3, 0, 0),
        (10, 5, 3, 4, 0),
        (10, 5, 3, 30, 0),
        (10, 2, 6, 30, 0),
        (10, 5, 3, 30, 8),
        (1, 5, 3, 2, 40),
    ],
)
def test_parts_add_up_to_the_fullest_moment(stored, logits, working, late, step):
    moments = Moments(stored, logits, working, late, step, Interval(2.0, 1.0, 3.0))
    fullest = max(
        2 * (stored + max(logits, working)),  # the loss, and the first layer's backward pass
        2 * working + late,  # the end of the backward pass
        late + step,  # the optimizer's step
    )
    parts = moments.activations.value + moments.logits.value + moments.update_bytes
    assert parts + late == max(fullest, late)
    assert moments.activations.low <= moments.activations.value <= moments.activations.high


def test_gradients_are_not_there_at_the_loss_without_accumulation():
    checkpointed = replace(PURE, activation_checkpointing="full")
    once = trained(checkpointed)
    gradients = once.gradients_bytes.value
    assert once.moments.late_bytes == gradients == 2 * PARAMETERS
    twice = trained(replace(checkpointed, gradient_accumulation_steps=2))
    assert twice.moments.late_bytes == 0
    assert twice.total_bytes.value > once.total_bytes.value
    # A framework with a buffer for all gradients has them at the loss, too.
    megatron = trained(replace(checkpointed, framework="megatron-lm"))
    assert megatron.moments.late_bytes == 0


def test_sharded_gradients_lie_apart_in_what_is_reserved():
    settings = replace(PURE, zero_stage=3, activation_checkpointing="full")
    memory = trained(settings, Parallelism(data=8))
    assert memory.reused_bytes == pytest.approx(2 * PARAMETERS / 8)
    assert memory.reserved_bytes.value - memory.allocated_bytes.value == pytest.approx(
        memory.reused_bytes
    )


def test_an_optimizer_in_the_backward_pass_holds_one_gradient():
    checkpointed = replace(PURE, activation_checkpointing="full")
    memory = trained(replace(checkpointed, optimizer_in_backward=True))
    assert memory.gradients_bytes.value == 2 * LLAMA_3_8B.vocab_size * 4096
    assert memory.total_bytes.value < trained(checkpointed).total_bytes.value


def test_sums_of_gradients_in_32_bit_are_held_besides():
    parallelism = Parallelism(data=4)
    settings = replace(PURE, zero_stage=1, gradient_accumulation_steps=4)
    plain = trained(settings, parallelism)
    summed = trained(replace(settings, gradient_sum_bytes=4.0), parallelism)
    more = summed.gradients_bytes.value - plain.gradients_bytes.value
    assert more == 4 * PARAMETERS


def test_only_what_is_quantised_is_dequantised_and_gathered_narrow():
    settings = replace(PURE, method="qlora")
    memory = trained(settings, weights=NF4)
    assert memory.communication_parts_bytes == {"dequantised_matrix": 2 * 4096 * 14336}
    divided = trained(replace(settings, zero_stage=3), Parallelism(data=8), weights=NF4)
    ends = 2 * 2 * 4096 * LLAMA_3_8B.vocab_size
    assert divided.communication_parts_bytes["gathered_ends"] == pytest.approx(ends, rel=1e-4)
    layer = divided.communication_parts_bytes["gathered_layers"]
    assert layer == pytest.approx(2 * 218e6 * NF4.bits_per_element / 8, rel=0.01)


@pytest.mark.parametrize("offload", [Offload(), Offload(parameters="cpu")])
def test_scales_of_a_base_of_bitsandbytes_are_whole_on_every_rank(offload):
    settings = TrainingSettings(
        framework="transformers", method="qlora", zero_stage=3, offload=offload
    )
    single = NUMBER_FORMATS["bnb-nf4-single-quant"]
    sharded = [trained(settings, Parallelism(data=ranks), weights=single) for ranks in (2, 8)]
    # A scale of 32 bits for 64 elements of every linear layer: 0.44 GB of 7 billion.
    scales = 32 * 218e6 / 64 * 4
    for memory in sharded:
        assert memory.state.fixed_bytes == pytest.approx(scales, rel=0.01)
    # All else is divided or away, and layers are gathered without scales.
    divided = [memory.weights_bytes.value - memory.state.fixed_bytes for memory in sharded]
    assert divided[0] == pytest.approx(4 * divided[1], abs=1)
    layer = sharded[0].communication_parts_bytes["gathered_layers"]
    assert layer == pytest.approx(2 * 218e6 * 4 / 8, rel=0.01)
    # torchao's tensors are divided with their scales.
    torchao = trained(replace(settings, framework="torchtune"), Parallelism(data=8), weights=single)
    assert torchao.state.fixed_bytes == 0.0


def test_small_tensors_stay_whole_where_asked():
    settings = replace(PURE, zero_stage=3)
    divided = trained(settings, Parallelism(data=8))
    persistent = trained(replace(settings, persistent_elements=100_000), Parallelism(data=8))
    norms = 2 * (2 * 32 + 1) * 4096
    more = persistent.weights_bytes.value - divided.weights_bytes.value
    assert more == pytest.approx(norms * 7 / 8)


def test_a_run_does_not_fit_where_the_host_lacks_memory():
    offload = Offload(optimizer="cpu", host_memory_bytes=256e9)
    settings = replace(TrainingSettings(), zero_stage=3, offload=offload)
    roomy = trained(settings, Parallelism(data=2))
    assert roomy.fits
    assert 0 < roomy.host_bytes < 256e9
    little = replace(offload, host_memory_bytes=roomy.host_bytes - 1)
    short = trained(replace(settings, offload=little), Parallelism(data=2))
    assert short.total_bytes == roomy.total_bytes
    assert not short.fits
    assert short.fits_certainty == "no"


def test_segments_that_grow_leave_less_unused():
    settings = replace(PURE, framework="transformers")
    deployment = Deployment(
        LLAMA_3_8B, Precision(BF16, BF16, BF16), accelerator(80e9), Parallelism()
    )

    def memory(**changes):
        return training_memory(
            deployment,
            MicroBatch(4, 2048),
            replace(settings, **changes),
            packaged_training_overheads(),
        )

    usual, growing = memory(), memory(expandable_segments=True)
    assert growing.allocated_bytes.value == pytest.approx(usual.allocated_bytes.value)
    assert growing.reserved_bytes.value < usual.reserved_bytes.value


def test_paged_states_are_not_the_allocators():
    memory = trained(replace(PURE, optimizer="paged-adamw"), size=200e9)
    assert memory.optimizer_bytes.value > 0
    libraries = memory.libraries_bytes.value
    assert memory.reserved_bytes.value == pytest.approx(
        memory.total_bytes.value - libraries - memory.optimizer_bytes.value
    )


def test_a_step_holds_what_its_optimizer_makes():
    def step(framework="transformers", batch=1, **changes):
        settings = replace(PURE, framework=framework, optimizer_state_bytes=4.0, **changes)
        return trained(settings, batch=MicroBatch(batch, 64), size=800e9).moments.step_bytes

    # Two temporaries in 32 bit for as many elements as it goes through at once.
    assert step() == 8e9
    # Kernels that work in place make none, and what is updated on the host makes none here.
    for optimizer in ("adamw-8bit", "paged-adamw", "paged-adamw-8bit", "sgd", "sgd-momentum"):
        assert step(optimizer=optimizer) == 0.0
    assert step(offload=Offload(optimizer="cpu")) == 0.0
    # Others go from tensor to tensor, as the backward pass does.
    largest = 8.0 * 4096 * LLAMA_3_8B.vocab_size
    assert step(optimizer_in_backward=True) == largest
    assert step(optimizer="galore-adamw-8bit") == step(optimizer="adafactor") == largest
    # DeepSpeed copies parts of its flat gradients whatever the optimizer does.
    assert step("deepspeed", optimizer="sgd") == step("deepspeed") == 8e9


def test_galore_decomposes_the_gradient_of_a_matrix_in_32_bit():
    def memory(optimizer):
        settings = replace(PURE, optimizer=optimizer, optimizer_in_backward=True)
        return trained(settings)

    # A copy, another to decompose, and vectors of both sides of the largest matrix of a layer.
    matrix = 4 * (2 * 4096 * 14336 + 4096 * (4096 + 14336))
    found = memory("galore-adamw")
    assert found.state.projection_bytes == matrix
    assert found.moments.step_bytes >= matrix
    # APOLLO draws its projection at random.
    assert memory("apollo").state.projection_bytes == 0.0
