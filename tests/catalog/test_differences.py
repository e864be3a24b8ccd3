from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.differences import FieldChange, differences
from tests.catalog.examples import accelerator, figure, small_catalog

ONE = "acme-one-80gb"


def test_entries_come_go_and_change():
    older, newer = small_catalog(), small_catalog()
    newer["accelerators"][ONE] = accelerator(memory_bytes=figure(96e9))
    newer["accelerators"][ONE]["aliases"] = ["one"]
    newer["models"]["new"] = {"id": "new"}
    del newer["instances"]["aws/acme.8x"]
    found = {(one.collection, one.entry_id): one for one in differences(older, newer)}
    assert {key: one.change for key, one in found.items()} == {
        ("accelerators", ONE): "changed",
        ("models", "new"): "added",
        ("instances", "aws/acme.8x"): "removed",
    }
    assert found["accelerators", ONE].fields == (
        FieldChange("/aliases/1", "acme-one", None, "after"),
        FieldChange("/figures/memory_bytes/value", 80e9, 96e9, None),
    )


def test_nothing_changed_is_no_difference():
    assert list(differences(small_catalog(), deepcopy(small_catalog()))) == []


@pytest.mark.parametrize(
    ("before", "after", "pointers"),
    [
        ([True, True, True], [True, True, 1], ["/config/2"]),
        ({"bias": True}, {"bias": 1}, ["/config/bias"]),
        ([[0]], [[False]], ["/config/0/0"]),
        ([True, 1.0, 0], [True, 1, 0.0], []),
    ],
)
def test_truths_are_no_numbers_and_numbers_of_equal_value_are_equal(before, after, pointers):
    found = differences(
        {"models": {"m": {"id": "m", "config": before}}},
        {"models": {"m": {"id": "m", "config": after}}},
    )
    assert [field.pointer for one in found for field in one.fields] == pointers


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_whatever_differs_is_told_and_nothing_else(before, after):
    older = {"models": {"m": {"id": "m", "config": before}}}
    newer = {"models": {"m": {"id": "m", "config": after}}}
    found = list(differences(older, newer))
    assert bool(found) == (repr(sorted_(before)) != repr(sorted_(after)))
    back = list(differences(newer, older))
    assert [field.pointer for one in found for field in one.fields] == [
        field.pointer for one in back for field in one.fields
    ]


def sorted_(value):
    """The same with the keys of objects in order."""
    if isinstance(value, dict):
        return {key: sorted_(value[key]) for key in sorted(value)}
    return [sorted_(item) for item in value] if isinstance(value, list) else value
