"""What other publishers state of entries of the catalog, and why nobody else does of some.

Packaged with the engine beside the catalog: an opinion is about the hardware or the offer that an
id names, never changes an estimate, and so is no part of a revision.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from service.settings import INSTALLATION

#: Figures this near to each other agree [-]; those further apart need a reason.
AGREEING_RATIO = 0.02

_TABLES = INSTALLATION / "hardware_catalog" / "cross_checks"
#: Of each collection: the column of its table that names the entry.
_ENTRY_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"accelerators": "accelerator", "platforms": "platform", "instances": "instance"}
)


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """A figure of an entry as another source states it.

    Attributes
    ----------
    figure
        Name of the figure; its unit is in the name.
    value
        What the source says.
    source
        Id of the source.
    reason
        Why it differs by more than :data:`AGREEING_RATIO` from the catalog's; "" where it agrees.
    region, kind, date
        Of a price of an instance: where, how it is rented, and when; "" for other figures.
    """

    figure: str
    value: float
    source: str
    reason: str
    region: str = ""
    kind: str = ""
    date: str = ""


def second_opinions(collection: str, entry_id: str) -> tuple[SecondOpinion, ...]:
    """What other sources state of an entry; none for most, and for collections without a table."""
    return _opinions(collection).get(entry_id, ())


def lone_because(collection: str, entry_id: str) -> str | None:
    """Why an entry has no second opinion, where somebody looked for one; None for others.

    A reason for ``provider/*`` holds for all entries of a provider that have none of their own.
    """
    provider, slash, _ = entry_id.partition("/")
    reasons = _reasons()
    own = reasons.get((collection, entry_id))
    return reasons.get((collection, f"{provider}/*")) if own is None and slash else own


def agrees(stated: float, opinion: float) -> bool:
    """Whether two sources say the same of a figure, within :data:`AGREEING_RATIO`."""
    return abs(opinion - stated) <= AGREEING_RATIO * abs(stated)


@cache
def _opinions(collection: str) -> Mapping[str, tuple[SecondOpinion, ...]]:
    column = _ENTRY_COLUMNS.get(collection)
    if column is None:
        return {}
    held: dict[str, list[SecondOpinion]] = {}
    for row in _rows(collection):
        entry_id = row.pop(column)
        value = float(row.pop("value"))
        held.setdefault(entry_id, []).append(SecondOpinion(value=value, **row))
    return {entry_id: tuple(told) for entry_id, told in held.items()}


@cache
def _reasons() -> Mapping[tuple[str, str], str]:
    return {(row["collection"], row["entry"]): row["reason"] for row in _rows("without")}


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (_TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as table:
        yield from csv.DictReader(table, strict=True)
