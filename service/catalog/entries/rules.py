"""Rules from catalog documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from service.catalog.entries.documents import Document, DocumentInvalid, canonical
from service.catalog.entries.entry import Entry, FigureOrigin
from service.core.compliance import Comparison, Condition, Effect, Rule, Status

_COMPARISONS = frozenset(get_args(Comparison))
_EFFECTS = frozenset(get_args(Effect))
_STATUSES = frozenset(get_args(Status))
_NUMBERS_ONLY = frozenset({"at_most", "at_least", "above", "below"})


def rule_from_document(document: Document) -> Entry[Rule]:
    """A rule from a catalog document.

    Raises
    ------
    DocumentInvalid
        With a pointer to whatever is of the wrong type or not known.
    """
    fields: Document = canonical(document)
    effect: Effect = _one_of(fields, "effect", _EFFECTS)
    status: Status = _one_of(fields, "status", _STATUSES)
    regions = fields.get("regions", [])
    if not isinstance(regions, list) or not all(isinstance(one, str) for one in regions):
        raise DocumentInvalid("/regions", "must be a list of ids")
    entry_id = str(fields["id"])
    rule = Rule(
        id=entry_id,
        regions=frozenset(regions),
        effect=effect,
        status=status,
        begins=fields.get("begins"),
        ends=fields.get("ends"),
        due=fields.get("due"),
        applies=_conditions(fields, "applies"),
        requires=_conditions(fields, "requires"),
    )
    year = int(str(fields.get("checked_on", "0"))[:4] or 0) or None
    stated = FigureOrigin("rules", entry_id, fields.get("source"), year, "datasheet")
    return Entry(entry_id, fields, rule, {"requirement": stated})


def _one_of(fields: Document, key: str, known: frozenset[str]) -> Any:
    value = fields.get(key)
    if value not in known:
        raise DocumentInvalid(f"/{key}", f"must be one of {', '.join(sorted(known))}")
    return value


def _conditions(fields: Document, key: str) -> tuple[Condition, ...]:
    listed = fields.get(key, [])
    if not isinstance(listed, list):
        raise DocumentInvalid(f"/{key}", "must be a list")
    return tuple(_condition(given, f"/{key}/{at}") for at, given in enumerate(listed))


def _condition(given: Any, pointer: str) -> Condition:
    if not isinstance(given, Mapping) or set(given) != {"fact", "comparison", "value"}:
        raise DocumentInvalid(pointer, "must have fact, comparison and value")
    fact, comparison, value = given["fact"], given["comparison"], given["value"]
    if not isinstance(fact, str) or not fact:
        raise DocumentInvalid(f"{pointer}/fact", "must be the name of a fact")
    if comparison not in _COMPARISONS:
        known = ", ".join(sorted(_COMPARISONS))
        raise DocumentInvalid(f"{pointer}/comparison", f"must be one of {known}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if comparison in _NUMBERS_ONLY and not number:
        raise DocumentInvalid(f"{pointer}/value", "must be a number")
    if comparison in ("before", "from") and not isinstance(value, str):
        raise DocumentInvalid(f"{pointer}/value", "must be a day")
    if not number and not isinstance(value, str | bool):
        raise DocumentInvalid(f"{pointer}/value", "must be a number, a text or a boolean")
    return Condition(fact, comparison, float(value) if number else value)
