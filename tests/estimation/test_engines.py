"""Which measurements hold for an engine, and which only stand in for its own."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.entries.checks import check_documents
from service.catalog.entries.documents import COLLECTIONS
from service.catalog.entries.earlier import in_todays_form
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.estimation.calibrations import calibration, runtime_memory
from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import EXAMPLE_DEPLOYMENT, EXAMPLE_WORKLOAD, MemoryInferenceRequest
from service.estimation.training.calibrations import training_figures, training_memory_overheads


def with_engines(snapshot: CatalogSnapshot, *engines: dict[str, Any]) -> CatalogSnapshot:
    documents = {collection: dict(held) for collection, held in snapshot.documents().items()}
    for engine in engines:
        described = {"name": engine["id"], "aliases": [], "source": "headroom-assumption"}
        documents["engines"][engine["id"]] = described | engine
    return snapshot_from_documents(documents, 1)


def asked(engine: str) -> MemoryInferenceRequest:
    body = EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD, "serving": {"engine": engine}}
    return MemoryInferenceRequest(**body)


def test_a_release_has_the_figures_of_its_engine_where_it_has_none_of_its_own(packaged_snapshot):
    memory = runtime_memory(packaged_snapshot)
    assert memory.of("vllm-before-0.6") is memory.of("vllm")
    assert memory.of("transformers-before-4.36") is not memory.of("transformers")
    older = calibration(packaged_snapshot, "transformers-before-4.36", "nvidia-ampere")
    assert older.performance.source == "performance/transformers/nvidia-ampere"
    assert older.warnings == ()


def test_an_engine_that_is_like_another_is_computed_as_that_one_with_a_warning(packaged_snapshot):
    engine = {"id": "acme", "workloads": ["inference"], "like": "vllm-before-0.6"}
    snapshot = with_engines(packaged_snapshot, engine)
    found = calibration(snapshot, "acme", "nvidia-hopper")
    assert found.performance.source == "performance/vllm-before-0.6/nvidia-hopper"
    assert not found.performance.measured
    assert [one.message for one in found.warnings] == [
        "there are no speed measurements of acme; those of vllm-before-0.6 are used"
    ]
    memory = runtime_memory(snapshot)
    assert memory.of("acme") == memory.of("vllm")
    assert memory.of("tensorrt-llm") == memory.of("default")


def test_a_framework_that_is_like_another_is_computed_as_that_one(packaged_snapshot):
    framework = {"id": "acme", "workloads": ["training"], "like": "torchtitan"}
    snapshot = with_engines(packaged_snapshot, framework)
    figures = training_figures(snapshot, "acme", "nvidia-hopper")
    assert figures.entries[0] == "training/torchtitan/nvidia-hopper"
    assert "no training speed measurements of acme" in figures.warnings[0].message
    assert training_memory_overheads(snapshot).of("acme").framework == "torchtitan"


@pytest.mark.parametrize(
    ("engine", "detail"),
    [
        ("vlm", "did you mean vllm"),
        ("torchtitan", "torchtitan is not for inference: "),
    ],
)
def test_what_serves_nothing_is_refused_with_what_does(packaged_snapshot, engine, detail):
    with pytest.raises(Rejected) as refused:
        inference_memory_answer(asked(engine), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == "/serving/engine"
    assert detail in error.detail
    assert "vllm" in error.detail


@pytest.mark.parametrize("name", ["vLLM", "VLLM", "v-llm"])
def test_an_engine_is_found_by_what_people_write(packaged_snapshot, name):
    answer = inference_memory_answer(asked(name), packaged_snapshot)
    assert answer["deployment"]["serving"]["engine"] == "vllm"


@pytest.mark.parametrize(
    ("engine", "pointer", "detail"),
    [
        ({"like": "abacus"}, "/like", "no engine 'abacus'"),
        ({"release_of": "acme"}, "/release_of", "leads back"),
        ({}, "", "has no figures of speed"),
    ],
)
def test_an_engine_has_figures_of_speed_or_names_one_that_has(
    packaged_snapshot, engine, pointer, detail
):
    documents = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    base = {"id": "acme", "name": "Acme", "workloads": ["inference"]}
    documents["engines"]["acme"] = base | {"aliases": [], "source": "headroom-assumption"} | engine
    errors = check_documents(documents, {})
    assert any(one.entry_id == "acme" and detail in one.detail for one in errors)
    assert {one.pointer for one in errors} <= {pointer, ""}


def test_revisions_of_earlier_releases_are_answered_from_as_ever(packaged_snapshot):
    """Before engines were entries, truths of calibrations were 1 and 0 under another name."""
    truths = {"launch_bound", "half_accumulation", "prefills_whole", "reserves_cache"}
    truths |= {"activations_in_share", "graphs_in_share"}
    stored: dict[str, dict[str, Any]] = {name: {} for name in COLLECTIONS}
    for collection, held in packaged_snapshot.documents().items():
        stored[collection] = dict(held)
    stored["engines"] = {}
    del stored["calibrations"]["catalog/nvidia-ampere"]
    for id_, document in stored["calibrations"].items():
        figures = {
            f"{name}_ratio" if name in truths else name: one | {"value": float(one["value"])}
            for name, one in document["figures"].items()
        }
        stored["calibrations"][id_] = document | {"figures": figures}
    then = snapshot_from_documents(in_todays_form(stored), 1)
    for engine, entry in then.engines.items():
        today = packaged_snapshot.engines[engine].value
        assert entry.value.workloads == today.workloads
        assert entry.value.release_of == today.release_of
    for engine in ("vllm", "transformers-before-4.36", "llama.cpp"):
        assert runtime_memory(then).of(engine) == runtime_memory(packaged_snapshot).of(engine)
        for family in ("nvidia-ampere", "default"):
            now = calibration(packaged_snapshot, engine, family)
            assert calibration(then, engine, family).performance == now.performance
    a100 = "nvidia-a100-sxm-80gb"
    assert then.accelerators[a100].value == packaged_snapshot.accelerators[a100].value
    assert then.accelerators[a100].value.small_default_batch
