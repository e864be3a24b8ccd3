"""Robust least squares in logarithms, with bounds and a weak prior for every constant.

Small and deterministic: the same rows give the same constants on every machine. A constant that
the rows say nothing about keeps its usual value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.core.elementwise import FloatArray
from service.core.interval import Z_90

#: Error ratio from which on a row pulls with its error only, no longer with its square.
_EXPECTED_LOG_ERROR = 0.1
_STEP = 1e-4
_MOST_ITERATIONS = 60
_SMALLEST_GAIN = 1e-7
_MOST_DAMPING = 1e8

#: Log estimates of all rows at several points: rows by points, from constants by points.
Predict = Callable[[Mapping[str, FloatArray]], FloatArray]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant to be fitted: where it usually lies, where it can lie, how freely it moves.

    ``spread`` is the prior's standard deviation as a share of the range, which is one of
    logarithms for ``logarithmic`` constants, such as times.
    """

    name: str
    usual: float
    low: float
    high: float
    spread: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where a value lies in the range, 0 to 1."""
        low, high, value = (self._scaled(number) for number in (self.low, self.high, value))
        return (value - low) / (high - low)

    def value(self, place: FloatArray) -> FloatArray:
        """The values at places of the range."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        scaled: FloatArray = low + (high - low) * place
        return np.exp(scaled) if self.logarithmic else scaled

    def _scaled(self, value: float) -> float:
        return float(np.log(value)) if self.logarithmic else value


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants, and the log residuals (estimate over measurement) that they leave."""

    values: Mapping[str, float]
    residuals: FloatArray
    weights: FloatArray

    @property
    def rows(self) -> int:
        """Rows that were fitted to."""
        return len(self.residuals)

    @property
    def log_sigma(self) -> float:
        """Spread of the residuals: nine tenths of the weight lie within 1.645 of it."""
        order = np.argsort(np.abs(self.residuals), kind="stable")
        reached = np.cumsum(self.weights[order]) / np.sum(self.weights)
        most = order[np.searchsorted(reached, 0.9 * (1.0 - 1e-9))]
        return float(np.abs(self.residuals[most]) / Z_90)


def fit(
    predict: Predict,
    measured: Sequence[float],
    constants: Sequence[Constant],
    weights: Sequence[float] | None = None,
) -> Fit:
    """Constants for which the estimates come closest to measurements.

    Parameters
    ----------
    predict
        Log estimates for given constants, all points at once.
    measured
        What was measured, positive, in the order of the estimates.
    constants
        What may change.
    weights
        How much each row counts; all the same, if None.

    Returns
    -------
    Fit
        The best values found within the bounds.

    References
    ----------
    Marquardt, 1963, https://doi.org/10.1137/0111030 (damped least squares); Charbonnier et al.,
    1997, https://doi.org/10.1109/83.551699 (the loss 2·(√(1 + r²) − 1), by reweighting)
    """
    target = np.log(np.asarray(measured, dtype=float))
    counts = np.ones(len(target)) if weights is None else np.asarray(weights, dtype=float)
    usual = np.array([constant.place(constant.usual) for constant in constants])
    spread = np.array([constant.spread for constant in constants])

    def estimates(places: FloatArray) -> FloatArray:
        points = {c.name: c.value(places[:, i]) for i, c in enumerate(constants)}
        deviating: FloatArray = predict(points) - target[:, None]
        return deviating

    def cost(residuals: FloatArray, place: FloatArray) -> float:
        scaled = residuals / _EXPECTED_LOG_ERROR
        prior = ((place - usual) / spread) ** 2
        return float(2.0 * np.sum(counts * (np.sqrt(1.0 + scaled**2) - 1.0)) + np.sum(prior))

    place = np.clip(usual, 0.0, 1.0)
    residuals, slopes = _slopes(estimates, place)
    best, damping = cost(residuals, place), 1.0
    for _ in range(_MOST_ITERATIONS):
        pull = counts / np.sqrt(1.0 + (residuals / _EXPECTED_LOG_ERROR) ** 2)
        scaled = slopes / _EXPECTED_LOG_ERROR
        gradient = scaled.T @ (pull * residuals / _EXPECTED_LOG_ERROR)
        gradient += (place - usual) / spread**2
        curvature = (scaled.T * pull) @ scaled + np.diag(1.0 / spread**2)
        before = best
        while damping < _MOST_DAMPING:
            tried = _step(place, gradient, curvature, damping)
            found = estimates(tried[None, :])[:, 0]
            new = cost(found, tried)
            if new < best:
                place, best, damping = tried, new, damping / 5.0
                break
            damping *= 4.0
        if before - best < _SMALLEST_GAIN * max(before, 1.0):
            break
        residuals, slopes = _slopes(estimates, place)
    residuals = estimates(place[None, :])[:, 0]
    values = {c.name: float(c.value(place[i : i + 1])[0]) for i, c in enumerate(constants)}
    return Fit(values, residuals, counts)


def _slopes(
    estimates: Callable[[FloatArray], FloatArray], place: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Residuals at a place, and their derivatives by every constant."""
    count = len(place)
    inward = np.where(place > 0.5, -_STEP, _STEP)
    points = np.vstack([place, place + np.diag(inward)])
    found = estimates(points)
    return found[:, 0], (found[:, 1:] - found[:, :1]) / inward[None, :count]


def _step(
    place: FloatArray, gradient: FloatArray, curvature: FloatArray, damping: float
) -> FloatArray:
    """A damped step that stays within the bounds; constants pressed against one rest."""
    pressed = ((place <= 0.0) & (gradient > 0.0)) | ((place >= 1.0) & (gradient < 0.0))
    free = np.flatnonzero(~pressed)
    step = np.zeros_like(place)
    if len(free):
        matrix = curvature[np.ix_(free, free)]
        matrix = matrix + damping * np.diag(np.diag(matrix))
        step[free] = -np.linalg.solve(matrix, gradient[free])
    moved: FloatArray = np.clip(place + step, 0.0, 1.0)
    return moved
