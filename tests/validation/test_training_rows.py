"""Rows about training become the runs that they mean."""

from __future__ import annotations

import pytest

from service.validation.packaged import Bench
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.training import run_memory, training_fits, training_memory_row

TITAN = {
    "model": "Llama-3.1-8B",
    "hardware": "H100-SXM-96GB-HBM2e-500W",
    "hardware_count": "8",
    "framework": "torchtitan",
    "method": "pretrain-full",
    "parallelism": "FSDP=8",
    "weight_dtype": "bf16",
    "optimizer": "AdamW",
    "activation_checkpointing": "selective",
    "micro_batch": "2",
    "seq_len": "8192",
    "flags": "torch.compile",
    "metric": "peak_memory_per_gpu",
    "value": "77.0",
    "unit": "GiB",
}
LORA = TITAN | {
    "hardware": "A100-SXM-80GB",
    "hardware_count": "1",
    "parallelism": "single",
    "framework": "HF transformers+peft+DeepSpeed",
    "method": "lora",
    "flags": "lora_r=64",
    "activation_checkpointing": "yes (scripts)",
    "micro_batch": "1",
    "seq_len": "512",
}


def row(cells: dict[str, str], **changes: str) -> Row:
    return Row("memory_training", 2, cells | changes)


def run(bench: Bench, cells: dict[str, str], **changes: str):
    return run_memory(row(cells, **changes), bench.vocabulary, bench.snapshot)


def test_sharded_pretraining(bench: Bench) -> None:
    found = run(bench, TITAN)
    # 32-bit weights, gradients and two moments, each divided among eight.
    assert found.weights_bytes.value == pytest.approx(4 * 8.03e9 / 8, rel=1e-3)
    assert found.optimizer_bytes.value == pytest.approx(2 * found.weights_bytes.value)
    assert found.settings.activation_checkpointing == "selective-operators"
    assert found.settings.fused_kernels
    compared = training_memory_row(row(TITAN), bench.vocabulary, bench.snapshot)
    # The allocator's reserve leaves out what driver and libraries hold.
    held = found.framework.context_bytes.value + found.framework.collectives_bytes.value
    assert compared.value == pytest.approx(found.total_bytes.value - held)


def test_stages_cut_the_batch_of_a_rank(bench: Bench) -> None:
    wide = {"parallelism": "FSDP=8;TP=8;PP=8;CP=1", "hardware_count": "512", "micro_batch": "32"}
    plain = run(bench, TITAN, **wide, model="Llama-3.1-405B")
    assert plain.micro_batch.sequences == 4
    assert plain.settings.gradient_accumulation_steps == 8
    woven = run(bench, TITAN, **wide, model="Llama-3.1-405B", flags="Interleaved1F1B")
    assert (woven.micro_batch.sequences, woven.settings.virtual_stages) == (2, 2)


def test_adapters(bench: Bench) -> None:
    found = run(bench, LORA)
    assert (found.settings.lora_rank, found.settings.master_weights) == (64, False)
    assert found.settings.zero_stage == 0
    tables = run(bench, LORA, method="lora+emb+lm_head")
    # Two tables of 128256 × 4096 in 16 bit stand beside the frozen ones.
    assert tables.weights_bytes.value - found.weights_bytes.value == pytest.approx(
        2 * 2 * 128256 * 4096
    )
    assert run(bench, LORA, parallelism="DeepSpeed ZeRO-2").settings.zero_stage == 2
    four = run(bench, LORA, method="qlora", weight_dtype="nf4")
    assert four.weights_bytes.value < 0.5 * found.weights_bytes.value


def test_sums_and_parts(bench: Bench) -> None:
    names, snapshot = bench.vocabulary, bench.snapshot
    shape = {"hardware_count": "4", "parallelism": "ZeRO-3"}
    each = training_memory_row(row(LORA, **shape), names, snapshot)
    total = training_memory_row(row(LORA, **shape, metric="peak_memory_total"), names, snapshot)
    assert total.value == pytest.approx(4 * each.value)
    litgpt = row(LORA, framework="litgpt", flags="lora_r=8;lora_targets=query/value")
    allocated = training_memory_row(litgpt, names, snapshot)
    found = run_memory(litgpt, names, snapshot)
    assert allocated.value == pytest.approx(found.total_bytes.value - found.runtime_bytes.value)
    assert allocated.low <= allocated.value <= allocated.high


def test_what_runs_out_of_memory(bench: Bench) -> None:
    small = {"hardware": "A10G-24GB"}
    assert training_fits(row(LORA, **small), bench.vocabulary, bench.snapshot)
    whole = row(LORA, **small, method="full")
    assert not training_fits(whole, bench.vocabulary, bench.snapshot)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"framework": "Abacus"}, "what 'Abacus' keeps and counts is not known"),
        ({"metric": "mood"}, "metric 'mood' is not known"),
        ({"method": "osmosis"}, "method 'osmosis' is not known"),
        ({"optimizer": "Hope"}, "optimizer 'Hope' is not known"),
        ({"flags": ""}, "the rank of adapters is not given"),
        ({"flags": "lora_r=8;lora_targets=head"}, "targets of adapters 'head' are not known"),
        ({"activation_checkpointing": ""}, "activation checkpointing is not given"),
        ({"parallelism": "magic"}, "parallelism 'magic' is not understood"),
        ({"parallelism": "FSDP=3"}, "does not make up hardware_count"),
        ({"parallelism": "FSDP=4 (as listed 4xA10G)"}, "copied from the run on one"),
        ({"micro_batch": ""}, "micro_batch is missing"),
        ({"seq_len": ""}, "seq_len is missing"),
    ],
)
def test_rows_that_leave_something_open(bench: Bench, changes: dict[str, str], told: str) -> None:
    with pytest.raises(RowRefused, match=told):
        training_memory_row(row(LORA, **changes), bench.vocabulary, bench.snapshot)
