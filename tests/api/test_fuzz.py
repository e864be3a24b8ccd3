"""Hostile requests made from the contract: the service fails none, and answers all as declared.

``HEADROOM_FUZZ_CASES`` sets the number of cases for each operation; the default is for every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as fuzz_settings
from pydantic import SecretStr
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.access.keys import SCOPES, make_key
from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import served
from tests.conftest import execute

CASES = int(os.environ.get("HEADROOM_FUZZ_CASES", "60"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def address(postgres_url: str) -> Iterator[str]:
    # A name on the Hub is as good as any other to the fuzzer: nothing outside may be asked.
    settings = Settings(DATABASE_URL=SecretStr(postgres_url), log_level="error", hub_offline=True)
    with served(create_app(settings)) as url:
        yield url


@pytest.fixture(scope="module")
def key(postgres_url: str, address: str) -> str:
    """A key that allows everything: what it opens must stand against anything, too."""
    made = make_key()
    columns = "key_id, created_by, organisation, name, scopes, secret_hash"
    scopes = ", ".join(f"'{scope}'" for scope in SCOPES)
    values = f"'{made.key_id}', 'tests', 'acme', 'fuzz', ARRAY[{scopes}], '{made.secret_hash}'"
    execute(postgres_url, f"INSERT INTO api_key ({columns}) VALUES ({values})")  # noqa: S608
    headers = {"Authorization": f"Bearer {made.text}"}
    while httpx.get(f"{address}/v1/keys", headers=headers).status_code != 200:
        pass  # the service hears of it in its own time
    return made.text


schema = schemathesis.openapi.from_dict(
    create_app(Settings(embedded_database=False, log_level="error")).openapi()
)


@schema.parametrize()
@fuzz_settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_hostile_requests_are_answered_as_declared(case, address, key):
    needs_key = case.operation.definition.raw.get("security")
    headers = {"Authorization": f"Bearer {key}"} if needs_key else {}
    response = case.call(base_url=address, headers=headers)
    case.validate_response(response, checks=CHECKS)
