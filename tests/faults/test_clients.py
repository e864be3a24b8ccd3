"""Clients that are slow, greedy or sly, on real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from service.cli.server.connections import MOST_HEAD_BYTES
from tests.faults.processes import Service, eventually, serving

HEAD = b"Host: here\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service that waits half a second for its clients."""
    with serving(HEADROOM_EMBEDDED_DATABASE="false", HEADROOM_CLIENT_TIMEOUT_S="0.5") as running:
        yield running


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    address = urlsplit(service.address)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        yield connection


def answer_to(service: Service, *parts: bytes) -> bytes:
    """All that comes back on a connection until the service ends it."""
    with connected(service) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        try:
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionResetError:
            pass  # it was still being told something
        return received


def test_a_head_that_never_ends_in_time(service: Service) -> None:
    told = answer_to(service, b"GET /v1/workloads HTTP/1.1\r\nHost: he")
    assert told.startswith(b"HTTP/1.1 408 "), told
    assert b"application/problem+json" in told


def test_a_body_that_never_ends_is_hung_up_on(service: Service) -> None:
    begun = b"POST /v1/estimates/inference HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000\r\n\r\n{"
    assert answer_to(service, begun) == b""


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/workloads?a=" + b"a" * MOST_HEAD_BYTES + b" HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET /v1/workloads HTTP/1.1\r\nX: " + b"a" * MOST_HEAD_BYTES + b"\r\n\r\n",
        b"GET /v1/workloads HTTP/1.1\r\n" + b"A: b\r\n" * 40_000 + b"\r\n",
        b"GET /v1/workloads HTTP/1.1\r\nX: " + b"a" * 10 * MOST_HEAD_BYTES,
    ],
    ids=["line", "header", "headers", "unfinished"],
)
def test_a_head_that_is_too_large(service: Service, head: bytes) -> None:
    with connected(service) as connection:
        try:
            connection.sendall(head)
            told = connection.recv(65_536)
        except (BrokenPipeError, ConnectionResetError):
            return  # it did not wait for the rest
        assert told.startswith(b"HTTP/1.1 431 "), told


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 4\r\n",
        b"Content-Length: +2\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n Transfer-Encoding: chunked\r\n",
        b"X: a\rContent-Length: 2\r\n",
        b"X: a\0b\r\n",
    ],
)
def test_heads_that_proxies_could_read_otherwise_are_refused(service: Service, head: bytes) -> None:
    hidden = b"0\r\n\r\nGET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
    asked = b"POST /v1/estimates/inference HTTP/1.1\r\n" + HEAD + head + b"\r\n" + hidden
    told = answer_to(service, asked)
    assert told.startswith(b"HTTP/1.1 400 "), told
    assert told.count(b"HTTP/1.1 ") == 1, "what was hidden in the body was answered"
    assert b"connection: close" in told


def test_a_client_that_takes_nothing_is_hung_up_on(service: Service) -> None:
    """Answers pile up for a client that asks and asks and never reads."""
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n" * 200
    with connected(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(asked)

        def is_over() -> bool:
            try:
                connection.sendall(b"\r\n")
            except OSError:
                return True
            return False

        eventually(is_over, "the connection is ended")


def test_others_are_answered_meanwhile(service: Service) -> None:
    with connected(service) as slow:
        slow.sendall(b"GET /v1/workloads HTTP/1.1\r\n")
        assert service.ask("GET", "/v1/workloads").status_code == 200


def test_a_body_in_pieces_is_taken(service: Service) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"model": "llama-3.1-8b", '
        yield b'"accelerator": "nvidia-l40s-48gb"}'

    headers = {"Content-Type": "application/json"}
    answer = httpx.post(
        f"{service.address}/v1/memory/inference", content=pieces(), headers=headers, timeout=30
    )
    assert answer.status_code == 200, answer.text
