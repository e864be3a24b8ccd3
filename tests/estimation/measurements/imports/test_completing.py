"""What files leave open, what users add, and who wins."""

from __future__ import annotations

import json

import pytest

from service.estimation.measurements.imports.imported import import_answer
from service.estimation.measurements.imports.names import (
    cache_format,
    find_model,
    gguf_format,
    number_format,
)
from service.estimation.measurements.imports.reading import FileRefused
from tests.estimation.measurements.imports.conftest import FILES, SERVED

SERVE = json.loads((FILES / "vllm-bench-serve-detailed.json").read_text())


def vllm(**changed):
    return json.dumps({k: v for k, v in (SERVE | changed).items() if v is not None}).encode()


def test_what_nobody_says_is_told_with_its_pointer(read):
    file = read("aiperf-profile-export.json")
    assert [fault.pointer for fault in file.faults] == [
        f"/documents/0/request{pointer}"
        for pointer in ("/accelerator", "/accelerator_count", "/serving/engine")
    ]
    assert file.documents == (None,)


def test_the_user_wins_with_a_warning(read):
    [run] = read(vllm(), accelerator="a100-80gb", workload={"concurrency": 8}).runs
    assert run.understood.document.request.accelerator == "a100-80gb"
    assert run.understood.document.request.workload.concurrency == 8
    told = [warning.message for warning in run.understood.warnings]
    assert told == [
        "/request/accelerator: /gpu says 'nvidia-h100-sxm-80gb'; 'a100-80gb' of the deployment is "
        "used",
        "/request/workload/concurrency: /max_concurrency says 4; 8 of the deployment is used",
    ]


def test_another_name_of_the_same_is_no_contradiction(read):
    [run] = read(vllm(), accelerator="h100", model="llama-3.1-8b").runs
    assert run.understood.warnings == ()


def test_the_release_of_another_engine_is_not_taken_over(read):
    [run] = read(vllm(), serving={"engine": "sglang"}).runs
    assert run.understood.document.request.serving.engine_version is None


def test_names_that_the_catalog_lacks_are_told_with_suggestions(read):
    file = read(vllm(model_id="my-tune", gpu="NVIDIA GeForce RTX 4080 Mega"))
    model, accelerator = file.faults
    assert model.pointer == "/documents/0/request/model"
    assert "'my-tune', which /model_id names" in model.detail
    assert "could be nvidia-rtx-4080-16gb" in accelerator.detail
    assert read(vllm(model_id="my-tune"), model="llama-3.1-8b").faults == ()


def test_a_model_that_nobody_published_takes_its_config(read):
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
    }
    file = read(vllm(model_id="my-tune"), model={"config": config})
    assert file.faults == ()
    assert file.runs[0].understood.document.request.model.config["hidden_size"] == 64


def test_impossible_deployments_are_refused_with_pointers(read):
    [fault] = read(vllm(tp=3)).faults
    assert fault.pointer == "/documents/0/request/parallelism/tensor"
    [fault] = read(vllm(), serving={"engine": "vlm"}).faults
    assert fault.pointer == "/documents/0/request/serving/engine"
    [fault] = read(vllm(), colour="red").faults
    assert fault.pointer == "/documents/0/request/colour"
    [fault] = read(vllm(), training={"zero_stage": 3}).faults
    assert fault.pointer == "/documents/0/request/training"


def test_a_rate_that_was_not_reached_is_a_number_in_flight(read):
    [run] = read(vllm(request_rate=100.0)).runs
    assert run.understood.document.request.workload.concurrency == 4
    assert "not reached" in run.understood.document.notes
    [run] = read(vllm(request_rate=40.0)).runs
    assert run.understood.document.request.workload.requests_per_s == 40.0


@pytest.mark.parametrize(
    ("changed", "place", "detail"),
    [
        ({"completed": 0}, "", "no request of this run was completed"),
        ({"max_concurrency": "many"}, "/max_concurrency", "'many' is not a number"),
        ({"mean_ttft_ms": [1]}, "/mean_ttft_ms", "'[1]' is not a number"),
        ({"mean_ttft_ms": 1e300}, "/mean_ttft_ms", "too large"),
    ],
)
def test_values_that_make_no_sense_are_told_with_their_place(read, changed, place, detail):
    with pytest.raises(FileRefused) as refused:
        read(vllm(**changed))
    [fault] = refused.value.faults
    assert fault.pointer == place
    assert detail in fault.detail


def test_figures_that_are_not_finite_were_not_measured(read):
    data = vllm().replace(b'"mean_ttft_ms": ', b'"mean_ttft_ms": NaN, "was": ')
    [run] = read(data).runs
    assert "ttft_s" not in run.understood.document.measured
    assert "tpot_s" in run.understood.document.measured


