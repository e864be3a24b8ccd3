"""Runtime overheads as the catalog ships them."""

import pytest

from service.core.memory.inference.runtime import runtime_overheads
from tests.core.calibrations import figures_of


@pytest.fixture(scope="session")
def runtime_figures():
    return figures_of("memory_runtime.yaml", "engine")


@pytest.fixture(scope="session")
def overheads(runtime_figures):
    return runtime_overheads(runtime_figures)
