"""Figures are declared once: schemas, checks and values of the core follow."""

from __future__ import annotations

from dataclasses import fields

import pytest
from jsonschema import Draft202012Validator

from service.catalog.entries.convert import accelerator_from_document
from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.specs import FIGURES
from service.catalog.files import declared_schemas, read_schemas
from service.core.deployment import Accelerator, Region
from service.core.memory.tiers import Interconnect, MemoryTier
from service.settings import INSTALLATION
from tests.catalog.examples import accelerator, figure

CATALOG = INSTALLATION / "hardware_catalog"
CORE = {
    "accelerators": Accelerator,
    "regions": Region,
    "memory-tiers": MemoryTier,
    "interconnects": Interconnect,
}


def test_schemas_name_the_figures_that_are_declared():
    for path, text in declared_schemas(CATALOG):
        told = f"{path.name}: write it with ./headroom catalog schemas --write"
        assert path.read_text(encoding="utf-8") == text, told


@pytest.mark.parametrize("collection", CORE)
def test_values_of_the_core_are_named_as_figures_are(collection):
    """A field with a unit in its name is a figure of that name."""
    units = ("_bytes", "_bytes_per_s", "_w", "_kgco2e", "_kg", "_per_kwh", "_ratio", "_s", "_j")
    # Two links of an accelerator are made of two figures each, and peaks stand by precision; a
    # limit of power is a request's.
    made = {"peak_flops_per_s", "power_limit_w", "clock_ratio"}
    named = {one.name for one in fields(CORE[collection]) if one.name.endswith(units)}
    assert named - made <= set(FIGURES[collection])


@pytest.mark.parametrize("name", FIGURES["accelerators"])
def test_files_and_requests_are_held_to_the_same_limits(name):
    schema = read_schemas(CATALOG)["accelerators"]
    bounds = FIGURES["accelerators"][name].bounds
    for value, sound in ((bounds.least, True), (bounds.most, True), (2 * bounds.most, False)):
        document = accelerator(**{"scale_out_latency_s": figure(1e-5), name: figure(value)})
        assert isinstance(schema, Draft202012Validator)
        assert schema.is_valid(document) is sound
        if sound:
            accelerator_from_document(document)
        else:
            with pytest.raises(DocumentInvalid, match="must be between"):
                accelerator_from_document(document)
