"""Rows become the requests that they mean."""

from __future__ import annotations

import pytest

from service.estimation.inference.estimate import inference_latency_answer, inference_memory_answer
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
from service.validation.packaged import Bench
from service.validation.rows.emissions import emissions_row
from service.validation.rows.energy import energy_row
from service.validation.rows.latency import latency_row, speed_request
from service.validation.rows.memory import fits, memory_row
from service.validation.rows.tables import Row, RowRefused

LLAMA_8B = {"model": "Llama-3-8B", "hardware": "H100-SXM-80GB", "framework": "vLLM"}
WEIGHTS_8B_BYTES = 2 * 8_030_261_248


def row(table: str, **cells: str) -> Row:
    return Row(table, 2, cells)


def memory(bench: Bench, **cells: str):
    return memory_row(row("memory_inference", **cells), bench.vocabulary, bench.snapshot)


def test_weights_per_accelerator_and_over_all(bench: Bench) -> None:
    single = memory(bench, **LLAMA_8B, metric="weights_per_gpu", value="14.96", unit="GiB")
    assert single.value == pytest.approx(WEIGHTS_8B_BYTES)
    assert single.measured == 14.96 * 2**30
    file = memory(
        bench,
        model="Llama-3-8B",
        framework="llama.cpp",
        weight_dtype="gguf-F16",
        metric="weights_file_size",
        value="14.96",
        unit="GiB",
    )
    assert file.value == pytest.approx(WEIGHTS_8B_BYTES, rel=1e-3)
    assert file.family == "storage"


def test_totals_are_sums_over_accelerators(bench: Bench) -> None:
    cells = {**LLAMA_8B, "metric": "gpu_memory_total", "value": "20", "unit": "GB"}
    one, two, split = (
        memory(bench, **cells, framework_version="9", hardware_count=count, tp=tp, pp=pp)
        for count, tp, pp in (("1", "1", "1"), ("2", "2", "1"), ("2", "1", "2"))
    )
    request = {"model": "llama-3-8b", "accelerator": "nvidia-h100-sxm-80gb", "accelerator_count": 2}
    answer = inference_memory_answer(
        MemoryInferenceRequest.model_validate(
            request | {"workload": {"input_tokens": 1, "output_tokens": 1}}
        ),
        bench.snapshot,
    )
    assert two.value == pytest.approx(2 * answer["total_bytes"]["value"])
    # Layers are not held twice, but what stands beside them is.
    assert WEIGHTS_8B_BYTES < one.value < split.value < 2 * one.value


def test_peaks_of_the_allocator_leave_out_the_runtime(bench: Bench) -> None:
    cells = {
        **LLAMA_8B,
        "framework": "HF transformers",
        "input_len": "512",
        "output_len": "512",
        "metric": "gpu_memory_total",
        "value": "17",
        "unit": "GB",
    }
    whole = memory(bench, **cells, source_id="somebody")
    allocated = memory(bench, **cells, source_id="qwen25-speed")
    assert WEIGHTS_8B_BYTES < allocated.value < whole.value - 3e8


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("kv_blocks_old", "corrected"),
        ("total_gpu_memory", "not an estimate"),
        ("mood", "metric 'mood' is not known"),
    ],
)
def test_metrics_that_are_not_estimated(bench: Bench, metric: str, told: str) -> None:
    with pytest.raises(RowRefused, match=told):
        memory(bench, **LLAMA_8B, metric=metric, value="1", unit="GiB")


def test_what_runs_out_of_memory(bench: Bench) -> None:
    cells = {**LLAMA_8B, "framework": "HF transformers", "input_len": "4096", "output_len": "1"}
    small, large = (
        fits(row("memory_inference", **cells, batch=batch), bench.vocabulary, bench.snapshot)
        for batch in ("1", "400")
    )
    assert small
    assert not large


SPEED = {
    **LLAMA_8B,
    "weight_dtype": "bf16",
    "batch": "16",
    "input_len": "1000",
    "output_len": "200",
    "value": "10",
    "unit": "tok/s",
}


def speed(bench: Bench, **changes: str):
    cells = SPEED | changes
    return latency_row(row("latency_inference", **cells), bench.vocabulary, bench.snapshot)


def test_speed_metrics_are_those_of_the_answer(bench: Bench) -> None:
    answer = inference_latency_answer(
        LatencyInferenceRequest.model_validate(
            {
                "model": "llama-3-8b",
                "precision": {"weights": "bf16"},
                "accelerator": "nvidia-h100-sxm-80gb",
                "workload": {"input_tokens": 1000, "output_tokens": 200, "concurrency": 16},
            }
        ),
        bench.snapshot,
    )
    assert speed(bench, metric="mean_tpot", unit="ms").value == answer["tpot_s"]["value"]
    assert speed(bench, metric="mean_tpot", unit="ms").measured == pytest.approx(0.01)
    median = speed(bench, metric="median_itl", unit="ms")
    assert median.value == pytest.approx(answer["decode"]["step_s"])
    assert median.low < median.value < median.high
    stream = speed(bench, metric="decode_tokens_per_s")
    assert stream.value == pytest.approx(1.0 / answer["tpot_s"]["value"])
    assert stream.low == pytest.approx(1.0 / answer["tpot_s"]["high"])
    prompt = speed(bench, metric="prefill_tokens_per_s")
    assert prompt.value == pytest.approx(1000 / answer["ttft_s"]["value"])
    total = speed(bench, metric="output_tokens_per_s_total")
    assert total.value == answer["output_tokens_per_s"]["value"]


