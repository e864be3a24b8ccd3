"""What other sources state of machines and prices, and how entries tell of it."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator

import pytest

from service.catalog.second_opinions import agrees, lone_because, second_opinions
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.catalog.listing import entry_answer, whole_entry_answer
from service.portal.catalog_pages import entry_page
from service.settings import INSTALLATION
from tests.conftest import packaged

TABLES = INSTALLATION / "hardware_catalog" / "cross_checks"
DOCUMENTS = packaged()


def rows(table: str) -> Iterator[dict[str, str]]:
    with (TABLES / f"{table}.csv").open(newline="") as file:
        yield from csv.DictReader(file)


def drawn(collection: str, count: int) -> list[str]:
    """Ids by a hash of their own, so that new entries change little of the draw."""
    ids = DOCUMENTS[collection]
    return sorted(ids, key=lambda one: hashlib.sha256(f"audit-19:{one}".encode()).hexdigest())[
        :count
    ]


def test_machines_agree_with_other_sources_or_it_is_said_why_not() -> None:
    for row in rows("platforms"):
        where = f"{row['platform']} {row['figure']} in {row['source']}"
        held = DOCUMENTS["platforms"][row["platform"]]["figures"][row["figure"]]
        assert row["source"] in DOCUMENTS["sources"], where
        assert row["source"] != held["source"], where
        assert agrees(held["value"], float(row["value"])) is not bool(row["reason"]), where


def test_prices_agree_with_other_sources_or_it_is_said_why_not() -> None:
    held = {
        (f"{provider}/{instance}", f"{provider}/{region}" if region else "", kind): (usd, source)
        for provider, table in DOCUMENTS["offers"].items()
        for instance, region, kind, usd, _, source in table["rows"]
    }
    told = list(rows("instances"))
    differing = 0
    for row in told:
        where = f"{row['instance']} in {row['region']} by {row['source']}"
        usd, source = held[row["instance"], row["region"], row["kind"]]
        assert row["source"] in DOCUMENTS["sources"], where
        assert row["source"] != source, f"{where}: a source cannot confirm itself"
        assert agrees(usd, float(row["value"])) is not bool(row["reason"]), where
        differing += bool(row["reason"])
    assert differing <= 0.15 * len(told)
    assert len({row["instance"] for row in told}) >= 120
    providers = {row["instance"].partition("/")[0] for row in told}
    assert {"aws", "azure", "lambda", "hyperstack", "verda", "runpod"} <= providers


@pytest.mark.parametrize("collection", ["accelerators", "platforms", "instances"])
def test_every_entry_has_a_second_opinion_or_says_why_not(collection: str) -> None:
    unexplained = [
        entry_id
        for entry_id in DOCUMENTS[collection]
        if not second_opinions(collection, entry_id) and not lone_because(collection, entry_id)
    ]
    assert unexplained == []


def test_reasons_are_of_entries_that_nobody_else_states() -> None:
    for row in rows("without"):
        entry_id, collection = row["entry"], row["collection"]
        if not entry_id.endswith("/*"):
            assert entry_id in DOCUMENTS[collection], entry_id
            assert not second_opinions(collection, entry_id), entry_id


def test_of_sixty_offers_that_are_drawn_many_have_been_held_against_another_list() -> None:
    """The large clouds' own lists are the first source, so that theirs is the larger part."""
    confirmed = {id_ for id_ in drawn("instances", 60) if second_opinions("instances", id_)}
    assert len(confirmed) >= 10


def test_an_entry_alone_tells_what_other_sources_say(packaged_snapshot: CatalogSnapshot) -> None:
    entry = packaged_snapshot.find("accelerators", "nvidia-m40-24gb")
    answer = whole_entry_answer(packaged_snapshot, "accelerators", entry)
    told = {one["figure"]: one for one in answer["second_opinions"]}
    assert told["memory_bandwidth_bytes_per_s"] == {
        "figure": "memory_bandwidth_bytes_per_s",
        "value": 288e9,
        "source": "microway-tesla-m40-24gb",
        "agrees": True,
    }
    assert "microway-tesla-m40-24gb" in {source["id"] for source in answer["sources"]}
    assert "second_opinions" not in entry_answer(packaged_snapshot, "accelerators", entry)


def test_a_figure_that_others_state_otherwise_says_why(packaged_snapshot: CatalogSnapshot) -> None:
    entry = packaged_snapshot.find("accelerators", "amd-mi308x-192gb")
    answer = whole_entry_answer(packaged_snapshot, "accelerators", entry)
    power = next(
        one for one in answer["second_opinions"] if one["figure"] == "thermal_design_power_w"
    )
    assert not power["agrees"]
    assert "MI300X" in power["reason"]


def test_a_price_says_where_and_when_another_list_had_it(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    entry = packaged_snapshot.find("instances", "aws/g5.xlarge")
    told = whole_entry_answer(packaged_snapshot, "instances", entry)["second_opinions"]
    assert told == [
        {
            "figure": "usd_per_hour",
            "value": 1.006,
            "source": "tsaol-aws-gpu",
            "agrees": True,
            "region": "aws/us-east-1",
            "kind": "on-demand",
            "date": "2026-01-21",
        }
    ]


def test_an_entry_that_nobody_else_states_says_why(packaged_snapshot: CatalogSnapshot) -> None:
    for collection, entry_id in (
        ("accelerators", "sambanova-sn40l"),
        ("platforms", "desktop"),
        ("instances", "gcp/g2-standard-4"),
    ):
        entry = packaged_snapshot.find(collection, entry_id)
        answer = whole_entry_answer(packaged_snapshot, collection, entry)
        assert "second_opinions" not in answer
        assert answer["no_second_opinion"] == lone_because(collection, entry_id)


def test_pages_of_entries_show_both(packaged_snapshot: CatalogSnapshot) -> None:
    confirmed = entry_page("accelerators", "nvidia-m40-24gb", packaged_snapshot)
    assert "What other sources say" in confirmed
    assert "the same, within 2 %" in confirmed
    priced = entry_page("instances", "aws/g5.xlarge", packaged_snapshot)
    assert "1.01 USD/h" in priced.replace("\N{NO-BREAK SPACE}", " ")
    alone = entry_page("accelerators", "sambanova-sn40l", packaged_snapshot)
    assert "No second source confirms these figures" in alone
