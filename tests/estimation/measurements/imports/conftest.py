"""Reading of the files beside this module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.imports.imported import (
    ImportedFile,
    understood_file,
    with_estimates,
)

FILES = Path(__file__).parent / "files"
#: What a benchmark of a server does not say.
SERVED: dict[str, Any] = {
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 1,
    "serving": {"engine": "vllm"},
}

Read = Callable[..., ImportedFile]


@pytest.fixture
def read(packaged_snapshot: CatalogSnapshot) -> Read:
    """Read a file of the folder, or some bytes, with what is said of the deployment."""

    def understood(given: str | bytes, /, **deployment: Any) -> ImportedFile:
        name = given if isinstance(given, str) else "file"
        data = (FILES / given).read_bytes() if isinstance(given, str) else given
        file = understood_file(data, deployment, packaged_snapshot, name=name)
        return with_estimates(file, file.documents, packaged_snapshot)

    return understood
