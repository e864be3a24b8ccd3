"""Figures of training memory that can be checked by hand, each within half a per cent."""

from dataclasses import replace

import pytest

from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.activations import layer_savings
from service.core.memory.training.adapters import adapter_parameters
from service.core.memory.training.kept import stored_bytes
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import MicroBatch, Offload, TrainingSettings
from service.core.memory.training.state import trained_parameters
from tests.core.memory.memory_models import LLAMA_2_7B, accelerator, dense
from tests.core.memory.training.test_memory import (
    BF16,
    EVERYWHERE,
    FP32,
    GPT_7B,
    OVERHEADS,
    PRECISION,
    PURE,
    SEVEN,
    SINGLE,
    state,
)

#: Seven billion parameters of which next to none are in tables.
TABLELESS = dense(32, 4096, 32, 32, 11008, 8)
HALF_A_PERCENT = 0.005


def states_gb(settings, architecture=SEVEN, parallelism=SINGLE, precision=PRECISION, billions=7.0):
    found = state(settings, parallelism, architecture, precision)
    total = found.weights_bytes + found.gradients_bytes + found.optimizer_bytes
    return total / architecture.total_parameters * billions


def run(settings, parallelism=SINGLE, batch=None, architecture=GPT_7B):
    deployment = Deployment(architecture, PRECISION, accelerator(), parallelism)
    return training_memory(deployment, batch or MicroBatch(), settings, OVERHEADS)


def test_a_master_copy_makes_sixteen_bytes_of_twelve():
    assert states_gb(PURE) == pytest.approx(84, rel=HALF_A_PERCENT)
    assert states_gb(TrainingSettings()) == pytest.approx(112, rel=HALF_A_PERCENT)
    optimizer = state(TrainingSettings()).optimizer_bytes / SEVEN.total_parameters
    assert optimizer * 175 == pytest.approx(2100, rel=HALF_A_PERCENT)


def test_mixed_precision_halves_activations_and_no_states():
    full = Precision(FP32, BF16, FP32)
    single = TrainingSettings(gradient_bytes=4.0)
    assert states_gb(single, precision=full) == pytest.approx(112, rel=HALF_A_PERCENT)
    assert states_gb(TrainingSettings()) == pytest.approx(112, rel=HALF_A_PERCENT)
    narrow, wide = (
        stored_bytes(layer_savings(GPT_7B, SINGLE, single, element_bytes=width), 1.0, 1, 4096)
        for width in (2.0, 4.0)
    )
    assert narrow / wide == pytest.approx(0.5, rel=HALF_A_PERCENT)


@pytest.mark.parametrize(("times", "saved"), [(2, 0.5), (4, 0.75)])
def test_accumulation_saves_activations_in_proportion_and_no_gradients(times, saved):
    settings = replace(PURE, gradient_accumulation_steps=times)
    whole = run(PURE, batch=MicroBatch(8, 2048))
    parts = run(settings, batch=MicroBatch(8 / times, 2048))
    kept = parts.stored_activations_bytes / whole.stored_activations_bytes
    assert 1 - kept == pytest.approx(saved, rel=HALF_A_PERCENT)
    assert parts.gradients_bytes == whole.gradients_bytes


def test_adapters_on_queries_and_values_train_one_parameter_of_835():
    settings = TrainingSettings(method="lora", lora_targets=("q_proj", "v_proj"))
    adapters = adapter_parameters(LLAMA_2_7B, settings)
    assert 7e9 / adapters == pytest.approx(835, rel=HALF_A_PERCENT)
    assert trained_parameters(LLAMA_2_7B, settings) == adapters
    assert trained_parameters(LLAMA_2_7B, TrainingSettings()) == LLAMA_2_7B.total_parameters


def test_eight_bit_states_make_47_and_75_of_89_and_117():
    narrow = replace(PURE, optimizer="adamw-8bit")
    assert states_gb(narrow, TABLELESS) + 5 == pytest.approx(47, rel=HALF_A_PERCENT)
    master = replace(narrow, master_weights=True)
    assert states_gb(master, TABLELESS) + 5 == pytest.approx(75, rel=HALF_A_PERCENT)


def test_data_parallelism_alone_divides_no_state():
    assert states_gb(PURE, parallelism=Parallelism(data=8)) == pytest.approx(84)


@pytest.mark.parametrize(
    ("settings", "stage", "times"),
    [
        (TrainingSettings(), 1, 2.9),
        (TrainingSettings(), 2, 4.3),
        (PURE, 1, 2.4),
        (PURE, 2, 3.7),
        (PURE, 3, 8.0),
    ],
)
def test_zero_on_eight_ranks_falls_short_of_its_limits(settings, stage, times):
    parallelism = Parallelism(data=8)
    divided = states_gb(replace(settings, zero_stage=stage), parallelism=parallelism)
    whole = states_gb(settings, parallelism=parallelism)
    assert round(whole / divided, 1) == times


def test_activations_keep_zero_3_from_its_full_saving():
    whole = states_gb(PURE)
    divided = states_gb(replace(PURE, zero_stage=3), parallelism=Parallelism(data=8))
    assert (whole + 5) / (divided + 5) == pytest.approx(5.74, rel=HALF_A_PERCENT)
    assert (whole + 2) / (divided + 2) == pytest.approx(6.88, rel=HALF_A_PERCENT)


def test_an_offloaded_optimizer_leaves_the_weights_and_a_bucket():
    settings = TrainingSettings(
        zero_stage=2, offload=Offload(optimizer="cpu"), activation_checkpointing="full"
    )
    memory = run(settings, architecture=SEVEN)
    parameters = SEVEN.total_parameters
    assert memory.weights_bytes.value == 2 * parameters
    assert memory.optimizer_bytes.value == 0
    assert memory.gradients_bytes.value == settings.bucket_elements * 2
    assert memory.host_bytes == 12 * parameters + 2 * parameters
    four = run(settings, Parallelism(data=4), architecture=SEVEN)
    assert four.host_bytes == pytest.approx(14 * parameters / 4)


def test_full_recomputation_keeps_one_tensor_a_layer():
    settings = replace(PURE, activation_checkpointing="full", dropout=EVERYWHERE)
    memory = run(settings, batch=MicroBatch(1, 2048))
    assert memory.stored_activations_bytes == pytest.approx(0.537e9, rel=HALF_A_PERCENT)
    none = run(replace(PURE, dropout=EVERYWHERE), batch=MicroBatch(1, 2048))
    saved = 1 - memory.stored_activations_bytes / none.stored_activations_bytes
    # All but 2 of the 34 bytes.
    assert saved == pytest.approx(32 / 34, rel=HALF_A_PERCENT)


def test_760_million_parameters_in_mixed_precision_do_not_fit_12_gb():
    assert states_gb(TrainingSettings(), billions=0.76) == pytest.approx(12.2, rel=HALF_A_PERCENT)
