"""Memory of what drafts tokens: a draft model, or a checkpoint's own layers for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.prediction import predictors
from service.core.deployment import (
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
    Speculation,
)
from service.core.memory.inference.memory import inference_memory
from service.core.number_formats import NUMBER_FORMATS
from tests.core.memory.inference.test_memory import deployed
from tests.core.memory.memory_models import DEEPSEEK_V3, LLAMA_3_8B, LLAMA_31_70B

LOAD = InferenceWorkload(1000, 200, 4)
OWN = Speculation(3, 0.8)
WITH_LAYERS = replace(DEEPSEEK_V3, prediction_layers=1)


def drafts(overheads, architecture, speculation=OWN, tensor=8, **degrees):
    parallelism = Parallelism(tensor=tensor, **degrees)
    settings = ServingSettings(engine="vllm", speculation=speculation)
    return inference_memory(deployed(architecture, parallelism), LOAD, settings, overheads)


def test_a_checkpoints_own_layers_are_loaded_where_they_draft(overheads):
    plain = drafts(overheads, WITH_LAYERS, None)
    drafting = drafts(overheads, WITH_LAYERS)
    # One of 61 layers alike in size, with a matrix that joins states and embeddings.
    layer = plain.weights_bytes.value / 61
    assert plain.draft_model_bytes == 0.0
    assert drafting.draft_model_bytes == pytest.approx(layer, rel=0.15)
    less = plain.room_bytes.value - drafting.room_bytes.value
    assert less == pytest.approx(drafting.draft_model_bytes)


def test_they_lie_on_one_stage(overheads):
    single = drafts(overheads, WITH_LAYERS)
    staged = drafts(overheads, WITH_LAYERS, pipeline=4)
    assert staged.draft_model_bytes == pytest.approx(single.draft_model_bytes)


def test_without_such_layers_drafts_cost_no_memory(overheads):
    assert predictors(DEEPSEEK_V3) is None
    assert drafts(overheads, DEEPSEEK_V3).draft_model_bytes == 0.0


def test_a_draft_model_takes_their_place(overheads):
    bf16 = NUMBER_FORMATS["bf16"]
    speculation = Speculation(3, 0.8, LLAMA_3_8B, Precision(bf16, bf16, bf16))
    model = replace(LLAMA_31_70B, prediction_layers=1)
    found = drafts(overheads, model, speculation)
    assert found.draft_model_bytes == pytest.approx(16.1e9 / 8, rel=0.05)
