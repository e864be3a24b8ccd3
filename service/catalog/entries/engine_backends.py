"""Backends of engines, from catalog documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.entries.documents import DocumentInvalid
from service.core.backends import BACKENDS, BackendOption
from service.core.hardware import HardwareList

_LISTS = ("hardware", "usual", "also_usual")


def backends_from(given: Any) -> tuple[BackendOption, ...]:
    """The backends of an engine, in the order of the file; none where nothing is given.

    Raises
    ------
    DocumentInvalid
        With a pointer to what is of the wrong type, or a backend that there is not.
    """
    if given is None:
        return ()
    options = given.get("options") if isinstance(given, Mapping) else None
    if not isinstance(options, list) or not options:
        raise DocumentInvalid("/backends/options", "must be a list")
    found = tuple(_option(one, f"/backends/options/{at}") for at, one in enumerate(options))
    if len({one.id for one in found}) < len(found):
        raise DocumentInvalid("/backends/options", "two backends have the same id")
    return found


def _option(given: Any, pointer: str) -> BackendOption:
    if not isinstance(given, Mapping):
        raise DocumentInvalid(pointer, "must be an object")
    known = next((one for one in BACKENDS if one == given.get("id")), None)
    if known is None:
        raise DocumentInvalid(f"{pointer}/id", f"must be one of {', '.join(BACKENDS)}")
    return BackendOption(known, *(_hardware(given, part, pointer) for part in _LISTS))


def _hardware(given: Mapping[Any, Any], part: str, pointer: str) -> HardwareList:
    named = given.get(part, [])
    if not isinstance(named, list):
        raise DocumentInvalid(f"{pointer}/{part}", "must be a list")
    return HardwareList(frozenset(map(str, named)))
