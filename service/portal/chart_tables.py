"""The figures of a chart as a table to read, in the units of the picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.charts.bars import part_in_words
from service.charts.frame import Unit, axis_unit
from service.estimation.answers import Interval
from service.estimation.formatting import number

#: What the rows of a kind of chart are.
_ROWS = {
    "memory-breakdown": "Phase",
    "sensitivity": "Input",
    "throughput-latency": "Requests at once",
    "roofline": "Part of the model",
    "impacts-by-region": "Place",
    "impacts-map": "Place",
}
#: Rows beyond which a table is folded.
_MOST_OPEN = 30

#: Keeps the ends of an interval on one line.
_KEPT = "\N{NO-BREAK SPACE}"

Group = tuple[str, list[list[str]]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in groups that may have a name, below heads; ``measure`` is what all cells are."""

    measure: str
    heads: list[str]
    groups: list[Group]

    @property
    def folded(self) -> bool:
        """Whether it is so long that a page shows it when it is asked for."""
        return self.count > _MOST_OPEN

    @property
    def count(self) -> int:
        """How many rows it has."""
        return sum(len(rows) for _, rows in self.groups)


def chart_table(kind: str, findings: Mapping[str, Any]) -> Table:
    """The figures of a chart.

    A chart of bars has a row for each bar and a column for each of its parts; one with two
    measured axes has a row for each point, in groups where it has several lines.
    """
    first = _ROWS[kind]
    if findings["x_axis"] is None:
        return _of_bars(first, findings)
    units = {axis: axis_unit(findings, axis) for axis in ("x", "y")}
    heads = [first, *(_measure(findings, axis, unit) for axis, unit in units.items())]
    groups = list(_lines(findings["series"], units))
    return Table("", heads, groups if len(groups) > 1 else [("", groups[0][1])])


def _of_bars(first: str, findings: Mapping[str, Any]) -> Table:
    unit, lines = axis_unit(findings, "y"), findings["series"]
    measure = _measure(findings, "y", unit)
    columns = [
        {_name(point): _told(point["y"], unit) for point in line["points"]} for line in lines
    ]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    rows = [[label, *(column.get(label, "") for column in columns)] for label in labels]
    if len(lines) == 1:
        return Table("", [first, measure], [("", rows)])
    heads = [first, *(_capital(part_in_words(line["name"])) for line in lines)]
    return Table(measure, heads, [("", rows)])


def _lines(lines: Iterable[Mapping[str, Any]], units: Mapping[str, Unit]) -> Iterator[Group]:
    """Points by their line; a line of one point of an earlier line only marks that point."""
    found: dict[str, list[list[str]]] = {}
    for line in lines:
        rows = [
            [_name(point), *(_told(point[axis], unit) for axis, unit in units.items())]
            for point in line["points"]
        ]
        same = [row for earlier in found.values() for row in earlier if row in rows]
        if len(rows) == 1 and same:
            same[0][0] += f" ({line['name']})"
        else:
            found[_capital(line["name"])] = rows
    yield from found.items()


def _measure(findings: Mapping[str, Any], axis: str, unit: Unit) -> str:
    name = _capital(findings[f"{axis}_axis"]["name"])
    return f"{name} [{unit.label}]" if unit.label else name


def _name(point: Mapping[str, Any]) -> str:
    name: str = point.get("name", point["label"])
    return name


def _told(figure: Interval | None, unit: Unit) -> str:
    if figure is None:
        return ""
    value, low, high = (number(figure[end] / unit.size) for end in ("value", "low", "high"))
    return value if low == high else f"{value} ({low}{_KEPT}…{_KEPT}{high})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
