"""Reads request bodies: bounded in size and depth, JSON only, validated in one pass."""

from __future__ import annotations

import codecs
import re
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import Request as HttpRequest

from service.api.http.hub_models import with_hub_models
from service.api.http.problems import Problem, invalid, joined, validation_problem
from service.api.http.state import current_snapshot, shared
from service.estimation.bodies import parsed, refuse_repeated_keys
from service.estimation.formatting import megabytes
from service.estimation.named import unknown_names
from service.estimation.references import Request
from service.estimation.rejection import FieldError, Rejected

Asked = TypeVar("Asked", bound=Request)

_DEEPEST = 32
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in b"[]{}")


async def read_request(http: HttpRequest, model: type[Asked], limit_bytes: int) -> Asked:
    """The request that a body holds, with what it refers to on the Hub.

    Raises
    ------
    Problem
        If the body is too large (413), not JSON (415, 422) or not what the operation takes (422),
        if fields stand in the address (422), or the Hub is needed and does not answer (503).
    """
    _refuse_query(http)
    body = await _json_body(http, limit_bytes)
    try:
        request = parsed(model, body)
    except ValidationError as error:
        problem = validation_problem(error, model)
        if problem.slug == "malformed-json":
            raise _malformed(http, body, problem.detail) from None
        raise await with_unknown_names(problem, http, from_json(body), model) from None
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
    return await with_hub_models(request, shared(http).hub)


def _refuse_query(http: HttpRequest) -> None:
    """Refuse fields in the address, which would otherwise be silently without effect."""
    if http.query_params:
        detail = "unknown parameter: with POST, fields go into the body"
        raise invalid([FieldError(f"/{name[:100]}", detail) for name in http.query_params])


async def with_unknown_names(
    problem: Problem, http: HttpRequest, given: object, model: type[Request]
) -> Problem:
    """A problem with the names, too, that the caller's catalog does not have."""
    try:
        snapshot = await current_snapshot(http)
    except Problem:  # a key that opens nothing; what was sent is looked at before it
        return problem
    return joined(problem, unknown_names(given, model, snapshot))


async def read_json(http: HttpRequest, limit_bytes: int) -> Any:
    """The JSON that a body holds, whatever it says.

    Raises
    ------
    Problem
        If the body is too large (413), not JSON or has a key twice (415, 422).
    """
    body = await _json_body(http, limit_bytes)
    try:
        found = orjson.loads(body)
        refuse_repeated_keys(body)
    except orjson.JSONDecodeError as error:
        raise _malformed(http, body, str(error)) from None
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
    return found


def content_kind(http: HttpRequest) -> str:
    """The media type of a body without its parameters, in lower case."""
    return http.headers.get("content-type", "").split(";", 1)[0].strip().lower()


async def _json_body(http: HttpRequest, limit_bytes: int) -> bytes:
    kind = content_kind(http)
    if kind != "application/json" and not kind.endswith("+json"):
        given = f"is {kind[:100]!r}" if kind else "is missing"
        raise Problem("unsupported-media-type", f"the Content-Type {given}; send application/json")
    body = await read_body(http, limit_bytes)
    if is_too_deep(body):
        detail = f"brackets do not match, or are nested more than {_DEEPEST} levels deep"
        raise _malformed(http, body, detail)
    return body


def _malformed(http: HttpRequest, body: bytes, detail: str) -> Problem:
    """The problem of a body that is no JSON, told by its encoding where that is why."""
    coding = http.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        return Problem(
            "unsupported-media-type",
            f"the Content-Encoding is {coding[:100]!r}; send the body as it is",
            headers={"Accept-Encoding": "identity"},
        )
    if body.startswith(_BYTE_ORDER_MARKS):
        detail = "the body starts with a byte order mark; send UTF-8 without one"
    return Problem("malformed-json", detail)


def is_too_deep(body: bytes) -> bool:
    """Whether JSON is nested deeper than a request may be.

    Takes away the innermost pairs of brackets once for each level that is allowed. Brackets that
    do not match are left over as well; with few of them the parser says better what is wrong.
    """
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return False
    marks = _STRINGS.sub(b"", body).translate(_ONE_KIND, delete=_NO_BRACKET)
    for _ in range(_DEEPEST):
        marks = marks.replace(b"[]", b"")
    return bool(marks)


async def read_body(http: HttpRequest, limit_bytes: int) -> bytes:
    """The bytes of a body.

    Raises
    ------
    Problem
        If there are more than the limit (413).
    """
    stated = http.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > limit_bytes:
        raise _too_large(limit_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit_bytes: int) -> Problem:
    return Problem("body-too-large", f"a body may have at most {megabytes(limit_bytes)}")
