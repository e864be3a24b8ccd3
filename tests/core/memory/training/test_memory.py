"""Training memory against papers, the source documents and published peaks."""

from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from service.core.architecture.model import DropoutSite
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Deployment, Parallelism, Precision
from service.core.explanation import explain
from service.core.interval import Interval
from service.core.memory.training.activations import layer_savings
from service.core.memory.training.adapters import adapter_parameters
from service.core.memory.training.formulas import MEMORY
from service.core.memory.training.kept import micro_batches_in_flight, stored_bytes
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.settings import MicroBatch, Offload, TrainingSettings
from service.core.memory.training.state import optimizer_bytes_per_element, stage_state
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.memory.memory_models import (
    DEEPSEEK_V3,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_31_70B,
    accelerator,
    dense,
)

GIB = 1024.0**3
BF16, FP32 = NUMBER_FORMATS["bf16"], NUMBER_FORMATS["fp32"]
PRECISION = Precision(BF16, BF16, BF16)
SEVEN = dense(32, 4096, 32, 32, 11008, 64000)
GPT_7B = dense(32, 4096, 32, 32, 16384, 50257, gated=False)
GPT_13B = dense(40, 5120, 40, 40, 20480, 50257, gated=False)
SINGLE = Parallelism()
EVERYWHERE = frozenset(get_args(DropoutSite))
PURE = TrainingSettings(master_weights=False)

OVERHEADS = packaged_training_overheads()


def state(settings, parallelism=SINGLE, architecture=SEVEN, precision=PRECISION, stage=0):
    return stage_state(architecture, precision, parallelism, settings, stage)


def trained(settings, parallelism=SINGLE, architecture=LLAMA_3_8B, batch=None, size=80e9):
    deployment = Deployment(architecture, PRECISION, accelerator(size), parallelism)
    return training_memory(deployment, batch or MicroBatch(), settings, OVERHEADS)


def activations(architecture, tokens, parallelism=SINGLE, **settings):
    chosen = TrainingSettings(dropout=EVERYWHERE, **settings)
    return stored_bytes(layer_savings(architecture, parallelism, chosen), 1.0, 1, tokens)


def test_states_of_a_7b_model():
    pure = state(PURE)
    scale = 7e9 / SEVEN.total_parameters
    assert pure.weights_bytes * scale == pytest.approx(14e9)
    assert pure.gradients_bytes * scale == pytest.approx(14e9)
    assert pure.optimizer_bytes * scale == pytest.approx(56e9)
    total = pure.weights_bytes + pure.gradients_bytes + pure.optimizer_bytes
    assert total * scale == pytest.approx(84e9)
    # With the 5 to 32 GB of activations that the source documents name: 89 and 116 GB.
    assert total * scale + 5e9 == pytest.approx(89e9, rel=0.005)
    assert total * scale + 32e9 == pytest.approx(116e9, rel=0.005)
    mixed = state(TrainingSettings())
    assert mixed.optimizer_bytes == 12 * SEVEN.total_parameters


def test_adam_of_175_billion_parameters_takes_1400_gb():
    assert state(PURE).optimizer_bytes / SEVEN.total_parameters * 175e9 == pytest.approx(1400e9)


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_zero_stages_of_the_paper(stage, gigabytes):
    # Rajbhandari et al., 2019, figure 1: 7.5 billion parameters on 64 accelerators.
    divided = state(TrainingSettings(zero_stage=stage), Parallelism(data=64))
    total = divided.weights_bytes + divided.gradients_bytes + divided.optimizer_bytes
    assert total / SEVEN.total_parameters * 7.5 == pytest.approx(gigabytes, rel=0.005)


def test_zero_3_of_a_7b_model_on_eight_accelerators():
    divided = state(replace(PURE, zero_stage=3), Parallelism(data=8))
    total = divided.weights_bytes + divided.gradients_bytes + divided.optimizer_bytes
    assert total / SEVEN.total_parameters * 7 == pytest.approx(10.5)


