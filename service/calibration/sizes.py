"""Constants of memory whose spread is that of sizes, which follow from shapes, and of overheads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group
from service.calibration.hierarchy import (
    EXPECTED_LOG_ERROR,
    Fitted,
    Keys,
    Predict,
    Term,
    fit,
    shared_weights,
)
from service.calibration.levels import main_source, rows_of
from service.calibration.parts import Part
from service.calibration.spread import (
    FEWEST_SOURCES,
    quantile,
    unmeasured_sigmas,
    weights_beside,
    weights_by_source,
)
from service.core.elementwise import FloatArray
from service.core.interval import Z_90, Interval
from service.estimation.measurements.documents import MeasurementDocument

#: How far weights are off, by the figures of those who told what they take.
WEIGHTS = "weights_log_sigma"
#: What no constant decides, and intervals hold more often than what one does.
_SIZES = frozenset({"weights_bytes", "kv_cache_bytes"})
#: Share of left-out figures that intervals are to hold unless a part asks for another: fewer than
#: of speed, whose targets are wider.
COVERED_SHARE = 0.87
#: No size that was measured is surer than this unless a part says otherwise, and no overhead: logs
#: print three digits, and what is measured differs between runs by more than that.
LEAST_LOG_SIGMAS = (0.006, 0.08)
_SIZE_LOG_SIGMAS = np.linspace(LEAST_LOG_SIGMAS[0], 0.08, 75)
_OVERHEAD_LOG_SIGMAS = np.geomspace(LEAST_LOG_SIGMAS[1], 2.0, 40)
#: Sizes of the spread that are tried, as ratios to the likeliest.
_RATIOS = np.geomspace(0.5, 4.0, 100)
#: What an estimate moves by for this change of a constant is its share in the estimate.
STEP = 1e-3


_ASSUMED_WEIGHT = 0.5


class SizedRow(Protocol):
    """A measured size, and whose property its levels are."""

    @property
    def document(self) -> MeasurementDocument:
        """Where it stands."""

    @property
    def quantity(self) -> str:
        """What was measured."""

    @property
    def source(self) -> str:
        """Who published it."""

    @property
    def model(self) -> str:
        """What it was measured of."""

    @property
    def measured(self) -> float:
        """The size [B or token]."""

    @property
    def assumed(self) -> bool:
        """Whether settings were assumed that its source does not state."""

    @property
    def keys(self) -> Keys:
        """Keys of its levels."""


def fit_sizes(
    rows: Sequence[SizedRow],
    predict: Predict,
    terms: Sequence[Term],
    weight: float,
    expected_log_error: float = EXPECTED_LOG_ERROR,
) -> Fitted:
    """Constants at all levels for which the estimates come closest to what was measured.

    Parameters
    ----------
    rows, predict
        What was measured, and log estimates of it by constants.
    terms
        The constants.
    weight
        A row pulls as one of speed would that is this many times as far off: sizes are sure.
    expected_log_error
        Error, as a logarithm, from which on a row pulls with its error only [-].
    """
    shares = shared_weights([(row.source,) for row in rows], 0.5)
    weights = [
        weight * shared * (_ASSUMED_WEIGHT if row.assumed else 1.0)
        for row, shared in zip(rows, shares, strict=True)
    ]
    measured, keys = [row.measured for row in rows], [row.keys for row in rows]
    return fit(predict, measured, keys, terms, weights, expected_log_error)


@dataclass(frozen=True, kw_only=True)
class SizedPart(Part):
    """Constants of memory, whose spread is that of sizes and of overheads.

    ``shares_of`` gives what a row's logarithm moves by with sizes and with overheads, and the
    spread that it has beside these, by constants. ``besides`` gives figures that a class's spread
    states as well, or that of all, perhaps without a source, ``of_overheads`` the terms of which
    overheads are made. Intervals are to hold a ``covered_share`` of left-out figures, and sizes
    and overheads are no surer than ``least_log_sigmas`` [-].
    """

    rows: Sequence[SizedRow]
    shares_of: Callable[[Any, Mapping[str, float]], tuple[float, ...]]
    besides: Callable[[str | None, Group | None], Mapping[str, float]]
    of_overheads: Mapping[str, tuple[Term, ...]]
    covered_share: float = COVERED_SHARE
    least_log_sigmas: tuple[float, float] = LEAST_LOG_SIGMAS

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of all rows, by the constants of all."""
        return np.array([self.shares_of(row, self.fitted.values(row.keys)) for row in self.rows])

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """How far sizes and overheads are off for sources that were left out, by engine class.

        Classes have few sources, so that those of others count a little. The errors of one source
        may stay out of it.
        """
        every = self.beside(without)
        errors, shares = np.abs([error for error, _ in self.errors]), self.shares
        ((part, _),) = self.spread_levels.items()
        besides = self.besides(None, without)
        found = [self._spread(part, {"part": part}, every, errors, shares, besides)]
        for class_ in sorted({self.rows[at].keys["class"] for at in every}):
            numbers = [at for at in every if self.rows[at].keys["class"] == class_]
            if len({self.rows[at].source for at in numbers}) >= FEWEST_SOURCES:
                id_, applies = f"{part}/{class_}", {"part": part, "class": class_}
                besides = self.besides(class_, without)
                kin = [at for at in every if self.rows[at].keys["class"] != class_]
                found.append(self._spread(id_, applies, numbers, errors, shares, besides, kin))
        return found

    def spread_of_errors(
        self,
        _numbers: Sequence[int],
        errors: FloatArray,
        shares: FloatArray,
        weights: FloatArray,
        besides: Mapping[str, float],
    ) -> tuple[dict[str, float], FloatArray]:
        """Spreads of what rows of some numbers are made of, and what follows for each of them."""
        shares = _without_weights(shares, besides.get(WEIGHTS))
        sizes, overheads = likeliest(
            errors, shares, weights, self.covered_share, self.least_log_sigmas
        )
        spread = {"size_log_sigma": sizes, "overhead_log_sigma": overheads}
        return spread, _spread_of(shares, sizes, overheads)

    def _spreading(self, numbers: Sequence[int]) -> list[int]:
        """Those of some rows that tell of spread, and not of what no constant decides."""
        return [number for number in numbers if self.rows[number].quantity not in _SIZES]

    def _spread(
        self,
        id_: str,
        applies: Keys,
        numbers: Sequence[int],
        errors: FloatArray,
        shares: FloatArray,
        besides: Mapping[str, float],
        others: Sequence[int] = (),
    ) -> CalibrationEntry:
        at, beside = self._spreading(numbers), self._spreading(others)
        sources, kin = ([self.rows[one].source for one in each] for each in (at, beside))
        weights, own, both = weights_by_source(sources), errors[at], [*at, *beside]
        spread, sigmas = self.spread_of_errors(
            both, errors[both], shares[both], weights_beside(sources, kin), besides
        )
        sigmas = sigmas[: len(at)]
        inside = own <= Z_90 * sigmas
        counts = Counter(self.rows[number].source for number in at)
        figures = {**spread, **besides}
        figures |= unmeasured_sigmas(self.of_overheads, self.fitted, at)
        source = main_source(counts)
        return CalibrationEntry(
            id_,
            applies,
            f"By {rows_of(counts)}, each source estimated by constants fitted without it: half of "
            f"the figures lie within a factor {np.exp(quantile(own, weights, 0.5)):.3f}, and "
            f"{np.sum(weights[inside]):.0%} inside the interval.",
            {name: rounded(value) for name, value in figures.items()},
            source,
            int(self.snapshot.sources[source].document["year"]),
        )


