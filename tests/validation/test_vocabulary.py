"""Names mean what the catalog has, and units are what they say."""

from __future__ import annotations

import pytest

from service.core.number_formats import NUMBER_FORMATS
from service.estimation.references import ModelConfig
from service.validation.packaged import Bench
from service.validation.rows.deployments import parallelism_of, serving_of
from service.validation.rows.tables import TABLES, Row, RowRefused
from service.validation.rows.vocabulary import (
    accelerator_of,
    engine_of,
    format_of,
    model_of,
    unit_size,
    version_of,
)


def row(**cells: str) -> Row:
    return Row("memory_inference", 2, cells)


def test_every_name_leads_to_something(bench: Bench) -> None:
    names, snapshot = bench.vocabulary, bench.snapshot
    assert set(names.models.values()) <= set(snapshot.models)
    assert set(names.hardware.values()) <= set(snapshot.accelerators)
    assert set(names.formats.values()) <= set(NUMBER_FORMATS)
    assert set(names.sources.values()) <= set(snapshot.sources)
    places = {*names.regions.values(), *names.assumed_regions.values()}
    assert places <= set(snapshot.regions)
    assert all(snapshot.find("engines", name) for name in names.engine_of_source.values())
    for framework in ("vLLM", "HF transformers", "llama.cpp/Ollama", "SGLang", "TensorRT-LLM"):
        named = row(framework=framework)
        assert engine_of(named, names, snapshot) in snapshot.engines


def test_every_source_named_is_a_source_of_the_measurements(bench: Bench, outcomes) -> None:
    names = bench.vocabulary
    used = {entry.row.source for outcome in outcomes.values() for entry in outcome.compared}
    assert used <= set(names.sources)
    listed = (
        names.memory_is_allocated,
        names.speed_includes_prefill,
        names.assumed_input_tokens,
        names.assumed_regions,
        names.assumed_pue_ratio,
        names.energy_is_tdp_times_hours,
    )
    for part in listed:
        assert set(part) <= set(names.sources)
    tables = {f"{source}/{table}" for source in names.sources for table in TABLES}
    for named in names.gb_means_gib - tables:
        assert bench.snapshot.find("engines", named)


def test_memory_sizes_in_hardware_names_are_those_of_the_catalog(bench: Bench) -> None:
    for name, accelerator in bench.vocabulary.hardware.items():
        if "GH200" in name or "MI350" in name:
            continue
        sizes = [word for word in name.replace("-", " ").split() if word.endswith("GB")]
        for size in sizes:
            held = bench.snapshot.accelerators[accelerator].document["figures"]["memory_bytes"]
            ratio = float(held["value"]) / (float(size.removesuffix("GB")) * 1e9)
            assert 0.99 < ratio < 1.08, name


@pytest.mark.parametrize(
    ("cells", "bytes_"),
    [
        ({"unit": "GB"}, 1e9),
        ({"unit": "GiB"}, 2**30),
        ({"unit": "GB (GiB by value)"}, 2**30),
        ({"unit": "GB (torch.cuda.max_memory_allocated /1e9)"}, 1e9),
        ({"unit": "GB", "framework": "SGLang"}, 2**30),
        ({"unit": "GB", "source_id": "qwen25-speed"}, 2**30),
        ({"unit": "MiB"}, 2**20),
        ({"unit": "blocks of 16 tokens (after PR)"}, 16),
        ({"unit": "tCO2eq location-based"}, 1e6),
    ],
)
def test_units(bench: Bench, cells: dict[str, str], bytes_: float) -> None:
    assert unit_size(row(**cells), bench.vocabulary) == bytes_


def test_unknown_names_refuse_the_row(bench: Bench) -> None:
    names, snapshot = bench.vocabulary, bench.snapshot
    with pytest.raises(RowRefused, match="unknown unit 'furlongs'"):
        unit_size(row(unit="furlongs"), names)
    with pytest.raises(RowRefused, match="hardware 'Abacus' is not in the catalog"):
        accelerator_of(row(hardware="Abacus"), names, snapshot)
    with pytest.raises(RowRefused, match="no hardware is named"):
        accelerator_of(row(), names, snapshot)
    with pytest.raises(RowRefused, match="number format 'gguf-IQ9_Z' is not known"):
        format_of("gguf-IQ9_Z", names)
    with pytest.raises(RowRefused, match="engine 'Abacus' is not known"):
        engine_of(row(framework="Abacus"), names, snapshot)


