"""Names in a request that says more wrong things than can be computed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from service.catalog.named_models import model_named
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.references import HUB_PREFIX, Request
from service.estimation.rejection import FieldError
from service.estimation.resolution import Problems, resolve_accelerator, resolve_region

_Find = Callable[[str, CatalogSnapshot], object]


def _model(name: str, snapshot: CatalogSnapshot) -> object:
    return None if name.startswith(HUB_PREFIX) else model_named(name, snapshot)


def _platform(name: str, snapshot: CatalogSnapshot) -> object:
    return snapshot.find("platforms", name)


#: Fields that name an entry of the catalog wherever a question has them, and lists of such names.
_ONE: Mapping[str, _Find] = MappingProxyType(
    {
        "model": _model,
        "accelerator": resolve_accelerator,
        "platform": _platform,
        "region": resolve_region,
    }
)
_SEVERAL: Mapping[str, _Find] = MappingProxyType(
    {"models": _model, "accelerators": resolve_accelerator, "regions": regions_meant}
)
#: Names of a list that are looked up, and letters of one.
_MOST_NAMES = 20
_LONGEST = 200


def unknown_names(
    given: object, model: type[Request], snapshot: CatalogSnapshot
) -> tuple[FieldError, ...]:
    """What the catalog does not have of the names at the top of a request that is refused anyway.

    Parameters
    ----------
    given
        What was sent, whatever it is.
    model
        What it was to be.
    snapshot
        The newest catalog: of requests for another one nothing is said.
    """
    if not isinstance(given, Mapping) or given.get("catalog_revision") or given.get("as_of"):
        return ()
    problems = Problems()
    for field in model.model_fields:
        named = given.get(field)
        if field in _ONE:
            _look_up(_ONE[field], f"/{field}", named, snapshot, problems)
        elif field in _SEVERAL and isinstance(named, list):
            for at, name in enumerate(named[:_MOST_NAMES]):
                _look_up(_SEVERAL[field], f"/{field}/{at}", name, snapshot, problems)
    return problems.errors


def _look_up(
    find: _Find, pointer: str, name: Any, snapshot: CatalogSnapshot, problems: Problems
) -> None:
    if isinstance(name, str) and 0 < len(name) <= _LONGEST:
        problems.attempt(pointer, partial(find, name, snapshot))
