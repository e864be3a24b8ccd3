"""Inputs of requests by the path where they stand, and what an answer says beside the question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, get_args

from pydantic import BaseModel

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.references import FetchedModel, HubModel, StatedFigure
from service.estimation.rejection import Rejected
from service.estimation.use_cases import USE_CASES

#: What chooses the state of the catalog and of own measurements, and what is told beside figures.
NOT_FIGURES = {"catalog_revision", "as_of", "calibration", "calibration_revision", "explain"}
#: What chooses how much of an answer is told, and moves nothing that is.
TOLD = {"include", "fields"}
#: Parts of answers that only repeat the question, and sources.
ECHOED = {"provenance", "deployment", "explanation"}
#: What only names or describes hardware and places.
LABELS = {
    *("accelerator.id", "accelerator.name", "accelerator.vendor", "accelerator.release_year"),
    *("platform.id", "platform.name", "region.id", "region.name"),
}
#: The input's path, what else the request has (by path), and the value that the input gets.
Changes = dict[str, tuple[Mapping[str, Any], Any]]
#: Objects that are one value: figures with ends, and models that are looked up elsewhere.
VALUES = (StatedFigure, HubModel, FetchedModel)


def inputs(kind: type[BaseModel], left: frozenset[str] = frozenset(), place: str = "") -> set[str]:
    """Paths of all inputs of a request, those of requests within it, too.

    Objects in lists stand behind ``[]``. Paths in ``left`` are left out with all below them.
    """
    found: set[str] = set()
    for name, field in kind.model_fields.items():
        path = f"{place}.{name}" if place else name
        if path in left or (not place and name in NOT_FIGURES | TOLD):
            continue
        within = list(_requests(field.annotation))
        if not within:
            found.add(path)
        for inner, listed in within:
            found |= inputs(inner, left, f"{path}[]" if listed else path)
    return found - left


def _requests(annotation: Any, listed: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel) and annotation not in VALUES:
            yield annotation, listed
        return
    origin = getattr(annotation, "__origin__", None)
    if origin is dict:
        return
    for part in get_args(annotation):
        yield from _requests(part, listed or origin in (list, tuple))


def put(body: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The request with another value at a path."""
    name, _, rest = path.partition(".")
    if not rest:
        return {**body, name: value}
    listed = name.endswith("[]")
    name = name.removesuffix("[]")
    inner = body.get(name)
    if listed:
        first, *others = inner or [{}]
        return {**body, name: [put(first, rest, value), *others]}
    return {**body, name: put(inner if isinstance(inner, Mapping) else {}, rest, value)}


def figures(
    question: str, body: Mapping[str, Any], snapshot: CatalogSnapshot, echoed: Set[str] = ECHOED
) -> Any:
    """Figures and warnings of an answer, without what it says of the question and its sources."""
    use_case = USE_CASES[question]
    return bare(use_case.compute(use_case.request.model_validate(body), snapshot), echoed)


def bare(part: Any, echoed: Set[str]) -> Any:
    """A part of an answer without what only repeats the question."""
    if isinstance(part, Mapping):
        return {name: bare(inner, echoed) for name, inner in part.items() if name not in echoed}
    if isinstance(part, list | tuple):
        return [bare(inner, echoed) for inner in part]
    return part


def unmoved(
    question: str,
    base: Mapping[str, Any],
    changes: Changes,
    snapshot: CatalogSnapshot,
    echoed: Set[str] = ECHOED,
) -> list[str]:
    """Inputs that move nothing, and are not refused: each in a request that is answered."""
    return unmoved_by(lambda body: figures(question, body, snapshot, echoed), base, changes)


def unmoved_by(
    answered: Callable[[Mapping[str, Any]], Any], base: Mapping[str, Any], changes: Changes
) -> list[str]:
    """The same of whatever answers a request by its body."""
    known: dict[str, Any] = {}
    found = []
    for path, (others, value) in changes.items():
        asked = dict(base)
        for place, given in others.items():
            asked = put(asked, place, given)
        key = repr(asked)
        if key not in known:
            known[key] = answered(asked)
        try:
            moved = answered(put(asked, path, value)) != known[key]
        except Rejected:
            moved = True
        if not moved:
            found.append(path)
    return found