@pytest.mark.parametrize(
    ("optimizer", "low", "high"),
    [
        ("sgd", 0.0, 0.0),
        ("sgd-momentum", 4.0, 4.0),
        ("lion", 4.0, 4.0),
        # Embedding and head keep Adam, matrices one momentum.
        ("muon", 4.0, 4.5),
        ("adamw-8bit", 2.0, 2.3),
        ("paged-adamw-8bit", 2.0, 2.3),
        ("adafactor", 0.0, 0.01),
        ("adamw", 8.0, 8.0),
        # Embedding and head keep Adam, in as many bits; 4096 × 4096 have 0.375 bytes of rank 128.
        ("galore-adamw", 0.85, 0.95),
        ("galore-adamw-8bit", 0.25, 0.3),
        ("apollo", 0.8, 0.9),
        ("apollo-mini", 0.60, 0.63),
    ],
)
def test_bytes_per_parameter_of_optimizers(optimizer, low, high):
    kept = state(replace(PURE, optimizer=optimizer)).optimizer_bytes / SEVEN.total_parameters
    assert low <= kept <= high


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [
        # Table 1 of GaLore: a projection of m × r and two moments of r × n, where m is the shorter.
        ("galore-adamw", lambda m, n, r: m * r + 2 * n * r),
        # Table 1 of APOLLO: the moments alone, whose projection is drawn from a seed; of rank one.
        ("apollo", lambda _, n, r: 2 * n * r),
        ("apollo-mini", lambda *sides: 2 * sides[1]),
        ("adamw", lambda m, n, _: 2 * m * n),
        # One row and one column.
        ("adafactor", lambda m, n, _: m + n),
    ],
)
@pytest.mark.parametrize("shape", [(4096, 11008), (11008, 4096), (64, 512)])
def test_states_of_a_matrix_by_the_papers(optimizer, states, shape):
    settings = TrainingSettings(optimizer=optimizer, optimizer_rank=128)
    matrix = Tensor("up_proj", TensorClass.DENSE_FFN, *shape, Shard.COLUMN)
    short, long = sorted(shape)
    each = optimizer_bytes_per_element(settings, matrix, *map(float, shape))
    # Of 32 bit; no rank is larger than the shorter side.
    assert each * short * long == pytest.approx(4 * states(short, long, min(128, short)))


def test_8_bit_adam_saves_three_quarters_of_what_it_applies_to():
    settings = replace(PURE, optimizer="adamw-8bit")
    everything = state(settings).optimizer_bytes
    assert everything / (8 * SEVEN.total_parameters) == pytest.approx(0.25, rel=0.02)
    # The Trainer of Transformers keeps states of the embedding in 32 bit.
    table = 4096 * 64000
    wide = stage_state(SEVEN, PRECISION, SINGLE, settings, 0, wide_tables=True).optimizer_bytes
    rest = SEVEN.total_parameters - table
    assert (wide - 8 * table) / (8 * rest) == pytest.approx(0.25, rel=0.02)


def test_lora_of_rank_16_on_queries_and_values():
    settings = TrainingSettings(method="lora", lora_targets=("q_proj", "v_proj"))
    assert adapter_parameters(LLAMA_2_7B, settings) == 8_388_608
    adapted = state(settings, architecture=LLAMA_2_7B)
    assert adapted.trainable_elements == 8_388_608
    assert adapted.weights_bytes == 2 * (LLAMA_2_7B.total_parameters + 8_388_608)
    assert adapted.optimizer_bytes == 12 * 8_388_608


def test_tensor_parallelism_divides_one_side_of_an_adapter():
    settings = TrainingSettings(method="lora", lora_targets=("q_proj", "o_proj"))
    divided = state(settings, Parallelism(tensor=4), architecture=LLAMA_2_7B)
    assert divided.trainable_elements == 32 * 2 * 16 * (4096 + 1024)


def test_tensors_trained_whole_beside_adapters_are_held_twice():
    settings = TrainingSettings(method="lora", lora_targets=("q_proj",))
    whole = replace(settings, trained_tensors=("lm_head",))
    head = 4096 * 32000
    alone, beside = state(settings, architecture=LLAMA_2_7B), state(whole, architecture=LLAMA_2_7B)
    assert beside.weights_bytes - alone.weights_bytes == 2 * head
    assert beside.trainable_elements - alone.trainable_elements == head


