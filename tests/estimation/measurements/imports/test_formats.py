"""Each format: what is recognised, and what of it becomes a measurement."""

from __future__ import annotations

import json

import pytest

from service.estimation.measurements.imports.reading import Content
from service.estimation.measurements.imports.registry import FORMATS, read_runs
from tests.estimation.measurements.imports.conftest import FILES, SERVED

FORMAT_OF = {
    "vllm-bench-serve-detailed.json": "vllm-bench",
    "vllm-bench-serve-append.json": "vllm-bench",
    "vllm-bench-throughput.json": "vllm-bench",
    "vllm-bench-latency.json": "vllm-bench",
    "sglang-bench-serving.jsonl": "sglang-bench",
    "aiperf-profile-export.json": "aiperf",
    "genai-perf-profile-export.json": "aiperf",
    "guidellm.json": "guidellm",
    "trtllm-bench-report.json": "trtllm-bench",
    "trtllm-bench-summary.txt": "trtllm-bench",
    "llama-bench.json": "llama-bench",
    "llama-bench.jsonl": "llama-bench",
    "llama-bench.csv": "llama-bench",
    "llama-bench.md": "llama-bench",
    "mlperf_log_summary-offline.txt": "mlperf",
    "mlperf_log_summary-server.txt": "mlperf",
    "torch-memory-snapshot.pickle": "torch-memory",
    "torch-memory-stats.json": "torch-memory",
    "trainer_state.json": "trainer-state",
    "megatron-lm.log": "megatron-lm",
    "torchtitan.log": "torchtitan",
    "nvidia-smi.csv": "nvidia-smi",
    "dcgmi-dmon.txt": "dcgm",
    "zeus-monitor.csv": "zeus",
    "codecarbon-emissions.csv": "codecarbon",
    "codecarbon-emissions-gpu.csv": "codecarbon",
}
MIB = 1_048_576


@pytest.mark.parametrize(("name", "expected"), FORMAT_OF.items())
def test_recognised_by_one_format_alone(name, expected):
    content = Content((FILES / name).read_bytes())
    assert [one.id for one in FORMATS.values() if one.recognise(content)] == [expected]
    assert read_runs(content)[0].id == expected
    assert read_runs(content, expected)[1]


def test_every_format_has_a_file():
    assert set(FORMAT_OF.values()) == set(FORMATS)
    kept = {path.name for path in FILES.iterdir()} - {"README.md"}
    assert kept == set(FORMAT_OF)


def only(file):
    assert file.faults == ()
    [run] = file.runs
    assert run.understood.document is not None
    return run.understood


def request(understood):
    return understood.document.model_dump(mode="json")["request"]


def test_vllm_bench_serve(read):
    found = only(read("vllm-bench-serve-detailed.json"))
    asked = request(found)
    assert asked["model"] == "meta-llama/Llama-3.1-8B"
    assert asked["accelerator"] == "nvidia-h100-sxm-80gb"
    assert asked["parallelism"]["tensor"] == 1
    assert asked["serving"]["engine_version"] == "0.33.0"
    assert (
        asked["workload"] | {"input_tokens": 48, "output_tokens": 12, "concurrency": 4}
        == (asked["workload"])
    )
    assert found.document.measured["ttft_s"] == pytest.approx(0.0344109, rel=1e-5)
    assert found.document.measured["tpot_p99_s"] == pytest.approx(0.00569848, rel=1e-5)
    assert found.document.measured["e2e_p95_s"] == pytest.approx(0.100, rel=1e-2)
    assert found.document.measured["total_tokens_per_s"] == pytest.approx(2335.4, rel=1e-4)
    assert found.document.measured_on == "2026-11-22"
    assert found.document.assumed == (
        "/request/serving/engine",
        "/request/precision/weights",
        "/request/precision/kv_cache",
    )
    assert found.document.confidence == "medium"


def test_vllm_bench_serve_at_a_rate_and_all_at_once(read):
    file = read("vllm-bench-serve-append.json", **SERVED)
    at_rate, at_once = (run.understood for run in file.runs)
    assert at_rate.document.id == "vllm-bench-serve-append.json-1"
    assert request(at_rate)["workload"]["requests_per_s"] == 20.0
    assert request(at_once)["workload"]["concurrency"] == 12
    assert "/request/workload/concurrency" in at_once.document.assumed
    assert "sent at once" in at_once.document.notes


def test_vllm_bench_offline(read):
    load = {"workload": {"input_tokens": 255, "output_tokens": 128}}
    found = only(read("vllm-bench-throughput.json", **SERVED, **load))
    assert request(found)["workload"]["concurrency"] == 1000
    assert found.document.measured == {"total_tokens_per_s": 17813.9, "requests_per_s": 46.5}
    load["workload"]["concurrency"] = 8
    found = only(read("vllm-bench-latency.json", **SERVED, **load))
    assert found.document.measured == {"e2e_s": 1.05}
    assert found.warnings == ()


