"""What engines start with, from catalog documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from service.catalog.entries.documents import DocumentInvalid
from service.core.engine_defaults import DefaultsRule, UsageContext
from service.core.hardware import HardwareList

#: Numbers of a rule, and what each must lie above and not beyond.
_NUMBERS = {
    "max_running_sequences": (0.0, 1e6),
    "chunked_prefill_tokens": (0.0, 1e7),
    "memory_utilization_ratio": (0.0, 1.0),
    "kept_bytes": (0.0, 1e15),
    "least_memory_bytes": (0.0, 1e15),
    "most_sequence_tokens": (0.0, 1e8),
}
_LISTS = ("hardware", "but_not")
_TRUTHS = ("whole_prompts", "prompts_apart")
_KNOWN = frozenset({*_NUMBERS, *_LISTS, "usage", *_TRUTHS, "source", "note"})


def defaults_from(given: Any, pointer: str) -> tuple[DefaultsRule, ...]:
    """Rules of what an engine or a generation starts with; none where nothing is given.

    Raises
    ------
    DocumentInvalid
        With a pointer to what is of the wrong type or out of bounds.
    """
    if given is None:
        return ()
    if not isinstance(given, list):
        raise DocumentInvalid(pointer, "must be a list")
    return tuple(_rule(one, f"{pointer}/{position}") for position, one in enumerate(given))


def _rule(given: Any, pointer: str) -> DefaultsRule:
    if not isinstance(given, Mapping):
        raise DocumentInvalid(pointer, "must be an object")
    unknown = sorted(set(map(str, given)) - _KNOWN)
    if unknown:
        raise DocumentInvalid(f"{pointer}/{unknown[0]}", "is not a field of a rule of defaults")
    numbers = {name: _number(given[name], name, pointer) for name in _NUMBERS if name in given}
    usage = given.get("usage")
    if usage is not None and usage not in get_args(UsageContext):
        raise DocumentInvalid(f"{pointer}/usage", "must be server or offline")
    return DefaultsRule(
        **numbers,
        whole_prompts=_truth(given, "whole_prompts", pointer),
        prompts_apart=_truth(given, "prompts_apart", pointer),
        usage=cast("UsageContext | None", usage),
        hardware=_hardware(given, "hardware", pointer),
        but_not=_hardware(given, "but_not", pointer),
    )


def _number(given: Any, name: str, pointer: str) -> float:
    least, most = _NUMBERS[name]
    if isinstance(given, bool) or not isinstance(given, int | float) or not least < given <= most:
        raise DocumentInvalid(
            f"{pointer}/{name}", f"must be a number above {least:g} and up to {most:g}"
        )
    return float(given)


def _truth(given: Mapping[Any, Any], name: str, pointer: str) -> bool | None:
    truth = given.get(name)
    if truth is not None and not isinstance(truth, bool):
        raise DocumentInvalid(f"{pointer}/{name}", "must be true or false")
    return truth


def _hardware(given: Mapping[Any, Any], name: str, pointer: str) -> HardwareList:
    named = given.get(name, [])
    if not isinstance(named, list):
        raise DocumentInvalid(f"{pointer}/{name}", "must be a list")
    return HardwareList(frozenset(map(str, named)))
