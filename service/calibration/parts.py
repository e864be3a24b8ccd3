"""The fitted parts together: their entries, without a source, and the spreads that this shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group, by_source
from service.calibration.hierarchy import Fitted, Keys, Predict, Term, refit
from service.calibration.left_out import with_entries
from service.calibration.levels import LEAST_INFORMED_RATIO, level_entries, main_source, rows_of
from service.calibration.rows import Row
from service.calibration.spread import (
    FEWEST_SOURCES,
    LeftOut,
    borne_out,
    coverage_ratio,
    three_sigmas,
    unmeasured_sigmas,
)
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.levels import held, unmeasured

#: A log error by constants that were fitted without the row, and the parts and kinds of the levels
#: that were not measured without it.
Unseen: TypeAlias = tuple[float, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Part:
    """Terms fitted to rows, and how their entries are written.

    ``spread_of`` names the spread that a row tells of, whose levels ``spread_levels`` gives.
    ``least_informed_ratio`` says from when on a deviation is written [-], ``passes`` how often
    constants without a source are approached. Where estimates use other constants than these,
    ``unseen_predict`` takes such as were fitted without the source of each row, too.
    """

    terms: Mapping[str, tuple[Term, ...]]
    rows: Sequence[Row]
    fitted: Fitted
    snapshot: CatalogSnapshot
    complete: Callable[[Mapping[str, float]], Mapping[str, float]]
    spread_of: Callable[[Any], str]
    spread_levels: Mapping[str, tuple[str, ...]]
    least_informed_ratio: float = LEAST_INFORMED_RATIO
    passes: int = 1
    unseen_predict: Predict | None = None
    _known: dict[Group, Fitted] = field(default_factory=dict)

    def entries(self) -> list[CalibrationEntry]:
        """Entries of all levels."""
        return self._entries(self.fitted)

    def entries_without(self, group: Group) -> list[CalibrationEntry]:
        """The same without the rows of a group, and the spreads that others show."""
        return [*self._entries(self.without(group)), *self.spreads(group)]

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """How far estimates are off for sources that were left out, by what they tell of.

        The errors of one group may stay out of it.
        """
        by_id: dict[str, tuple[Keys, list[int]]] = {}
        for number in self.beside(without):
            row = self.rows[number]
            spread = self.spread_of(row)
            by_id.setdefault(spread, ({"part": spread}, []))[1].append(number)
            for kind in self.spread_levels[spread]:
                applies: Keys = {"part": spread, kind: row.keys[kind]}
                by_id.setdefault(f"{spread}/{row.keys[kind]}", (applies, []))[1].append(number)
        found = []
        left_out = self.left_out
        for id_, (applies, numbers) in sorted(by_id.items()):
            counts = Counter(self.rows[number].source for number in numbers)
            if id_ != applies["part"] and len(counts) < FEWEST_SOURCES:
                continue
            borne = borne_out([left_out[number] for number in numbers])
            chosen = borne.rows
            sigmas = three_sigmas(chosen)
            variance = sum(sigma**2 for sigma in sigmas.values())
            errors = np.abs([one.error for one in chosen])
            added = unmeasured_sigmas(self.terms, self.fitted, numbers)
            borne_ratio = borne.unmeasured_ratio**0.5
            figures = sigmas | {name: sigma * borne_ratio for name, sigma in added.items()}
            source = main_source(counts)
            found.append(
                CalibrationEntry(
                    id_,
                    applies,
                    f"By {rows_of(counts)}, each source estimated by constants fitted without it: "
                    f"half of the figures lie within a factor {np.exp(np.median(errors)):.2f}, and "
                    f"{coverage_ratio(chosen, variance):.0%} inside the interval.",
                    {name: rounded(value) for name, value in figures.items()},
                    source,
                    int(self.snapshot.sources[source].document["year"]),
                )
            )
        return found

    def _entries(self, fitted: Fitted) -> list[CalibrationEntry]:
        return level_entries(
            self.terms,
            fitted,
            self.rows,
            self.snapshot,
            self.complete,
            self.least_informed_ratio,
        )

    def beside(self, group: Group | None) -> list[int]:
        """Numbers of the rows that are in no group that is left out: of all, if none is."""
        return [at for at, row in enumerate(self.rows) if group is None or not group.holds(row)]

    def without(self, group: Group) -> Fitted:
        """The terms fitted to the rows of all others than a group's."""
        if group not in self._known:
            kept = self.beside(group)
            whole = len(kept) == len(self.rows)
            self._known[group] = self.fitted if whole else refit(self.fitted, kept, self.passes)
        return self._known[group]

    def without_own(self, row: Row) -> Fitted:
        """The terms fitted to the rows of all other sources than a row's."""
        return self.without(self._sources[row.source])

    @cached_property
    def _sources(self) -> Mapping[str, Group]:
        return {group.key: group for group in by_source(row.document for row in self.rows)}

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """Errors of all rows, each by constants that were fitted without its source."""
        sizes = unmeasured_sigmas(self.terms, self.fitted, range(len(self.rows)))
        return [
            LeftOut(
                row.source,
                row.model,
                error,
                sum(sizes[unmeasured(*level)] ** 2 for level in missing),
            )
            for row, (error, missing) in zip(self.rows, self.errors, strict=True)
        ]

    @cached_property
    def errors(self) -> list[Unseen]:
        """Log errors of all rows, each by constants that were fitted without its source.

        With each come the parts and kinds of levels that were not measured without it.
        """
        found: dict[int, Unseen] = {}
        for group in self._sources.values():
            found |= self.unseen(group)
        return [found[number] for number in range(len(self.rows))]

    def unseen(self, group: Group) -> dict[int, Unseen]:
        """The same of the rows of a group, by constants that were fitted without it."""
        problem = self.fitted.problem
        if self.unseen_predict is not None:
            problem = replace(problem, predict=self.unseen_predict)
        fitted = self.without(group)
        numbers = [at for at, row in enumerate(self.rows) if group.holds(row)]
        errors, _ = problem.linearised(fitted.deviations, numbers)
        without = with_entries(self.snapshot, self._entries(fitted))
        return {
            number: (float(error), tuple(self._missing(self.rows[number].keys, without)))
            for number, error in zip(numbers, errors, strict=True)
        }

    def _missing(self, keys: Keys, snapshot: CatalogSnapshot) -> Iterator[tuple[str, str]]:
        for part, terms in self.terms.items():
            kinds = tuple(level.kind for level in terms[0].levels)
            for kind in held(snapshot, part, kinds, keys).missing:
                yield part, kind
