"""Entries and fields that a request names as they were called before: found, and said to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType

from service.catalog.entries.references import Renaming
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.estimation.answers import warning_entries
from service.estimation.detail import WHOLE, Detail
from service.estimation.references import RenamedField

Asked = TypeVar("Asked", bound=BaseModel)
Answered = TypeVar("Answered", bound=Mapping[str, Any])

#: Collections of what fields of requests name, one or several.
_NAMED_BY: Mapping[str, str] = {
    "accelerator": "accelerators",
    "accelerators": "accelerators",
    "added_memory": "memory-tiers",
    "draft_model": "models",
    "engine": "engines",
    "framework": "engines",
    "instance": "instances",
    "like": "platforms",
    "model": "models",
    "models": "models",
    "parent": "regions",
    "platform": "platforms",
    "region": "regions",
    "regions": "regions",
    "slow_memory": "memory-tiers",
    "tier": "memory-tiers",
}


@dataclass(frozen=True, slots=True)
class RenamedName:
    """A field that has had another name: the old one, today's, and since when (YYYY-MM-DD)."""

    old: str
    new: str
    since: str


#: A field whose keys name accelerators.
_BY_ACCELERATOR = "usd_per_accelerator_hour"
#: Types of values that name no entry: most fields hold one.
_NAMES_NOTHING = frozenset({int, float, bool, type(None)})
#: No request names anything deeper; bodies of a batch have not been looked at yet.
_DEEPEST = 12


def renamed_in(request: BaseModel, snapshot: CatalogSnapshot) -> tuple[Renaming | RenamedName, ...]:
    """What a request names as it was called before: its own fields first, then entries.

    Each once, by the names of the fields.
    """
    fields = _renamed_fields(type(request))
    named = tuple(told for name, told in fields.items() if name in request.model_fields_set)
    if not snapshot.renamed:
        return named
    found = (
        snapshot.renamed.get(collection, {}).get(name.casefold())
        for collection, name in _named(request)
    )
    return (*named, *dict.fromkeys(renaming for renaming in found if renaming is not None))


@cache
def _renamed_fields(kind: type[BaseModel]) -> Mapping[str, RenamedName]:
    """Fields of a question that have another name today."""
    return {
        name: RenamedName(name, told.name, told.since)
        for name, field in kind.model_fields.items()
        for told in field.metadata
        if isinstance(told, RenamedField)
    }


def with_renamings(
    compute: Callable[[Asked, CatalogSnapshot, Detail], Answered],
) -> Callable[..., Answered]:
    """A use case whose answers warn of the renamed entries that they were asked about."""

    def answered(request: Asked, snapshot: CatalogSnapshot, detail: Detail = WHOLE, /) -> Answered:
        answer = compute(request, snapshot, detail)
        found = renamed_in(request, snapshot)
        if not found:
            return answer
        told = warning_entries(_warning(renaming) for renaming in found)
        return cast("Answered", {**answer, "warnings": [*answer.get("warnings", ()), *told]})

    return answered


def _warning(renaming: Renaming | RenamedName) -> EstimateWarning:
    if isinstance(renaming, RenamedName):
        return EstimateWarning(
            "renamed_field",
            f"the field {renaming.old} is called {renaming.new} since {renaming.since}: send it by "
            "that name",
            renaming.old,
        )
    return EstimateWarning(
        "renamed_entry",
        f"{renaming.old!r} is called {renaming.new!r} since {renaming.since}: ask by that id",
    )


@cache
def _fields_that_name(kind: type[BaseModel]) -> tuple[str, ...]:
    """Fields of a request, or of a part of one, that name entries or have parts that may."""
    return tuple(
        name
        for name, field in sorted(kind.model_fields.items())
        if name in _NAMED_BY or name == _BY_ACCELERATOR or _may_name(field.annotation)
    )


def _may_name(annotation: Any) -> bool:
    """Whether values of a type may name entries, under whatever field they stand."""
    if isinstance(annotation, TypeAliasType):
        return _may_name(annotation.__value__)
    origin = get_origin(annotation)
    if origin is Literal:
        return False
    if origin is not None:
        return origin is dict or any(_may_name(part) for part in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return bool(_fields_that_name(annotation))
    return annotation in _OPEN


#: Types of values whose own fields may be called anything.
_OPEN = (Any, object, dict)


def _named(value: Any, field: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """Collection and name of all that a request, or a part of it under a field, names."""
    if isinstance(value, str):
        return [(_NAMED_BY[field], value)] if field in _NAMED_BY else []
    found: list[tuple[str, str]] = []
    if depth > _DEEPEST:
        return found
    if isinstance(value, BaseModel):
        # What was not sent names nothing: defaults are called what they are now.
        held, sent = value.__dict__, value.model_fields_set
        parts = [(name, held[name]) for name in _fields_that_name(type(value)) if name in sent]
    elif isinstance(value, dict):
        parts = [(str(name), part) for name, part in value.items()]
        if field == _BY_ACCELERATOR:
            found += [("accelerators", name) for name, _ in parts]
    elif isinstance(value, list | tuple):
        parts = [(field, part) for part in value]
    else:
        return found
    for name, part in parts:
        if type(part) not in _NAMES_NOTHING:
            found += _named(part, name, depth + 1)
    return found
