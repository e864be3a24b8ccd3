"""Files that change the catalog: what goes out comes back, and bad ones are told their faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.entries.checks import check_documents
from service.catalog.exchange.positions import FileUnreadable, json_positions
from service.catalog.exchange.reading import FileInvalid, read_catalog_file
from service.catalog.exchange.writing import catalog_file
from service.catalog.files import read_schemas
from service.settings import INSTALLATION
from tests.catalog.examples import accelerator, small_catalog
from tests.conftest import packaged

CATALOG = INSTALLATION / "hardware_catalog"
SCHEMAS = read_schemas(CATALOG)
DOCUMENTS = packaged()


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_whole_catalog_comes_back(form):
    text = catalog_file(DOCUMENTS, form, tuple(DOCUMENTS), SCHEMAS)
    read = read_catalog_file(text.encode(), form, None, SCHEMAS)
    assert {
        (collection, entry_id): document
        for collection, entries in DOCUMENTS.items()
        for entry_id, document in entries.items()
    } == read.entries


#: Constants have columns of any names; offers are tables within an entry.
_NO_TABLES = ("calibrations", "offers")


@pytest.mark.parametrize("collection", [name for name in DOCUMENTS if name not in _NO_TABLES])
def test_every_collection_comes_back_from_a_table(collection):
    text = catalog_file(DOCUMENTS, "csv", [collection], SCHEMAS)
    read = read_catalog_file(text.encode(), "csv", collection, SCHEMAS)
    assert {entry_id: document for (_, entry_id), document in read.entries.items()} == DOCUMENTS[
        collection
    ]


def errors_of(content: str | bytes, form: Any = "yaml", collection: str | None = None) -> list[Any]:
    raw = content.encode() if isinstance(content, str) else content
    with pytest.raises(FileInvalid) as caught:
        read_catalog_file(raw, form, collection, SCHEMAS)
    return [(one.pointer, one.position, one.detail) for one in caught.value.errors]


@pytest.mark.parametrize(
    ("content", "form", "collection", "pointer", "position", "said"),
    [
        ("a: [1, 2", "yaml", None, "", (2, 1), "expected"),
        ("- id: x\n  a: &b 1\n  c: *b\n", "yaml", "models", "/0/c", (2, 6), "aliases"),
        ("- id: x\n  id: y\n", "yaml", "models", "", (2, 3), "twice"),
        ("- id: x\n- id: x\n", "yaml", "models", "/1", (2, 3), "twice"),
        ("- name: x\n", "yaml", "models", "/0", (1, 3), "needs an id"),
        ("- [1]\n", "yaml", "models", "/0", (1, 3), "must be an entry"),
        ("? [a]\n: 1\n", "yaml", None, "", (1, 3), "plain text"),
        ("cars: []\n", "yaml", None, "/cars", (1, 7), "no such collection"),
        ("models: 7\n", "yaml", None, "/models", (1, 9), "must be a list"),
        ("remove:\n  models: [3]\n", "yaml", None, "/remove/models/0", (2, 12), "the id"),
        ("- id: x\n", "yaml", None, "", None, "needs the name of its collection"),
        ("just text", "yaml", None, "", None, "must be a list"),
        ("", "yaml", None, "", None, "must be a list"),
        ("models: []", "yaml", None, "", None, "is empty"),
        ("- id: x\n  value: .inf\n", "yaml", "models", "", None, "nothing"),
        ("- id: x\n  value: 1e999\n", "yaml", "models", "/0/value", (2, 10), "finite"),
        ('{"models": [1,]}', "json", None, "", (1, 14), "trailing"),
        ('{"models": [\n {"id": "x", "id": "y"}]}', "json", None, "/models/0", (2, 14), "twice"),
        ('[{"id": "x",\n  "name": "\\u0000"}]', "json", "models", "/0/name", (2, 11), "NUL"),
        ('id,name\nx,"y\n', "csv", "models", "", (2, 1), "end of data"),
        ("name\nx\n", "csv", "models", "", (1, 1), "one of them id"),
        ("id,id\nx,y\n", "csv", "models", "", (1, 1), "twice"),
        ("id\nx,y\n", "csv", "models", "/0", (2, 2), "more cells"),
        ("id,release_year\nx,old\n", "csv", "accelerators", "/0/release_year", (2, 2), "number"),
        ("id,prices.1.value\nx,2\n", "csv", "instances", "/0/prices/1/value", (2, 2), "from 0"),
        ("id,a.b,a\nx,2,3\n", "csv", "models", "/0/a", (2, 3), "another column"),
        ("id,a,a.b\nx,2,3\n", "csv", "models", "/0/a/b", (2, 3), "another column"),
        ("id,a..b\nx,2\n", "csv", "models", "/0/a//b", (2, 2), "not a path"),
        ("id\nx\n", "csv", None, "", None, "needs the name of its collection"),
        (b"- id: \xff\n", "yaml", "models", "", (1, 1), "UTF-8"),
        ("- id: 'a\0'\n", "yaml", "models", "", None, "NUL"),
    ],
)
def test_each_fault_is_told_with_its_place(content, form, collection, pointer, position, said):
    if said == "nothing":  # sound as a file; whether the catalog takes it is another question
        read_catalog_file(content.encode(), form, collection, SCHEMAS)
        return
    (error, *_) = errors_of(content, form, collection)
    assert error[:2] == (pointer, position)
    assert said in error[2]


def test_every_fault_is_told_at_once():
    found = errors_of("models:\n- name: a\n- id: b\n- id: b\nregions:\n- 3\n")
    assert [(pointer, position) for pointer, position, _ in found] == [
        ("/models/0", (2, 3)),
        ("/models/2", (4, 3)),
        ("/regions/0", (6, 3)),
    ]


def test_what_the_catalog_says_is_told_at_its_line():
    bad = accelerator("acme-two")
    bad["aliases"] = []
    bad["figures"]["memory_bytes"] = {"value": -1, "year": 2024, "source": "x", "kind": "datasheet"}
    text = json.dumps({"accelerators": [bad]}, indent=1)
    read = read_catalog_file(text.encode(), "json", None, SCHEMAS)
    documents = small_catalog()
    documents["accelerators"]["acme-two"] = bad
    located = read.located(check_documents(documents, SCHEMAS)).errors
    lines = text.splitlines()
    told = {error.pointer: error for error in located}
    source = told["/accelerators/0/figures/memory_bytes/source"]
    assert source.position is not None
    assert lines[source.position[0] - 1][source.position[1] - 1 :].startswith('"x"')
    assert "/accelerators/0/figures/memory_bytes/value" in told


def test_nested_beyond_reason():
    deep = "[" * 600 + "]" * 600
    assert "nested" in errors_of(deep, "yaml", "models")[0][2]
    assert "nested" in errors_of(deep, "json", "models")[0][2]


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert "aliases" in errors_of("\n".join(lines), "yaml", None)[0][2]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=12,
    )
)
def test_positions_in_json_point_at_the_parts(value):
    text = json.dumps(value, indent=2)
    lines = text.splitlines()
    for pointer, (line, column) in json_positions(text).items():
        part = value
        for key in pointer.split("/")[1:]:
            name = key.replace("~1", "/").replace("~0", "~")
            part = part[int(name)] if isinstance(part, list) else part[name]
        begins = json.dumps(part)[:1]
        assert lines[line - 1][column - 1 :].startswith(begins)


@given(st.binary(max_size=200), st.sampled_from(["yaml", "json", "csv"]))
def test_whatever_is_sent_is_read_or_refused(content, form):
    try:
        read_catalog_file(content, form, "models", SCHEMAS)
    except FileInvalid as invalid:
        refused = invalid.errors
    else:
        return
    assert refused


@given(st.text(alphabet="-[]{}:,&*?|>!%@'\"\\ \n\tabid01.~#", max_size=60))
def test_yaml_of_all_kinds_is_read_or_refused(content):
    for collection in ("models", None):
        refused = [True]
        try:
            read_catalog_file(content.encode(), "yaml", collection, SCHEMAS)
        except FileInvalid as invalid:
            refused = list(invalid.errors)
        assert refused


def test_deep_json_is_refused_before_it_is_walked():
    with pytest.raises(FileUnreadable):
        json_positions("[" * 50 + "]" * 50)


@pytest.mark.parametrize("opened", ["[", "{a: ", "- ", "? ", "[{a: "])
def test_nesting_that_would_end_the_process_is_refused(opened):
    """The library that builds YAML calls itself for each level, until the stack is full."""
    assert "nested" in errors_of(opened * 200_000, "yaml", "models")[0][2]


LONG = "k" * 200_000
NOUGHTS = ",".join(["0"] * 20_000)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (f'{{"models":{{"{LONG}":[{NOUGHTS}]}}}}', "json"),
        (f"? {LONG}\n: [{NOUGHTS}]", "yaml"),
        (f"[{NOUGHTS * 20}]", "yaml"),
        (f"[{NOUGHTS}{f',{NOUGHTS}' * 20}]", "json"),
        ("id\n" + "a,a\n" * 400_000, "csv"),
        (f"id,{'n' * 100_000}\n" + "a,1\n" * 1_000, "csv"),
    ],
    ids=["long key, json", "long key, yaml", "items, yaml", "items, json", "rows", "long column"],
)
def test_a_bomb_of_parts_is_refused(content, form):
    """A key stands in the pointers of all that is under it: 4 GB for the first of these."""
    assert "too many parts" in errors_of(content, form, "models")[0][2]


@pytest.mark.parametrize(
    "value",
    ["!!float abc", "!!timestamp 2026-99-99", "!!bool x", "!!int ''", "!local x", "1" * 5_000],
)
def test_values_that_python_cannot_make_are_refused(value):
    told = errors_of(f"- {{id: x, a: {value}}}", "yaml", "models")[0][2]
    assert "tag" in told or "not valid YAML" in told


def test_columns_of_thousands_of_steps_are_refused():
    content = f"id,{'figures.' * 16_000}x\n1,2\n"
    assert "not a path" in errors_of(content, "csv", "models")[0][2]
