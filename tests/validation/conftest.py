from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from service.settings import INSTALLATION
from service.validation.packaged import Bench, read_bench, read_measurements
from service.validation.report.compared import TableOutcome, assess

CATALOG = INSTALLATION / "hardware_catalog"

Written = Callable[[str, Iterable[Mapping[str, object]]], Path]


@pytest.fixture(scope="session")
def bench() -> Bench:
    return read_bench(CATALOG)


@pytest.fixture(scope="session")
def outcomes(bench: Bench) -> dict[str, TableOutcome]:
    return assess(read_measurements(CATALOG, None), bench.vocabulary, bench.snapshot)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes rows as a CSV file and gives its folder."""

    def write(table: str, rows: Iterable[Mapping[str, object]]) -> Path:
        listed = list(rows)
        columns = list(dict.fromkeys(name for row in listed for name in row))
        with (tmp_path / f"{table}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(listed)
        return tmp_path

    return write
