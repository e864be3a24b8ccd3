from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.settings import INSTALLATION
from service.validation.packaged import Packaged, packaged_lines, read_packaged
from service.validation.report.assessed import Assessed, assess, together

CATALOG = INSTALLATION / "hardware_catalog"

Written = Callable[..., Path]

DOCUMENT: Mapping[str, Any] = {
    "id": "mine-1",
    "kind": "inference",
    "request": {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 8},
    },
    "measured": {"weights_bytes": 16.094e9},
    "source": "mine",
    "confidence": "high",
}


@pytest.fixture(scope="session")
def packaged() -> Packaged:
    return read_packaged(CATALOG)


@pytest.fixture(scope="session")
def snapshot(packaged: Packaged) -> CatalogSnapshot:
    return packaged.snapshot


@pytest.fixture(scope="session")
def by_file(packaged: Packaged) -> dict[str, Assessed]:
    lines = packaged_lines(CATALOG, packaged.snapshot)
    return {name: assess(listed, packaged.snapshot, name) for name, listed in lines.items()}


@pytest.fixture(scope="session")
def assessed(by_file: dict[str, Assessed]) -> Assessed:
    return together(by_file.values())


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes documents as a file and gives its place."""

    def write(*documents: Mapping[str, Any], name: str = "own.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(one)}\n" for one in documents), encoding="utf-8")
        return path

    return write