def test_speed_that_counts_the_prompt_is_compared_with_the_whole_request(bench: Bench) -> None:
    plain = speed(bench, metric="decode_tokens_per_s", batch="1", input_len="30000")
    whole = speed(
        bench, metric="decode_tokens_per_s", batch="1", input_len="30000", source_id="qwen25-speed"
    )
    assert whole.value < 0.9 * plain.value


def test_lengths_that_nobody_published(bench: Bench) -> None:
    assumed = speed(
        bench, metric="mean_tpot", unit="ms", input_len="", source_id="mlenergy-v3-chat"
    )
    assert assumed.warnings[0] == "prompt length not published; 200 tokens assumed"
    with pytest.raises(RowRefused, match="prompt length is not given"):
        speed(bench, metric="mean_tpot", unit="ms", input_len="")
    with pytest.raises(RowRefused, match="output length is not given"):
        speed(bench, metric="mean_tpot", unit="ms", output_len="")


def test_as_many_requests_as_memory_holds(bench: Bench) -> None:
    cells = SPEED | {
        "framework": "TensorRT-LLM",
        "batch": "",
        "concurrency": "max (all queued)",
        "weight_dtype": "fp8",
        "kv_dtype": "fp8",
        "model": "Llama-3.1-70B",
        "flags": "kv_cache_free_gpu_mem_fraction 0.95/0.90",
    }
    fields, _ = speed_request(row("latency_inference", **cells), bench.vocabulary, bench.snapshot)
    # Weights take 72.7 GB of the card's 85.5 and caches 164 kB a token: with a share of 0.9 of all
    # memory there would be room for twenty sequences at most, less what the engine takes.
    assert fields["serving"].memory_utilization_ratio > 0.95
    assert 20 < fields["workload"].concurrency < 60


def test_llama_cpp_computes_prompts_in_micro_batches(bench: Bench) -> None:
    cells = SPEED | {"framework": "llama.cpp", "weight_dtype": "gguf-F16", "batch": "1"}
    fields, _ = speed_request(row("latency_inference", **cells), bench.vocabulary, bench.snapshot)
    assert fields["serving"].chunked_prefill_tokens == 512


def test_energy_is_that_of_all_accelerators(bench: Bench) -> None:
    cells = SPEED | {"model": "Llama-3.1-70B", "hardware_count": "4", "value": "1000"}

    def energy(metric: str, unit: str):
        entry = row("energy_inference", **(cells | {"metric": metric, "unit": unit}))
        return energy_row(entry, bench.vocabulary, bench.snapshot)

    power = energy("avg_power", "W (all GPUs)")
    assert 4 * 150 < power.value < 4 * 700
    request = energy("energy_per_request", "J/request (all GPUs)")
    token = energy("energy_per_output_token", "J/token (all GPUs)")
    assert request.value == pytest.approx(200 * token.value)
    with pytest.raises(RowRefused, match="undisclosed model"):
        energy("water_per_prompt", "mL")


def emissions(bench: Bench, **cells: str):
    return emissions_row(row("training_emissions", **cells), bench.vocabulary, bench.snapshot)


RUN = {
    "hardware": "A100-80GB (400 W)",
    "gpu_hours": "1000",
    "value": "1",
    "unit": "tCO2eq",
    "metric": "co2_training_t",
    "grid_gco2_per_kwh": "100",
    "pue": "1.2",
}


def test_emissions_of_a_run_by_convention(bench: Bench) -> None:
    found = emissions(bench, **RUN, source_id="llama2-card")
    # 1000 h × 0.4 kW × 1.2 × 100 g/kWh
    assert found.value == pytest.approx(48_000.0)
    assert found.measured == 1e6


def test_emissions_of_a_run_from_accelerator_time(bench: Bench) -> None:
    found = emissions(bench, **RUN)
    assert found.low < found.value < found.high
    assert 24_000.0 < found.value < 120_000.0
    with pytest.raises(RowRefused, match="accelerator time is not given"):
        emissions(bench, **(RUN | {"gpu_hours": ""}))
    with pytest.raises(RowRefused, match="neither place nor grid intensity"):
        emissions(bench, **(RUN | {"grid_gco2_per_kwh": ""}))
    with pytest.raises(RowRefused, match="region 'Atlantis' is not in the catalog"):
        emissions(bench, **(RUN | {"region": "Atlantis"}))
    with pytest.raises(RowRefused, match="idle power of a cluster is not estimated"):
        emissions(bench, **(RUN | {"metric": "co2_idle_t"}))
