"""Schemas whose fields say what they mean.

What stands below a field in its class comes first, then what the catalog's own schemas say of it,
and then the vocabulary that all answers share.
"""

from __future__ import annotations

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema, TypedDictSchema, WithDefaultSchema
from typing_extensions import is_typeddict

from service.api.catalog.described import told_by_catalog
from service.api.http.vocabulary import MEANINGS
from service.descriptions import descriptions
from service.estimation.detail import grouped_fields


class Described(GenerateJsonSchema):
    """Writes schemas with the descriptions that stand below the fields, and no default of null.

    A field that may be left out is not required; generators take one with a default for required.
    """

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """A field with a default; one of null goes without saying."""
        written = super().default_schema(schema)
        if "default" in written and written["default"] is None:
            del written["default"]
        return written

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """A request, with its fields described."""
        return _with_descriptions(super().model_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        """An answer, with its fields described."""
        return _with_descriptions(super().typed_dict_schema(schema), schema["cls"])


def _with_descriptions(written: JsonSchemaValue, class_: type) -> JsonSchemaValue:
    properties = written["properties"]
    shared = MEANINGS if is_typeddict(class_) else {}
    for told in (descriptions(class_), told_by_catalog().get(class_, {}), shared):
        for name in properties.keys() & told.keys():
            properties[name].setdefault("description", told[name])
    for name, group in grouped_fields(class_).items():
        text = f"{properties[name].get('description', '')} Present if include has {group}."
        properties[name]["description"] = text.strip()
    return written
