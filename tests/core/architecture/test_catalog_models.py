"""Every model of the shipped catalog comes out at the parameter count its publisher states."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.catalog.entries.models import model_from_document
from service.core.architecture.config import parse_config
from service.core.number_formats import NUMBER_FORMATS

MODEL_FILES = sorted(Path(__file__).parents[3].glob("hardware_catalog/models/*.yaml"))

#: What a published count may depart by: the rounding of counts given in units of 0.1 B on the
#: smallest models apart, counts are exact.
TOLERANCE = 1e-3


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return document


def test_the_catalog_has_models():
    assert len(MODEL_FILES) >= 350


def test_models_say_when_by_whom_and_under_which_licence():
    owners: dict[str, set[str]] = {}
    for path in MODEL_FILES:
        document = load(path)
        assert document["release_year"] >= 2017, path.stem
        assert document["licence"], path.stem
        owner = document["id"].partition("/")[0].casefold()
        owners.setdefault(owner, set()).add(document["organisation"])
    assert {owner: names for owner, names in owners.items() if len(names) > 1} == {}
    spelled = {name for names in owners.values() for name in names}
    assert len({name.casefold().replace(" ", "") for name in spelled}) == len(spelled)


DOCUMENTS = {document["id"]: document for document in map(load, MODEL_FILES)}
RELEASES = [name for name, document in DOCUMENTS.items() if "base_model" in document]


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - set(RELEASES)))
def test_models_are_known_and_as_large_as_published(name):
    architecture = parse_config(DOCUMENTS[name]["config"])
    published = DOCUMENTS[name]["published_parameters"]["value"]
    assert architecture.total_parameters == pytest.approx(published, rel=TOLERANCE)
    codes = {warning.code for warning in architecture.warnings}
    assert not codes & {"unknown_model_type", "unknown_quantization"}


@pytest.mark.parametrize("name", RELEASES)
def test_releases_have_the_layers_of_their_base_in_fewer_bits(name):
    entry = model_from_document(DOCUMENTS[name], DOCUMENTS.get)
    base = parse_config(DOCUMENTS[DOCUMENTS[name]["base_model"]]["config"])
    release = entry.value
    assert release.total_parameters == base.total_parameters
    assert "unknown_quantization" not in {warning.code for warning in release.warnings}
    stored = release.native_number_format or NUMBER_FORMATS[release.native_format]
    assert stored.bits_per_element <= 8.5
    assert release.native_format in DOCUMENTS[name].get("formats", [release.native_format])


def test_releases_are_of_all_usual_formats():
    found = {
        model_from_document(DOCUMENTS[name], DOCUMENTS.get).value.native_format for name in RELEASES
    }
    assert found >= {"fp8", "int8", "awq-int4", "gptq-int4", "gptq-int8", "nvfp4", "gguf-q4_k_m"}


def test_quality_effects_are_scores_of_the_same_kind():
    effects = [effect for name in RELEASES for effect in DOCUMENTS[name].get("quality_effects", [])]
    assert len(effects) >= 75
    for effect in effects:
        # Quantising costs a few percent, or one would not publish it: most (18 %) of all costs
        # NVFP4 a Ministral in following instructions.
        assert effect["value"] == pytest.approx(effect["base"], rel=0.2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("moonshotai/Kimi-K2-Thinking", "int4"),
        ("moonshotai/Kimi-K2.5", "int4"),
        ("MiniMaxAI/MiniMax-M2", "fp8"),
        ("MiniMaxAI/MiniMax-M2.7", "fp8"),
        ("deepseek-ai/DeepSeek-V3.1", "fp8"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "fp8"),
        ("mistralai/Devstral-Small-2-24B-Instruct-2512", "fp8"),
        ("openai/gpt-oss-120b", "mxfp4"),
    ],
)
def test_models_come_in_the_format_that_they_are_stored_in(name, expected):
    """Not in 16 bit, which would ask for two to four times the memory of the checkpoint."""
    architecture = parse_config(DOCUMENTS[name]["config"])
    stored = architecture.native_number_format or NUMBER_FORMATS[architecture.native_format]
    assert expected in stored.id
    assert stored.bits_per_element <= 8.5