@pytest.mark.parametrize(
    ("format_id", "gigabytes"), [("bnb-nf4-single-quant", 3.94), ("bnb-nf4", 3.61)]
)
def test_qlora_base_of_7_billion_parameters(format_id, gigabytes):
    bits = NUMBER_FORMATS[format_id].bits_per_element
    assert 7 * bits / 8 == pytest.approx(gigabytes, rel=0.005)
    precision = Precision(NUMBER_FORMATS[format_id], BF16, BF16)
    base = state(TrainingSettings(method="qlora"), precision=precision)
    tables = 2 * 4096 * 64000
    adapters = adapter_parameters(SEVEN, TrainingSettings(method="qlora"))
    layers = base.weights_bytes - 2 * tables - 2 * adapters
    assert layers == pytest.approx((SEVEN.total_parameters - tables) * bits / 8, rel=1e-3)


def test_activations_of_the_paper_and_of_the_source_documents():
    # Korthikanti et al.: s·b·h·(34 + 5·a·s/h) bytes a layer, 34·s·b·h without scores.
    assert activations(GPT_7B, 2048, attention="eager") == pytest.approx(30.6e9, rel=0.005)
    assert activations(GPT_7B, 2048) == pytest.approx(9.13e9, rel=0.005)
    assert activations(GPT_7B, 2048, activation_checkpointing="full") == pytest.approx(
        0.537e9, rel=0.001
    )
    assert activations(GPT_13B, 4096, attention="eager") == pytest.approx(162.7e9, rel=0.005)
    assert activations(GPT_13B, 4096) == pytest.approx(28.5e9, rel=0.005)
    assert activations(GPT_13B, 4096, activation_checkpointing="full") == pytest.approx(
        1.678e9, rel=0.001
    )
    selective = activations(GPT_13B, 4096, attention="eager", activation_checkpointing="selective")
    assert selective == activations(GPT_13B, 4096)


def test_tensor_and_sequence_parallelism_divide_activations_as_in_the_paper():
    whole = activations(GPT_13B, 4096)
    eight = Parallelism(tensor=8)
    assert activations(GPT_13B, 4096, eight) == pytest.approx(whole / 8)
    # Without sequence parallelism: s·b·h·(10 + 24/t).
    undivided = activations(GPT_13B, 4096, eight, sequence_parallel=False)
    assert undivided == pytest.approx(whole * (10 + 24 / 8) / 34)


def test_activations_in_32_bit_take_twice_the_bytes_but_for_masks():
    settings = TrainingSettings(dropout=EVERYWHERE, attention="eager")
    [half] = layer_savings(GPT_13B, SINGLE, settings)
    [full] = layer_savings(GPT_13B, SINGLE, settings, element_bytes=4.0)
    # 16 elements of 2 bytes and 2 masks make the 34 of the paper, two scores and a mask the 5.
    hidden, heads = 5120, 40
    assert half.stored_bytes_per_token == (16 * 2 + 2) * hidden
    assert full.stored_bytes_per_token == (16 * 4 + 2) * hidden
    assert half.stored_bytes_per_pair == 5 * heads
    assert full.stored_bytes_per_pair == 9 * heads
    computed = Precision(FP32, BF16, FP32)
    deployment = Deployment(GPT_13B, computed, accelerator(2e12), SINGLE)
    memory = training_memory(deployment, MicroBatch(), settings, OVERHEADS)
    assert memory.stored_activations_bytes == pytest.approx(
        40 * 4096 * (66 * hidden + 9 * heads * 4096)
    )


def test_gates_and_frozen_weights_change_what_is_kept():
    def per_layer_token(**settings):
        [savings] = layer_savings(LLAMA_3_8B, SINGLE, TrainingSettings(**settings))
        return savings.stored_bytes_per_token / 2

    hidden, keys, wide = 4096, 1024, 14336
    # Norm inputs and outputs, q, k, v and attention's output; gate, up and their product.
    assert per_layer_token() == 4 * hidden + 2 * hidden + 2 * keys + 3 * wide
    # Adapters on queries and values need the first norm's output, but no input of the others.
    assert per_layer_token(method="lora", lora_targets=("q_proj", "v_proj")) == (
        3 * hidden + 2 * hidden + 2 * keys + 2 * wide + 2 * 16
    )


