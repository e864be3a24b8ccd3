"""Errors as RFC 9457 problem details, whatever went wrong and wherever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from service.core.errors import HeadroomError
from service.estimation.rejection import FieldError
from service.estimation.requests import BY_ID, IN_LINE, ON_HUB

MEDIA_TYPE = "application/problem+json"

#: Errors that are listed; a body of a megabyte can hold a hundred thousand.
_MOST_LISTED = 100
_MOST_EXAMINED = 1_000


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem: the last part of its ``type`` URI, its status and what it means."""

    slug: str
    status: int
    title: str
    meaning: str


PROBLEM_TYPES = {
    kind.slug: kind
    for kind in (
        ProblemType(
            "invalid-request",
            422,
            "The request cannot be answered",
            "The body or the query has errors, each of which is listed under `errors` with a JSON "
            "pointer to the field and what would be accepted there.",
        ),
        ProblemType(
            "malformed-json",
            422,
            "The body is not JSON",
            "The body could not be read as JSON (RFC 8259), or is nested too deeply.",
        ),
        ProblemType(
            "body-too-large",
            413,
            "The body is too large",
            "The body exceeds the limit that the service is configured with.",
        ),
        ProblemType(
            "unsupported-media-type",
            415,
            "The body is of another type",
            "Bodies are JSON: send `Content-Type: application/json`.",
        ),
        ProblemType(
            "not-acceptable",
            406,
            "No representation of that type",
            "The resource is not available in any of the types that `Accept` names.",
        ),
        ProblemType(
            "not-found",
            404,
            "Not found",
            "There is nothing at this path, or no catalog entry of this id; the detail names the "
            "nearest ones.",
        ),
        ProblemType(
            "conflict",
            409,
            "Conflicts with what is there",
            "What was sent cannot stand beside what the service holds already; the detail says "
            "what that is.",
        ),
        ProblemType(
            "unauthorized",
            401,
            "An API key is needed",
            "The operation needs an API key and there is none, or the one that was sent is "
            "unknown, expired or revoked. Send it as `Authorization: Bearer …`.",
        ),
        ProblemType(
            "forbidden",
            403,
            "The API key does not allow this",
            "The key holds, but has not the scope that the detail names.",
        ),
        ProblemType(
            "precondition-failed",
            412,
            "It is not what you last saw",
            "What `If-Match` or `If-None-Match` names is not what the service holds: somebody "
            "changed it since. Read it again, and send the change with its new `ETag`.",
        ),
        ProblemType(
            "precondition-required",
            428,
            "Say what the change is based on",
            "So that no change undoes another unseen, send `If-Match` with the `ETag` of the entry "
            "to be changed, or `If-None-Match: *` for one that is to be new.",
        ),
        ProblemType(
            "gone",
            410,
            "Gone",
            "It was here, and has been deleted or kept for as long as such things are; ask again "
            "for what it was made from.",
        ),
        ProblemType(
            "method-not-allowed",
            405,
            "Method not allowed",
            "The path exists, but not for this method; `Allow` lists those that it answers.",
        ),
        ProblemType(
            "too-many-requests",
            429,
            "Too many requests",
            "The caller asked for more than this service answers in a minute. Try again after the "
            "number of seconds in `Retry-After`; `RateLimit` tells what is left.",
        ),
        ProblemType(
            "unavailable",
            503,
            "Not available now",
            "Something that this request needs, usually the database, cannot be reached. Try again "
            "after the number of seconds in `Retry-After`.",
        ),
        ProblemType(
            "internal-error",
            500,
            "The service failed",
            "A fault of the service, not of the request. Quote `instance` when reporting it.",
        ),
    )
}
_BY_STATUS = {kind.status: kind.slug for kind in reversed(PROBLEM_TYPES.values())}


class Problem(HeadroomError):
    """Ends the handling of a request with a problem response."""

    def __init__(
        self,
        slug: str,
        detail: str,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def problem_details(problem: Problem, instance: str | None = None) -> dict[str, Any]:
    """A problem's members as they go over the wire; without ``instance`` where it has none."""
    kind = PROBLEM_TYPES[problem.slug]
    body: dict[str, Any] = {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail,
    }
    if instance is not None:
        body["instance"] = instance
    if problem.errors:
        body["errors"] = [_listed(error) for error in problem.errors]
    return body


def problem_response(problem: Problem, request_id: str) -> Response:
    """The response that tells a client what went wrong."""
    body = problem_details(problem, f"urn:request:{request_id}")
    headers = {"Cache-Control": "no-store", **problem.headers}
    return Response(orjson.dumps(body), body["status"], headers=headers, media_type=MEDIA_TYPE)


def _listed(error: FieldError) -> dict[str, Any]:
    listed: dict[str, Any] = {"pointer": error.pointer, "detail": _printable(error.detail)}
    if error.line is not None:
        listed |= {"line": error.line, "column": error.column}
    return listed


def slug_of_status(status: int) -> str:
    """The general kind of problem for an HTTP status."""
    return _BY_STATUS.get(status, "internal-error" if status >= 500 else "invalid-request")


def invalid(errors: Iterable[FieldError], most: int = _MOST_LISTED) -> Problem:
    """The problem of a request with errors in its fields, of which at most so many are listed."""
    listed = tuple(errors)
    count = "1 error" if len(listed) == 1 else f"{len(listed)} errors"
    first = listed[0]
    where = first.pointer or "the request"
    if first.line is not None:
        where = f"line {first.line}, column {first.column}"
    detail = f"{count}; the first, at {where}: {first.detail}"
    return Problem("invalid-request", detail, listed[:most])


def validation_problem(error: ValidationError, names: Mapping[tuple[str, ...], str]) -> Problem:
    """The problem of a body or query that does not fit its model.

    Parameters
    ----------
    error
        What pydantic found.
    names
        Flat query parameters by their place in the model, to name the one that was sent; empty
        for a body.
    """
    if error.error_count() > _MOST_EXAMINED:
        return invalid([FieldError("", f"{error.error_count()} errors, too many to list")])
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if any(item["type"] == "json_invalid" for item in details):
        return Problem("malformed-json", details[0]["msg"])
    found = []
    for item in details:
        place = tuple(part for part in item["loc"] if part not in (BY_ID, IN_LINE, ON_HUB))
        flat = names.get(tuple(str(part) for part in place))
        pointer = f"/{flat}" if flat else "".join(f"/{_escape(part)}" for part in place)
        found.append(FieldError(pointer, _printable(item["msg"])))
    return invalid(found)


def _escape(part: str | int) -> str:
    return _printable(str(part))[:200].replace("~", "~0").replace("/", "~1")


def _printable(text: str) -> str:
    """Text without lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()
