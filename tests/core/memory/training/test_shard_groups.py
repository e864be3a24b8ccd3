"""Hybrid sharding: groups of data-parallel ranks that each hold a copy of what ZeRO divides."""

from dataclasses import replace

import pytest

from service.core.deployment import Deployment, Parallelism
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import (
    MicroBatch,
    TrainingSettings,
    makes_shard_groups,
)
from service.core.memory.training.state import stage_state
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.training.traffic import data_messages_s
from tests.core.calibrations import packaged_training_overheads
from tests.core.deployments import H100, architecture
from tests.core.performance.training.test_step import BF16, DATASHEET, USUAL, step

SHARDED = TrainingSettings(zero_stage=3, gradient_bytes=4.0)
HYBRID = replace(SHARDED, data_parallel_shard_degree=8)


def messages_s(settings, parallelism, model="llama-70b"):
    deployment = Deployment(architecture(model), BF16, H100, parallelism)
    state = stage_state(deployment.architecture, BF16, parallelism, settings.structural, 0)
    return data_messages_s(deployment, settings, state, DATASHEET)


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("model", ["llama-70b", "mixtral-8x7b"])
def test_a_group_holds_what_a_run_of_its_ranks_alone_does(stage, model):
    layout = Parallelism(tensor=2, context=2)
    settings = replace(HYBRID, zero_stage=stage)
    told = architecture(model), BF16
    alone = stage_state(*told, replace(layout, data=8), replace(SHARDED, zero_stage=stage), 0)
    group = stage_state(*told, replace(layout, data=64), settings, 0)
    assert group.weights_by_class_bytes == alone.weights_by_class_bytes
    assert group.optimizer_by_class_bytes == alone.optimizer_by_class_bytes
    assert group.gradients_bytes == alone.gradients_bytes


def test_one_group_of_all_ranks_is_full_sharding():
    layout = Parallelism(data=64)
    assert messages_s(replace(HYBRID, data_parallel_shard_degree=64), layout) == pytest.approx(
        messages_s(SHARDED, layout)
    )


def test_nothing_is_grouped_that_is_not_divided():
    assert replace(HYBRID, zero_stage=0).shard_groups(64) == 1
    assert HYBRID.shard_groups(64) == 8


def test_groups_of_a_machine_send_less_the_more_micro_batches_gather():
    # Weights of every micro-batch stay on fast links; gradients are summed once a step.
    layout = Parallelism(data=256)
    for micro_batches in (1, 4, 16):
        told = {"gradient_accumulation_steps": micro_batches}
        whole = messages_s(replace(SHARDED, **told), layout)
        grouped = messages_s(replace(HYBRID, **told), layout)
        assert grouped < whole
    links = H100.scale_up.bandwidth_bytes_per_s
    weights = architecture("llama-70b").total_parameters * 2.0
    # Forward and backward, by each of eight ranks; what goes between machines takes no longer.
    least_s = 2 * 16 * weights * 7 / 8 / links
    assert grouped == pytest.approx(least_s + weights * 2 * 7 / 8 / links, rel=0.02)


def test_groups_of_several_machines_share_links_with_what_they_sum():
    layout = Parallelism(data=256)
    wide = replace(HYBRID, data_parallel_shard_degree=16)
    assert messages_s(wide, layout) > messages_s(HYBRID, layout)


def test_copies_take_memory_and_a_kind_of_group():
    overheads = packaged_training_overheads()

    def memory(settings):
        deployment = Deployment(architecture("llama-70b"), BF16, H100, Parallelism(data=64))
        return training_memory(deployment, MicroBatch(1, 4096), settings, overheads)

    whole, grouped = memory(SHARDED), memory(HYBRID)
    assert grouped.kinds_of_groups_count == whole.kinds_of_groups_count + 1
    assert grouped.weights_bytes.value == pytest.approx(8 * whole.weights_bytes.value)
    assert grouped.total_bytes.value > whole.total_bytes.value