def test_micro_batches_in_flight():
    settings = TrainingSettings(gradient_accumulation_steps=16)
    assert [micro_batches_in_flight(settings, 4, stage) for stage in range(4)] == [4, 3, 2, 1]
    few = replace(settings, gradient_accumulation_steps=2)
    assert micro_batches_in_flight(few, 4, 0) == 2
    assert micro_batches_in_flight(replace(settings, pipeline_schedule="gpipe"), 4, 3) == 16
    interleaved = replace(settings, pipeline_schedule="interleaved", virtual_stages=3)
    # Narayanan et al.: (1 + (p − 1)/(p·v)) times the model's layers on the first of p stages.
    assert micro_batches_in_flight(interleaved, 4, 0) == 4 * (1 + 3 / 12)
    assert micro_batches_in_flight(settings, 1, 0) == 1


TITAN = TrainingSettings(
    master_weights=False, gradient_bytes=4.0, zero_stage=3, framework="torchtitan"
)


@pytest.mark.parametrize(
    ("architecture", "parallelism", "batch", "changes", "gib", "rel"),
    [
        # torchtitan benchmarks, 2024: peak reserved memory of Llama 3.1 in FSDP2 with 32-bit
        # parameters, https://github.com/pytorch/torchtitan (llama3_h100_202412).
        (
            LLAMA_3_8B,
            Parallelism(data=8),
            MicroBatch(2, 8192),
            {"activation_checkpointing": "selective-operators"},
            77.0,
            0.06,
        ),
        (
            LLAMA_3_8B,
            Parallelism(data=2, context=4),
            MicroBatch(1, 131072),
            {"activation_checkpointing": "full"},
            84.0,
            0.05,
        ),
        (
            dense(126, 16384, 128, 8, 53248, 128256),
            Parallelism(data=8, tensor=8, pipeline=8),
            MicroBatch(1, 32768),
            {"activation_checkpointing": "full", "gradient_accumulation_steps": 8},
            75.3,
            0.08,
        ),
    ],
)
def test_published_peaks(architecture, parallelism, batch, changes, gib, rel):
    deployment = Deployment(
        architecture, Precision(FP32, BF16, BF16), accelerator(96e9), parallelism
    )
    memory = training_memory(deployment, batch, replace(TITAN, **changes), OVERHEADS)
    libraries = memory.framework.context_bytes.value + memory.framework.collectives_bytes.value
    assert (memory.total_bytes.value - libraries) / GIB == pytest.approx(gib, rel=rel)


def test_parts_add_up():
    memory = trained(TrainingSettings(zero_stage=2), Parallelism(data=16), size=80e9)
    parts = (
        memory.weights_bytes,
        memory.gradients_bytes,
        memory.optimizer_bytes,
        memory.activations_bytes,
        memory.logits_bytes,
        memory.runtime_bytes,
    )
    assert memory.total_bytes.value == pytest.approx(sum(part.value for part in parts))
    passing = (memory.update_bytes, memory.communication_bytes, memory.unallocated_bytes)
    assert memory.runtime_bytes.value == pytest.approx(sum(part.value for part in passing))
    assert memory.headroom_bytes.value == pytest.approx(80e9 - memory.total_bytes.value)
    assert memory.total_bytes.low < memory.total_bytes.value < memory.total_bytes.high


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("loss", ["plain", "chunked", "fused"])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("architecture", [LLAMA_3_8B, DEEPSEEK_V3])
def test_the_largest_micro_batch_is_the_largest_that_fits(
    architecture, checkpointing, loss, method
):
    settings = TrainingSettings(
        method=method,
        zero_stage=3,
        cross_entropy=loss,
        activation_checkpointing=checkpointing,
        framework="transformers",
    )
    parallelism = Parallelism(data=64, tensor=2, expert=8)

    def memory(sequences):
        return trained(settings, parallelism, architecture, MicroBatch(sequences, 2048), 280e9)

    most = memory(1).max_micro_batch_size
    assert most.low <= most.value <= most.high
    assert most.value >= 1
    assert memory(most.value).fits
    assert not memory(most.value + 1).fits
    assert memory(3).max_micro_batch_size == most


