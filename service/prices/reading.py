"""Asking a provider's public price list: bounded in time, size and pages."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

from service.core.errors import Unavailable
from service.fetching import UNPACKED, AnswerTooLarge, read_bounded

#: A page of a price list has some hundred kilobytes.
_MOST_BYTES = 20_000_000
_LONGEST_S = 60.0


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
    where = request.url.host
    try:
        answer = await client.send(request, stream=True)
        try:
            if answer.status_code != httpx.codes.OK:
                raise PricesUnavailable(f"{where} answered {answer.status_code}")
            return orjson.loads(await read_bounded(answer, _MOST_BYTES))
        finally:
            await answer.aclose()
    except httpx.HTTPError as error:
        raise PricesUnavailable(f"{where} did not answer: {type(error).__name__}") from None
    except AnswerTooLarge as error:
        raise PricesUnavailable(f"the answer of {where} {error}") from None
    except ValueError:
        raise PricesUnavailable(f"{where} did not answer with JSON") from None


def price_of(value: object) -> float | None:
    """A price above zero, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0.0 < value < 1e9 else None
