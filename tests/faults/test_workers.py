"""Several processes on one port: any of them tells of all, also after one was killed."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

import httpx
import psutil
import pytest
from prometheus_client import Metric

from service.cli.server.draining import also_listening
from tests.api.observability.test_metrics import counted, families, only
from tests.faults.processes import PATIENCE_S, Service, eventually, serving


def told(service: Service) -> dict[str, Metric]:
    """What whichever worker takes a new connection tells."""
    return families(service.ask("GET", "/metrics").text)


def processes(found: dict[str, Metric]) -> set[str]:
    return {sample.labels["pid"] for sample in found["process_cpu_seconds"].samples}


def test_any_worker_tells_of_all() -> None:
    with serving("--workers", "2", HEADROOM_EMBEDDED_DATABASE="false") as service:
        eventually(lambda: len(processes(told(service))) == 2, "both workers are there")
        for _ in range(40):
            # A connection for each, so that the system spreads them.
            assert service.ask("GET", "/v1/accelerators").status_code == 200
        answers = [told(service) for _ in range(8)]
        assert {counted(found, "/v1/accelerators") for found in answers} == {40}
        [before] = {frozenset(processes(found)) for found in answers}
        assert len(before) == only(answers[0]["headroom_workers"]) == 2
        assert only(answers[0]["headroom_requests_in_flight"]) == 1

        killed = psutil.Process(int(min(before)))
        killed.kill()
        killed.wait(PATIENCE_S)

        def is_replaced() -> bool:
            # A connection that the killed one had taken is lost with it.
            with suppress(httpx.TransportError):
                now = processes(told(service))
                return len(now) == 2 and min(before) not in now
            return False

        eventually(is_replaced, "another worker in the place of the killed one")
        found = told(service)
        assert max(before) in processes(found)
        assert counted(found, "/v1/accelerators") == 40
        assert only(found["headroom_requests_in_flight"]) == 1


def test_a_process_that_starts_keeps_no_other_waiting_for_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All processes share one flag of the listener: unset for a moment, others block in accept."""
    waits: list[bool] = []
    duplicate = socket.socket.dup

    def watched(one: socket.socket) -> socket.socket:
        found = duplicate(one)
        waits.append(found.getblocking())
        return found

    monkeypatch.setattr(socket.socket, "dup", watched)
    with ExitStack() as opened:
        # As a process gets it from the one that started it: an object that may wait.
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        for one in also_listening(listener):
            opened.enter_context(one)
    assert waits
    assert not any(waits)
