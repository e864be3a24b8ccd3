"""A release that is no entry is answered by every question that takes a model, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.named_models import TAKEN_FOR
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.rejection import Rejected
from service.estimation.use_cases import USE_CASES

NAME = "nvidia/Llama-3.3-70B-Instruct-FP8"
BASE = "meta-llama/Llama-3.3-70B-Instruct"
WORKLOAD = {"input_tokens": 1024, "output_tokens": 256, "concurrency": 8}
SERVED: dict[str, Any] = {
    "model": NAME,
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 2,
    "workload": WORKLOAD,
}


def asked(snapshot: CatalogSnapshot, question: str, body: dict[str, Any]) -> Any:
    use_case = USE_CASES[question]
    return use_case.compute(use_case.request.model_validate(body), snapshot)


def remarks(answer: Any) -> list[Any]:
    return [one for one in answer["warnings"] if one["code"] == TAKEN_FOR]


@pytest.mark.parametrize(
    "question", ["estimates/inference", "memory/inference", "latency/inference"]
)
def test_estimates_answer_as_of_the_model_in_that_format(
    packaged_snapshot: CatalogSnapshot, question: str
) -> None:
    answer = asked(packaged_snapshot, question, SERVED)
    assert answer["deployment"]["model"] == NAME
    [remark] = remarks(answer)
    assert BASE in remark["message"]
    whole = asked(packaged_snapshot, question, SERVED | {"model": BASE, "accelerator_count": 4})
    assert not remarks(whole)


def test_a_format_that_the_request_tells_comes_before_that_of_the_name(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    told = {"accelerator_count": 4, "precision": {"weights": "bf16"}}
    named = asked(packaged_snapshot, "memory/inference", SERVED | told)
    plain = asked(packaged_snapshot, "memory/inference", SERVED | told | {"model": BASE})
    assert named["weights_bytes"] == plain["weights_bytes"]


def test_comparisons_answer_each_name(packaged_snapshot: CatalogSnapshot) -> None:
    body = {
        "models": [NAME, "Llama-3.3-70B-Instruct-AWQ", "someone/No-Such-70B-AWQ"],
        "accelerators": ["nvidia-h200-sxm-141gb"],
        "workload": WORKLOAD,
    }
    rows = asked(packaged_snapshot, "compare", body)["rows"]
    assert [row["results"] is not None for row in rows] == [True, True, False]


def test_searches_try_the_release(packaged_snapshot: CatalogSnapshot) -> None:
    body = {
        "model": NAME,
        "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 1.0},
        "workload_kind": "sustainable",
        "search": {"accelerators": ["nvidia-h100-sxm-80gb"], "regions": ["country/SE"]},
    }
    answer = asked(packaged_snapshot, "recommendations", body)
    assert {choice["request"]["model"] for choice in answer["choices"]} == {NAME}
    assert remarks(answer)


def test_adapters_are_trained_on_a_quantised_release(packaged_snapshot: CatalogSnapshot) -> None:
    body = {
        "model": "unsloth/Meta-Llama-3.1-8B-bnb-4bit",
        "accelerator": "nvidia-rtx-4090-24gb",
        "training": {"method": "qlora", "sequence_length": 1024},
    }
    answer = asked(packaged_snapshot, "memory/training", body)
    assert remarks(answer)
    plain = asked(packaged_snapshot, "memory/training", body | {"model": "meta-llama/Llama-3.1-8B"})
    assert answer["weights_bytes"] == plain["weights_bytes"]


def test_a_file_runs_on_what_reads_files(packaged_snapshot: CatalogSnapshot) -> None:
    body = {
        "model": "Qwen3-30B-A3B-Q4_K_M.gguf",
        "accelerator": "nvidia-rtx-4090-24gb",
        "workload": {"input_tokens": 512, "output_tokens": 128},
    }
    answer = asked(packaged_snapshot, "estimates/inference", body)
    assert answer["deployment"]["precision"]["weights"] == "gguf-q4_k_m"
    assert answer["deployment"]["serving"]["engine"] == "llama.cpp"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("UD-Q4_K_XL", "gguf-q4_k_m"),
        ("ud-q2_k_xl", "gguf-q2_k"),
        ("Q4_K", "gguf-q4_k_m"),
        ("q8", "gguf-q8_0"),
        ("IQ4_XS", "gguf-iq4_xs"),
    ],
)
def test_formats_are_called_as_files_are(
    packaged_snapshot: CatalogSnapshot, written: str, meant: str
) -> None:
    body = SERVED | {"model": "Qwen/Qwen3-30B-A3B", "precision": {"weights": written}}
    answer = asked(packaged_snapshot, "memory/inference", body)
    assert answer["deployment"]["precision"]["weights"] == meant
    file = asked(
        packaged_snapshot, "memory/inference", SERVED | {"model": f"Qwen3-30B-A3B-{written}.gguf"}
    )
    assert file["weights_bytes"] == answer["weights_bytes"]


def test_the_latest_of_a_tag_is_the_size_that_ollama_takes(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    assert packaged_snapshot.find("models", "qwen3:latest").id == "Qwen/Qwen3-8B"
    assert packaged_snapshot.find("models", "llama3.2:latest").id == "meta-llama/Llama-3.2-3B"


def test_a_release_of_an_unknown_model_is_refused(packaged_snapshot: CatalogSnapshot) -> None:
    with pytest.raises(Rejected) as refused:
        asked(packaged_snapshot, "memory/inference", SERVED | {"model": "TheBloke/Nothing-70B-AWQ"})
    [error] = refused.value.errors
    assert error.pointer == "/model"
    assert error.detail.startswith("unknown id 'TheBloke/Nothing-70B-AWQ'")


def test_searches_of_a_file_try_what_reads_files(packaged_snapshot: CatalogSnapshot) -> None:
    body = {
        "model": "Qwen3-30B-A3B-Q4_K_M.gguf",
        "workload": {"input_tokens": 1024, "output_tokens": 256, "concurrency": 1},
        "workload_kind": "edge",
        "search": {"accelerators": ["nvidia-rtx-4090-24gb"], "regions": ["country/SE"]},
    }
    answer = asked(packaged_snapshot, "recommendations", body)
    assert {choice["start"]["engine"] for choice in answer["choices"]} == {"llama.cpp"}


def caches(snapshot: CatalogSnapshot, **changes: Any) -> str:
    answer = asked(snapshot, "memory/inference", SERVED | changes)
    return str(answer["deployment"]["precision"]["kv_cache"])


def test_caches_are_kept_as_a_checkpoint_has_scales_for(packaged_snapshot: CatalogSnapshot) -> None:
    """vLLM, SGLang and TensorRT-LLM take the format from the checkpoint where nobody names one."""
    amd = {"model": "amd/Llama-3.1-70B-Instruct-FP8-KV", "accelerator": "amd-mi300x-192gb"}
    assert caches(packaged_snapshot, **amd) == "fp8"
    nvidia = {"model": "nvidia/Llama-3.1-70B-Instruct-FP8"}
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        assert caches(packaged_snapshot, **nvidia, serving={"engine": engine}) == "fp8"
    # A format that is told counts, of caches and of weights, which have no scales then.
    assert caches(packaged_snapshot, **nvidia, precision={"kv_cache": "bf16"}) == "bf16"
    assert caches(packaged_snapshot, **nvidia, precision={"weights": "bf16"}) == "bf16"
    # Llama 3.1 70B in FP8 by somebody else has no scales for caches.
    assert caches(packaged_snapshot, model="RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8") == "bf16"
