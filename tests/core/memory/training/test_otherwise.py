"""Intervals that reach over what people make of choices that are left open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import Deployment, Parallelism, Precision
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.settings import LeftOpen, MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from tests.core.calibrations import packaged_training_overheads
from tests.core.memory.memory_models import LLAMA_3_8B, accelerator

BF16, FP32 = NUMBER_FORMATS["bf16"], NUMBER_FORMATS["fp32"]
STATES = LeftOpen(
    ("master_weights", "optimizer_state_dtype"),
    ((("master_weights", False), ("optimizer_state_bytes", 2.0)),),
    frozenset({"full"}),
    frozenset({0}),
)
LOSS = LeftOpen(("cross_entropy",), ((("cross_entropy", "fused"),), (("cross_entropy", "plain"),)))
BATCH = MicroBatch(1, 2048)


def taken(settings, *left_open, weights=BF16, batch=BATCH) -> TrainingMemory:
    deployment = Deployment(
        LLAMA_3_8B, Precision(weights, BF16, BF16), accelerator(200e9), Parallelism()
    )
    settings = replace(settings, left_open=left_open)
    return training_memory(deployment, batch, settings, packaged_training_overheads())


def test_memory_reaches_over_what_others_do_and_keeps_its_value():
    settings = TrainingSettings()
    told, open_ = taken(settings), taken(settings, STATES, LOSS)
    bare = taken(replace(settings, master_weights=False, optimizer_state_bytes=2.0))
    fused = taken(replace(settings, cross_entropy="fused"))
    assert open_.total_bytes.value == told.total_bytes.value
    assert open_.total_bytes.high == told.total_bytes.high
    for other in (bare, fused):
        assert open_.total_bytes.low < other.total_bytes.value
    assert open_.total_bytes.low < told.total_bytes.low
    assert open_.headroom_bytes.high == open_.usable_bytes - open_.total_bytes.low
    assert open_.weights_bytes == told.weights_bytes
    assert open_.optimizer_bytes.low < bare.optimizer_bytes.value
    assert open_.max_micro_batch_size.high >= bare.max_micro_batch_size.value
    assert {choice: len(others) for choice, others in open_.otherwise.items()} == {
        STATES: 1,
        LOSS: 2,
    }


@pytest.mark.parametrize(
    ("changed", "weights"),
    [({"method": "lora"}, BF16), ({"zero_stage": 3}, BF16), ({}, FP32)],
)
def test_choices_are_open_only_where_there_are_any(changed, weights):
    settings = replace(TrainingSettings(), **changed)
    assert taken(settings, STATES, weights=weights).otherwise == {}


def test_micro_batches_of_an_array_are_spread_each():
    batch = MicroBatch(np.array([1.0, 4.0]), 2048)
    several = taken(TrainingSettings(), LOSS, batch=batch).total_bytes
    for at, sequences in enumerate((1, 4)):
        one = taken(TrainingSettings(), LOSS, batch=MicroBatch(sequences, 2048)).total_bytes
        assert several.low[at] == pytest.approx(one.low)
