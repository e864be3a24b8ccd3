"""Runtime overheads as the catalog ships them."""

from pathlib import Path

import pytest
import yaml

from service.core.memory.inference.runtime import runtime_overheads

CATALOG = Path(__file__).parents[3] / "hardware_catalog" / "calibration"


@pytest.fixture(scope="session")
def runtime_documents():
    return yaml.safe_load((CATALOG / "memory_runtime.yaml").read_text())


@pytest.fixture(scope="session")
def overheads(runtime_documents):
    return runtime_overheads(runtime_documents)
