"""What own reports do to estimates, as a section of the page about accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from service.core.learning import Likeness
from service.validation.learning.curves import (
    DRAWS,
    RELATIONS,
    CurvePoint,
    learning_curves,
)
from service.validation.learning.rows import GROUPS, SourceRow

_INTRODUCTION = f"""## What own reports change

Each source is taken for an organisation whose measurements nobody fitted. Some of its rows are
reported as its own, drawn {DRAWS} times with a fixed seed; the rest is predicted, without and with
the reports. Errors are those of sources left out of the fit, each source weighs the same, and the
rows without reports are the same rows. `./headroom learning` repeats the tables.
"""
_IN_SAMPLE = """
Constants were fitted to most sources of quantities with a *: errors of sources that were left out
are larger, and so is what reports take from them.
"""
_HEAD = """
| quantity | reports | sources | median error | nine in ten within | inside the interval | width |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def learning_section(
    rows: Sequence[SourceRow], likeness: Mapping[str, Likeness], left_out: frozenset[str]
) -> str:
    """The section in Markdown.

    Parameters
    ----------
    rows
        Measurements with the errors of their estimates.
    likeness
        How alike deployments are, by channel.
    left_out
        Quantities whose errors are those of constants fitted without each source.
    """
    points = learning_curves(rows, likeness)
    fitted = {group for group, names in GROUPS.items() if left_out.isdisjoint(names)}
    text = _INTRODUCTION
    if any(point.group in fitted for point in points):
        text += _IN_SAMPLE
    return text + "".join(_tables(points, fitted))


def _tables(points: Sequence[CurvePoint], fitted: Set[str]) -> Iterator[str]:
    for relation in RELATIONS:
        found = [point for point in points if point.relation == relation.name]
        if found:
            yield f"\n### {relation.name.capitalize()}\n{_HEAD}"
            yield from _lines(found, fitted)


def _lines(points: Iterable[CurvePoint], fitted: Set[str]) -> Iterator[str]:
    for point in points:
        without, own = point.without, point.own
        errors = [
            f"{before:.1%} → {after:.1%}".replace("%", " %")
            for before, after in (
                (without.median_error_ratio, own.median_error_ratio),
                (without.p90_error_ratio, own.p90_error_ratio),
            )
        ]
        inside = f"{without.coverage_ratio:.0%} → {own.coverage_ratio:.0%}".replace("%", " %")
        cells = (
            f"{point.group}{' *' if point.group in fitted else ''}",
            str(point.reported),
            str(own.sources),
            *errors,
            inside,
            f"{without.width_ratio:.2f} → {own.width_ratio:.2f}",
        )
        yield f"| {' | '.join(cells)} |\n"