def test_a_hyphen_that_does_not_break_is_a_hyphen(bench: Bench) -> None:
    named = row(hardware="M1 Max 32\u2011Core GPU 64GB")
    assert accelerator_of(named, bench.vocabulary, bench.snapshot) == "apple-m1-max-64gb"


@pytest.mark.parametrize(
    ("version", "read"),
    [("0.5.x era", "0.5.x era"), ("2024-05", "2024-05"), ("see repo", None), ("", None)],
)
def test_versions_that_rows_state_choose_the_release(version: str, read: str | None) -> None:
    assert version_of(row(framework="vLLM", framework_version=version)) == read


SHAPE = {
    "model": "Unheard-7B",
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "kv_heads": "32",
    "head_dim": "128",
    "vocab": "32000",
    "ffn": "11008",
    "params_b": "6.738",
}


def test_columns_describe_models_that_the_catalog_does_not_have(bench: Bench) -> None:
    names, snapshot = bench.vocabulary, bench.snapshot
    found = model_of(row(**SHAPE), names, snapshot)
    assert isinstance(found, ModelConfig)
    assert found.config["num_hidden_layers"] == 32
    sparse = SHAPE | {"experts": "8", "experts_per_token": "2", "params_b": ""}
    experts = model_of(row(**sparse), names, snapshot)
    assert isinstance(experts, ModelConfig)
    assert experts.config["model_type"] == "mixtral"
    assert model_of(row(model="Llama-1-33B"), names, snapshot) == "huggyllama/llama-30b"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layers": ""}, "nor do columns describe it"),
        ({"params_b": "13"}, "do not give its number of parameters"),
        ({"arch_note": "MLA"}, "its note is not understood"),
        ({"heads": "7", "head_dim": "1"}, "make no model|number of parameters"),
    ],
)
def test_columns_that_do_not_describe_the_model_refuse_the_row(
    bench: Bench, changes: dict[str, str], told: str
) -> None:
    with pytest.raises(RowRefused, match=told):
        model_of(row(**(SHAPE | changes)), bench.vocabulary, bench.snapshot)


@pytest.mark.parametrize(
    ("cells", "degrees"),
    [
        ({}, (1, 1, 1, 1)),
        ({"hardware_count": "4"}, (4, 1, 1, 1)),
        ({"hardware_count": "4", "tp": "1", "pp": "4"}, (1, 4, 1, 1)),
        ({"hardware_count": "8", "tp": "1", "pp": "1", "ep": "8"}, (8, 1, 8, 1)),
        ({"hardware_count": "8", "tp": "4", "pp": "1"}, (4, 1, 1, 2)),
    ],
)
def test_layouts(cells: dict[str, str], degrees: tuple[int, ...]) -> None:
    found = parallelism_of(row(**cells))
    assert (found.tensor, found.pipeline, found.expert, found.data) == degrees


def test_a_layout_that_does_not_add_up_refuses_the_row() -> None:
    with pytest.raises(RowRefused, match="do not divide hardware_count"):
        parallelism_of(row(hardware_count="4", tp="3"))


def test_settings_from_columns_and_flags() -> None:
    found = serving_of(row(flags="data_parallel=1;max_num_seqs=96", max_model_len="4096"), "vllm")
    assert (found.max_running_sequences, found.max_model_len) == (96, 4096)
    assert serving_of(
        row(flags="mem_fraction_static=0.911"), "sglang"
    ).memory_utilization_ratio == (0.911)
    assert serving_of(row(framework_version="0.6.5 dev"), "vllm").engine_version == "0.6.5 dev"
    assert serving_of(row(framework_version="0.11"), "vllm").max_running_sequences is None
