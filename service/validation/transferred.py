"""How well constants fitted without any row of some hardware, engine or load estimate it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.validation.left_out import LeftOutFigure, left_out_of
from service.validation.report.assessed import summary
from service.validation.report.statistics import Compared
from service.validation.report.targets import TARGETS

#: Where it lies in the catalog's folder, written by `./headroom calibrate --write --transfer`.
TRANSFERRED = Path("measurements") / "left_out_kinds.csv"
#: Groups of fewer configurations tell of nothing but these.
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Transferred:
    """Errors of a quantity by constants that were fitted without anything of ``kind`` and ``key``.

    Ratios [-]: median and 90th percentile of errors, share of figures inside the interval, upper
    over lower end of it, and the median of signed errors.
    """

    kind: str
    key: str
    quantity: str
    figures: int
    median_error_ratio: float
    p90_error_ratio: float
    coverage_ratio: float
    median_width_ratio: float
    median_signed_error_ratio: float


def transferred(
    groups: Iterable[tuple[str, str, Sequence[LeftOutFigure]]], compared: Sequence[Compared]
) -> Iterator[Transferred]:
    """Errors of groups that were left out whole, in their order.

    Parameters
    ----------
    groups
        Kind and key of each, and its figures as they were estimated without it.
    compared
        All figures that count, which say what they are figures of.
    """
    for kind, key, figures in groups:
        entries = left_out_of(figures, compared)
        for target in TARGETS:
            covered = [entry for entry in entries if target.covers(entry)]
            if len({(entry.source, entry.configuration) for entry in covered}) >= _FEWEST:
                found = summary(covered)
                ratios = {name: found[name] for name in found if name.endswith("_ratio")}
                yield Transferred(kind, key, target.name, found["figures"], **ratios)
