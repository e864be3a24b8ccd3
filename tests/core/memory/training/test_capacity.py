"""Experts with a capacity: what they keep, compute and receive of the tokens that chose them."""

from dataclasses import replace

import pytest

from service.core.architecture.capacity import at_capacity
from service.core.deployment import Parallelism
from service.core.memory.training.activations import layer_savings
from service.core.memory.training.settings import TrainingSettings
from service.core.performance.training.work import training_work
from tests.core.deployments import architecture
from tests.core.performance.training.test_step import BF16

MIXTRAL = architecture("mixtral-8x7b")
SPREAD = Parallelism(data=64, expert=64)
PLAIN = TrainingSettings()


def limited(factor, pads):
    return replace(PLAIN, expert_capacity_factor=factor, pads_experts=pads)


def kept(settings):
    [savings] = layer_savings(MIXTRAL, Parallelism(), settings)
    return savings.stored_bytes_per_token


def test_experts_that_are_filled_take_their_capacity_and_others_no_more_than_chose_them():
    assert limited(1.25, True).taken_copies_ratio == 1.25
    assert limited(1.25, False).taken_copies_ratio == 1.0
    assert limited(0.8, False).taken_copies_ratio == 0.8
    assert PLAIN.taken_copies_ratio == 1.0
    assert at_capacity(MIXTRAL, 1.0) is MIXTRAL


def test_activations_of_experts_follow_their_capacity():
    [moe] = {group.feed_forward for group in MIXTRAL.groups}
    # Each copy: what goes in and comes out, gate, up and their product, in 16 bits.
    copy = 2.0 * (2 * MIXTRAL.hidden_size + 3 * moe.expert_intermediate_size)
    more = kept(limited(1.5, True)) - kept(PLAIN)
    assert more == pytest.approx(0.5 * moe.experts_per_token * copy)
    assert kept(limited(2.0, False)) == kept(PLAIN)


def test_work_and_messages_follow_it_and_the_models_operations_do_not():
    def work(settings):
        return training_work(MIXTRAL, BF16, SPREAD, settings)

    def flops(found):
        return sum(
            one.calls * one.copies_per_token * one.input_features * one.output_features
            for one in found.products.products
        )

    plain, filled, dropping = work(PLAIN), work(limited(1.5, True)), work(limited(0.5, False))
    assert filled.exchanged_bytes_per_token == 1.5 * plain.exchanged_bytes_per_token
    assert dropping.exchanged_bytes_per_token == 0.5 * plain.exchanged_bytes_per_token
    assert flops(dropping) < flops(plain) < flops(filled)
    assert plain.chosen_ratio == 1.0
    assert filled.chosen_ratio < 1.0 < dropping.chosen_ratio
