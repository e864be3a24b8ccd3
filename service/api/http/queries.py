"""The same questions as flat query parameters, for curl, links and caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.requests import Request as HttpRequest

from service.api.http.bodies import with_unknown_names
from service.api.http.meant import asked_elsewhere, called_elsewhere
from service.api.http.problems import Problem, invalid, joined, validation_problem
from service.estimation.nearest import hint, nearest
from service.estimation.references import CatalogRequest, Request
from service.estimation.rejection import FieldError

Asked = TypeVar("Asked", bound=Request)

_MOST_TEXT = 2_000
_MOST_PARAMETERS = 500


@lru_cache(maxsize=64)
def flat_fields(model: type[Request]) -> Mapping[str, tuple[str, ...]]:
    """Places in the request by the name of the query parameter that fills them.

    The fields of nested objects are parameters of their own name, those of objects within these
    are prefixed with the objects' (``offload_optimizer``). So are names that another field has
    already: ``pue_ratio`` is the facility's, ``compliance_pue_ratio`` that of rules. Objects that
    can only be given inline, lists of objects, objects of the caller's own names, and questions
    within a question have none.
    """
    fields = {
        name: nested
        for name, field in model.model_fields.items()
        if not _beyond_text(field.annotation)
        and not issubclass(nested := _nested(field.annotation) or Request, CatalogRequest)
    }
    found: dict[str, tuple[str, ...]] = {}
    for name, nested in fields.items():
        if nested is Request:
            found[name] = (name,)
            continue
        for flat, place in _places(nested, (name,), ""):
            taken = flat in found or fields.get(flat) is Request
            found[f"{name}_{flat}" if taken else flat] = place
    return found


def _places(
    model: type[Request], place: tuple[str, ...], prefix: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and places of what an object within the request holds."""
    for name, field in model.model_fields.items():
        nested = _nested(field.annotation)
        if _beyond_text(field.annotation):
            continue
        if nested is None:
            yield f"{prefix}{name}", (*place, name)
        else:
            yield from _places(nested, (*place, name), f"{prefix}{name}_")


def query_request(query: QueryParams, model: type[Asked]) -> Asked:
    """The request that query parameters spell.

    Raises
    ------
    Problem
        If a parameter is unknown, repeated or does not fit.
    """
    places = flat_fields(model)
    given: dict[str, Any] = {}
    errors: list[FieldError] = []
    seen: set[str] = set()
    _check_count(query)
    for name, text in query.multi_items():
        place = places.get(name)
        if place is None:
            errors.append(_unknown(name, places, asked_elsewhere(name, model)))
        elif name in seen:
            errors.append(FieldError(f"/{name}", "given more than once"))
        else:
            target = given
            for part in place[:-1]:
                target = target.setdefault(part, {})
            target[place[-1]] = text
        seen.add(name)
    try:
        asked = model.model_validate(given)
    except ValidationError as error:
        names = {place: name for name, place in places.items()}
        problem = validation_problem(error, model, names)
        raise joined(invalid(errors), problem.errors) if errors else problem from None
    if errors:
        raise invalid(errors)
    return asked


async def linked_request(http: HttpRequest, model: type[Asked]) -> Asked:
    """The request that a link spells.

    Raises
    ------
    Problem
        If a parameter is unknown, repeated or does not fit; names that the catalog does not have
        are told, too.
    """
    try:
        return query_request(http.query_params, model)
    except Problem as problem:
        raise await with_unknown_names(problem, http, dict(http.query_params), model) from None


def filled(query: QueryParams) -> QueryParams:
    """The parameters that hold something: a form sends those that were left empty as well."""
    return QueryParams([(name, text) for name, text in query.multi_items() if text.strip()])


def plain_query(query: QueryParams, known: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Query parameters as they were given, each known, given once and one of its choices.

    Parameters
    ----------
    query
        What was given.
    known
        JSON schemas of the parameters by name, of which ``enum`` is held here.

    Raises
    ------
    Problem
        If a parameter is unknown, repeated, too long or none of its choices.
    """
    given: dict[str, str] = {}
    errors = []
    _check_count(query)
    for name, text in query.multi_items():
        if name not in known:
            errors.append(_unknown(name, known))
        elif name in given:
            errors.append(FieldError(f"/{name}", "given more than once"))
        elif len(text) > _MOST_TEXT:
            errors.append(FieldError(f"/{name}", "is too long"))
        elif text not in known[name].get("enum", (text,)):
            choices = known[name]["enum"]
            detail = f"must be one of {', '.join(choices)}"
            errors.append(FieldError(f"/{name}", detail, suggestions=nearest(text, choices)))
        given.setdefault(name, text)
    if errors:
        raise invalid(errors)
    return given


def _unknown(name: str, known: Iterable[str], elsewhere: str | None = None) -> FieldError:
    """The error of a parameter that does not exist, or is another question's."""
    if elsewhere is not None:
        detail = f"unknown parameter: this answer does not depend on it; {elsewhere} takes it"
        return FieldError(f"/{name}", detail)
    near = called_elsewhere(name, known) or nearest(name, known)
    listed = "" if near else f" (known: {', '.join(sorted(known)) or 'none'})"
    return FieldError(f"/{name[:100]}", f"unknown parameter{hint(near)}{listed}", suggestions=near)


def _check_count(query: QueryParams) -> None:
    """Refuse more parameters than any operation has: each wrong one is told what is known."""
    count = len(query.multi_items())
    if count > _MOST_PARAMETERS:
        raise invalid(
            [
                FieldError(
                    "", f"{count} parameters are too many; no operation has {_MOST_PARAMETERS}"
                )
            ]
        )


def _beyond_text(annotation: Any) -> bool:
    """Whether no text spells a field: a list of request models, or values under own names."""
    if get_origin(annotation) is dict:
        return True
    if get_origin(annotation) is Annotated:
        return _beyond_text(get_args(annotation)[0])
    if get_origin(annotation) is list:
        return _nested(annotation) is not None
    options = [option for option in get_args(annotation) if option is not NoneType]
    return len(options) == 1 and _beyond_text(options[0])


def _nested(annotation: Any) -> type[Request] | None:
    """The request model that a field holds, if it holds nothing else but None."""
    options = [option for option in get_args(annotation) or (annotation,) if option is not NoneType]
    if len(options) == 1 and isinstance(options[0], type) and issubclass(options[0], Request):
        return options[0]
    return None


def whole_number(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """A parameter as a whole number within bounds, or None where it is not given.

    Raises
    ------
    Problem
        If it is none (422).
    """
    text = given.get(name)
    if text is None:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else least - 1
    if not least <= number <= most:
        raise invalid([FieldError(f"/{name}", f"must be a whole number from {least} to {most}")])
    return number