def test_nothing_fits_where_states_do_not():
    memory = trained(TrainingSettings(), architecture=LLAMA_31_70B)
    assert memory.max_micro_batch_size.value == 0
    assert memory.fits_certainty == "no"
    assert memory.shortfall_bytes.value == -memory.headroom_bytes.value > 0


def test_offload_moves_bytes_and_loses_none():
    parallelism = Parallelism(data=4)
    settings = TrainingSettings(zero_stage=3)
    here = trained(settings, parallelism)
    there = trained(
        replace(settings, offload=Offload(optimizer="nvme", parameters="cpu", activations="cpu")),
        parallelism,
    )
    assert there.nvme_bytes == here.optimizer_bytes.value
    assert there.weights_bytes.value == there.optimizer_bytes.value == 0
    moved = here.stored_activations_bytes - there.stored_activations_bytes
    assert there.host_bytes == pytest.approx(
        here.weights_bytes.value + here.gradients_bytes.value + moved
    )
    assert there.total_bytes.value < here.total_bytes.value


def test_paged_states_spill_only_what_does_not_fit():
    settings = TrainingSettings(optimizer="paged-adamw")
    roomy = trained(settings, size=200e9)
    tight = trained(settings, size=100e9)
    assert roomy.host_bytes == 0
    assert tight.host_bytes > 0
    assert tight.fits
    assert tight.total_bytes.value == pytest.approx(100e9)
    assert tight.host_bytes + tight.optimizer_bytes.value == pytest.approx(
        roomy.optimizer_bytes.value
    )


def test_ranks_that_micro_batches_enter_at_both_ends_hold_two_stages():
    """Weights twice, and what ZeRO divides among twice the ranks; activations of stages and one."""

    def on(schedule, stage, zero_stage=1):
        settings = TrainingSettings(pipeline_schedule=schedule, zero_stage=zero_stage)
        return state(settings, Parallelism(pipeline=4, data=2), stage=stage)

    for stage in range(4):
        pair, both = (on("1f1b", stage), on("1f1b", 3 - stage)), on("dualpipe", stage)
        assert both.weights_bytes == pytest.approx(sum(one.weights_bytes for one in pair))
        states = sum(one.optimizer_bytes for one in pair)
        assert both.optimizer_bytes == pytest.approx(states / 2)
    undivided = sum(on("1f1b", stage, 0).optimizer_bytes for stage in (0, 3))
    assert on("dualpipe", 0, 0).optimizer_bytes == pytest.approx(undivided)
    settings = TrainingSettings(gradient_accumulation_steps=32, pipeline_schedule="dualpipe")
    for stage in range(4):
        assert micro_batches_in_flight(settings, 4, stage) == 5.0


def test_the_fullest_stage_has_most_in_flight_or_the_logits():
    settings = TrainingSettings(
        zero_stage=1, gradient_accumulation_steps=32, activation_checkpointing="selective"
    )
    first = trained(settings, Parallelism(tensor=8, pipeline=4), LLAMA_31_70B, MicroBatch(1, 8192))
    assert first.state.stage == 0
    assert first.micro_batches_in_flight == 4
    assert first.logits_bytes.value == 0
    light = replace(settings, activation_checkpointing="full")
    small = dense(8, 1024, 8, 8, 2816, 256000)
    last = trained(light, Parallelism(pipeline=4), small, MicroBatch(8, 4096))
    assert last.state.stage == 3
    assert last.logits_bytes.value > 0


def test_arrays_give_what_floats_give():
    sequences, tokens = np.array([1.0, 4.0, 16.0]), np.array([512.0, 8192.0, 2048.0])
    settings = TrainingSettings(zero_stage=3, optimizer="paged-adamw", attention="eager")
    parallelism = Parallelism(data=8)
    together = trained(settings, parallelism, LLAMA_3_8B, MicroBatch(sequences, tokens))
    for index in range(3):
        batch = MicroBatch(float(sequences[index]), float(tokens[index]))
        alone = trained(settings, parallelism, LLAMA_3_8B, batch)
        for name in ("total_bytes", "optimizer_bytes", "headroom_bytes", "max_micro_batch_size"):
            for part in ("value", "low", "high"):
                here = np.broadcast_to(getattr(getattr(together, name), part), 3)[index]
                assert here == pytest.approx(getattr(getattr(alone, name), part)), name
        assert together.fits_certainty[index] == alone.fits_certainty


