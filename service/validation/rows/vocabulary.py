"""What measurements call things, translated into what requests call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.references import ModelConfig
from service.validation.rows.tables import Row, RowRefused

_GIB = 2.0**30
#: Size in SI units of what a unit column may name: bytes, tokens, seconds, watts, joules, grams,
#: litres, tokens per second, steps and shares.
UNITS: Mapping[str, float] = {
    "B": 1.0,
    "MB": 1e6,
    "MiB": 2.0**20,
    "GB": 1e9,
    "GiB": _GIB,
    "tokens": 1.0,
    "blocks of 16 tokens": 16.0,
    "tok/s": 1.0,
    "ms": 1e-3,
    "s": 1.0,
    "W": 1.0,
    "J/token": 1.0,
    "J/request": 1.0,
    "Wh": 3600.0,
    "MWh": 3.6e9,
    "gCO2e": 1.0,
    "tCO2eq": 1e6,
    "tok/s/GPU": 1.0,
    "samples/s": 1.0,
    "ratio": 1.0,
    "%": 0.01,
    "s/it": 1.0,
}
#: What is said about models that columns describe, where it says how to build them.
_NOTES = {
    "tied embeddings",
    "tied",
    "learned positions",
    "learned pos-emb so params grow with T",
    "llm-foundry pretrain yaml",
}
_GIB_BY_VALUE = "GiB by value"
#: What begins like a version of an engine, or like a date.
_VERSION = re.compile(r"\d{1,4}[.-]\d{1,4}")
#: Parameter counts in models' columns are rounded; further off, the columns mean another model.
_LARGEST_COUNT_ERROR_RATIO = 0.03


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Reviewed names and assumptions; see ``hardware_catalog/validation/names.yaml``."""

    models: Mapping[str, str]
    model_types: Mapping[str, str]
    hardware: Mapping[str, str]
    formats: Mapping[str, str]
    engine_of_source: Mapping[str, str]
    regions: Mapping[str, str]
    gb_means_gib: frozenset[str]
    memory_is_allocated: frozenset[str]
    speed_includes_prefill: frozenset[str]
    assumed_input_tokens: Mapping[str, int]
    assumed_regions: Mapping[str, str]
    year_of_source: Mapping[str, int]
    assumed_pue_ratio: Mapping[str, float]
    energy_is_tdp_times_hours: frozenset[str]
    assumed_zero_stage: Mapping[str, int]
    sources: Mapping[str, str]


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary in a YAML file.

    Raises
    ------
    TypeError
        If the file lacks a part or holds one that is not known.
    """
    parts: Any = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    sets = {name: frozenset(part) for name, part in parts.items() if isinstance(part, list)}
    return Vocabulary(**(parts | sets))


def unit_size(row: Row, vocabulary: Vocabulary) -> float:
    """Size of the row's unit in SI units.

    Raises
    ------
    RowRefused
        If the unit is not known.
    """
    text = row.text("unit")
    unit = re.sub(r"\s*\(.*\)$", "", text)
    if unit.startswith("tCO2eq"):
        unit = "tCO2eq"
    if unit == "GB" and _GIB_BY_VALUE in text:
        return _GIB
    return size_of(row, unit, vocabulary)


def size_of(row: Row, unit: str, vocabulary: Vocabulary) -> float:
    """Size in SI units of a unit, as whoever wrote the row means it.

    Raises
    ------
    RowRefused
        If the unit is not known.
    """
    if unit not in UNITS:
        raise RowRefused(f"unknown unit {unit[:40]!r}")
    writers = {row.text("framework"), f"{row.source}/{row.table}"}
    if unit == "GB" and writers & vocabulary.gb_means_gib:
        return _GIB
    return UNITS[unit]


def accelerator_of(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> str:
    """Catalog id of the row's accelerator.

    Raises
    ------
    RowRefused
        If the catalog does not have it.
    """
    # Some sources write U+2011, a hyphen that does not break.
    name = row.text("hardware").replace("\u2011", "-")
    if not name:
        raise RowRefused("no hardware is named")
    try:
        return snapshot.find("accelerators", vocabulary.hardware.get(name, name)).id
    except UnknownReference:
        raise RowRefused(f"hardware {name[:60]!r} is not in the catalog") from None


def format_of(name: str, vocabulary: Vocabulary) -> str | None:
    """Id of a number format, or None where the row leaves it open.

    Raises
    ------
    RowRefused
        If it is not known.
    """
    if not name:
        return None
    known = vocabulary.formats.get(name, name.lower())
    if known not in NUMBER_FORMATS:
        raise RowRefused(f"number format {name[:40]!r} is not known")
    return known


def engine_of(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> str:
    """Engine whose overheads apply to the row.

    Raises
    ------
    RowRefused
        If it is not one that estimates know.
    """
    name = row.text("framework")
    try:
        engine = snapshot.find("engines", name).id
    except UnknownReference:
        raise RowRefused(
            f"engine {name[:40]!r} is not known" if name else "no engine is named"
        ) from None
    dated = f"{row.source}/{engine}"
    if dated in vocabulary.engine_of_source:
        return vocabulary.engine_of_source[dated]
    return engine


def version_of(row: Row) -> str | None:
    """The engine's version or its date, where the row says it."""
    version = row.text("framework_version")
    return version[:60] if _VERSION.match(version) else None


def model_of(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> str | ModelConfig:
    """The row's model: a catalog id, else a configuration made from its columns.

    Raises
    ------
    RowRefused
        If the name is unknown and the columns do not describe a model that can be built.
    """
    name = row.text("model")
    try:
        return snapshot.find("models", vocabulary.models.get(name, name)).id
    except UnknownReference:
        return _from_columns(row, vocabulary)


def _from_columns(row: Row, vocabulary: Vocabulary) -> ModelConfig:
    model = row.text("model")[:60]
    columns = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "ffn")
    given = {column: row.count(column) for column in columns}
    if None in given.values():
        raise RowRefused(f"model {model!r} is not in the catalog, nor do columns describe it")
    notes = [note for part in row.text("arch_note").split(";") if (note := part.strip())]
    if not set(notes) <= _NOTES:
        raise RowRefused(f"model {model!r} is not in the catalog, and its note is not understood")
    config: dict[str, Any] = {
        "model_type": vocabulary.model_types.get(row.text("model"), "llama"),
        "num_hidden_layers": given["layers"],
        "hidden_size": given["hidden"],
        "num_attention_heads": given["heads"],
        "num_key_value_heads": given["kv_heads"],
        "head_dim": given["head_dim"],
        "vocab_size": given["vocab"],
        "intermediate_size": given["ffn"],
        "tie_word_embeddings": any(note.startswith("tied") for note in notes),
    }
    if any(note.startswith("learned pos") for note in notes):
        # One learned position for every token of the longest sequence, which is the row's.
        config["max_position_embeddings"] = row.count("seq_len")
    experts = row.count("experts")
    if experts is not None:
        config |= {
            "model_type": "mixtral",
            "num_local_experts": experts,
            "num_experts_per_tok": row.count("experts_per_token"),
        }
    try:
        built = parse_config(config)
    except ConfigNotUnderstood as error:
        raise RowRefused(f"columns of model {model!r} make no model: {error}") from None
    stated = row.number("params_b")
    if stated and abs(built.total_parameters / (stated * 1e9) - 1.0) > _LARGEST_COUNT_ERROR_RATIO:
        raise RowRefused(f"columns of model {model!r} do not give its number of parameters")
    return ModelConfig(config=config)