def likeliest(
    errors: FloatArray,
    shares: FloatArray,
    weights: FloatArray,
    covered_share: float = COVERED_SHARE,
    least_log_sigmas: tuple[float, float] = LEAST_LOG_SIGMAS,
) -> tuple[float, float]:
    """Spreads of sizes and of overheads that errors bear out, and whose intervals hold enough.

    How the spread divides is what makes errors likeliest if they follow Laplace's distribution,
    under which a few that are far off count for little; its size is the least for which enough
    figures lie inside. The narrowest intervals that hold enough took one of both to be all but
    certain, as it happened.

    Parameters
    ----------
    errors
        How far each row is off, as logarithms without sign.
    shares
        What a row's logarithm moves by with sizes and with overheads, and the spread that it has
        beside these: rows by three [-].
    weights
        Weights of rows, which add up to one.
    covered_share
        Share of them that intervals are to hold [-].
    least_log_sigmas
        The least spreads of sizes and of overheads [-].
    """
    found = []
    least_size, least_overhead = least_log_sigmas
    for sizes in np.maximum(_SIZE_LOG_SIGMAS, least_size):
        for overheads in np.maximum(_OVERHEAD_LOG_SIGMAS, least_overhead):
            sigmas = _spread_of(shares, sizes, overheads)
            cost = float(weights @ (np.log(sigmas) + np.sqrt(2.0) * errors / sigmas))
            found.append((cost, float(sizes), float(overheads)))
    _, sizes, overheads = min(found)
    for ratio in _RATIOS:
        spread = (
            max(float(sizes * ratio), least_size),
            max(float(overheads * ratio), least_overhead),
        )
        if weights @ (errors <= Z_90 * _spread_of(shares, *spread)) >= covered_share:
            break
    return spread


def _without_weights(shares: FloatArray, weights_log_sigma: float | None) -> FloatArray:
    """Shares of sizes and of overheads, and the rest, with what weights add to one of these.

    Where nobody told what weights take, they are as unsure as other sizes.
    """
    sizes, overheads, rest, weights = shares.T
    if weights_log_sigma is None:
        return np.column_stack((np.hypot(sizes, weights), overheads, rest))
    return np.column_stack((sizes, overheads, np.hypot(rest, weights * weights_log_sigma)))


def _spread_of(shares: FloatArray, sizes: float, overheads: float) -> FloatArray:
    """Standard deviations of the logarithms of rows, by spreads of sizes and of overheads."""
    found: FloatArray = np.sqrt(
        (shares[:, 0] * sizes) ** 2
        + (np.maximum(shares[:, 1], STEP) * overheads) ** 2
        + shares[:, 2] ** 2
    )
    return found


def log_sigma_of(figure: Interval) -> float:
    """Standard deviation of a figure's logarithm, by its interval [-]."""
    if figure.low <= 0.0:
        return 0.0
    return float(np.log(figure.high / figure.low)) / (2.0 * Z_90)
