"""Entries that a request names by an id that they had before: found, and said to be renamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from service.catalog.entries.references import Renaming
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning
from service.estimation.answers import warning_entries
from service.estimation.detail import WHOLE, Detail

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
#: A field whose keys name accelerators.
_BY_ACCELERATOR = "usd_per_accelerator_hour"
#: No request names anything deeper; bodies of a batch have not been looked at yet.
_DEEPEST = 12


def renamed_in(request: BaseModel, snapshot: CatalogSnapshot) -> tuple[Renaming, ...]:
    """Entries that a request names by a former id, each once, in the order of the request."""
    if not snapshot.renamed:
        return ()
    found = (
        snapshot.renamed.get(collection, {}).get(name.casefold())
        for collection, name in _named(request)
    )
    return tuple(dict.fromkeys(renaming for renaming in found if renaming is not None))


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


def _warning(renaming: Renaming) -> EstimateWarning:
    return EstimateWarning(
        "renamed_entry",
        f"{renaming.old!r} is called {renaming.new!r} since {renaming.since}: ask by that id",
    )


def _named(value: Any, field: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Collection and name of all that a request, or a part of it under a field, names."""
    if depth > _DEEPEST:
        return
    if isinstance(value, BaseModel):
        # What was not sent names nothing: defaults are called what they are now.
        for name in value.__class__.model_fields:
            if name in value.model_fields_set:
                yield from _named(getattr(value, name), name, depth + 1)
    elif isinstance(value, dict):
        for name, part in value.items():
            if field == _BY_ACCELERATOR:
                yield "accelerators", str(name)
            yield from _named(part, str(name), depth + 1)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _named(part, field, depth + 1)
    elif isinstance(value, str) and field in _NAMED_BY:
        yield _NAMED_BY[field], value
