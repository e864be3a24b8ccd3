"""Answers to questions that were asked before, without computing them again.

An estimate follows from its question and the catalog alone, so that the bytes of an answer can
stand for it until a new revision lands. Portals and pipelines ask the same again and again; this
layer stands before the framework, whose routing alone costs more than looking an answer up, and
before compression: an answer is kept as it goes out, compressed or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from cachetools import LRUCache
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.http.compression import accepts_gzip

_LARGEST_QUESTION_BYTES = 32_768
_LARGEST_ANSWER_BYTES = 262_144
#: What an entry takes beside its question and answer, roughly [byte].
_OVERHEAD_BYTES = 1_000
#: What a model of the Hub is may change from one day to the next.
_NAMES_THE_HUB = re.compile(rb'hf(?::|%3a)|"hub"', re.IGNORECASE)

#: Whatever the answers follow from beside the questions; compared by identity.
Basis: TypeAlias = Callable[[], Any]
_Key: TypeAlias = tuple[str, str, bytes, bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class _Answer:
    start: Message
    body: bytes
    route: Any
    size_bytes: int


class RepeatedAnswers:
    """Wraps the application; see the module.

    Parameters
    ----------
    app
        Answers what was not asked before.
    paths
        Operations whose answers follow from the question and the basis alone.
    basis
        Gives what else they follow from; when it is another object, all answers are forgotten.
    most_bytes
        Memory for answers [byte], 0 to keep none; those not asked for longest give way.
    """

    def __init__(self, app: ASGIApp, paths: Iterable[str], basis: Basis, most_bytes: int) -> None:
        self._app = app
        self._paths = frozenset(paths) if most_bytes else frozenset()
        self._basis = basis
        self._held_for: Any = None
        self._answers: LRUCache[_Key, _Answer] = LRUCache(
            most_bytes, getsizeof=lambda answer: answer.size_bytes
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or have the application answer and keep that."""
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        content_type = accept = b""
        for name, value in scope["headers"]:
            # Own entries, and copies that the client may hold: the application knows about these.
            if name in (b"authorization", b"if-none-match"):
                await self._app(scope, receive, send)
                return
            if name == b"content-type":
                content_type = value
            elif name == b"accept":
                accept = value
        first = await receive()
        whole = first["type"] == "http.request" and not first.get("more_body", False)
        question = first.get("body", b"")
        length = len(question) + len(scope["query_string"]) + len(content_type) + len(accept)
        if not whole or length > _LARGEST_QUESTION_BYTES:
            await self._app(scope, _replay(first, receive), send)
            return
        basis = self._basis()
        if basis is not self._held_for:
            self._held_for = basis
            self._answers.clear()
        if _NAMES_THE_HUB.search(question) or _NAMES_THE_HUB.search(scope["query_string"]):
            await self._app(scope, _replay(first, receive), send)
            return
        encoding = b"gzip" if accepts_gzip(scope) else b""
        target = (scope["method"], scope["path"], scope["query_string"])
        key = (*target, content_type, accept, encoding, question)
        held = self._answers.get(key)
        if held is None:
            await self._answered(key, basis, scope, _replay(first, receive), send)
            return
        scope["route"] = held.route
        # The layers around this one add headers of their own to each.
        await send({**held.start, "headers": list(held.start["headers"])})
        await send({"type": "http.response.body", "body": held.body})

    async def _answered(
        self, key: _Key, basis: Any, scope: Scope, receive: Receive, send: Send
    ) -> None:
        start: Message | None = None
        parts: list[bytes] = []
        complete = False

        async def keep(message: Message) -> None:
            nonlocal start, complete
            if message["type"] == "http.response.start":
                start = {**message, "headers": list(message["headers"])}
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))
                complete = not message.get("more_body", False)
            await send(message)

        await self._app(scope, receive, keep)
        body = b"".join(parts)
        # The catalog may have moved on while this was computed.
        current = basis is self._held_for and basis is self._basis()
        if start is None or start["status"] != 200 or not complete or not current:
            return
        # The query and the types of bodies are as long as the client likes.
        size_bytes = len(body) + sum(map(len, key)) + _OVERHEAD_BYTES
        if len(body) <= _LARGEST_ANSWER_BYTES and size_bytes <= self._answers.maxsize:
            self._answers[key] = _Answer(start, body, scope.get("route"), size_bytes)


def _replay(first: Message, receive: Receive) -> Receive:
    """What was received already, and then the rest."""
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
