from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import Parallelism, Precision
from service.core.memory.training_settings import MicroBatch, Offload, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.training import (
    TrainingStep,
    TrainingTraffic,
    rank_parameters,
    training_step,
)
from tests.core.deployments import CALIBRATION, H100, architecture
from tests.core.performance.test_latency import IDEAL

BF16 = Precision(NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"])


def step(
    settings: TrainingSettings | None = None,
    parallelism: Parallelism | None = None,
    batch: MicroBatch | None = None,
    calibration=CALIBRATION,
    overlap: float = 0.0,
) -> TrainingStep:
    model = architecture("llama-70b")
    layout = parallelism or Parallelism(tensor=8)
    traffic = TrainingTraffic(rank_parameters(model, layout), 50e9, 50e9)
    return training_step(
        model,
        BF16,
        H100,
        layout,
        settings or TrainingSettings(),
        batch or MicroBatch(1, 4096),
        traffic,
        calibration,
        overlap,
    )


def test_ideal_compute_is_six_flops_per_parameter_and_token_and_attention():
    model = architecture("llama-70b")
    table = model.embedding[0].elements
    ideal = step(calibration=IDEAL)
    products = 6 * (model.total_parameters - table) * 4096 / 8
    attention = 3 * 80 * 4 * 8192 * 4096 * 2048 / 8
    assert ideal.model_flops == pytest.approx(products + attention, rel=1e-3)
    assert ideal.compute_s >= ideal.model_flops / 989.4e12
    assert ideal.mfu_ratio < 1


def test_full_recomputation_costs_a_third_more_and_shows_in_hfu():
    plain = step()
    again = step(TrainingSettings(activation_checkpointing="full"))
    assert again.model_flops == plain.model_flops
    assert again.hardware_flops / plain.hardware_flops == pytest.approx(4 / 3, rel=0.02)
    assert again.compute_s / plain.compute_s == pytest.approx(4 / 3, rel=0.03)
    assert again.mfu_ratio < plain.mfu_ratio


def test_adapters_leave_out_the_weight_gradients():
    full, lora = step(), step(TrainingSettings(method="lora"))
    assert lora.compute_s / full.compute_s == pytest.approx(2 / 3, rel=0.03)


def test_the_pipeline_bubble_is_the_published_share():
    settings = TrainingSettings(gradient_accumulation_steps=8)
    result = step(settings, Parallelism(tensor=1, pipeline=4))
    working = result.compute_s + result.tensor_messages_s + result.overhead_s
    share = result.bubble_s / (result.bubble_s + working - CALIBRATION.engine.step_s)
    assert share == pytest.approx(3 / 11, rel=1e-6)
    interleaved = step(replace(settings, virtual_stages=4), Parallelism(tensor=1, pipeline=4))
    assert interleaved.bubble_s == pytest.approx(result.bubble_s / 4)


def test_fully_sharded_traffic_is_one_and_a_half_times_that_of_an_all_reduce():
    layout = Parallelism(tensor=8, data=4)
    reduced = step(TrainingSettings(zero_stage=1), layout)
    sharded = step(TrainingSettings(zero_stage=3), layout)
    assert sharded.data_messages_s / reduced.data_messages_s == pytest.approx(1.5)


def test_messages_hide_behind_computation_as_far_as_they_can():
    layout = Parallelism(tensor=8, data=4)
    seen, hidden = step(parallelism=layout), step(parallelism=layout, overlap=1.0)
    assert hidden.data_messages_s < seen.data_messages_s
    assert hidden.data_messages_s + hidden.hidden_data_messages_s == pytest.approx(
        seen.data_messages_s
    )
    assert hidden.step_s < seen.step_s


def test_an_optimizer_on_the_host_is_seen_as_stall():
    here, there = step(), step(TrainingSettings(offload=Offload(optimizer="cpu")))
    assert here.offload_s == 0
    assert there.optimizer_s == 0
    assert there.offload_s > 10 * here.optimizer_s


def test_accumulation_spreads_the_update_over_more_tokens():
    one, many = step(), step(TrainingSettings(gradient_accumulation_steps=16))
    assert many.tokens_per_step == 16 * one.tokens_per_step
    assert many.tokens_per_s > one.tokens_per_s


def test_arrays_and_floats_agree():
    sequences = np.array([1.0, 2.0, 8.0])
    together = step(batch=MicroBatch(sequences, 4096.0), parallelism=Parallelism(8, data=2))
    for index, count in enumerate(sequences):
        alone = step(batch=MicroBatch(float(count), 4096.0), parallelism=Parallelism(8, data=2))
        assert together.step_s[index] == pytest.approx(alone.step_s, rel=1e-9)
        assert together.mfu_ratio[index] == pytest.approx(alone.mfu_ratio, rel=1e-9)