def test_accelerators_that_aiperf_watched_are_told(read):
    export = json.loads((FILES / "aiperf-profile-export.json").read_text())
    gpus = {
        f"gpu_{index}": {
            "gpu_index": index,
            "gpu_name": "NVIDIA H100 80GB HBM3",
            "metrics": {"nvidia_power_usage": {"unit": "W", "avg": 600.0 + 10 * index}},
        }
        for index in (0, 1)
    }
    export["telemetry_data"] = {"endpoints": {"http://node:9400/metrics": {"gpus": gpus}}}
    file = read(json.dumps(export).encode(), serving={"engine": "vllm"})
    document = file.runs[0].understood.document
    assert document.request.accelerator == "nvidia-h100-sxm-80gb"
    assert document.request.accelerator_count == 2
    assert document.measured["accelerator_power_w"] == 605.0
    assert "/request/accelerator_count" in document.assumed


def test_the_answer_says_where_everything_came_from(read):
    file = read("llama-bench.csv", accelerator_count=1)
    answer = import_answer(file, dry_run=True)
    assert (answer["format"], answer["stored"], answer["faults"]) == ("llama-bench", [], [])
    first = answer["documents"][0]
    assert first["document"]["kind"] == "inference"
    parts = {part["pointer"]: part for part in first["parts"]}
    assert parts["/request/model"]["origin"] == "inferred"
    assert parts["/request/accelerator_count"]["origin"] == "deployment"
    assert parts["/request/accelerator"]["place"] == "line 2 /gpu_info"
    assert {name: first["measured"][0][name] for name in ("metric", "value")} == {
        "metric": "prefill_tokens_per_s",
        "value": 11840.123456,
    }
    assert first["figures"][0]["estimate"] > 0.0


@pytest.mark.parametrize(
    ("told", "expected", "weights"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B", None),
        # Releases that the catalog has are themselves, in their own format.
        ("/models/Llama-3.1-8B-Instruct-FP8", "nvidia/Llama-3.1-8B-Instruct-FP8", None),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w4a16",
         "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", None),
        ("Qwen/Qwen2.5-32B-Instruct-AWQ", "Qwen/Qwen2.5-32B-Instruct-AWQ", None),
        ("somebody/Mistral-7B-v0.1-quantized.w4a16", "mistralai/Mistral-7B-v0.1", "gptq-int4"),
        ("/models/Meta-Llama-3-8B-Instruct-FP8", "meta-llama/Meta-Llama-3-8B", "fp8"),
        ("models/Meta-Llama-3-8B.Q4_0.gguf", "meta-llama/Meta-Llama-3-8B", "gguf-q4_0"),
        ("Qwen2.5-7B-Instruct-Q5_K_M-00001-of-00002.gguf", "Qwen/Qwen2.5-7B", "gguf-q5_k_m"),
        ("gpt-oss-20b", "openai/gpt-oss-20b", None),
        ("models--Qwen--Qwen3-8B", "Qwen/Qwen3-8B", None),
    ],
)  # fmt: skip
def test_names_of_models(packaged_snapshot, told, expected, weights):
    found = find_model(packaged_snapshot, told)
    assert found is not None
    assert (found.id, found.weights) == (expected, weights)


@pytest.mark.parametrize("told", ["", "/", "default", "gpt-4", "llama", "a" * 10_000, ".gguf"])
def test_names_that_mean_no_model(packaged_snapshot, told):
    assert find_model(packaged_snapshot, told) is None


def test_names_of_number_formats():
    assert [number_format(one) for one in ("torch.bfloat16", "auto", "FP8", "half", None, 8)] == [
        *("bf16", None, "fp8", "fp16", None, None)
    ]
    described = (
        "llama 8B Q4_K - Medium",
        "llama 7B mostly Q4_0",
        "qwen2 7B F16",
        "x IQ4_XS - 4.25",
    )
    assert [gguf_format(one) for one in described] == [
        *("gguf-q4_k_m", "gguf-q4_0", "fp16", "gguf-iq4_xs")
    ]
    assert gguf_format("llama 8B") is None
    assert [cache_format(one) for one in ("f16", "q8_0", "BF16", "zzz")] == [
        *("fp16", "gguf-q8_0", "bf16", None)
    ]


def test_several_servers_share_one_deployment(read):
    """One deployment completes every run of a file."""
    file = read("guidellm.json", **SERVED)
    assert {run.understood.document.request.accelerator_count for run in file.runs} == {1}
