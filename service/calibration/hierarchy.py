"""Constants that belong to levels, fitted together: what rows say little about leans on a parent.

A term has a value that holds for all rows, and further down its levels a deviation for each key,
such as a hardware family's from its vendor's. Deviations have a Gaussian prior around zero, so that
a key with few rows stays close to its parent (partial pooling), and one without rows is its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import least_squares

from service.core.elementwise import FloatArray

#: Error ratio from which on a row pulls with its error only, no longer with its square.
EXPECTED_LOG_ERROR = 0.1
#: Share of a range over which values bend towards its ends.
_BEND = 0.02
_STEP = 1e-4
_SMALLEST_GAIN = 1e-4
_MOST_EVALUATIONS = 60
_REWEIGHTINGS = 12

Keys: TypeAlias = Mapping[str, str]
#: Log estimates of some rows, by their indices, from constants by name: all arrays have a row for
#: each of these rows, and a column for each of the points that are asked for at once.
Predict: TypeAlias = Callable[[Sequence[int], Mapping[str, FloatArray]], FloatArray]


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a term: the kind of key that it has, and how far keys usually deviate.

    ``tau`` is the prior's standard deviation of a key from its parent, as a share of the range.
    """

    kind: str
    tau: float


@dataclass(frozen=True, slots=True)
class Term:
    """A constant to be fitted: where it usually lies, where it can lie, and whose property it is.

    ``spread`` is the standard deviation of the prior of the value that holds for all, as a share
    of the range, which is one of logarithms for ``logarithmic`` constants, such as times.
    ``levels`` go from the widest to the narrowest; ``usual_of`` says what is usual for keys of
    these where that is known to be something else, the narrowest counting.
    """

    name: str
    usual: float
    low: float
    high: float
    spread: float
    levels: tuple[Level, ...] = ()
    logarithmic: bool = False
    usual_of: Mapping[str, float] = field(default_factory=dict)

    def usual_place(self, keys: Keys) -> float:
        """Where the value lies that is usual for something with these keys, 0 to 1."""
        named = [keys[level.kind] for level in self.levels if level.kind in keys]
        known = [self.usual_of[key] for key in named if key in self.usual_of]
        return self.place(known[-1] if known else self.usual)

    def place(self, value: float) -> float:
        """Where a value lies in the range, 0 to 1."""
        low, high, value = (self._scaled(number) for number in (self.low, self.high, value))
        return (value - low) / (high - low)

    def value(self, place: Any) -> Any:
        """The values at places, which bend where they would leave the range."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        scaled = low + (high - low) * _bent(place)
        return np.exp(scaled) if self.logarithmic else scaled

    def _scaled(self, value: float) -> float:
        return float(np.log(value)) if self.logarithmic else value


@dataclass(frozen=True)
class Problem:
    """Rows, terms, and the deviations that are to be found: one for each pair of term and key.

    ``columns`` gives a deviation's place by term, kind and key (the last two are empty for what
    holds for all), ``scales`` its prior's standard deviation, ``index`` the columns that each row's
    terms add up, from the places that are ``usual`` for it.
    """

    predict: Predict
    terms: tuple[Term, ...]
    columns: Mapping[tuple[str, str, str], int]
    scales: FloatArray
    index: np.ndarray[Any, np.dtype[np.intp]]
    usual: FloatArray
    parents: Mapping[tuple[str, str, str], Keys]
    target: FloatArray
    counts: FloatArray
    expected_log_error: float = EXPECTED_LOG_ERROR

    def linearised(self, deviations: FloatArray, rows: list[int]) -> tuple[FloatArray, ...]:
        """Residuals of rows, and their slopes by the places of the terms, at given deviations."""
        added = np.append(deviations * self.scales, 0.0)[self.index[rows]].sum(axis=2)
        places = self.usual[rows] + added
        return _slopes(self.predict, rows, self.terms, places, self.target[rows])

    def jacobian(self, slopes: FloatArray, rows: list[int]) -> FloatArray:
        """Slopes of rows by the deviations."""
        scales = np.append(self.scales, 0.0)
        found = np.zeros((len(rows), len(scales)))
        at = np.arange(len(rows))
        for number in range(len(self.terms)):
            for level in range(self.index.shape[2]):
                column = self.index[rows, number, level]
                found[at, column] += slopes[:, number] * scales[column]
        return found[:, :-1]

    def pull(self, rows: list[int], residuals: FloatArray) -> FloatArray:
        """How strongly rows pull by the squares of their errors, in the robust loss."""
        scaled = (residuals / self.expected_log_error) ** 2
        found: FloatArray = self.counts[rows] / np.sqrt(1.0 + scaled) / self.expected_log_error**2
        return found


@dataclass(frozen=True)
class Fitted:
    """Fitted terms at all levels.

    ``deviations`` are in units of their priors' standard deviations. ``rows`` are those that were
    fitted to, ``residuals`` their estimates over measurements, in logarithms, and ``slopes`` the
    derivatives of their log estimates by the places of all terms.
    """

    problem: Problem
    deviations: FloatArray
    rows: list[int]
    residuals: FloatArray
    slopes: FloatArray

    @cached_property
    def covariance(self) -> FloatArray:
        """Posterior covariance of the deviations, in units of their priors, linearised."""
        jacobian = self.problem.jacobian(self.slopes, self.rows)
        pull = self.problem.pull(self.rows, self.residuals)
        curvature = _curvature(jacobian, pull)
        found: FloatArray = cho_solve(cho_factor(curvature), np.eye(len(self.deviations)))
        return found

    def keys(self, term: Term, kind: str) -> list[tuple[str, Keys]]:
        """Keys of a kind that rows have of a term, in order, each with all keys down to it."""
        return [
            (key, {**above, kind: key})
            for (name, known, key), above in sorted(
                self.problem.parents.items(), key=lambda one: one[0]
            )
            if (name, known) == (term.name, kind)
        ]

    def place(self, term: Term, keys: Keys) -> float:
        """Place of a term for something with these keys; keys that no row has do not deviate."""
        columns = self._columns_of(term, keys)
        deviation = float(self.deviations[columns] @ self.problem.scales[columns])
        return term.usual_place(keys) + deviation

    def values(self, keys: Keys) -> dict[str, float]:
        """Values of all terms for something with these keys."""
        return {term.name: float(term.value(self.place(term, keys))) for term in self.problem.terms}

    def informed_ratio(self, term: Term, kind: str, key: str) -> float:
        """How much of its prior's spread a deviation has lost to what rows say [-]; 0 is none."""
        column = self.problem.columns[term.name, kind, key]
        return 1.0 - sqrt(self.covariance[column, column])

    def variance(self, slopes: FloatArray, keys: Keys) -> float:
        """Variance of a log estimate that comes from not knowing the terms better [-].

        Parameters
        ----------
        slopes
            Derivatives of the log estimate by the places of all terms.
        keys
            What it is an estimate of; levels whose keys no row has vary as their priors do.
        """
        known = self.problem.columns
        row = np.zeros(len(self.deviations))
        unknown = 0.0
        for term, slope in zip(self.problem.terms, slopes, strict=True):
            for column in self._columns_of(term, keys):
                row[column] += slope * self.problem.scales[column]
            for level in term.levels:
                if level.kind in keys and (term.name, level.kind, keys[level.kind]) not in known:
                    unknown += float(slope * level.tau) ** 2
        return float(row @ self.covariance @ row) + unknown

    def _columns_of(self, term: Term, keys: Keys) -> list[int]:
        found = [self.problem.columns[term.name, "", ""]]
        for level in term.levels:
            column = self.problem.columns.get((term.name, level.kind, keys.get(level.kind, "")))
            if column is not None:
                found.append(column)
        return found


