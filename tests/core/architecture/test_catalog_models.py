"""Every model of the shipped catalog comes out at the parameter count its publisher states."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.core.architecture.config import parse_config

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


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: path.stem)
def test_models_are_known_and_as_large_as_published(path):
    document = load(path)
    architecture = parse_config(document["config"])
    published = document["published_parameters"]["value"]
    assert architecture.total_parameters == pytest.approx(published, rel=TOLERANCE)
    codes = {warning.code for warning in architecture.warnings}
    assert not codes & {"unknown_model_type", "unknown_quantization"}