def test_sglang_bench_serving(read):
    file = read("sglang-bench-serving.jsonl", accelerator="h100", accelerator_count=1)
    closed, opened = (run.understood for run in file.runs)
    assert (
        request(closed)["serving"]
        | {
            "engine": "sglang",
            "engine_version": "0.5.23",
            "memory_utilization_ratio": 0.88,
        }
        == request(closed)["serving"]
    )
    assert request(closed)["workload"]["concurrency"] == 4
    assert request(opened)["workload"]["requests_per_s"] == 20.0
    assert opened.fields["/request/model"].place == "line 2 /server_info/model_path"
    assert opened.document.measured["ttft_p95_s"] == pytest.approx(0.03333, rel=1e-3)


def test_aiperf_and_genai_perf(read):
    found = only(read("aiperf-profile-export.json", **SERVED))
    assert found.document.tool == "AIPerf 0.13.0"
    assert request(found)["workload"]["concurrency"] == 3
    assert request(found)["workload"]["input_tokens"] == 50
    assert found.document.measured["ttft_s"] == pytest.approx(0.0399732707)
    assert found.document.measured["tpot_p99_s"] < found.document.measured["ttft_s"]
    found = only(read("genai-perf-profile-export.json", **SERVED))
    assert found.document.tool == "genai-perf"
    assert request(found)["workload"]["concurrency"] == 10
    assert found.document.measured["e2e_s"] == pytest.approx(2.2461)
    assert found.document.measured["output_tokens_per_s"] == 1137.2


def test_guidellm(read):
    file = read("guidellm.json", **SERVED)
    two, four = (run.understood for run in file.runs)
    assert [request(one)["workload"]["concurrency"] for one in (two, four)] == [2, 4]
    assert two.document.tool == "GuideLLM 0.8.1"
    assert two.document.measured["ttft_s"] == pytest.approx(0.0358029, rel=1e-5)
    assert two.document.measured["e2e_s"] == pytest.approx(0.140817, rel=1e-5)
    assert four.document.locator == "guidellm.json: /benchmarks/1"


def test_trtllm_bench_report_and_summary_say_the_same(read):
    report = only(read("trtllm-bench-report.json"))
    summary = only(read("trtllm-bench-summary.txt", accelerator_count=4))
    asked = request(report)
    assert asked == request(summary)
    assert asked["accelerator"] == "nvidia-h100-sxm-80gb"
    assert (asked["accelerator_count"], asked["parallelism"]["tensor"]) == (4, 4)
    assert asked["precision"]["weights"] == asked["precision"]["kv_cache"] == "fp8"
    assert asked["serving"]["engine_version"] == "1.2.1"
    assert asked["workload"]["concurrency"] == 186
    assert report.document.measured["tpot_s"] == pytest.approx(0.03116)
    assert report.document.measured["ttft_p99_s"] == pytest.approx(1.8214 * 1.35)
    assert summary.document.measured.items() <= report.document.measured.items()


@pytest.mark.parametrize("name", ["llama-bench.json", "llama-bench.jsonl", "llama-bench.csv"])
def test_llama_bench(read, name):
    file = read(name)
    prompt, written = (run.understood for run in file.runs[:2])
    asked = request(prompt)
    assert asked["model"] == "meta-llama/Llama-3.1-8B"
    assert asked["accelerator"] == "nvidia-rtx-4090-24gb"
    assert asked["precision"] | {"weights": "gguf-q4_k_m", "kv_cache": "fp16"} == asked["precision"]
    assert asked["serving"]["engine_version"] == "b7021"
    assert asked["serving"]["backend"] == "cuda"
    assert asked["workload"]["input_tokens"] == 512
    assert prompt.document.measured["prefill_tokens_per_s"] == 11840.123456
    assert prompt.document.measured["ttft_s"] == pytest.approx(512 / 11840.123456)
    assert request(written)["workload"]["output_tokens"] == 128
    assert written.document.measured["tpot_s"] == pytest.approx(1 / 152.734512)
    assert prompt.document.measured_on == "2026-11-02"


def test_llama_bench_behind_a_context_and_both_at_once(read):
    runs = [run.understood for run in read("llama-bench.json").runs]
    deep = request(runs[2])["workload"]
    assert deep["input_tokens"] == 4096 + 512
    assert deep["prefix_cached_ratio"] == pytest.approx(4096 / 4608)
    # Of what is behind it, nothing was read in the time.
    assert runs[2].document.measured == {"ttft_s": pytest.approx(512 / 8932.5)}
    assert request(runs[3])["workload"]["input_tokens"] == 4096
    both = runs[4].document.measured
    assert both["total_tokens_per_s"] == 731.25
    assert both["output_tokens_per_s"] == pytest.approx(731.25 * 128 / 640)
    assert both["e2e_s"] == pytest.approx(640 / 731.25, rel=1e-6)