def fit(
    predict: Predict,
    measured: Sequence[float],
    keys: Sequence[Keys],
    terms: Sequence[Term],
    weights: Sequence[float],
    expected_log_error: float = EXPECTED_LOG_ERROR,
) -> Fitted:
    """Terms for which the estimates come closest to measurements.

    Parameters
    ----------
    predict
        Log estimates for given constants.
    measured
        What was measured, positive, a row each.
    keys
        Keys of each row by kind of level. A term has no deviation for a kind that a row lacks.
    terms
        What may change.
    weights
        How much each row counts.
    expected_log_error
        Error, as a logarithm, from which on a row pulls with its error only [-].

    Returns
    -------
    Fitted
        The best deviations, and what the rows say of each.

    Raises
    ------
    ValueError
        If a key lies below different keys of a wider level.

    References
    ----------
    Gelman and Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models, 2006,
    chapter 12 (partial pooling); Charbonnier et al., 1997, https://doi.org/10.1109/83.551699 (the
    loss 2·(√(1 + r²) − 1)); Branch, Coleman, Li, 1999, https://doi.org/10.1137/S1064827595289108.
    """
    columns, scales = _columns(terms, keys)
    problem = Problem(
        predict=predict,
        terms=tuple(terms),
        columns=columns,
        scales=scales,
        index=_index(terms, keys, columns),
        usual=np.array([[term.usual_place(row) for term in terms] for row in keys]),
        parents=_parents(terms, keys),
        target=np.log(np.asarray(measured, dtype=float)),
        counts=np.asarray(weights, dtype=float),
        expected_log_error=expected_log_error,
    )
    rows, size = list(range(len(measured))), len(scales)
    kept: dict[bytes, tuple[FloatArray, ...]] = {}

    def linearised(deviations: FloatArray) -> tuple[FloatArray, ...]:
        """Residuals and slopes come from one evaluation, of which the last is kept."""
        known = deviations.tobytes()
        if known not in kept:
            kept.clear()
            kept[known] = problem.linearised(deviations, rows)
        return kept[known]

    def residuals(deviations: FloatArray) -> FloatArray:
        return np.concatenate([linearised(deviations)[0] / expected_log_error, deviations])

    def jacobian(deviations: FloatArray) -> FloatArray:
        of_rows = problem.jacobian(linearised(deviations)[1], rows) / expected_log_error
        return np.vstack([of_rows, np.eye(size)])

    def loss(squares: FloatArray) -> FloatArray:
        """Soft L1 of rows, by their weights, and squares of priors: value and two derivatives."""
        robust = 1.0 + squares[: len(rows)]
        value = np.concatenate([2.0 * problem.counts * (robust**0.5 - 1.0), squares[len(rows) :]])
        first = np.concatenate([problem.counts * robust**-0.5, np.ones(size)])
        second = np.concatenate([-0.5 * problem.counts * robust**-1.5, np.zeros(size)])
        return np.stack([value, first, second])

    found = least_squares(
        residuals,
        np.zeros(size),
        jac=jacobian,
        loss=loss,
        ftol=_SMALLEST_GAIN,
        xtol=_SMALLEST_GAIN,
        gtol=None,
        max_nfev=_MOST_EVALUATIONS,
    )
    left, slopes = linearised(found.x)
    return Fitted(problem, found.x, rows, left, slopes)


