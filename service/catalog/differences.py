"""What changed between two sets of documents, entry by entry and field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from service.catalog.entries.documents import DocumentSet, escape


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A part of a document at a JSON pointer, before and after; ``missing`` says where it was not.

    ``before`` or ``after`` is None where the part is null or missing.
    """

    pointer: str
    before: Any
    after: Any
    missing: Literal["before", "after"] | None


@dataclass(frozen=True, slots=True)
class EntryChange:
    """An entry that came, went or changed; the fields are those of a changed one."""

    collection: str
    entry_id: str
    change: Literal["added", "removed", "changed"]
    fields: tuple[FieldChange, ...]


def differences(older: DocumentSet, newer: DocumentSet) -> Iterator[EntryChange]:
    """Entries that differ, by collection and id."""
    for collection in sorted({*older, *newer}):
        before, after = older.get(collection, {}), newer.get(collection, {})
        for entry_id in sorted({*before, *after}):
            if entry_id not in after:
                yield EntryChange(collection, entry_id, "removed", ())
            elif entry_id not in before:
                yield EntryChange(collection, entry_id, "added", ())
            elif before[entry_id] is after[entry_id]:
                continue
            elif fields := tuple(_fields("", before[entry_id], after[entry_id])):
                yield EntryChange(collection, entry_id, "changed", fields)


_ABSENT = object()


def _fields(pointer: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before is _ABSENT:
        yield FieldChange(pointer, None, after, "before")
    elif after is _ABSENT:
        yield FieldChange(pointer, before, None, "after")
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _fields(
                f"{pointer}/{escape(key)}", before.get(key, _ABSENT), after.get(key, _ABSENT)
            )
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            yield from _fields(
                f"{pointer}/{at}",
                before[at] if at < len(before) else _ABSENT,
                after[at] if at < len(after) else _ABSENT,
            )
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield FieldChange(pointer, before, after, None)