def llama_bench(**changed):
    [first, *_] = json.loads((FILES / "llama-bench.json").read_text())
    return json.dumps([first | changed]).encode()


def test_llama_bench_says_what_drives_the_accelerator(read):
    told = only(read(llama_bench(backends="Vulkan,RPC")))
    assert request(told)["serving"]["backend"] == "vulkan"
    unknown = only(read(llama_bench(backends="WebGPU")))
    assert request(unknown)["serving"]["backend"] is None


def test_llama_bench_on_several_accelerators(read):
    two = only(read(llama_bench(gpu_info="NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 3090")))
    assert request(two)["accelerator"] == "nvidia-rtx-3090-24gb"
    assert request(two)["accelerator_count"] == request(two)["parallelism"]["pipeline"] == 2
    mixed = read(llama_bench(gpu_info="NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 4090"))
    assert [fault.pointer for fault in mixed.faults] == [
        "/documents/0/request/accelerator",
        "/documents/0/request/accelerator_count",
    ]


def test_llama_bench_on_the_host(read):
    said = {"n_gpu_layers": 0, "cpu_info": "AMD EPYC 9654 96-Core Processor"}
    assert request(only(read(llama_bench(**said))))["accelerator"] == "amd-epyc-9654"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"n_gpu_layers": 20}, "20 layers are on the accelerator"),
        ({"n_cpu_moe": 12}, "12 layers have their experts on the host"),
        ({"no_kv_offload": True}, "the cache is on the host"),
    ],
)
def test_llama_bench_partly_on_the_host_says_little(read, changed, told):
    found = only(read(llama_bench(**changed)))
    assert found.document.confidence == "low"
    assert told in found.document.notes


def test_the_table_of_llama_bench(read):
    file = read("llama-bench.md")
    assert [fault.pointer for fault in file.faults] == [
        f"/documents/{index}/request/model" for index in range(4)
    ]
    assert "Qwen/Qwen2-7B, Qwen/Qwen2.5-7B" in file.faults[0].detail
    runs = [run.understood for run in read("llama-bench.md", model="Qwen/Qwen2.5-7B").runs]
    assert request(runs[0])["accelerator"] == "nvidia-rtx-4090-24gb"
    assert request(runs[3])["workload"]["input_tokens"] == 512
    assert runs[3].document.measured["decode_tokens_per_s"] == 156.71
    assert runs[0].document.tool == "llama-bench b7021 (5a32f10a)"


def test_mlperf(read):
    load = {"input_tokens": 100, "output_tokens": 20}
    said = SERVED | {"model": "meta-llama/Llama-3.1-8B", "workload": load}
    offline = only(read("mlperf_log_summary-offline.txt", **said))
    assert request(offline)["workload"]["concurrency"] == "max"
    assert "/request/workload/concurrency" in offline.document.assumed
    assert offline.document.measured == {
        "output_tokens_per_s": 17007.1,
        "requests_per_s": 850.356,
    }
    assert "INVALID" in offline.document.notes
    server = only(read("mlperf_log_summary-server.txt", **said))
    assert request(server)["workload"]["requests_per_s"] == 19.51
    assert server.document.measured["ttft_p99_s"] == pytest.approx(0.007325546)
    assert server.document.measured["tpot_s"] == pytest.approx(6.0537e-05)
    assert server.measured["requests_per_s"].place == "line 7"


def test_memory_of_pytorch(read):
    said = SERVED | {
        "model": "meta-llama/Llama-3.2-1B",
        "workload": {"input_tokens": 128, "output_tokens": 8, "concurrency": 1},
    }
    found = only(read("torch-memory-snapshot.pickle", **said))
    assert found.document.measured == {"allocated_bytes": 63 * MIB, "reserved_bytes": 86 * MIB}
    assert "last 8 events" in found.document.notes
    found = only(read("torch-memory-stats.json", **said))
    assert found.document.measured == {"allocated_bytes": 2.0**34, "reserved_bytes": 18 * 2.0**30}


def test_trainer_state(read):
    said = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 2,
    }
    found = only(read("trainer_state.json", **said))
    asked = request(found)["training"]
    assert asked["framework"] == "transformers"
    assert (asked["micro_batch_size"], asked["gradient_accumulation_steps"]) == (4, 1)
    assert asked["sequence_length"] == 64
    assert found.document.measured["step_s"] == pytest.approx(1 / 12.804)
    assert found.document.measured["tokens_per_s"] == pytest.approx(3072 / 0.4686)
    assert "/request/training/sequence_length" in found.document.assumed
    [fault] = read("trainer_state.json", **said | {"accelerator_count": 3}).faults
    assert fault.pointer == "/documents/0/request/training/gradient_accumulation_steps"


