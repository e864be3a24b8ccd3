"""The JSON Schema of a measurement, for editors and for those who write such files."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from service.descriptions import descriptions
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import OUT_OF_MEMORY, QUANTITIES

#: Where it lies in the catalog's folder.
PATH = Path("measurements") / "measurement.schema.json"


class _Described(GenerateJsonSchema):
    """Writes schemas with the descriptions that stand below the fields."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        written = super().model_schema(schema)
        for name, description in descriptions(schema["cls"]).items():
            written["properties"][name].setdefault("description", description)
        return written


def document_schema() -> str:
    """The schema as the text of its file."""
    schema = MeasurementDocument.model_json_schema(schema_generator=_Described)
    schema["properties"]["measured"]["propertyNames"] = {"enum": [*QUANTITIES, OUT_OF_MEMORY]}
    told = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": PATH.name,
        "title": "Measurement",
    }
    return json.dumps(told | {"$defs": schema.pop("$defs")} | schema | told, indent=2) + "\n"
