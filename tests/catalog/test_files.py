from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from service.catalog import files
from service.catalog.entries.checks import check_documents, schemas_from
from service.catalog.entries.documents import CatalogInvalid, canonical_set, document_hash
from service.catalog.files import checked_files, packaged_documents, read_files, read_schemas
from service.settings import INSTALLATION
from tests.catalog.examples import accelerator, figure, rule, small_catalog, write_catalog

ONE = "acme-one-80gb"


def complaints(directory: Path) -> list[str]:
    with pytest.raises(CatalogInvalid) as caught:
        packaged_documents(directory)
    assert str(caught.value).count("\n") + 1 >= len(caught.value.errors)
    return [str(error) for error in caught.value.errors]


def test_the_packaged_catalog_is_sound() -> None:
    documents = packaged_documents(INSTALLATION / "hardware_catalog")
    assert all(documents[collection] for collection in ("accelerators", "sources", "calibrations"))
    schemas = read_schemas(INSTALLATION / "hardware_catalog")
    assert {collection for collection, entries in documents.items() if entries} <= set(schemas)


def test_what_met_a_schema_is_held_to_another_one_all_the_same() -> None:
    documents = canonical_set(small_catalog())
    one = documents["accelerators"][ONE]
    schemas = read_schemas(INSTALLATION / "hardware_catalog")
    assert check_documents(documents, schemas) == []
    strict = schemas_from({"accelerators": {"type": "object", "required": ["colour"]}})
    for told in (strict, strict, schemas):
        found = [each.entry_id for each in check_documents(documents, told)]
        assert found == ([ONE] if told is strict else [])
    changed = deepcopy(one)
    changed["colour"] = "green"
    assert document_hash(changed) != document_hash(one)
    documents = {**documents, "accelerators": {ONE: changed}}
    assert [each.entry_id for each in check_documents(documents, schemas)] == [ONE]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    documents = packaged_documents(write_catalog(tmp_path, small_catalog()))
    assert documents == small_catalog()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small catalog in the place of the installed one, and no cache of it yet."""
    directory = write_catalog(tmp_path / "catalog", small_catalog())
    monkeypatch.setattr(files, "_INSTALLED", directory)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return directory


def test_the_installed_catalog_is_read_once(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = packaged_documents(installed)
    with monkeypatch.context() as patch:
        patch.delattr(files, "read_files")
        assert packaged_documents(installed) == first == small_catalog()


def test_what_was_read_need_not_be_held_to_its_schema_again(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = read_schemas(installed)
    for _ in range(2):  # from the files, and from what is kept of them
        documents = packaged_documents(installed)
        with monkeypatch.context() as patch:
            patch.delattr(Draft202012Validator, "iter_errors")
            assert check_documents(documents, schemas) == []


def test_a_changed_file_is_read_and_checked_again(installed: Path) -> None:
    packaged_documents(installed)
    [path] = (installed / "accelerators").glob("*.yaml")
    path.write_text(path.read_text().replace('"source": "', '"source": "no-such-'))
    assert "no-such-" in complaints(installed)[0]


def test_changed_code_reads_and_checks_again(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged_documents(installed)
    monkeypatch.setattr(files, "INSTALLATION", installed)
    monkeypatch.delattr(files, "read_files")
    with pytest.raises(NameError):
        packaged_documents(installed)


def test_catalogs_of_installations_that_are_gone_are_forgotten(
    installed: Path, tmp_path: Path
) -> None:
    packaged_documents(installed)
    folder = tmp_path / "cache" / "headroom" / "catalog"
    [own] = folder.iterdir()
    others = [folder / f"{at}.json" for at in range(10)]
    for at, other in enumerate(others):
        other.write_bytes(b"")
        os.utime(other, (at, at))
    os.utime(own, (0, 0))
    packaged_documents(installed)  # used: now it is the latest
    [path] = (installed / "accelerators").glob("*.yaml")
    path.write_text(path.read_text() + "\n")
    packaged_documents(installed)  # read anew: older ones go
    assert set(folder.iterdir()) == {own, *others[3:]}


@pytest.mark.parametrize("left", [b"", b"\n{}", None])
def test_a_damaged_cache_counts_for_nothing(
    installed: Path, tmp_path: Path, left: bytes | None
) -> None:
    packaged_documents(installed)
    [kept] = (tmp_path / "cache" / "headroom" / "catalog").iterdir()
    kept.write_bytes(kept.read_bytes()[:-9] if left is None else left)
    assert packaged_documents(installed) == small_catalog()


def test_without_a_place_for_the_cache_the_catalog_is_read(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert packaged_documents(installed) == small_catalog()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("true", True),
        ("2026-11-20", "2026-11-20"),
        ("3.35e12", 3350000000000),
        ("9.0e-06", 9e-06),
        ("-.5", -0.5),
        ("1:30", "1:30"),
        ("010", 10),
        ("~", None),
        ("", None),
        ("1_000", "1_000"),
    ],
)
def test_yaml_means_what_it_looks_like(tmp_path: Path, text: str, value: Any) -> None:
    (tmp_path / "regions").mkdir()
    (tmp_path / "regions" / "x.yaml").write_text(f"id: x\nnotes: {text}\n")
    assert read_files(tmp_path).documents["regions"]["x"]["notes"] == value


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"accelerator": "abacus"}, "no accelerator 'abacus'"),
        ({"accelerators": 0}, "minimum"),
        ({"described_by": "hearsay"}, "no source 'hearsay'"),
        ({"prices": [figure(1.0) | {"region": "aws/atlantis"}]}, "no region 'aws/atlantis'"),
        ({"prices": [figure(1.0), figure(2.0)]}, "already has a price"),
        ({"prices": [figure(1.0) | {"source": "hearsay"}]}, "no source 'hearsay'"),
        ({"prices": [figure(-1.0)]}, "-1 is less"),
        ({"prices": [figure(1.0) | {"date": "yesterday"}]}, "yesterday"),
    ],
)
def test_instances_refer_to_what_there_is(tmp_path: Path, change: Any, told: str) -> None:
    documents = small_catalog()
    documents["instances"]["aws/acme.8x"] |= change
    lines = complaints(write_catalog(tmp_path, documents))
    assert any("aws/acme.8x" in line and told in line for line in lines), lines


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"regions": ["country/XX"]}, "no region 'country/XX'"),
        ({"source": "hearsay"}, "no source 'hearsay'"),
        ({"begins": "2027-01-01", "ends": "2026-01-01"}, "is not after begins"),
        ({"effect": "wish"}, "wish"),
        ({"requires": [{"fact": "x", "comparison": "at_most", "value": "much"}]}, "a number"),
        ({"requires": [{"fact": "x", "comparison": "nearly", "value": 1}]}, "nearly"),
        ({"requires": [{"fact": "x", "comparison": "from", "value": 1}]}, "a day"),
    ],
)
def test_rules_are_whole(tmp_path: Path, change: Any, told: str) -> None:
    documents = small_catalog()
    documents["rules"] = {"se-pue": rule(**change)}
    lines = complaints(write_catalog(tmp_path, documents))
    assert any("se-pue" in line and told in line for line in lines), lines


def test_every_error_of_every_file_is_told(tmp_path: Path) -> None:
    directory = write_catalog(tmp_path, small_catalog())
    (directory / "accelerators" / "broken.yaml").write_text("id: [")
    (directory / "accelerators" / "twice.yaml").write_text("id: a\nid: b\n")
    (directory / "accelerators" / "infinite.yaml").write_text("{id: a, figures: 1e999}")
    (directory / "regions" / "nameless.yaml").write_text("- {name: nobody}\n- just text\n")
    (directory / "sources" / "again.yaml").write_text("- {id: sheet}\n")
    told = complaints(directory)
    for file, detail in (
        ("accelerators/broken.yaml", ""),
        ("accelerators/twice.yaml", "'id' occurs twice"),
        ("accelerators/infinite.yaml", "finite"),
        ("regions/nameless.yaml", "/0: every entry needs an id"),
        ("regions/nameless.yaml", "/1: every entry needs an id"),
        ("sources/again.yaml", "taken by sources/0.yaml"),
    ):
        assert any(file in line and detail in line for line in told), (file, detail, told)


def changed(**figures: Any) -> dict[str, Any]:
    return accelerator(**figures)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (changed(memory_bytes=figure(80e9, source="hearsay")), "no source 'hearsay'"),
        (changed(memory_bytes={"value": 80e9, "year": 2024, "kind": "measured"}), "source"),
        (changed(memory_bytes=figure(80e9, kind="derived")), "'note' is a required property"),
        (changed(memory_bytes=figure(80e9, low=1e9)), "'high' is a dependency"),
        (changed(memory_bytes=figure(80e9, low=81e9, high=82e9)), "low ≤ value ≤ high"),
        (changed(peak_fp8_flops_per_s=figure(9e14)), "is below peak_bf16_flops_per_s"),
        (changed(peak_fp8_flops_per_s=figure(4e15)), "is above 2.2 x peak_bf16_flops_per_s"),
        (
            changed(
                memory_bus_bits=figure(5120),
                memory_data_rate_bits_per_s=figure(3.2e9, kind="measured"),
            ),
            "that a bus of 5120 bit carries",
        ),
        (changed(memory_usable_bytes=figure(81e9)), "is above memory_bytes"),
        (changed(memory_usable_bytes=figure(8e9)), "is less than half"),
        (changed(idle_power_w=figure(700)), "is not below thermal_design_power_w"),
        (changed(warp_factor=figure(9)), "warp_factor"),
        (changed() | {"aliases": ["one", "two", "three!"]}, "three!"),
        (changed() | {"released": {"date": "2024-07", "source": "rumour"}}, "no source 'rumour'"),
        (
            changed() | {"released": {"date": "2023-07", "source": "sheet"}},
            "is not in release_year",
        ),
        (changed() | {"released": {"date": "2024-13", "source": "sheet"}}, "does not match"),
        (changed() | {"released": {"date": "2024-07"}}, "'source' is a required property"),
    ],
)
def test_an_unsound_accelerator_is_named(
    tmp_path: Path, document: dict[str, Any], told: str
) -> None:
    documents = small_catalog()
    documents["accelerators"][ONE] = document
    lines = complaints(write_catalog(tmp_path, documents))
    assert any(told in line for line in lines), lines
    assert all(
        line.startswith("accelerators/0.yaml: accelerators acme-one-80gb /") for line in lines
    )


def test_names_must_mean_one_thing(tmp_path: Path) -> None:
    documents = small_catalog()
    documents["accelerators"]["acme-two"] = accelerator("acme-two") | {"aliases": ["acme-One"]}
    assert any(
        "already means acme-one-80gb" in line
        for line in complaints(write_catalog(tmp_path, documents))
    )


def test_orphans_and_disorder_among_regions(tmp_path: Path) -> None:
    documents = deepcopy(small_catalog())
    documents["regions"]["aws/eu-north-1"]["parent"] = "country/NO"
    documents["regions"]["country/SE"]["figures"]["grid_gco2e_per_kwh"].reverse()
    documents["models"]["acme/tiny"]["config_source"] = "rumour"
    documents["models"]["acme/tiny"]["config"]["hidden_size"] = -1
    lines = complaints(write_catalog(tmp_path, documents))
    for told in (
        "aws/eu-north-1 /parent: no region 'country/NO'",
        "country/SE /figures/grid_gco2e_per_kwh: dated figures must be sorted",
        "acme/tiny /config_source: no source 'rumour'",
    ):
        assert any(told in line for line in lines), lines


def test_a_model_that_cannot_be_computed_is_told(tmp_path: Path) -> None:
    documents = small_catalog()
    documents["models"]["acme/tiny"]["config"]["hidden_size"] = -1
    lines = complaints(write_catalog(tmp_path, documents))
    assert any("acme/tiny /config" in line for line in lines), lines


def test_texts_are_checked_with_the_catalog_and_stay_out_of_it(tmp_path: Path) -> None:
    directory = write_catalog(tmp_path, small_catalog())
    text = {
        "id": "a-claim",
        "documents": ["001"],
        "subject": "Something",
        "stated": "ten times",
        "unit": None,
        "verdict": "unsupported",
        "note": "No source was found.",
        "sources": ["unheard-of"],
    }
    (directory / "claims").mkdir()
    (directory / "claims" / "claims.yaml").write_text(json.dumps([text]))
    assert complaints(directory) == [
        "claims/claims.yaml: claims a-claim /sources/0: no source 'unheard-of'"
    ]
    del text["sources"]
    (directory / "claims" / "claims.yaml").write_text(json.dumps([text]))
    assert packaged_documents(directory) == small_catalog()
    assert checked_files(directory)["claims"] == {"a-claim": text}


def test_a_format_that_is_faster_than_its_width_may_say_why() -> None:
    documents = small_catalog()
    fast = figure(4e15, note="dense: a unit of its own")
    documents["accelerators"][ONE] = changed(peak_fp8_flops_per_s=fast)
    assert check_documents(documents, {}) == []