def refit(fitted: Fitted, kept: Sequence[int], passes: int = 2) -> Fitted:
    """The same terms fitted to some of the rows only, starting from the fit to all of them.

    Parameters
    ----------
    fitted
        A fit to all rows.
    kept
        Indices of the rows to fit to.
    passes
        Steps of Gauss and Newton; estimates are computed anew before each but the first.
    """
    problem, rows = fitted.problem, list(kept)
    deviations = fitted.deviations
    residuals, slopes = fitted.residuals[rows], fitted.slopes[rows]
    for number in range(passes):
        if number:
            residuals, slopes = problem.linearised(deviations, rows)
        jacobian = problem.jacobian(slopes, rows)
        moved = _robust_step(residuals, jacobian, partial(problem.pull, rows), deviations)
        residuals = residuals + jacobian @ (moved - deviations)
        deviations = moved
    return Fitted(problem, deviations, rows, residuals, slopes)


def shared_weights(groups: Iterable[Sequence[str]], power: float = 1.0) -> list[float]:
    """Weights for which the rows of a group share one vote, or some.

    Parameters
    ----------
    groups
        What each row shares its votes within, such as its source.
    power
        One lets every group count the same, however many rows it has; zero every row [-].
    """
    listed = [tuple(group) for group in groups]
    sizes: dict[tuple[str, ...], int] = {}
    for group in listed:
        sizes[group] = sizes.get(group, 0) + 1
    return [sizes[group] ** -power for group in listed]


