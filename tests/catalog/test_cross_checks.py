"""The packaged figures beside those of other sources, and sources that nothing rests on."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator

import pytest

from service.settings import INSTALLATION
from tests.conftest import packaged

CATALOG = INSTALLATION / "hardware_catalog"
DOCUMENTS = packaged()
AGREEING_RATIO = 0.02


def rows() -> Iterator[dict[str, str]]:
    with (CATALOG / "cross_checks" / "accelerators.csv").open(newline="") as table:
        yield from csv.DictReader(table)


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: " ".join(list(row.values())[:2]))
def test_sources_agree_or_it_is_said_why_not(row: dict[str, str]) -> None:
    held = DOCUMENTS["accelerators"][row["accelerator"]]["figures"][row["figure"]]
    assert row["source"] in DOCUMENTS["sources"]
    assert row["source"] != held["source"], "a source cannot confirm itself"
    agrees = abs(float(row["value"]) / held["value"] - 1.0) <= AGREEING_RATIO
    assert agrees is not bool(row["reason"]), "they differ and nobody says why, or agree after all"


def test_seven_in_ten_have_a_second_opinion() -> None:
    checked = {row["accelerator"] for row in rows()}
    assert len(checked) >= 270
    assert len(checked) >= 0.7 * len(DOCUMENTS["accelerators"])
    bandwidths = {row["accelerator"] for row in rows() if row["figure"].startswith("memory_bandw")}
    assert len(bandwidths) >= 190


@pytest.mark.parametrize("seed", range(5))
def test_samples_of_sixty_agree_with_independent_lists(seed: int) -> None:
    """Sixty entries at a time: each agrees with all others, or says why not."""
    told: dict[str, list[bool]] = {}
    for row in rows():
        held = DOCUMENTS["accelerators"][row["accelerator"]]["figures"][row["figure"]]
        agrees = abs(float(row["value"]) / held["value"] - 1.0) <= AGREEING_RATIO
        told.setdefault(row["accelerator"], []).append(agrees or bool(row["reason"]))
    sample = random.Random(seed).sample(sorted(told), 60)  # noqa: S311 - no secret
    assert all(all(told[entry]) for entry in sample)


def test_most_agree_with_all_others() -> None:
    differing = {row["accelerator"] for row in rows() if row["reason"]}
    assert len(differing) <= 0.2 * len({row["accelerator"] for row in rows()})


def test_buses_carry_what_is_stated() -> None:
    """Bandwidths of sheets follow from width and rate of the bus, which another source states."""
    carried = {}
    for entry_id, entry in DOCUMENTS["accelerators"].items():
        told = {name: figure["value"] for name, figure in entry["figures"].items()}
        if "memory_bus_bits" in told:
            most = told["memory_bus_bits"] * told["memory_data_rate_bits_per_s"] / 8.0
            carried[entry_id] = told["memory_bandwidth_bytes_per_s"] / most
    assert len(carried) >= 200
    assert min(carried.values()) >= 0.97
    assert max(carried.values()) <= 1.01


def test_every_source_is_used() -> None:
    texts = [
        path.read_text()
        for pattern in ("*/*.yaml", "*/*.csv", "*/*/*.csv", "measurements/*.jsonl")
        for path in CATALOG.glob(pattern)
        if path.parent.name != "sources"
    ]
    # Tables that are refreshed name the lists that they were read from.
    texts += [path.read_text() for path in (INSTALLATION / "service" / "prices").glob("*.py")]
    whole = "\n".join(texts)
    assert [source for source in DOCUMENTS["sources"] if source not in whole] == []


def test_vendors_are_spelled_one_way() -> None:
    known = {
        *("NVIDIA", "AMD", "Google", "Apple", "Intel", "AWS", "Groq", "Cerebras", "SambaNova"),
        *("Microsoft", "Huawei", "Qualcomm", "Tenstorrent", "Ampere Computing", "Raspberry Pi"),
    }
    assert {entry["vendor"] for entry in DOCUMENTS["accelerators"].values()} == known
