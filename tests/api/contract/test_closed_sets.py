"""Closed sets of values have one type each in the OpenAPI document."""

from collections import Counter

import pytest

from service.api.http.closed_sets import NAMED, values_in

#: Parts of a path and switches of one operation, which no schema has a field for.
UNNAMED = {("sci", "ghg-protocol", "eed", "csrd", "ai-act-annex-xi"), ("true", "false")}


@pytest.fixture(scope="module")
def document(app):
    return app.openapi()


def test_values_that_stand_in_several_places_have_a_name(document):
    written = Counter(
        tuple(one["enum"])
        for part in (document["paths"], document["components"]["schemas"])
        for one in values_in(part)
        if len(one["enum"]) > 1 and all(isinstance(value, str) for value in one["enum"])
    )
    again = {values for values, times in written.items() if times > 1}
    assert again - UNNAMED == set(), "name them in service.api.http.closed_sets"


def test_every_name_is_of_another_set_and_is_used(document):
    schemas = document["components"]["schemas"]
    assert len({tuple(schemas[name]["enum"]) for name in NAMED}) == len(NAMED)
    told = str(document)
    for name in NAMED:
        assert told.count(f"'#/components/schemas/{name}'") > 1, name


def test_number_formats_are_one_type_in_requests(document):
    schemas = document["components"]["schemas"]
    for field in ("weights", "kv_cache", "activations"):
        options = schemas["PrecisionRequest"]["properties"][field]["anyOf"]
        assert {"$ref": "#/components/schemas/NumberFormat"} in options
    assert {"bf16", "gguf-q4_k_m"} <= set(schemas["NumberFormat"]["enum"])
