"""Hostile requests made from the contract: the service fails none, and answers all as declared.

``./headroom fuzz`` runs the same with as many cases as there is time for.
"""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as fuzz_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.access.keys import SCOPES, make_key
from service.api.app import create_app
from service.settings import Settings
from tests.conftest import execute
from tests.faults.processes import Service, eventually, serving
from tests.fuzz import tally

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: An answer that takes longer hangs.
_HANGS_S = 60
_MOST_RESIDENT_BYTES = 1_500_000_000


@pytest.fixture(scope="module")
def service(postgres_url: str) -> Iterator[Service]:
    """A process of its own, whose memory can be told, and which no fault of a test can mend."""
    # A name on the Hub is as good as any other to the fuzzer: nothing outside may be asked.
    with serving(DATABASE_URL=postgres_url, HEADROOM_HUB_OFFLINE="true") as running:
        process = psutil.Process(running.process.pid)
        yield running
        assert running.process.poll() is None, "the service has ended"
        counted = running.ask("GET", "/metrics").text.splitlines()
        requests = [one for one in counted if one.startswith("headroom_requests_total{")]
        resident = process.memory_info().rss
        tally.told(
            kind="HTTP request",
            cases=int(sum(float(one.rsplit(" ", 1)[1]) for one in requests)),
            resident_bytes=resident,
        )
        assert resident < _MOST_RESIDENT_BYTES


@pytest.fixture
def key(postgres_url: str, service: Service) -> str:
    """A key that allows everything: what it opens must stand against anything, too.

    Another one for each operation, as what it opens includes its own end.
    """
    made = make_key()
    columns = "key_id, created_by, organisation, name, scopes, secret_hash"
    scopes = ", ".join(f"'{scope}'" for scope in SCOPES)
    values = f"'{made.key_id}', 'tests', 'acme', 'fuzz', ARRAY[{scopes}], '{made.secret_hash}'"
    execute(postgres_url, f"INSERT INTO api_key ({columns}) VALUES ({values})")  # noqa: S608
    headers = {"Authorization": f"Bearer {made.text}"}
    eventually(
        lambda: service.ask("GET", "/v1/workloads", headers=headers).status_code == 200,
        "the service knows the key",
    )
    return made.text


schema = schemathesis.openapi.from_dict(
    create_app(Settings(embedded_database=False, log_level="error")).openapi()
)


#: Schemathesis 4.32 gives up on some wrong lists in these ("Cannot generate an array with 1
#: demanded elements"), depending on the lots that it draws: they get the same cases each time.
LISTS = ["createRecommendation", "createParetoChart"]
USUAL_CASES = 60
USUAL = fuzz_settings(
    max_examples=USUAL_CASES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
MANY = fuzz_settings(
    USUAL, max_examples=tally.cases(USUAL_CASES), derandomize=tally.is_repeatable()
)


@schema.include(operation_id=LISTS).parametrize()
@USUAL
def test_hostile_lists_are_answered_as_declared(case, service, key):
    answered_as_declared(case, service, key)


@schema.exclude(operation_id=LISTS).parametrize()
@MANY
def test_hostile_requests_are_answered_as_declared(case, service, key):
    answered_as_declared(case, service, key)


def answered_as_declared(case: schemathesis.Case, service: Service, key: str) -> None:
    needs_key = case.operation.definition.raw.get("security")
    headers = {"Authorization": f"Bearer {key}"} if needs_key else {}
    response = case.call(base_url=service.address, headers=headers, timeout=_HANGS_S)
    case.validate_response(response, checks=CHECKS)