def test_groups_make_up_the_ranks_and_hold_all_experts():
    assert makes_shard_groups(Parallelism(data=64), 8)
    assert not makes_shard_groups(Parallelism(data=64), 7)
    assert not makes_shard_groups(Parallelism(data=64), 1)
    assert makes_shard_groups(Parallelism(data=64, context=2), 1)
    assert not makes_shard_groups(Parallelism(data=64, expert=16), 8)
    assert makes_shard_groups(Parallelism(tensor=2, data=64, expert=16), 8)


SECOND = replace(SHARDED, secondary_shard_degree=8)


def test_a_second_copy_is_divided_within_its_group_and_no_state_is():
    layout, told = Parallelism(data=64), (architecture("llama-70b"), BF16)
    plain = stage_state(*told, layout, SHARDED, 0)
    second = stage_state(*told, layout, SECOND, 0)
    weights = 2.0 * told[0].total_parameters
    assert second.weights_bytes - plain.weights_bytes == pytest.approx(weights / 8)
    assert second.optimizer_bytes == plain.optimizer_bytes
    assert second.gradients_bytes == plain.gradients_bytes
    # A model that only computes forward gathers nothing again.
    assert stage_state(*told, layout, SECOND.forward, 0).weights_bytes == pytest.approx(
        weights / 64
    )


def test_backward_passes_gather_within_a_group():
    layout = Parallelism(data=256)
    plain, second = messages_s(SHARDED, layout), messages_s(SECOND, layout)
    links = H100.scale_up.bandwidth_bytes_per_s
    weights = architecture("llama-70b").total_parameters * 2.0
    nearby_s = weights * 7 / 8 / links
    # Gradients in 32 bit and two gathers of weights in 16 pass machines, or one of these.
    rings = messages_s(replace(SHARDED, gradient_bytes=0.0), layout) / 2
    assert plain - second == pytest.approx(rings - nearby_s, rel=0.01)


@pytest.mark.parametrize(
    ("narrowed", "times"),
    [
        ({"gathered_weight_bytes": 1.0}, (2 + 1 + 1) / 6),
        ({"scattered_gradient_bytes": 0.5}, 4.5 / 6),
    ],
)
def test_what_travels_in_fewer_bits_takes_less_time(narrowed, times):
    # Of six bytes a parameter two are gradients in 16 bit; a single domain has no rings that wait.
    settings, layout = replace(SHARDED, gradient_bytes=2.0), Parallelism(data=8)
    found = messages_s(replace(settings, **narrowed), layout)
    assert found == pytest.approx(times * messages_s(settings, layout))
    # What has as few bits already travels as it is.
    wider = replace(settings, gathered_weight_bytes=4.0, scattered_gradient_bytes=4.0)
    assert messages_s(wider, layout) == messages_s(settings, layout)


def test_what_travels_in_fewer_bits_is_narrowed_and_widened_by_kernels():
    """Wang et al., ZeRO++, 2023, section 4: blocks are quantised before and after messages."""
    settings, layout = replace(SHARDED, gradient_bytes=2.0), Parallelism(data=8)
    elements = architecture("llama-70b").total_parameters
    plain = step(settings, layout)
    assert plain.narrowed_messages_bytes == 0.0

    def narrowed(precision=BF16, **told):
        found = step(replace(settings, **told), layout, precision=precision)
        seconds = found.elementwise_s - plain.elementwise_s
        if precision is BF16:
            memory = USUAL.performance.hardware.memory_ratio * H100.memory_bandwidth_bytes_per_s
            assert seconds == pytest.approx(found.narrowed_messages_bytes / memory)
        return found.narrowed_messages_bytes / elements

    # A rank narrows its eighth twice, and widens all of what comes.
    assert narrowed(gathered_weight_bytes=1.0) == pytest.approx(2 * (2 + 1) * (1 + 1 / 8))
    # Products in 8 bit take it as it is.
    eight = replace(BF16, activations=NUMBER_FORMATS["fp8"])
    assert narrowed(eight, gathered_weight_bytes=1.0) == pytest.approx(2 * (2 + 1) / 8)
    # Gradients are narrowed, and read again for the sums.
    assert narrowed(scattered_gradient_bytes=0.5) == pytest.approx(2 + 0.5 + 0.5)
    # What has as few bits already is left alone.
    assert narrowed(gathered_weight_bytes=4.0, scattered_gradient_bytes=4.0) == 0.0
