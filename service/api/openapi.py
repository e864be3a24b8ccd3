"""The OpenAPI document as it is kept and served."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.caching import confirmed_or
from service.api.http.compression import accepts_gzip, packed_tag
from service.api.http.worker_threads import beside

router = APIRouter(include_in_schema=False)

_LEVEL = 6


class KeptDocument:
    """A document that is made when it is first asked for, and kept as compressed bytes.

    As objects it would take 20 MB of every worker, as bytes of the wire it takes 0.3.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    @cached_property
    def packed(self) -> bytes:
        """The document as JSON, compressed by gzip."""
        return gzip.compress(orjson.dumps(self._make()), _LEVEL, mtime=0)

    @cached_property
    def tag(self) -> str:
        """Its strong entity tag."""
        return f'"{sha256(self.packed).hexdigest()[:32]}"'

    def plain(self) -> bytes:
        """The document as JSON."""
        return gzip.decompress(self.packed)

    def read(self) -> dict[str, Any]:
        """The document as objects, for whoever wants to change nothing in it."""
        found: dict[str, Any] = orjson.loads(self.plain())
        return found


@router.get("/openapi.json")
async def openapi(http: HttpRequest) -> Response:
    """The document, compressed for who accepts it."""
    document: KeptDocument = http.app.state.document
    tag = await beside(http, lambda: document.tag)
    packed = accepts_gzip(http.scope)

    def make() -> Response:
        if packed:
            headers = {"Content-Encoding": "gzip"}
            return Response(document.packed, headers=headers, media_type="application/json")
        return Response(document.plain(), media_type="application/json")

    response = confirmed_or(http, tag, make, "Accept-Encoding")
    if packed and response.status_code == 200:
        response.headers["ETag"] = packed_tag(tag)
    return response
