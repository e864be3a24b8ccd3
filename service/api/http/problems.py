"""Errors as RFC 9457 problem details, whatever went wrong and wherever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from service.api.http.meant import (
    asked_elsewhere,
    choices_near,
    fields_at,
    paths_below,
    required_field,
    unknown_field,
)
from service.catalog.entries.references import UnknownReference
from service.core.errors import HeadroomError
from service.estimation.faults import corrections, fault
from service.estimation.nearest import nearest
from service.estimation.references import TAGS, Request
from service.estimation.rejection import FieldError

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
            "The request has errors",
            "The body or the query has errors. `errors` lists each with a JSON pointer to the "
            "field and says what is accepted.",
        ),
        ProblemType(
            "malformed-json",
            422,
            "The body is not valid JSON",
            "The body is not valid JSON (RFC 8259), or is nested too deeply.",
        ),
        ProblemType(
            "body-too-large",
            413,
            "The body is too large",
            "The body is larger than this service's configured limit.",
        ),
        ProblemType(
            "unsupported-media-type",
            415,
            "Unsupported type of body",
            "Bodies must be JSON, and not compressed; send `Content-Type: application/json`.",
        ),
        ProblemType(
            "not-acceptable",
            406,
            "Not available in that format",
            "The resource is not available in any of the types named in `Accept`.",
        ),
        ProblemType(
            "not-found",
            404,
            "Not found",
            "Nothing exists at this path, or the catalog has no entry with this id; the detail "
            "names similar ones.",
        ),
        ProblemType(
            "conflict",
            409,
            "Conflict with existing data",
            "What was sent contradicts data that the service already has; the detail says which.",
        ),
        ProblemType(
            "unauthorized",
            401,
            "An API key is required",
            "The operation requires an API key. None was sent, or it is unknown, expired or "
            "revoked. Send it as `Authorization: Bearer …`.",
        ),
        ProblemType(
            "forbidden",
            403,
            "The API key does not allow this",
            "The key is valid, but lacks the scope named in the detail.",
        ),
        ProblemType(
            "quota-reached",
            403,
            "No room left",
            "What you keep here has reached the limit that the operator set; the detail says "
            "which. It takes room even after it was withdrawn.",
        ),
        ProblemType(
            "precondition-failed",
            412,
            "The resource has changed",
            "The resource no longer matches `If-Match` or `If-None-Match`; somebody changed it. "
            "Read it again, and send your change with the new `ETag`.",
        ),
        ProblemType(
            "precondition-required",
            428,
            "If-Match is required",
            "To avoid overwriting other people's changes, send `If-Match` with the `ETag` of the "
            "entry to change, or `If-None-Match: *` to create a new one.",
        ),
        ProblemType(
            "gone",
            410,
            "Gone",
            "The resource existed and was deleted, or has expired. Send the original request "
            "again to recreate it.",
        ),
        ProblemType(
            "method-not-allowed",
            405,
            "Method not allowed",
            "The path does not support this method; `Allow` lists the methods that it does.",
        ),
        ProblemType(
            "too-many-requests",
            429,
            "Too many requests",
            "You have exceeded the rate limit per minute. Try again after the number of seconds "
            "in `Retry-After`; `RateLimit` says how much is left.",
        ),
        ProblemType(
            "extra-missing",
            501,
            "Not installed here",
            "The answer needs a library that this service was installed without, to be small. The "
            "detail has the command that adds it; `/readyz` lists what is there.",
        ),
        ProblemType(
            "unavailable",
            503,
            "Temporarily unavailable",
            "A service that this request needs, usually the database, cannot be reached. Try "
            "again after the number of seconds in `Retry-After`.",
        ),
        ProblemType(
            "internal-error",
            500,
            "Internal error",
            "The service failed; the request is not at fault. Quote `instance` when you report it.",
        ),
    )
}
#: Fields that an object is told to have, where something else was sent.
_MOST_SHOWN = 4
#: Of bodies, whose fields have no other names than those of their model.
_NO_NAMES: Mapping[tuple[str, ...], str] = MappingProxyType({})
_BY_STATUS = {kind.status: kind.slug for kind in reversed(PROBLEM_TYPES.values())}


class Problem(HeadroomError):
    """Ends the handling of a request with a problem response."""

    def __init__(
        self,
        slug: str,
        detail: str,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        suggestions: Iterable[str] = (),
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.suggestions = tuple(suggestions)


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
    if problem.suggestions:
        body["suggestions"] = list(problem.suggestions)
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
    if error.suggestions:
        listed["suggestions"] = [_printable(one) for one in error.suggestions]
    return listed


def not_found(what: str, path: str, unknown: UnknownReference) -> Problem:
    """The problem of an entry that does not exist, with links to those that may have been meant.

    Parameters
    ----------
    what
        What there is none of.
    path
        Where such entries stand.
    unknown
        What was looked for.
    """
    links = (f"{path}/{quote(id_)}" for id_ in unknown.suggestions)
    return Problem("not-found", f"no such {what}{unknown.hint}", suggestions=links)


def none_of(what: str, path: str, given: str, known: Iterable[str]) -> Problem:
    """The problem of a name that is none of those that stand under a path."""
    names = tuple(known)
    detail = f"no such {what}; choose from {', '.join(names)}"
    near = nearest(given, names)
    return Problem("not-found", detail, suggestions=(f"{path}/{quote(one)}" for one in near))


def slug_of_status(status: int) -> str:
    """The general kind of problem for an HTTP status."""
    return _BY_STATUS.get(status, "internal-error" if status >= 500 else "invalid-request")


def invalid(errors: Iterable[FieldError], most: int = _MOST_LISTED) -> Problem:
    """The problem of a request with errors in its fields, of which at most so many are listed."""
    listed = tuple(errors)
    first = listed[0]
    where = first.pointer or "the request"
    if first.line is not None:
        where = f"line {first.line}, column {first.column}"
    detail = f"{where}: {first.detail}"
    if len(listed) > 1:
        detail = f"{len(listed)} errors; the first is at {detail}"
    return Problem("invalid-request", detail, listed[:most])


def joined(problem: Problem, others: Iterable[FieldError]) -> Problem:
    """The problem of a request with further errors, of which those of the same fields go."""
    told = {error.pointer for error in problem.errors}
    more = [error for error in others if error.pointer not in told]
    if not more or problem.slug != "invalid-request" or len(told) >= _MOST_LISTED or "" in told:
        return problem
    return invalid([*problem.errors, *more])


def validation_problem(
    error: ValidationError, model: type[Request], names: Mapping[tuple[str, ...], str] = _NO_NAMES
) -> Problem:
    """The problem of a body or query that does not fit its model.

    Parameters
    ----------
    error
        What pydantic found.
    model
        What the body or query was to be.
    names
        Flat query parameters by their place in the model, to name the one that was sent; empty
        for a body.
    """
    if error.error_count() > _MOST_EXAMINED:
        return invalid([FieldError("", f"{error.error_count()} errors, too many to list")])
    listed = error.error_count() <= _MOST_LISTED
    details = error.errors(include_url=False, include_input=listed)
    if any(item["type"] == "json_invalid" for item in details):
        return Problem("malformed-json", fault(details[0]))
    found: list[FieldError] = []
    for item in details:
        place = tuple(part for part in item["loc"] if part not in TAGS)
        flat = names.get(tuple(str(part) for part in place))
        pointer = f"/{flat}" if flat else "".join(f"/{_escape(part)}" for part in place)
        detail = _printable(fault(item))
        if not place:
            pointer = _leading_field(detail, model, names)
        near = tuple(item.get("ctx", {}).get("suggestions", ()))
        near = near or corrections(item) or choices_near(item)
        if item["type"] == "model_type" and item.get("input") is not None:
            some = ", ".join(sorted(fields_at(model, place))[:_MOST_SHOWN])
            joint = ", " if "," in detail else " "
            detail = f"{detail}{joint}with fields such as {some}" if some else detail
        if item["type"] == "missing":
            detail = required_field(model, place)
        if item["type"] == "extra_forbidden" and len(found) < _MOST_LISTED:
            below = paths_below(model) if len(place) == 1 else None
            name = str(place[-1])
            elsewhere = asked_elsewhere(name, model) if len(place) == 1 else None
            detail, near = unknown_field(name, fields_at(model, place[:-1]), below, elsewhere)
        found.append(FieldError(pointer, detail, suggestions=near))
    return invalid(found)


def _leading_field(detail: str, model: type[Request], names: Mapping[tuple[str, ...], str]) -> str:
    """Pointer to the first field that a message about the whole request names; "" without one."""
    for word in detail.split():
        path = tuple(word.strip(",:;()").split("."))
        if all(name in fields_at(model, path[:at]) for at, name in enumerate(path)):
            return f"/{names[path]}" if path in names else "".join(f"/{name}" for name in path)
    return ""


def _escape(part: str | int) -> str:
    return _printable(str(part))[:200].replace("~", "~0").replace("/", "~1")


def _printable(text: str) -> str:
    """Text without lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()
