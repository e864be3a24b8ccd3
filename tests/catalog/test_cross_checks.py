"""The packaged figures beside those of other sources, and sources that nothing rests on."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator

from service.catalog import second_opinions
from service.settings import INSTALLATION
from tests.conftest import packaged

CATALOG = INSTALLATION / "hardware_catalog"
DOCUMENTS = packaged()


def rows() -> Iterator[dict[str, str]]:
    with (CATALOG / "cross_checks" / "accelerators.csv").open(newline="") as table:
        yield from csv.DictReader(table)


def agrees(row: dict[str, str]) -> bool:
    held = DOCUMENTS["accelerators"][row["accelerator"]]["figures"][row["figure"]]
    return second_opinions.agrees(held["value"], float(row["value"]))


def test_sources_agree_or_it_is_said_why_not() -> None:
    for row in rows():
        where = f"{row['accelerator']} {row['figure']} in {row['source']}"
        held = DOCUMENTS["accelerators"][row["accelerator"]]["figures"][row["figure"]]
        assert row["source"] in DOCUMENTS["sources"], where
        assert row["source"] != held["source"], f"{where}: a source cannot confirm itself"
        assert agrees(row) is not bool(row["reason"]), (
            f"{where}: they differ and nobody says why, or agree after all"
        )


def test_none_is_told_twice() -> None:
    told = [(row["accelerator"], row["figure"], row["source"]) for row in rows()]
    assert len(told) == len(set(told))


def test_nine_in_ten_have_a_second_opinion() -> None:
    checked = {row["accelerator"] for row in rows()}
    assert len(checked) >= 0.9 * len(DOCUMENTS["accelerators"])
    bandwidths = {row["accelerator"] for row in rows() if row["figure"].startswith("memory_bandw")}
    assert len(bandwidths) >= 240


#: Drawn entries that no list but the vendor's own, or the one that they come from, has.
UNLISTED = {
    *("aws-inferentia2", "huawei-ascend-910b3-64gb", "huawei-ascend-910b4-32gb"),
    *("intel-core-ultra-7-258v-32gb", "nvidia-h100-sxm-96gb-hbm2e"),
}


def test_a_sample_of_sixty_is_in_independent_lists() -> None:
    """Drawn from all entries by a hash of their ids, so that new ones change little of it."""
    entries = DOCUMENTS["accelerators"]
    drawn = sorted(entries, key=lambda one: hashlib.sha256(f"audit-19:{one}".encode()).hexdigest())
    sources = DOCUMENTS["sources"]
    told = {
        row["accelerator"]
        for row in rows()
        if sources[row["source"]]["publisher"]
        != sources[entries[row["accelerator"]]["figures"][row["figure"]]["source"]]["publisher"]
    }
    assert {entry for entry in drawn[:60] if entry not in told} == UNLISTED


def test_most_figures_agree() -> None:
    told = list(rows())
    assert sum(not agrees(row) for row in told) <= 0.12 * len(told)


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
        "Rockchip",
    }
    assert {entry["vendor"] for entry in DOCUMENTS["accelerators"].values()} == known
