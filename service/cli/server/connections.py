"""Connections that no client can hold on to, nor make the process keep what it never finishes.

uvicorn bounds neither how long a client takes for a request nor how large its head becomes, and
the application sees a request only when its head is complete.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from service.core.errors import InvalidInput

#: Line and headers of a request; browsers and proxies stop at a quarter of it.
MOST_HEAD_BYTES = 65_536

_TITLES = {
    400: "The request is not valid HTTP",
    408: "The request was not sent in time",
    431: "The request line and headers are too large",
}


class _HeadTooLarge(InvalidInput):
    """Ends the parsing of a request."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 on one connection, within bounds.

    ``timeout_s`` [s] is how long a client may take to send a request, and to take any of what waits
    for it. What is complete when it arrives, which is nearly everything, needs no timer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        timeout_s: float,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timeout_s = timeout_s
        self._sending: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._begun = self._in_head = False
        self._head_bytes = 0
        self._refusal = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request as long as for a further one."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget about the client."""
        self._stop_timing_request()
        self._stop_timing_answer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and note whether a request is left unfinished."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(431)
        elif self._begun and self._sending is None:
            self._sending = self.loop.call_later(self._timeout_s, self._too_slow)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._begun = self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Pass a request on if its head is of a decent size."""
        self._in_head = False
        held = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if held > MOST_HEAD_BYTES:
            self._refusal = 431
            raise _HeadTooLarge
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        self._begun = False
        self._stop_timing_request()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own words
        """Refuse what is no HTTP, or too much of it."""
        self._refuse(self._refusal)

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(self._timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it reads."""
        self._stop_timing_answer()
        super().resume_writing()

    def _stop_timing_request(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _stop_timing_answer(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _too_slow(self) -> None:
        if self._in_head:
            self._refuse(408)
        else:
            # The application is told that the client has left.
            self.transport.close()

    def _refuse(self, status: int) -> None:
        if self.transport.is_closing():
            return
        body = f'{{"type":"about:blank","title":"{_TITLES[status]}","status":{status}}}'.encode()
        self.transport.write(
            _status_and_headers(status, len(body)) + b"connection: close\r\n\r\n" + body
        )
        self.transport.close()


def _status_and_headers(status: int, length: int) -> bytes:
    return (
        STATUS_LINE[status]
        + (
            "content-type: application/problem+json\r\n"
            "cache-control: no-store\r\n"
            f"content-length: {length}\r\n"
        ).encode()
    )
