"""Rows about training speed, compared with the use case's own figures."""

from __future__ import annotations

import pytest

from service.estimation.training.calibrations import setup_figures
from service.estimation.training.speed import resolved_speed
from service.validation.packaged import Bench
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.training_speed import measured_setup, training_speed_row
from tests.validation.test_training_rows import LORA, TITAN

SPEED = TITAN | {"metric": "tokens_per_s_per_gpu", "value": "6667", "unit": "tok/s/GPU"}
NEMO = SPEED | {
    "model": "meta-llama/Meta-Llama-3-70B",
    "hardware": "H100-SXM-80GB",
    "hardware_count": "64",
    "framework": "NeMo",
    "parallelism": "DP=2;TP=4;PP=4;CP=2;VP=5;ZeRO-1",
    "weight_dtype": "fp8",
    "activation_checkpointing": "no",
    "micro_batch": "1",
    "grad_accum": "64",
}


def row(cells: dict[str, str], **changes: str) -> Row:
    return Row("training_speed", 2, cells | changes)


def compared(bench: Bench, cells: dict[str, str], **changes: str):
    return training_speed_row(row(cells, **changes), bench.vocabulary, bench.snapshot)


def setup(bench: Bench, cells: dict[str, str], **changes: str):
    return measured_setup(row(cells, **changes), bench.vocabulary, bench.snapshot)


def test_metrics_are_figures_of_one_estimate(bench: Bench) -> None:
    asked = setup(bench, SPEED)
    speed = resolved_speed(asked, setup_figures(asked, bench.snapshot))
    rate = compared(bench, SPEED)
    assert rate.value == speed.tokens_per_s_per_accelerator.value
    assert rate.low < rate.value < rate.high
    step = compared(bench, SPEED, metric="seconds_per_iteration", unit="s/it (one)", value="2.4")
    assert step.value == speed.step_s.value
    sequences = compared(bench, SPEED, metric="samples_per_s", unit="samples/s", value="6")
    assert sequences.value == pytest.approx(rate.value * 8 / 8192)
    share = compared(bench, SPEED, metric="mfu", unit="%", value="40")
    assert (share.value, share.measured) == (speed.mfu_ratio.value, 0.4)
    assert compared(bench, SPEED, metric="hfu", unit="%", value="40").value > share.value


def test_flags_and_formats_say_what_products_run_in(bench: Bench) -> None:
    plain = setup(bench, SPEED).deployment.precision
    assert (plain.weights.id, plain.activations.id) == ("fp32", "bf16")
    for changes in ({"flags": "torch.compile;float8"}, {"weight_dtype": "fp8"}):
        assert setup(bench, SPEED, **changes).deployment.precision.activations.id == "fp8"
    four = setup(bench, NEMO, weight_dtype="nvfp4", hardware="B200-180GB")
    assert four.deployment.precision.activations.id == "nvfp4"
    assert four.deployment.precision.weights.id == "bf16"


def test_layouts_are_read(bench: Bench) -> None:
    found = setup(bench, NEMO)
    layout = found.deployment.parallelism
    assert (layout.tensor, layout.pipeline, layout.context, layout.data) == (4, 4, 2, 2)
    assert (found.settings.virtual_stages, found.settings.zero_stage) == (5, 1)
    # Micro-batches are those that the row gives, not a cut of a rank's batch.
    assert found.settings.gradient_accumulation_steps == 64
    assert found.micro_batch.sequences == 1
    experts = setup(bench, NEMO, model="Qwen/Qwen3-30B-A3B", parallelism="DP=64;TP=1;EP=8;ZeRO-1")
    assert experts.deployment.parallelism.expert == 8
    for name, stage in (("FULL_SHARD", 3), ("SHARD_GRAD_OP", 2)):
        sharded = setup(bench, SPEED, parallelism=f"FSDP {name}")
        assert sharded.settings.zero_stage == stage
        assert sharded.deployment.parallelism.data == 8


def test_scripts_that_say_nothing_of_sharding_shard(bench: Bench) -> None:
    changes = {"source_id": "qwen1-readme", "metric": "seconds_per_iteration", "unit": "s/it"}
    assert setup(bench, LORA, **changes, method="full").settings.zero_stage == 3
    assert setup(bench, LORA, **changes).settings.zero_stage == 0


def test_models_with_learned_positions_are_built(bench: Bench) -> None:
    columns = {
        "model": "MPT-125m",
        "params_b": "0.125311",
        "layers": "12",
        "hidden": "768",
        "heads": "12",
        "kv_heads": "12",
        "head_dim": "64",
        "vocab": "50368",
        "ffn": "3072",
        "arch_note": "llm-foundry pretrain yaml; learned pos-emb so params grow with T; tied",
        "framework": "llm-foundry",
        "seq_len": "2048",
    }
    found = setup(bench, SPEED, **columns).deployment.architecture
    assert found.total_parameters == pytest.approx(0.125311e9, rel=1e-3)


def test_estimates_on_hardware_without_measurements_say_so(bench: Bench) -> None:
    elsewhere = compared(bench, SPEED, hardware="V100-SXM2-16GB", hardware_count="8")
    assert any("no training speed measurements" in warning for warning in elsewhere.warnings)
    assert elsewhere.width_ratio > 2.5


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"metric": "mood"}, "metric 'mood' is not known"),
        ({"metric": "total_runtime"}, "how many tokens"),
        ({"unit": "furlongs"}, "unknown unit"),
        ({"framework": "Abacus"}, "what 'Abacus' keeps and counts is not known"),
        ({"micro_batch": ""}, "micro_batch is missing"),
    ],
)
def test_rows_that_leave_something_open(bench: Bench, changes: dict[str, str], told: str) -> None:
    with pytest.raises(RowRefused, match=told):
        compared(bench, SPEED, **changes)