def _bent(place: Any) -> Any:
    """Places as they are, but towards the ends of the range, which they never leave."""
    bent = np.logaddexp(0.0, np.asarray(place) / _BEND)
    return _BEND * (bent - np.logaddexp(0.0, (np.asarray(place) - 1.0) / _BEND))


def _columns(
    terms: Sequence[Term], keys: Sequence[Keys]
) -> tuple[dict[tuple[str, str, str], int], FloatArray]:
    """Columns of all deviations by term, kind and key, and their priors' standard deviations."""
    columns: dict[tuple[str, str, str], int] = {}
    scales: list[float] = []
    kinds = {level.kind for term in terms for level in term.levels}
    known = {kind: sorted({row[kind] for row in keys if kind in row}) for kind in kinds}
    for term in terms:
        columns[term.name, "", ""] = len(scales)
        scales.append(term.spread)
        for level in term.levels:
            for key in known[level.kind]:
                columns[term.name, level.kind, key] = len(scales)
                scales.append(level.tau)
    return columns, np.array(scales)


def _index(
    terms: Sequence[Term], keys: Sequence[Keys], columns: Mapping[tuple[str, str, str], int]
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Columns that each row's terms add up: rows by terms by levels, past the end where none."""
    most = 1 + max((len(term.levels) for term in terms), default=0)
    index = np.full((len(keys), len(terms), most), len(columns), dtype=np.intp)
    for number, term in enumerate(terms):
        index[:, number, 0] = columns[term.name, "", ""]
        for depth, level in enumerate(term.levels, start=1):
            for row, known in enumerate(keys):
                if level.kind in known:
                    index[row, number, depth] = columns[term.name, level.kind, known[level.kind]]
    return index


def _parents(terms: Sequence[Term], keys: Sequence[Keys]) -> dict[tuple[str, str, str], Keys]:
    """The keys above each key of a term: those that its rows have at wider levels."""
    found: dict[tuple[str, str, str], Keys] = {}
    for term in terms:
        for depth, level in enumerate(term.levels):
            wider = [one.kind for one in term.levels[:depth]]
            for row in keys:
                if level.kind in row:
                    above = {kind: row[kind] for kind in wider if kind in row}
                    known = found.setdefault((term.name, level.kind, row[level.kind]), above)
                    if known != above:
                        raise ValueError(f"{row[level.kind]} is part of {known} and of {above}")
    return found


def _curvature(jacobian: FloatArray, pull: FloatArray) -> FloatArray:
    """Second derivatives of the loss by the deviations, with those of their priors."""
    found: FloatArray = (jacobian.T * pull) @ jacobian
    found.flat[:: len(found) + 1] += 1.0
    return found


def _robust_step(
    residuals: FloatArray,
    jacobian: FloatArray,
    pull_of: Callable[[FloatArray], FloatArray],
    deviations: FloatArray,
) -> FloatArray:
    """Deviations with the least loss where residuals change linearly, by reweighting."""
    moved = deviations
    for _ in range(_REWEIGHTINGS):
        pull = pull_of(residuals + jacobian @ (moved - deviations))
        curvature = _curvature(jacobian, pull)
        wanted = (jacobian.T * pull) @ (jacobian @ deviations - residuals)
        moved = cho_solve(cho_factor(curvature), wanted)
    return moved


def _slopes(
    predict: Predict,
    rows: Sequence[int],
    terms: Sequence[Term],
    places: FloatArray,
    target: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Residuals at places of the terms, and their derivatives by each of these."""
    inward = np.where(places > 0.5, -_STEP, _STEP)
    values: dict[str, FloatArray] = {}
    for number, term in enumerate(terms):
        moved = np.repeat(places[:, number : number + 1], len(terms) + 1, axis=1)
        moved[:, number + 1] += inward[:, number]
        values[term.name] = term.value(moved)
    logs = predict(rows, values)
    return logs[:, 0] - target, (logs[:, 1:] - logs[:, :1]) / inward
