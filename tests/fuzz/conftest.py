"""A service to send hostile requests to, and keys for what needs one."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from service.access.keys import SCOPES, make_key
from tests.conftest import execute
from tests.faults.processes import Service, eventually, serving
from tests.fuzz import tally

_MOST_RESIDENT_BYTES = 1_500_000_000


@pytest.fixture(scope="module")
def service(catalog_url: str) -> Iterator[Service]:
    """A process of its own, whose memory can be told, and which no fault of a test can mend."""
    # A name on the Hub is as good as any other to the fuzzer: nothing outside may be asked.
    with serving(DATABASE_URL=catalog_url, HEADROOM_HUB_OFFLINE="true") as running:
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
def key(catalog_url: str, service: Service) -> str:
    """A key that allows everything: what it opens must stand against anything, too.

    Another one for each operation, as what it opens includes its own end.
    """
    made = make_key()
    columns = "key_id, created_by, organisation, name, scopes, secret_hash"
    scopes = ", ".join(f"'{scope}'" for scope in SCOPES)
    values = f"'{made.key_id}', 'tests', 'acme', 'fuzz', ARRAY[{scopes}], '{made.secret_hash}'"
    execute(catalog_url, f"INSERT INTO api_key ({columns}) VALUES ({values})")  # noqa: S608
    headers = {"Authorization": f"Bearer {made.text}"}
    eventually(
        lambda: service.ask("GET", "/v1/workloads", headers=headers).status_code == 200,
        "the service knows the key",
    )
    return made.text
