"""Answers that pages of other origins may read (CORS), cheap for the many who are no such page."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Message, Receive, Scope, Send

RawHeaders = list[tuple[bytes, bytes]]


def add_vary(headers: RawHeaders, by: bytes) -> None:
    """Say that an answer varies with one more header of the request."""
    for at, (name, value) in enumerate(headers):
        if name == b"vary":
            headers[at] = (name, b"%b, %b" % (value, by))
            return
    headers.append((b"vary", by))


class Cors(CORSMiddleware):
    """The framework's, which is asked only about requests that name an origin."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a page's question whether it may ask, or pass a request on."""
        if scope["type"] != "http" or any(name == b"origin" for name, _ in scope["headers"]):
            await super().__call__(scope, receive, send)
            return

        async def send_varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_vary(message["headers"], b"Origin")
            await send(message)

        await self.app(scope, receive, send_varying)
