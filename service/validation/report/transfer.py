"""How well constants transfer to hardware, software, models and loads that nobody measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.estimation.measurements.compared import ComparedFigure
from service.validation.report.assessed import summary
from service.validation.report.statistics import Compared
from service.validation.report.targets import TARGETS
from service.validation.transferred import TransferredFigure

HEADING = "## What nobody measured"
EXPLANATION = (
    "A publication that is left out often ran what others measured as well. Here everything "
    "of a hardware family is left out at once, or of an engine, a class of engines, a format of "
    "weights, a kind of model, or of loads far from usual ones: what is estimated of it is what "
    "would be said of such hardware or software before anyone measured it, and its range is the "
    "wider one of stand-ins. Groups of one configuration are not shown, nor are quantities that no "
    "fitted constant decides. `./headroom calibrate --write --transfer` writes the comparison."
)
COLUMNS = (
    *("left out", "quantity", "figures"),
    *("median error", "p90 error", "inside", "width", "bias"),
)
#: Groups of fewer configurations tell of nothing but these.
_FEWEST = 2


def transferred_groups(
    figures: Iterable[TransferredFigure], compared: Sequence[Compared]
) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Kind and key of what was left out, quantity, and summary, in the order of the figures."""
    known = {(entry.id, entry.quantity): entry for entry in compared}
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in figures:
        entry = known.get((one.id, one.quantity))
        if entry is not None:
            unseen = ComparedFigure(
                one.quantity, entry.figure.measured, one.value, one.low, one.high
            )
            groups.setdefault((one.kind, one.key), []).append(replace(entry, figure=unseen))
    for (kind, key), entries in groups.items():
        for target in TARGETS:
            covered = [entry for entry in entries if target.covers(entry)]
            if len({(entry.source, entry.configuration) for entry in covered}) >= _FEWEST:
                yield kind, key, target.name, summary(covered)
