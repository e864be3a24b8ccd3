"""The fitted parts together: their entries, without a source, and the spreads that this shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
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
    _known: dict[str, Fitted] = field(default_factory=dict)

    def entries(self) -> list[CalibrationEntry]:
        """Entries of all levels."""
        return self._entries(self.fitted)

    def entries_without(self, source: str) -> list[CalibrationEntry]:
        """The same without the rows of a source, and the spreads that others show."""
        return [*self._entries(self.without(source)), *self.spreads(source)]

    def spreads(self, without: str | None = None) -> list[CalibrationEntry]:
        """How far estimates are off for sources that were left out, by what they tell of.

        The errors of one source may stay out of it.
        """
        by_id: dict[str, tuple[Keys, list[int]]] = {}
        for number, row in enumerate(self.rows):
            if row.source == without:
                continue
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

    def without(self, source: str) -> Fitted:
        """The terms fitted to the rows of all other sources."""
        if source not in self._known:
            kept = [at for at, row in enumerate(self.rows) if row.source != source]
            whole = len(kept) == len(self.rows)
            self._known[source] = self.fitted if whole else refit(self.fitted, kept, self.passes)
        return self._known[source]

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
    def errors(self) -> list[tuple[float, tuple[tuple[str, str], ...]]]:
        """Log errors of all rows, each by constants that were fitted without its source.

        With each come the parts and kinds of levels that were not measured without it.
        """
        found: dict[int, tuple[float, tuple[tuple[str, str], ...]]] = {}
        problem = self.fitted.problem
        if self.unseen_predict is not None:
            problem = replace(problem, predict=self.unseen_predict)
        for source in sorted({row.source for row in self.rows}):
            fitted = self.without(source)
            numbers = [at for at, row in enumerate(self.rows) if row.source == source]
            errors, _ = problem.linearised(fitted.deviations, numbers)
            without = with_entries(self.snapshot, self._entries(fitted))
            for number, error in zip(numbers, errors, strict=True):
                missing = tuple(self._missing(self.rows[number].keys, without))
                found[number] = float(error), missing
        return [found[number] for number in range(len(self.rows))]

    def _missing(self, keys: Keys, snapshot: CatalogSnapshot) -> Iterator[tuple[str, str]]:
        for part, terms in self.terms.items():
            kinds = tuple(level.kind for level in terms[0].levels)
            for kind in held(snapshot, part, kinds, keys).missing:
                yield part, kind
