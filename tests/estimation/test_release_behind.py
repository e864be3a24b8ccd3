"""An engine may be named with its release behind it, as benchmarks do."""

from __future__ import annotations

import pytest

from service.catalog.entries.engines import names_of
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.release_behind import release_apart
from service.estimation.requests import ServingRequest
from service.estimation.training.requests import TrainingSettingsRequest


@pytest.mark.parametrize(
    ("named", "engine", "release"),
    [
        ("vLLM 0.6.3", "vLLM", "0.6.3"),
        ("vllm==0.10.0", "vllm", "0.10.0"),
        ("SGLang v0.4.3.post2", "SGLang", "0.4.3.post2"),
        ("TensorRT-LLM@0.15.0", "TensorRT-LLM", "0.15.0"),
        ("llama.cpp b4000", "llama.cpp", "b4000"),
        ("vllm v1", "vllm v1", None),
        ("vLLM before 0.6", "vLLM before 0.6", None),
        ("llama.cpp", "llama.cpp", None),
        ("exllamav2", "exllamav2", None),
    ],
)
def test_engines_that_serve(named: str, engine: str, release: str | None) -> None:
    asked = ServingRequest.model_validate({"engine": named})
    assert (asked.engine, asked.engine_version) == (engine, release)


def test_frameworks_that_train() -> None:
    asked = TrainingSettingsRequest.model_validate({"framework": "NeMo 25.11"})
    assert (asked.framework, asked.framework_version) == ("NeMo", "25.11")


def test_a_release_that_is_stated_counts() -> None:
    asked = ServingRequest.model_validate({"engine": "vLLM 0.6.3", "engine_version": "0.11.0"})
    assert (asked.engine, asked.engine_version) == ("vLLM", "0.11.0")


@pytest.mark.parametrize("given", [None, 3, "vLLM 0.6.3", [], {"engine": 1}, {"engine": "x" * 999}])
def test_anything_else_is_left_as_it_is(given: object) -> None:
    assert release_apart(given, "engine", "engine_version") == given


def test_no_engine_has_a_name_that_is_read_so(packaged_snapshot: CatalogSnapshot) -> None:
    for entry in packaged_snapshot.engines.values():
        generations = [one for each in entry.value.generations for one in (each.id, *each.aliases)]
        for name in (entry.id, *names_of(entry.document), *generations):
            assert release_apart({"engine": name}, "engine", "release") == {"engine": name}
