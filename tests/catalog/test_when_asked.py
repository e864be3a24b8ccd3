"""Values that are made when they are asked for, and a catalog of them."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from threading import Barrier

import pytest

from service.catalog import snapshot
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.entries.when_asked import WhenAsked
from service.catalog.snapshot import snapshot_from_documents
from tests.catalog.examples import small_catalog


def test_each_is_made_once_and_only_if_asked_for() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    held = WhenAsked(["b", "a", "c"], make)
    assert (list(held), len(held), "a" in held, "z" in held) == (["a", "b", "c"], 3, True, False)
    assert made == []
    assert (held["b"], held["b"], held.get("z")) == ("B", "B", None)
    assert made == ["b"]
    with pytest.raises(KeyError):
        held["z"]
    assert dict(held) == {"a": "A", "b": "B", "c": "C"}
    assert made == ["b", "a", "c"]


def test_threads_that_ask_at_once_get_the_same() -> None:
    barrier = Barrier(4)

    def make(_: str) -> object:
        barrier.wait(timeout=300)
        return object()

    held: WhenAsked[object] = WhenAsked(["a"], make)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: held["a"], range(4)))
    assert len({id(one) for one in found}) == 1


def test_a_checked_catalog_is_the_same_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_CONVERTED", deque())
    documents = small_catalog()
    whole = snapshot_from_documents(documents, 3)
    asked = snapshot_from_documents(documents, 3, checked=True)
    assert asked.documents() == whole.documents()
    assert asked.content_hash == whole.content_hash
    for collection, entries in documents.items():
        for entry_id in entries:
            one, other = asked.find(collection, entry_id), whole.find(collection, entry_id)
            assert (one.id, one.origins, one.stale) == (other.id, other.origins, other.stale)
    # Accelerators are compared by identity.
    one, other = (
        asked.find("accelerators", "Acme ONE").value,
        whole.find("accelerators", "one").value,
    )
    assert asdict(one) == asdict(other)


def test_what_is_not_known_to_convert_is_converted_at_once() -> None:
    documents = small_catalog()
    del documents["accelerators"]["acme-one-80gb"]["figures"]["memory_bytes"]
    for _ in range(2):
        with pytest.raises(CatalogInvalid, match="memory_bytes"):
            snapshot_from_documents(documents, 0)


def test_what_converted_once_is_converted_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first = snapshot_from_documents(small_catalog(), 1)
    monkeypatch.delattr(snapshot, "model_from_document")
    again = snapshot_from_documents(small_catalog(), 2)
    assert (again.revision, again.content_hash) == (2, first.content_hash)
    with pytest.raises(NameError):
        again.find("models", "acme/tiny")
