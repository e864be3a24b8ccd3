"""Validators and freshness of answers: entity tags, 304, Cache-Control."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.catalog.snapshot import CatalogSnapshot

#: A revision may land at any time, so a cached answer is asked about again after a minute.
_FRESH = "public, max-age=60"


def entity_tag(snapshot: CatalogSnapshot, *parts: str) -> str:
    """A strong entity tag of an answer that follows from the catalog and the given parts.

    The revision's number is part of it, because answers state it.
    """
    whole = (str(snapshot.revision), snapshot.content_hash, ENGINE_VERSION, *parts)
    digest = sha256("\0".join(whole).encode("utf-8", "replace"))
    return f'"{digest.hexdigest()[:32]}"'


def confirmed_or(
    http: HttpRequest, tag: str, make: Callable[[], Response], vary: str | None = None
) -> Response:
    """A response that caches may keep, or 304 if the client holds it already.

    Parameters
    ----------
    http
        The request with its ``If-None-Match``, compared weakly (RFC 9110, 13.1.2).
    tag
        Entity tag of the representation asked for.
    make
        Makes the response; not called if the client holds it. A problem that it raises stands
        even against ``If-None-Match: *``, which holds only for what exists.
    vary
        Request headers that the representation depends on.
    """
    held = _held(http)
    response = make() if tag not in held else None
    return _kept(response, tag, held, vary)


async def confirmed_or_awaited(
    http: HttpRequest, tag: str, make: Callable[[], Awaitable[Response]], vary: str | None = None
) -> Response:
    """As :func:`confirmed_or`, of a response that takes its time."""
    held = _held(http)
    response = await make() if tag not in held else None
    return _kept(response, tag, held, vary)


def _held(http: HttpRequest) -> set[str]:
    """Entity tags of what the client holds."""
    stated = ",".join(http.headers.getlist("if-none-match"))
    return {part.strip().removeprefix("W/") for part in stated.split(",")}


def _kept(response: Response | None, tag: str, held: set[str], vary: str | None) -> Response:
    if response is None or "*" in held:
        response = Response(status_code=304)
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = _FRESH
    if vary is not None:
        response.headers["Vary"] = vary
    return response