def test_every_figure_of_the_answer_is_in_a_step():
    memory = trained(
        TrainingSettings(zero_stage=3, offload=Offload(optimizer="cpu")), Parallelism(data=8)
    )
    shown = set()
    for step in explain(memory, MEMORY):
        shown.add(step.value)
        shown.update(step.inputs.values())
    for field in fields(TrainingMemory):
        figure = getattr(memory, field.name)
        if isinstance(figure, Interval):
            assert figure.value in shown, field.name
        elif isinstance(figure, float | int) and not isinstance(figure, bool):
            assert figure in shown, field.name


def test_a_loss_in_16_bit_takes_8_bytes_a_logit():
    batch = MicroBatch(4, 2048)
    half = trained(TrainingSettings(cross_entropy="half-precision"), batch=batch)
    plain = trained(TrainingSettings(cross_entropy="plain"), batch=batch)
    logits = 4 * 2048 * LLAMA_3_8B.vocab_size
    assert half.moments.logits_bytes == pytest.approx(8 * logits)
    assert half.moments.logits_bytes < plain.moments.logits_bytes
    compiled = trained(TrainingSettings(cross_entropy="compiled"), batch=batch)
    assert compiled.moments.logits_bytes == pytest.approx(4 * logits)
    chunked = trained(TrainingSettings(cross_entropy="chunked"), batch=batch)
    head = 2 * 4096 * LLAMA_3_8B.vocab_size
    part = 4 * 1024 * LLAMA_3_8B.vocab_size
    assert chunked.moments.logits_bytes == pytest.approx(2 * logits + part + head)


def test_narrow_states_need_less_beside_them_in_the_optimizer_step():
    def beside(state_bytes):
        settings = TrainingSettings(
            optimizer_state_bytes=state_bytes,
            master_weights=False,
            activation_checkpointing="full",
            framework="transformers",
        )
        return trained(settings, batch=MicroBatch(1, 16)).update_bytes.value

    # 8 bytes an element with 32-bit states, over the 1e9 elements that are updated at once.
    assert beside(4.0) == pytest.approx(8e9, rel=0.05)
    assert beside(2.0) == pytest.approx(4e9, rel=0.1)


def test_layers_that_are_not_recomputed_keep_all_and_leave_room_for_those_that_are():
    full = TrainingSettings(activation_checkpointing="full")
    half = replace(full, recomputed_layers_ratio=0.5)
    [kept], [mixed], [again] = (
        layer_savings(LLAMA_3_8B, SINGLE, one) for one in (TrainingSettings(), half, full)
    )
    middle = (kept.stored_bytes_per_token + again.stored_bytes_per_token) / 2
    assert mixed.stored_bytes_per_token == pytest.approx(middle)
    # Kept layers are gone before the others are computed again: no more is held than of kept ones.
    assert mixed.working_bytes_per_token == kept.working_bytes_per_token
    assert again.working_bytes_per_token > kept.working_bytes_per_token


def test_modules_leave_what_products_take_in_or_put_out_once():
    def kept(architecture, again):
        settings = TrainingSettings(activation_checkpointing=again)
        return layer_savings(architecture, SINGLE, settings)[-1].stored_bytes_per_token

    # Two results of norms and the product of the gate, all in 16 bit.
    saved = kept(LLAMA_3_8B, "none") - kept(LLAMA_3_8B, "selective-modules")
    assert saved == pytest.approx(2 * (2 * 4096 + 14336))
    # Besides, of DeepSeek-V3: queries, keys and values of 128 heads, keys joined with what is
    # turned, latents after their norms, and products of gates of eight experts and a shared one.
    saved = kept(DEEPSEEK_V3, "none") - kept(DEEPSEEK_V3, "selective-modules")
    heads = 128 * (192 + 256 + 192) + 1536 + 512
    assert saved == pytest.approx(2 * (2 * 7168 + heads + 9 * 2048))
