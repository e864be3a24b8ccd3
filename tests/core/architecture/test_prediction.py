"""Layers that predict tokens further ahead, as published and as they are trained."""

import pytest

from service.core.architecture.config import parse_config
from service.core.architecture.prediction import can_predict, predicting
from service.core.architecture.sharding import trained_layer_counts
from service.core.deployment import Parallelism, Precision
from service.core.memory.weights import end_tensors
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.work import rank_work
from tests.core.architecture.published_models import MODELS

BF16 = Precision(NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"])


def architecture(name):
    return parse_config(MODELS[name][0])


def test_deepseek_v3_has_one_of_11_5_billion_parameters():
    """DeepSeek-V3, README_WEIGHTS.md, 2024: 11.5 B unique, 2.4 B active with both shared tables."""
    model = architecture("deepseek-ai/DeepSeek-V3")
    assert model.prediction_layers == 1
    trained = predicting(model, 1)
    assert trained.layer_count == 62
    added = trained.total_parameters - model.total_parameters
    assert added == pytest.approx(11.5e9, rel=0.01)
    tables = 2 * model.vocab_size * model.hidden_size
    active = trained.active_parameters - model.active_parameters + tables
    # The report counts the embedding once more; our layer has what it multiplies by besides.
    assert active == pytest.approx(2.4e9, rel=0.10)


def test_a_hybrid_predicts_by_a_layer_that_attends():
    """One of attention and one of experts, where parts are layers of their own."""
    for name in MODELS:
        model = architecture(name)
        if not can_predict(model):
            continue
        last = predicting(model, 2).groups[-1]
        assert last.count == 2
        assert hasattr(last.mixer, "query_heads"), name
        assert last.feed_forward is not None, name


def test_none_leaves_the_model_as_it_is():
    model = architecture("meta-llama/Llama-3.1-8B")
    assert predicting(model, 0) is model


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        # The layouts of Megatron Bridge's recipe: recipes/deepseek/deepseek_v3.py, 2025.
        (16, (4,) * 15 + (2,)),
        (8, (8,) * 7 + (6,)),
        (4, (16, 16, 16, 14)),
        (1, (62,)),
        # Too few are left for the last of many stages.
        (60, (1,) + (1,) * 56 + (2, 2, 1)),
    ],
)
def test_the_last_stage_has_what_predicts(stages, expected):
    counts = trained_layer_counts(62, stages, 1)
    assert sum(counts) == 62
    assert counts == expected


def test_the_head_runs_once_more_and_the_last_stage_embeds():
    model = architecture("deepseek-ai/DeepSeek-V3")
    trained = predicting(model, 1)
    calls = [
        {
            item.tensor_class.value: item.calls
            for item in rank_work(one, BF16, Parallelism()).products
        }
        for one in (model, trained)
    ]
    assert calls[1]["head"] == 2 * calls[0]["head"]
    names = [{tensor.name for tensor in end_tensors(one, 4, 3)} for one in (model, trained)]
    assert names[1] - names[0] == {tensor.name for tensor in model.embedding}