def test_megatron(read):
    said = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}
    found = only(read("megatron-lm.log", **said))
    asked = request(found)
    assert asked["accelerator_count"] == 8
    assert (asked["parallelism"]["tensor"], asked["parallelism"]["data"]) == (2, 4)
    training = asked["training"]
    assert training["gradient_accumulation_steps"] == 32
    assert (training["zero_stage"], training["sequence_length"]) == (1, 8192)
    assert training["activation_checkpointing"] == "none"
    step = found.document.measured["step_s"]
    assert 12.3 < step < 12.5  # without the slow first steps
    assert found.document.measured["tokens_per_s"] == pytest.approx(128 * 8192 / step)
    assert found.document.measured["reserved_bytes"] == 57334 * MIB
    assert "median of 17 of 20 lines" in found.document.notes


def test_torchtitan(read):
    found = only(read("torchtitan.log"))
    asked = request(found)
    assert asked["model"] == "meta-llama/Meta-Llama-3-8B"
    assert asked["accelerator"] == "nvidia-h100-sxm-80gb"
    assert asked["parallelism"]["data"] == 8
    assert asked["training"]["zero_stage"] == 3
    assert asked["training"]["gradient_accumulation_steps"] == 1
    assert found.document.measured["reserved_bytes"] == pytest.approx(40.21 * 2**30)
    assert 5600 < found.document.measured["tokens_per_s_per_accelerator"] < 5800
    assert 0.25 < found.document.measured["mfu_ratio"] < 0.35
    assert {"/request/model", "/request/training/zero_stage"} <= set(found.document.assumed)


METERED = {
    "model": "meta-llama/Llama-3.1-8B",
    "serving": {"engine": "vllm"},
    "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 8},
}


def test_power_of_nvidia_smi(read):
    found = only(read("nvidia-smi.csv", **METERED))
    asked = request(found)
    assert asked["accelerator"] == "nvidia-h100-sxm-80gb"
    assert asked["accelerator_count"] == 2
    assert found.document.measured["accelerator_power_w"] == pytest.approx(623.34)
    assert found.document.measured["process_bytes"] == 71_244 * MIB
    assert "/request/accelerator_count" in found.document.assumed
    assert "busy from line 14 to 39, 2026/11/02 12:34:15.123" in found.document.notes
    assert found.document.measured_on == "2026-11-02"


def test_power_of_nvidia_smi_without_utilisation(read):
    rows = [80.0, 82.0, 500.0, 90.0, 520.0, 510.0, 81.0]
    lines = [f"2026/11/02 10:00:{at:02d}.0, {watts}" for at, watts in enumerate(rows)]
    data = "\n".join(["timestamp, power.draw [W]", *lines]).encode()
    found = only(read(data, accelerator="nvidia-h100-sxm-80gb", **METERED))
    # The gap in between belongs to the run.
    assert found.document.measured["accelerator_power_w"] == pytest.approx(405.0)


def test_power_of_dcgm(read):
    found = only(read("dcgmi-dmon.txt", accelerator="nvidia-h100-sxm-80gb", **METERED))
    assert found.document.measured["accelerator_power_w"] == pytest.approx(655.75)
    assert request(found)["accelerator_count"] == 2


def test_energy_of_zeus(read):
    file = read("zeus-monitor.csv", accelerator="nvidia-h100-sxm-80gb", **METERED)
    assert len(file.runs) == 3
    first = file.runs[0].understood
    joules, seconds = 200.03480911254883 + 225.04109144210815, 0.5000498294830322
    assert first.document.measured["accelerator_power_w"] == pytest.approx(joules / seconds / 2)
    assert first.document.notes.startswith("window step of 0.50005 s")
    assert first.document.measured_on == "2026-11-22"


def test_emissions_of_codecarbon(read):
    found = only(read("codecarbon-emissions.csv"))
    assert found.document.kind == "impacts"
    assert found.document.confidence == "low"
    assert request(found)["region"] == "country/SE"
    assert found.document.measured["operational_gco2e"] == pytest.approx(9.4817538e-4)
    alone = read("codecarbon-emissions-gpu.csv")
    assert len(alone.runs) == 1
    assert alone.warnings[0].code == "left_out"
    powered, emitted = (
        run.understood for run in read("codecarbon-emissions-gpu.csv", **METERED).runs
    )
    assert request(powered)["accelerator"] == "nvidia-a100-sxm-80gb"
    assert powered.document.measured == {"accelerator_power_w": pytest.approx(650.0)}
    assert emitted.document.measured == {"operational_gco2e": 135.0, "water_l": 5.4}
