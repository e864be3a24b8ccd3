"""What was measured on own machines corrects estimates: a Gaussian posterior on log errors.

The error of an estimate, ``log(measured / estimate)``, is the sum of parts that deployments share:
one of the organisation, one of the model, one of the engine on the hardware, and so on down to the
run. How much of the published variance each part carries is a :class:`Likeness`, fitted on
published measurements. Two deployments are alike as far as they share parts, so that reports of one
tell of the other by as much, and what shares nothing shifts nothing.

References
----------
Rasmussen, Williams, Gaussian Processes for Machine Learning, 2006, section 2.2,
https://gaussianprocess.org/gpml/; weights of outlying reports: Lange, Little, Taylor, Robust
statistical modeling using the t distribution, 1989, https://doi.org/10.2307/2290063.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from service.core.interval import Interval
from service.core.stacking import FIGURE

#: What corrections apply to: the time of decoding steps, of prompts, of training steps, memory
#: beside weights, caches and states, and power above idle.
CHANNELS = ("decode", "prefill", "step", "memory", "power")

#: A measured figure this many times off its estimate, either way, is taken for a mistake: of the
#: published ones that state their whole configuration, none is more than 24 times off by constants
#: fitted without its source, and other units are a thousand apart.
IMPLAUSIBLE_RATIO = 30.0
#: Spread of reading a figure off an instrument or a log [-], as the standard deviation of its log.
READING_LOG_SIGMA = 0.01
#: A figure teaches as far as channels move it: by this much of itself at least, and not much more.
LEAST_LOADING, MOST_LOADING = 0.1, 2.0

#: Loads differ by this much (distance of logarithms) where they share exp(-1) of a load's part.
_LOAD_SPAN = 1.5
#: Degrees of freedom of the distribution that weights of outlying reports come from.
_FREEDOM = 4.0
#: Reports that differ by less (standard deviation of the log) are never taken for outlying.
_LEAST_OUTLYING_LOG_SIGMA = 0.25
_PASSES = 10
#: Decimals of corrections and spreads: beyond what libraries of linear algebra differ by.
_DECIMALS = 6

Matrix = NDArray[np.float64]


def is_implausible(estimate: float, measured: float) -> bool:
    """Whether the two are so far apart that they cannot be about the same thing."""
    return not measured / IMPLAUSIBLE_RATIO <= estimate <= measured * IMPLAUSIBLE_RATIO


@dataclass(frozen=True, slots=True)
class Kin:
    """What a deployment shares with others, as names, and its load.

    ``deployment`` names everything but the load: formats, layout and settings. ``sequences`` run
    or are trained at once [-], ``tokens`` long [token].
    """

    model: str
    hardware: str
    engine: str
    deployment: str
    sequences: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Likeness:
    """Shares of the variance of log errors by what deployments have in common; they add up to one.

    ``deployment_ratio`` is shared by all loads of a deployment, ``load_ratio`` by loads near each
    other, ``model_hardware_ratio`` by other formats or counts, ``model_ratio`` by other hardware,
    ``hardware_engine_ratio`` by other models, ``organisation_ratio`` by everything that one
    organisation measures. ``row_ratio`` is of a run alone.
    """

    deployment_ratio: float
    load_ratio: float
    model_hardware_ratio: float
    model_ratio: float
    hardware_engine_ratio: float
    organisation_ratio: float
    row_ratio: float


@dataclass(frozen=True, slots=True)
class Observation:
    """A measured figure beside its estimate.

    ``elasticity_ratio`` says by how much of itself the figure grows with the factor of each channel
    (its elasticity) [-].
    """

    quantity: str
    log_ratio: float
    elasticity_ratio: Mapping[str, float]

    @property
    def nonsense(self) -> bool:
        """Whether it is so far off that it must be a mistake."""
        return not abs(self.log_ratio) <= log(IMPLAUSIBLE_RATIO)

    @property
    def tells(self) -> bool:
        """Whether channels move the figure enough, and not so much that only their limits tell."""
        moved = sum(abs(loading) for loading in self.elasticity_ratio.values())
        return LEAST_LOADING <= moved <= MOST_LOADING


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured in one run.

    ``log_sigma`` are the published spreads of the channels for the deployment [-].
    """

    id: int
    kin: Kin
    log_sigma: Mapping[str, float]
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Correction:
    """What to multiply a figure by, and the spread of its logarithm by [-]."""

    ratio: float = field(default=1.0, metadata=FIGURE)
    spread_ratio: float = field(default=1.0, metadata=FIGURE)

    def of(self, figure: Interval) -> Interval:
        """A non-negative figure corrected; what was exact stays exact."""
        value = figure.value * self.ratio
        if figure.low is figure.high:
            return Interval(value, value, value)
        return Interval(
            value,
            value - (figure.value - figure.low) * self.ratio * self.spread_ratio,
            value + (figure.high - figure.value) * self.ratio * self.spread_ratio,
        )


