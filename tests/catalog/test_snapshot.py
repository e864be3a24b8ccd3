from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.entries.documents import canonical, canonical_bytes, content_hash, hashes_of
from service.catalog.entries.references import ReferenceIndex, UnknownReference
from service.catalog.entries.shelf_life import stale_figures
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from tests.catalog.examples import small_catalog

SNAPSHOT = snapshot_from_documents(small_catalog(), revision=3)


@pytest.mark.parametrize(
    ("reference", "entry_id"),
    [
        ("acme-one-80gb", "acme-one-80gb"),
        ("ACME-One-80GB", "acme-one-80gb"),
        ("acme one 80gb", "acme-one-80gb"),
        ("Acme_One", "acme-one-80gb"),
        ("one", "acme-one-80gb"),
    ],
)
def test_an_accelerator_goes_by_several_names(reference: str, entry_id: str) -> None:
    assert SNAPSHOT.find("accelerators", reference).id == entry_id


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownReference) as caught:
        SNAPSHOT.find("regions", "aws/eu-norht-1")
    assert caught.value.suggestions[0] == "aws/eu-north-1"
    assert caught.value.collection == "regions"


@pytest.mark.parametrize("reference", ["", "\0", "%", "x" * 100_000, "🜂"])
def test_hostile_names_are_unknown(reference: str) -> None:
    with pytest.raises(UnknownReference) as caught:
        SNAPSHOT.find("models", reference)
    assert len(str(caught.value)) < 400


def test_there_are_five_collections() -> None:
    with pytest.raises(KeyError):
        SNAPSHOT.find("revision", "one")


def test_a_loose_name_of_two_entries_means_neither() -> None:
    index = ReferenceIndex({"aws/us-east-1": ["us-east-1"], "gcp/us-east1": ["us-east1"]})
    assert index.find("US-East-1") == "aws/us-east-1"
    assert index.find("us-east1") == "gcp/us-east1"
    assert index.find("us east 1") is None
    assert set(index.suggestions("us east 1")) == {"aws/us-east-1", "gcp/us-east1"}


def test_an_id_wins_over_an_alias() -> None:
    index = ReferenceIndex({"big": ["small"], "small": []})
    assert index.find("Small") == "small"


@pytest.mark.parametrize(
    ("reference", "nearest"),
    [
        ("nvidia-h100-sxm-81gb", "nvidia-h100-sxm-80gb"),
        ("h100sxm80", "nvidia-h100-sxm-80gb"),
        ("mi300x-pro", "amd-mi300x-192gb"),
        ("rtx 4090 ti", "nvidia-rtx-4090-24gb"),
    ],
)
def test_suggestions_among_the_packaged_accelerators(
    packaged_snapshot: CatalogSnapshot, reference: str, nearest: str
) -> None:
    with pytest.raises(UnknownReference) as caught:
        packaged_snapshot.find("accelerators", reference)
    assert nearest in caught.value.suggestions[:3]


@pytest.mark.parametrize(
    ("word", "makers"),
    [("groq", {"groq"}), ("Tenstorrent", {"tenstorrent"}), ("xeon", {"intel"}), ("zzzzz", set())],
)
def test_one_word_suggests_only_what_has_it_or_one_like_it(
    packaged_snapshot: CatalogSnapshot, word: str, makers: set[str]
) -> None:
    with pytest.raises(UnknownReference) as caught:
        packaged_snapshot.find("accelerators", word)
    assert {one.split("-")[0] for one in caught.value.suggestions} == makers


def test_a_snapshot_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SNAPSHOT.revision = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        SNAPSHOT.models["x"] = SNAPSHOT.models["acme/tiny"]  # type: ignore[index]


def test_a_snapshot_gives_back_its_documents() -> None:
    assert hashes_of(SNAPSHOT.documents()) == hashes_of(small_catalog())
    read = {
        collection: {id_: canonical(document) for id_, document in entries.items()}
        for collection, entries in small_catalog().items()
    }
    assert snapshot_from_documents(read, 1).content_hash == content_hash(hashes_of(small_catalog()))


def test_calibrations_are_constants_by_name() -> None:
    constants = SNAPSHOT.calibrations["catalog/stand-ins"].value
    assert constants["pue_ratio"].high == 1.9


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**20), 10**20)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.text(max_size=3).filter(lambda key: "\0" not in key and key.isprintable()), inner
            )
        ),
        max_leaves=10,
    )
)
def test_the_canonical_form_is_final(value: object) -> None:
    once = canonical({"it": value})
    assert canonical(once) == once
    assert canonical_bytes(once) == canonical_bytes({"it": value})


def test_whole_numbers_are_one_document_however_they_are_written() -> None:
    assert canonical_bytes({"a": 80.0, "b": 1e22}) == canonical_bytes({"b": 10**22, "a": 80})


def test_figures_past_their_shelf_life_are_known_as_such() -> None:
    documents = small_catalog()
    grid = documents["regions"]["country/SE"]["figures"]["grid_gco2e_per_kwh"]
    assert snapshot_from_documents(documents, 1).regions["aws/eu-north-1"].stale == ()
    del grid[1]
    stale = snapshot_from_documents(documents, 1)
    assert stale.regions["country/SE"].stale == ("grid_gco2e_per_kwh",)
    assert stale.regions["aws/eu-north-1"].stale == ("grid_gco2e_per_kwh",)
    told = [(one.entry_id, one.name, one.year) for one in stale_figures(documents, 2026)]
    assert told == [
        ("country/SE", "grid_gco2e_per_kwh", 2022),
        ("aws/acme.8x", "price", 2024),
    ]
    documents["accelerators"]["acme-one-80gb"]["announced"] = True
    told = [(one.entry_id, one.name, one.year) for one in stale_figures(documents, 2026)]
    assert ("acme-one-80gb", "announced", 2024) in told
    assert ("acme-one-80gb", "announced", 2024) not in [
        (one.entry_id, one.name, one.year) for one in stale_figures(documents, 2024)
    ]
    # Not to the present: the same catalog says the same of itself at any time.
    documents["sources"]["sheet"]["retrieved"] = "2025-01-01"
    assert snapshot_from_documents(documents, 1).regions["country/SE"].stale == ()
