"""Entries that have had another id answer under both, and the answer says so."""

from __future__ import annotations

from typing import Any

import pytest

from service.api.http.deprecation import deprecation_headers
from service.catalog.entries.checks import check_documents
from service.catalog.entries.references import Renaming
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.estimation.renamed import RenamedName, renamed_in
from service.estimation.use_cases import USE_CASES
from tests.catalog.examples import accelerator, small_catalog

OLD = "nvidia-rtx-pro-6000-blackwell-96gb"
NEW = "nvidia-rtx-pro-6000-blackwell-workstation-96gb"
ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "region": "country/SE",
    "workload": {"input_tokens": 512, "output_tokens": 128},
}


def answered(snapshot: CatalogSnapshot, accelerator_id: str) -> Any:
    use_case = USE_CASES["estimates/inference"]
    request = use_case.request.model_validate(ASKED | {"accelerator": accelerator_id})
    return use_case.compute(request, snapshot)


def test_both_names_answer_alike_but_for_the_warning(packaged_snapshot: CatalogSnapshot) -> None:
    then, now = answered(packaged_snapshot, OLD), answered(packaged_snapshot, NEW)
    told = [one for one in then["warnings"] if one["code"] == "renamed_entry"]
    assert [one for one in then["warnings"] if one not in told] == now["warnings"]
    assert len(told) == 1
    assert repr(NEW) in told[0]["message"]
    assert then["latency"] == now["latency"]


@pytest.mark.parametrize(
    ("question", "body"),
    [
        ("recommendations", {"search": {"accelerators": [OLD.upper()]}}),
        ("recommendations", {"usd_per_accelerator_hour": {OLD: 2.0}}),
        ("compare", {"models": [ASKED["model"]], "accelerators": [NEW, OLD, OLD]}),
    ],
)
def test_names_are_found_wherever_requests_have_them(
    packaged_snapshot: CatalogSnapshot, question: str, body: dict[str, Any]
) -> None:
    whole = {**ASKED, "workload_kind": "sustainable"} if question == "recommendations" else {}
    if question == "compare":
        whole = {"regions": ["country/SE"], "workload": ASKED["workload"]}
    request = USE_CASES[question].request.model_validate(
        {key: value for key, value in (whole | body).items() if key != "region"}
    )
    expected = Renaming("accelerators", OLD, NEW, "2026-11-22")
    found = renamed_in(request, packaged_snapshot)
    assert [one.new for one in found] == [expected.new]
    assert found[0].since == expected.since


def test_a_catalog_without_renamed_entries_warns_of_none() -> None:
    snapshot = snapshot_from_documents(small_catalog(), 0)
    request = USE_CASES["estimates/inference"].request.model_validate(ASKED | {"accelerator": OLD})
    assert renamed_in(request, snapshot) == ()


def test_former_ids_find_the_entry_and_belong_to_one_alone() -> None:
    catalog = small_catalog()
    renamed = accelerator("acme-two-80gb") | {
        "name": "Acme Two 80 GB",
        "aliases": [],
        "former_ids": {"acme-duo": "2026-01-31"},
    }
    catalog["accelerators"]["acme-two-80gb"] = renamed
    snapshot = snapshot_from_documents(catalog, 0)
    assert snapshot.find("accelerators", "ACME-duo").id == "acme-two-80gb"
    assert check_documents(catalog, {}) == []
    catalog["accelerators"]["acme-two-80gb"] = renamed | {
        "former_ids": {"acme-one-80gb": "2026-01-31"}
    }
    assert [error.pointer for error in check_documents(catalog, {})] == [
        "/former_ids/acme-one-80gb"
    ]


def test_a_renamed_field_asks_the_same_and_is_told(packaged_snapshot: CatalogSnapshot) -> None:
    use_case = USE_CASES["recommendations/training"]
    whole = {
        "model": ASKED["model"],
        "search": {"accelerators": [NEW], "regions": ["country/SE"], "max_accelerators": 1},
    }
    run = {"tokens": 1e7, "methods": ["qlora"]}
    now, then = (
        use_case.compute(use_case.request.model_validate(whole | {name: run}), packaged_snapshot)
        for name in ("training", "run")
    )
    told = [one for one in then["warnings"] if one["code"] == "renamed_field"]
    assert [one["pointer"] for one in told] == ["/run"]
    assert {**then, "warnings": None} == {**now, "warnings": None}
    headers = deprecation_headers([RenamedName("run", "training", "2026-11-23")])
    assert headers["Deprecation"] == "@1795392000"
    assert headers["Sunset"] == "Tue, 23 Nov 2027 00:00:00 GMT"
    schema = use_case.request.model_json_schema()["properties"]
    assert schema["run"]["deprecated"]
    assert "deprecated" not in schema["training"]
