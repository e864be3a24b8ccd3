"""Whatever stands in a row's cells, the row is compared or refused."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from service.validation.packaged import Bench
from service.validation.report.compared import assess, report
from service.validation.rows.tables import COLUMNS, TABLES, Row, Tables

WORDS = st.sampled_from(
    [
        *("", "0", "1", "2", "8", "1e15", "1e-15", "-1", "nan", "0.5", "4096", "1e9", "OOM"),
        *("max", "high", "medium", "low", "tied embeddings", "GB", "GiB", "tok/s", "ms", "J/token"),
        *("Llama-3-8B", "Llama-3.1-70B", "DeepSeek-V3.1", "Unheard-of", "H100-SXM-80GB", "V100"),
        *("A100-80GB (400 W)", "M1 Max 32‑Core GPU 64GB", "vLLM", "HF transformers", "llama.cpp"),
        *("TensorRT-LLM", "SGLang", "0.5.1", "bf16", "fp8", "gguf-Q4_K_M", "nf4", "fp32", "mxfp4"),
        *("qwen25-speed", "mlenergy-v3-chat", "llama2-card", "gpu_memory_total", "kv_blocks"),
        *("weights_per_gpu", "kv_cache_tokens", "decode_tokens_per_s", "prefill_tokens_per_s"),
        *("output_tokens_per_s_total", "avg_power", "energy_per_request", "co2_training_t"),
        *("France (Jean Zay)", "max_num_seqs=1e99;mem_fraction_static=7", "=1+1", "[/red]", "|"),
        *("kv_cache_free_gpu_mem_fraction 0.9", "litgpt", "torchtitan", "FSDP=1;PP=8", "ZeRO-9"),
        *("qlora", "full", "lora_r=9999", "gptq-int4 + fp16", "FSDP=0", "Interleaved1F1B"),
    ]
)
SOUND = {
    "row_id": "r",
    "model": "Llama-3-8B",
    "hardware": "H100-SXM-80GB",
    "value": "10",
    "framework": "vLLM",
    "weight_dtype": "bf16",
    "input_len": "100",
    "output_len": "100",
    "method": "lora",
    "parallelism": "single",
    "optimizer": "AdamW",
    "seq_len": "512",
    "activation_checkpointing": "full",
    "micro_batch": "1",
    "flags": "lora_r=8",
    "gpu_hours": "10",
    "region": "France (Jean Zay)",
    "confidence": "high",
}
METRICS = {
    "memory_inference": ("gpu_memory_total", "GB"),
    "memory_training": ("peak_memory_per_gpu", "GB"),
    "latency_inference": ("decode_tokens_per_s", "tok/s"),
    "energy_inference": ("avg_power", "W"),
    "training_speed": ("mfu", "%"),
    "training_emissions": ("co2_training_t", "tCO2eq"),
}


@settings(max_examples=60)
@given(data=st.data())
def test_no_row_breaks_the_report(bench: Bench, data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(TABLES))
    metric, unit = METRICS[table]
    columns = st.sampled_from(sorted(COLUMNS[table]))
    changes = data.draw(st.dictionaries(columns, WORDS | st.text(max_size=12), max_size=6))
    row = Row(table, 2, SOUND | {"metric": metric, "unit": unit} | changes)
    outcomes = assess(Tables({table: (row,)}, ()), bench.vocabulary, bench.snapshot)
    found = report(outcomes, bench.remarks)
    assert json.dumps(found, allow_nan=False)
    content = found[table]
    assert content["rows_used"] + content["rows_refused"] + content["fit_tests"]["rows"] == 1
