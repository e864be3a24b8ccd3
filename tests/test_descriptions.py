"""Descriptions of fields, read from the source of their classes."""

from __future__ import annotations

from service.descriptions import descriptions
from service.estimation.storage.requests import NearMemoryRequest
from service.estimation.training.answers import RuntimeParts, TrainingMemory
from service.settings import Settings


def test_the_text_below_a_field_describes_it():
    assert descriptions(TrainingMemory)["capacity_bytes"] == "Memory of the accelerator."
    assert "layers" not in descriptions(TrainingMemory)


def test_fields_keep_the_descriptions_of_where_they_are_inherited_from():
    assert descriptions(RuntimeParts).items() <= descriptions(TrainingMemory).items()


def test_a_text_of_several_lines_is_one_description():
    for class_ in (Settings, NearMemoryRequest, TrainingMemory):
        assert not [text for text in descriptions(class_).values() if "\n" in text or "  " in text]
