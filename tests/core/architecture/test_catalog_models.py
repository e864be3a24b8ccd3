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
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def test_the_catalog_has_models():
    assert len(MODEL_FILES) >= 25


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: path.stem)
def test_total_parameters(path):
    document = load(path)
    computed = parse_config(document["config"]).total_parameters
    assert computed == pytest.approx(document["published_parameters"]["value"], rel=TOLERANCE)


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: path.stem)
def test_model_types_are_known(path):
    codes = {warning.code for warning in parse_config(load(path)["config"]).warnings}
    assert not codes & {"unknown_model_type", "unknown_quantization"}
