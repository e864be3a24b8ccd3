"""Validators and freshness of answers: entity tags, 304, Cache-Control."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.api.http.compression import plain_tag, tag_of_form
from service.catalog.entries.documents import Document, document_hash
from service.catalog.snapshot import CatalogSnapshot

_ENTRY_TAG = re.compile(r'"([0-9a-f]{64})\.[0-9a-f]{16}"')
#: A revision may land at any time, so a cached answer is asked about again after a minute.
_FRESH = "public, max-age=60"
#: What a key opens is for its holder alone.
_FRESH_FOR_ONE = "private, max-age=60"


def entity_tag(snapshot: CatalogSnapshot, *parts: str) -> str:
    """A strong entity tag of an answer that follows from the catalog and the given parts.

    The revision's number is part of it, because answers state it.
    """
    reports = snapshot.reports
    learnt = "" if reports is None else f"{reports.organisation or ''} {reports.revision}"
    whole = (str(snapshot.revision), snapshot.content_hash, learnt, ENGINE_VERSION, *parts)
    digest = sha256("\0".join(whole).encode("utf-8", "replace"))
    return f'"{digest.hexdigest()[:32]}"'


def entry_tag(document: Document, body: bytes) -> str:
    """A strong entity tag of a catalog entry as it is served.

    Its first part is of the entry alone: what is derived from others may change under a client
    that is about to change the entry without making its change a late one.
    """
    return f'"{document_hash(document)}.{sha256(body).hexdigest()[:16]}"'


def hash_in_tag(tag: str) -> str:
    """The document's hash in such a tag; "" for what is no such tag, which no document has."""
    found = _ENTRY_TAG.fullmatch(plain_tag(tag.strip()))
    return found[1] if found else ""


def is_keyed(http: HttpRequest) -> bool:
    """Whether an answer may depend on whose key the request has."""
    return "authorization" in http.headers


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
    return _kept(http, response, tag, held, vary)


async def confirmed_or_awaited(
    http: HttpRequest, tag: str, make: Callable[[], Awaitable[Response]], vary: str | None = None
) -> Response:
    """As :func:`confirmed_or`, of a response that takes its time."""
    held = _held(http)
    response = await make() if tag not in held else None
    return _kept(http, response, tag, held, vary)


def _held(http: HttpRequest) -> dict[str, str]:
    """Entity tags of what the client holds, as it states them, by those of the plain bytes."""
    stated = ",".join(http.headers.getlist("if-none-match"))
    tags = [part.strip().removeprefix("W/") for part in stated.split(",")]
    return {plain_tag(tag): tag for tag in tags}


def _kept(
    http: HttpRequest,
    response: Response | None,
    tag: str,
    held: Mapping[str, str],
    vary: str | None,
) -> Response:
    differs = "Authorization" if vary is None else f"Authorization, {vary}"
    sent_as = tag
    if response is None or "*" in held:
        # With the headers of what the client holds, which was compressed for it or not.
        sent_as = held.get(tag) or tag_of_form(tag, http.scope, response)
        response = Response(status_code=304)
        differs = f"{differs}, Accept-Encoding"
    response.headers["ETag"] = sent_as
    response.headers["Cache-Control"] = _FRESH_FOR_ONE if is_keyed(http) else _FRESH
    response.headers["Vary"] = differs
    return response