NO_CORRECTION = Correction()


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections of the calibration by channel, for one deployment."""

    decode: Correction = field(default=NO_CORRECTION, metadata=FIGURE)
    prefill: Correction = field(default=NO_CORRECTION, metadata=FIGURE)
    step: Correction = field(default=NO_CORRECTION, metadata=FIGURE)
    memory: Correction = field(default=NO_CORRECTION, metadata=FIGURE)
    power: Correction = field(default=NO_CORRECTION, metadata=FIGURE)


NO_CORRECTIONS = Corrections()


@dataclass(frozen=True, slots=True)
class Taught:
    """What reports say of one channel of a deployment.

    By the ids of the reports that say something of it, ``shared_ratio`` tells how alike it and the
    report's deployment are, between 0 and 1, and ``weight_ratio`` how far the report was believed,
    1 for fully.
    """

    correction: Correction
    shared_ratio: Mapping[int, float]
    weight_ratio: Mapping[int, float]


class Lessons:
    """Reports of one organisation, solved for once and asked about any number of deployments.

    Their order does not matter. The width of intervals follows from which reports there are and
    not from what they say, so that one more never makes an interval wider.

    Parameters
    ----------
    reports
        With ids of their own.
    likeness
        By channel; a channel without one learns nothing.
    """

    def __init__(self, reports: Iterable[Report], likeness: Mapping[str, Likeness]) -> None:
        self.likeness = likeness
        self.reports = tuple(sorted(reports, key=lambda report: report.id))
        rows = [
            (report, seen)
            for report in self.reports
            for seen in sorted(report.observations, key=lambda seen: seen.quantity)
        ]
        self.nonsense = tuple(dict.fromkeys(report.id for report, seen in rows if seen.nonsense))
        self._rows = [row for row in rows if row[1].tells and not row[1].nonsense]

    def about(self, kin: Kin, channel: str, log_sigma: float) -> Taught | None:
        """What the reports say of a channel of a deployment.

        Parameters
        ----------
        kin
            The deployment.
        channel
            One of :data:`CHANNELS`.
        log_sigma
            Published spread of the channel's figure for it [-].

        Returns
        -------
        Taught or None
            None where no report shares anything with it.
        """
        likeness = self.likeness.get(channel)
        if likeness is None or not self._rows or log_sigma <= 0.0:
            return None
        shares = alike((kin,), self._kins, likeness)[0]
        across = self._scales[channel] * shares
        if not across.any():
            return None
        shift, spread = (float(each[0]) for each in self._posterior(across[None, :]))
        near: dict[int, float] = {}
        believed: dict[int, float] = {}
        for row in np.flatnonzero(across):
            id_ = self._rows[row][0].id
            near[id_] = round(float(shares[row]), _DECIMALS)
            weight = round(float(self._weights[row]), _DECIMALS)
            believed[id_] = max(believed.get(id_, 0.0), weight)
        return Taught(
            Correction(
                ratio=round(exp(shift * log_sigma), _DECIMALS),
                spread_ratio=round(spread, _DECIMALS),
            ),
            shared_ratio=near,
            weight_ratio=believed,
        )

    def posteriors(self, kins: Sequence[Kin], channel: str) -> tuple[Matrix, Matrix]:
        """The same for many deployments at once, without the reports that it comes from.

        Returns
        -------
        array, array
            For each deployment the mean of the log error over its published spread, and what is
            left of that spread, between 0 and 1 [-].
        """
        likeness = self.likeness.get(channel)
        if likeness is None or not self._rows:
            return np.zeros(len(kins)), np.ones(len(kins))
        return self._posterior(alike(kins, self._kins, likeness) * self._scales[channel])

    def _posterior(self, across: Matrix) -> tuple[Matrix, Matrix]:
        """Means and spreads from the covariance with each figure, in units of published spreads."""
        halved = np.linalg.solve(self._factor, across.T)
        left = np.maximum(1.0 - (halved**2).sum(axis=0), 0.0)
        return across @ self._solved, np.sqrt(left)

    def ignored(self, kin: Kin, least_ratio: float) -> tuple[int, ...]:
        """Reports with nonsense in them whose deployments share at least so much with one."""
        wild = [report for report in self.reports if report.id in self.nonsense]
        if not wild or not self.likeness:
            return ()
        kins = [report.kin for report in wild]
        near = np.max([alike((kin,), kins, each)[0] for each in self.likeness.values()], axis=0)
        return tuple(
            report.id for report, ratio in zip(wild, near, strict=True) if ratio >= least_ratio
        )

    @cached_property
    def _kins(self) -> tuple[Kin, ...]:
        return tuple(report.kin for report, _ in self._rows)

    @cached_property
    def _scales(self) -> dict[str, Matrix]:
        """By how much a part of one published spread of a channel moves each figure [-]."""
        return {
            channel: np.array(
                [
                    seen.elasticity_ratio.get(channel, 0.0) * report.log_sigma.get(channel, 0.0)
                    for report, seen in self._rows
                ]
            )
            for channel in self.likeness
        }

    @cached_property
    def _errors(self) -> Matrix:
        return np.array([seen.log_ratio for _, seen in self._rows])

    @cached_property
    def _common(self) -> Matrix:
        """Covariance of what figures share with those of other runs."""
        kins = self._kins
        common = np.zeros((len(kins), len(kins)))
        for channel, likeness in self.likeness.items():
            scales = self._scales[channel]
            common += alike(kins, kins, likeness) * np.outer(scales, scales)
        return common

    @cached_property
    def _alone(self) -> Matrix:
        """Covariance of what figures share within a run, and of reading them."""
        ids = np.array([report.id for report, _ in self._rows])
        same = (ids[:, None] == ids[None, :]) * 1.0
        alone: Matrix = np.eye(len(ids)) * READING_LOG_SIGMA**2
        for channel, likeness in self.likeness.items():
            scales = self._scales[channel]
            alone = alone + same * np.outer(scales, scales) * likeness.row_ratio
        return alone

    @cached_property
    def _factor(self) -> Matrix:
        """Cholesky factor of the covariance of all figures."""
        factor = np.linalg.cholesky(self._common + self._alone)
        return np.asarray(factor, np.float64)

    @cached_property
    def _believed(self) -> tuple[Matrix, Matrix]:
        """Weights of the figures, and what errors amount to under them.

        What disagrees with what its like report is believed less: weights follow from how far a
        figure is from what all together say of it, in a fixed number of passes.
        """
        weights = np.ones(len(self._rows))
        spread = np.maximum(np.diag(self._alone), _LEAST_OUTLYING_LOG_SIGMA**2)
        solved: Matrix = np.zeros(len(self._rows))
        for _ in range(_PASSES):
            doubt = 1.0 / np.sqrt(weights)
            covariance = self._common + self._alone * np.outer(doubt, doubt)
            solved = np.asarray(np.linalg.solve(covariance, self._errors), np.float64)
            left = self._errors - self._common @ solved
            weights = np.minimum((_FREEDOM + 1.0) / (_FREEDOM + left**2 / spread), 1.0)
        return weights, solved

    @property
    def _weights(self) -> Matrix:
        return self._believed[0]

    @property
    def _solved(self) -> Matrix:
        return self._believed[1]


def alike(ones: Sequence[Kin], others: Sequence[Kin], likeness: Likeness) -> Matrix:
    """Shares of the variance of errors that deployments have in common, without those of runs.

    A sum of shares times whether something is the same, and of one that falls with the distance
    of loads: positive definite by construction.

    Returns
    -------
    array
        A row for each of ``ones`` and a column for each of ``others``, between 0 and 1 [-].
    """
    together = np.zeros((len(ones), len(others)))
    for part, same in same_parts(ones, others).items():
        together += getattr(likeness, f"{part}_ratio") * same
    return together


def same_parts(ones: Sequence[Kin], others: Sequence[Kin]) -> dict[str, Matrix]:
    """What deployments have in common, by the part of the error that comes from it, 1 for all."""

    def same(*names: str) -> Matrix:
        numbers: dict[object, int] = {}

        def codes(kins: Sequence[Kin]) -> NDArray[np.int64]:
            told = [tuple(getattr(kin, name) for name in names) for kin in kins]
            return np.array([numbers.setdefault(each, len(numbers)) for each in told], np.int64)

        both = codes(ones)[:, None] == codes(others)[None, :]
        return np.asarray(both, np.float64)

    def distance(name: str) -> Matrix:
        first, second = (
            np.log([max(getattr(kin, name), 1.0) for kin in kins]) for kins in (ones, others)
        )
        return np.asarray(first[:, None] - second[None, :], np.float64)

    deployment = same("model", "hardware", "engine", "deployment")
    apart = np.hypot(distance("sequences"), distance("tokens"))
    return {
        "deployment": deployment,
        "load": deployment * np.exp(-apart / _LOAD_SPAN),
        "model_hardware": same("model", "hardware"),
        "model": same("model"),
        "hardware_engine": same("hardware", "engine"),
        "organisation": np.ones((len(ones), len(others))),
    }
