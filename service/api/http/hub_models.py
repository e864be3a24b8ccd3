"""Puts what the Hub holds in the place of references to it, before a use case sees the request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import orjson
from pydantic import ValidationError

from service.api.http.problems import Problem, invalid
from service.estimation.comparison.batch import Item, request_of
from service.estimation.references import HUB_PREFIX, FetchedModel, HubModel, Request
from service.estimation.rejection import FieldError, Rejected
from service.hub.client import HubAway, HubRefuses
from service.hub.hub import Hub
from service.hub.names import HubName, NameInvalid, hub_name

Asked = TypeVar("Asked", bound=Request)

#: Models of the Hub that one request may name.
_MOST_MODELS = 20
_RETRY_AFTER_S = "10"


async def with_hub_models(request: Asked, hub: Hub) -> Asked:
    """The request with the configurations of all models of the Hub that it names.

    Raises
    ------
    Problem
        If there is no such model (422), or the Hub does not answer (503).
    """
    wanted = _wanted(request)
    if not wanted:
        return request
    if len(wanted) > _MOST_MODELS:
        raise _too_many()
    results = await asyncio.gather(
        *(_fetched(given, hub) for _, given in wanted), return_exceptions=True
    )
    errors = []
    for (pointer, _), result in zip(wanted, results, strict=True):
        if isinstance(result, HubAway):
            raise Problem(
                "unavailable",
                f"the Hub {result}; paste the model's config.json as {{'config': …}} instead",
                headers={"Retry-After": _RETRY_AFTER_S},
            )
        if isinstance(result, HubRefuses | NameInvalid):
            spelled = "".join(f"/{part}" for part in pointer)
            errors.append(FieldError(spelled, str(result)))
        elif isinstance(result, BaseException):
            raise result
        else:
            request = _replaced(request, pointer, result)
    if errors:
        raise invalid(errors)
    return request


async def with_hub_items(bodies: Sequence[Mapping[str, Any]], hub: Hub) -> list[Item]:
    """The bodies of a batch, with what they refer to on the Hub; each is refused by itself."""
    named: set[str] = set()
    return [await _item(body, hub, named) if _may_name_hub(body) else body for body in bodies]


def _may_name_hub(body: Mapping[str, Any]) -> bool:
    """Whether a body could refer to the Hub; a look at its text is cheaper than to read it."""
    try:
        text = orjson.dumps(body)
    except orjson.JSONEncodeError:
        return True  # numbers that no field takes: reading it says which
    return b'"hub"' in text or f'"{HUB_PREFIX}'.encode() in text


async def _item(body: Mapping[str, Any], hub: Hub, named: set[str]) -> Item:
    """A body with what it refers to; ``named`` collects what the whole batch does."""
    try:
        request = request_of(body)
        named |= {repr(given) for _, given in _wanted(request)}
        if len(named) > _MOST_MODELS:
            raise _too_many()
        return await with_hub_models(request, hub)
    except ValidationError:
        return body  # refused with the others of its kind
    except Problem as problem:
        return Rejected(problem.errors or [FieldError("", problem.detail)])


def _wanted(request: Request) -> list[tuple[tuple[Any, ...], Any]]:
    """References to the Hub, each with its place."""
    return [
        (pointer, given)
        for path in model_places(type(request))
        if path[0] in request.model_fields_set  # no default names the Hub
        for pointer, given in _found(request, path)
        if _is_on_hub(given)
    ]


def _too_many() -> Problem:
    return invalid(
        [FieldError("", f"the request names more than {_MOST_MODELS} models of the Hub")]
    )


@lru_cache(maxsize=64)
def model_places(model: type[Request]) -> tuple[tuple[str, ...], ...]:
    """Paths of the fields of a request that refer to models; a list counts as its items."""
    places: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        kinds = set(_kinds(field.annotation))
        if HubModel in kinds:
            places.append((name,))
        else:
            nested = [
                kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Request)
            ]
            places += [(name, *rest) for kind in nested for rest in model_places(kind)]
    return tuple(dict.fromkeys(places))


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of, without their metadata."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    inner = get_args(annotation)
    if not inner:
        if annotation is not NoneType:
            yield annotation
        return
    for part in inner:
        yield from _kinds(part)


def _found(
    value: Any, path: tuple[str, ...], before: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What stands at a path, with where exactly: lists have many."""
    if value is None:
        return
    if isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _found(item, path, (*before, at))
    elif not path:
        yield before, value
    elif hasattr(value, path[0]):
        yield from _found(getattr(value, path[0]), path[1:], (*before, path[0]))


def _is_on_hub(given: Any) -> bool:
    if isinstance(given, str):
        return given.startswith(HUB_PREFIX)
    return isinstance(given, HubModel) and not isinstance(given, FetchedModel)


async def _fetched(given: str | HubModel, hub: Hub) -> FetchedModel:
    if isinstance(given, str):
        name = hub_name(given.removeprefix(HUB_PREFIX))
    else:
        name = HubName(given.hub, given.revision)
    files, may_be_old = await hub.files(name)
    index = None if files.elements_by_type is None else {"parameters": {**files.elements_by_type}}
    try:
        return FetchedModel(
            hub=files.repository,
            revision=files.commit,
            config=dict(files.config),
            safetensors_index=index,
            url=files.url,
            year=files.year,
            may_be_old=may_be_old,
        )
    except ValidationError:
        raise HubRefuses(f"the config.json of {name} is not understood") from None


def _replaced(value: Any, pointer: tuple[Any, ...], new: Any) -> Any:
    """A copy in which one place holds something else."""
    if not pointer:
        return new
    first, *rest = pointer
    if isinstance(value, list | tuple):
        items = list(value)
        items[first] = _replaced(items[first], tuple(rest), new)
        return type(value)(items)
    changed = _replaced(getattr(value, first), tuple(rest), new)
    return value.model_copy(update={first: changed})
