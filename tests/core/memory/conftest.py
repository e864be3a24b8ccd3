"""Runtime overheads as the catalog ships them."""

import pytest

from tests.core.calibrations import packaged_overheads


@pytest.fixture(scope="session")
def overheads():
    return packaged_overheads()
