"""Asking a provider's public price list: bounded in time, size and pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson

from service.core.errors import Unavailable
from service.fetching import UNPACKED, AnswerTooLarge, read_bounded

#: A page of a price list has some hundred kilobytes.
_MOST_BYTES = 20_000_000
_LONGEST_S = 60.0
#: A list that is read line by line may have a gigabyte; its lines have a few kilobytes.
_MOST_STREAMED_BYTES = 2_000_000_000
_LONGEST_LINE_BYTES = 1_000_000


class PricesUnavailable(Unavailable):
    """A price list cannot be had, or is not what its provider describes."""


def price_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that waits no longer than a price list may take, and follows nobody elsewhere."""
    return httpx.AsyncClient(
        timeout=_LONGEST_S, follow_redirects=False, headers=UNPACKED, transport=transport
    )


async def read_json(client: httpx.AsyncClient, request: httpx.Request) -> Any:
    """The JSON that answers a request.

    Raises
    ------
    PricesUnavailable
        If nothing answers, or the answer is an error, too large or no JSON.
    """
    async with _asked(client, request) as answer:
        try:
            return orjson.loads(await read_bounded(answer, _MOST_BYTES))
        except orjson.JSONDecodeError:
            where = request.url.host
            raise PricesUnavailable(f"{where} did not answer with JSON") from None


async def read_lines(client: httpx.AsyncClient, request: httpx.Request) -> AsyncIterator[str]:
    """The lines of a long text that answers a request, which is never held as a whole.

    Raises
    ------
    PricesUnavailable
        If nothing answers, or the answer is an error, too large, or no text of lines.
    """
    read, rest = 0, b""
    async with _asked(client, request) as answer:
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise AnswerTooLarge("is packed although it was asked not to be")
        async for part in answer.aiter_bytes():
            read += len(part)
            *lines, rest = (rest + part).split(b"\n")
            if read > _MOST_STREAMED_BYTES or len(rest) > _LONGEST_LINE_BYTES:
                raise AnswerTooLarge(
                    f"has more than {_MOST_STREAMED_BYTES / 1e6:g} MB, or no lines"
                )
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "replace")


@asynccontextmanager
async def _asked(
    client: httpx.AsyncClient, request: httpx.Request
) -> AsyncIterator[httpx.Response]:
    """An answer whose content has not been read, closed in the end."""
    where = request.url.host
    try:
        answer = await client.send(request, stream=True)
        try:
            if answer.status_code != httpx.codes.OK:
                raise PricesUnavailable(f"{where} answered {answer.status_code}")
            yield answer
        finally:
            await answer.aclose()
    except httpx.HTTPError as error:
        raise PricesUnavailable(f"{where} did not answer: {type(error).__name__}") from None
    except AnswerTooLarge as error:
        raise PricesUnavailable(f"the answer of {where} {error}") from None


def price_of(value: object) -> float | None:
    """A price above zero, also where it is written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        told = float(value)
    except ValueError:
        return None
    return told if 0.0 < told < 1e9 else None
