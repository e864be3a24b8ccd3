"""What is loaded before the first answer: nothing that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from service.catalog.files import packaged_documents
from service.settings import INSTALLATION, Settings

#: Libraries that some answers need, or none.
_LATER = {
    "alembic",
    "httpx",
    "jinja2",
    "jsonschema",
    "jwt",
    "limits",
    "procrastinate",
    "psycopg",
    "pyarrow",
    "pygments",
    "rapidfuzz",
    "scipy",
    "typst",
    "vl_convert",
}
_SERVICE = "from service.api.app import create_app; create_app()"
_COMMAND = """
import contextlib, io
from service.cli import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app(["estimate", "-m", "llama-3.1-8b", "-a", "h100", "-r", "aws/eu-north-1", "--json"])
"""


@pytest.mark.parametrize(
    ("start", "left_out"),
    [
        pytest.param(_SERVICE, _LATER, id="serve"),
        pytest.param(_COMMAND, _LATER | {"asyncpg", "fastapi", "sqlalchemy"}, id="estimate"),
    ],
)
def test_a_start_loads_nothing_for_later(start: str, left_out: set[str]) -> None:
    # The first start after a change checks the catalog with jsonschema, and keeps what it read.
    packaged_documents(Settings().catalog_directory)
    code = f"{start}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=INSTALLATION, capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    assert "service.estimation.inference.estimate" in loaded
    assert not loaded & left_out
