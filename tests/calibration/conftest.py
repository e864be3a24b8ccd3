from __future__ import annotations

import pytest

from service.settings import INSTALLATION
from service.validation.packaged import Bench, read_bench


@pytest.fixture(scope="session")
def bench() -> Bench:
    return read_bench(INSTALLATION / "hardware_catalog")
