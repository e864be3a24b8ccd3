"""How far estimates are off for sources that no constant was fitted to, as three variances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from service.calibration.hierarchy import Fitted, Term
from service.core.elementwise import FloatArray
from service.core.interval import Z_90
from service.estimation.levels import unmeasured

#: Share of left-out figures that intervals are to hold: nine in ten, and some more, for the few
#: sources that there are do not show how far others may be off.
COVERED_SHARE = 0.92
#: Errors count as no larger than this many times their median.
_MOST_MEDIANS = 5.0
#: No interval claims more than this, however well few sources agree: half of the figures that
#: publications give of the same machine differ by some percent.
_LEAST_LOG_SIGMA = 0.08
#: Shares of the variance that priors let unmeasured levels add that are tried: a tenth at least, so
#: that what was measured somewhere always has the narrower interval.
_ADDED_SHARES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
#: Standard deviations of the logarithm of a time that are tried: a percent apart.
_LOG_SIGMAS = np.geomspace(_LEAST_LOG_SIGMA, 1.0, 256)
#: Share of measurements that an interval leaves out.
_OUTSIDE_SHARE = 0.1
#: What a source of another class counts beside one of the class: how far publications are off is
#: alike in all, but not the same.
_ALIKE_WEIGHT = 0.5
#: Sources from which on variances can be told from each other.
FEWEST_SOURCES = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure estimated without its source: its log error, and what is known to add to that.

    ``added`` is the variance that levels add that were not measured without the source.
    """

    source: str
    model: str
    error: float
    added: float


def three_sigmas(rows: Sequence[LeftOut]) -> dict[str, float]:
    """Standard deviations between sources, between models of a source, and between its rows.

    Moments of nested groups, each source counting the same, tell how the variance divides; its
    size is such that some more than nine in ten figures of a source lie inside, levels that were
    not measured counting by themselves.

    References
    ----------
    Searle, Casella, McCulloch, Variance Components, 1992, chapter 3 (nested groups).
    """
    errors, added = np.array([(row.error, row.added) for row in rows]).T
    return divided(rows, _covering(errors, added, _weights(rows)))


def divided(rows: Sequence[LeftOut], variance: float) -> dict[str, float]:
    """A variance as errors divide it between sources, models of a source, and its rows [-]."""
    return {name: float(np.sqrt(share * variance)) for name, share in _shares(rows).items()}


def interval_score(errors: FloatArray, log_sigmas: FloatArray, weights: FloatArray) -> float:
    """Mean score of 90 % intervals on the scale of logarithms: the lower the better.

    An interval costs its width, and twenty times what a measurement lies beyond its end: no other
    width than that of the central 90 % has a lower score on average, so that neither too wide nor
    too narrow ones pay.

    Parameters
    ----------
    errors
        How far estimates are off, as logarithms without sign.
    log_sigmas, weights
        Standard deviations of the intervals, and weights that add up to one.

    References
    ----------
    Winkler, 1972, https://doi.org/10.1080/01621459.1972.10481224; Gneiting and Raftery, 2007,
    https://doi.org/10.1198/016214506000001437, section 6.2.
    """
    half = Z_90 * log_sigmas
    beyond = np.maximum(errors - half, 0.0)
    return float(weights @ (2.0 * half + 2.0 / _OUTSIDE_SHARE * beyond))


def best_log_sigma(
    errors: FloatArray, ratios: FloatArray, known: FloatArray, weights: FloatArray
) -> float:
    """The spread whose intervals have the best score.

    Parameters
    ----------
    errors, weights
        As :func:`interval_score` takes them.
    ratios
        How much wider than it the spread of each row is.
    known
        Variances that rows have beside it, whatever it is.
    """
    scores = [
        interval_score(errors, ratios * np.sqrt(sigma**2 + known), weights) for sigma in _LOG_SIGMAS
    ]
    return float(_LOG_SIGMAS[int(np.argmin(scores))])


@dataclass(frozen=True, slots=True)
class Borne:
    """What errors bear out of the variance of unmeasured levels; ``rows`` have it as added."""

    unmeasured_ratio: float
    rows: list[LeftOut]


def borne_out(rows: Sequence[LeftOut]) -> Borne:
    """How much of what priors let unmeasured levels add errors bear out.

    It is that with which intervals hold enough, and are narrowest on average.
    """
    weights = _weights(rows)
    errors, unmeasured_variances = np.array([(row.error, row.added) for row in rows]).T
    tried = []
    for share in _ADDED_SHARES:
        added = unmeasured_variances * share
        variance = _covering(errors, added, weights) + added
        tried.append((float(weights @ np.sqrt(variance)), share))
    _, share = min(tried)
    return Borne(share, [replace(row, added=row.added * share) for row in rows])


def coverage_ratio(rows: Sequence[LeftOut], variance: float) -> float:
    """Share of figures inside their intervals, each source counting the same."""
    weights = _weights(rows)
    errors = np.abs([row.error for row in rows])
    sigmas = np.sqrt(variance + np.array([row.added for row in rows]))
    return float(np.sum(weights[errors <= Z_90 * sigmas]))


def weights_by_source(sources: Sequence[str]) -> FloatArray:
    """Weights of rows by which each source counts the same; they add up to one."""
    counts = Counter(sources)
    return np.array([1.0 / counts[source] for source in sources]) / len(counts)


def weights_beside(sources: Sequence[str], others: Sequence[str]) -> FloatArray:
    """Weights of rows, and of others that are alike, whose sources count half; they add up to one.

    A class of engines has few sources, which may agree by chance.
    """
    share = _ALIKE_WEIGHT * len(set(others)) / len(set(sources))
    own = weights_by_source(sources)
    return (
        np.concatenate((own, share * weights_by_source(others))) / (1.0 + share) if others else own
    )


def quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The least of some values that a share of the weights lies at or below."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    at = min(int(np.searchsorted(reached, share)), len(values) - 1)
    return float(values[order][at])


def _weights(rows: Sequence[LeftOut]) -> FloatArray:
    return weights_by_source([row.source for row in rows])


def _covering(errors: FloatArray, added: FloatArray, weights: FloatArray) -> float:
    """The variance for which the wanted share of figures lies inside."""
    needed = (errors / Z_90) ** 2 - added
    return max(quantile(needed, weights, COVERED_SHARE), _LEAST_LOG_SIGMA**2)


def _shares(rows: Sequence[LeftOut]) -> Mapping[str, float]:
    """Shares of the variance by group; all that varies between rows where groups are too few."""
    errors = np.array([row.error for row in rows])
    most = _MOST_MEDIANS * float(np.median(np.abs(errors)))
    errors = np.clip(errors, -most, most)
    sources: dict[str, dict[str, list[float]]] = {}
    for row, error in zip(rows, errors, strict=True):
        sources.setdefault(row.source, {}).setdefault(row.model, []).append(float(error))
    within = [
        np.var(group, ddof=1) for of in sources.values() for group in of.values() if group[1:]
    ]
    row_variance = float(np.mean(within)) if within else 0.0
    means = {name: [float(np.mean(group)) for group in of.values()] for name, of in sources.items()}
    between = [
        max(float(np.var(of, ddof=1)) - row_variance * _inverse(sources[name]), 0.0)
        for name, of in means.items()
        if of[1:]
    ]
    model_variance = float(np.mean(between)) if between else 0.0
    centres = [float(np.mean(of)) for of in means.values()]
    noise = np.mean(
        [
            model_variance / len(of) + row_variance * _inverse(of) / len(of)
            for of in sources.values()
        ]
    )
    # Sources scatter around no error at all, not around their mean.
    source_variance = max(float(np.mean(np.square(centres))) - float(noise), 0.0)
    total = source_variance + model_variance + row_variance
    if total == 0.0:
        return {"source_log_sigma": 0.0, "model_log_sigma": 0.0, "row_log_sigma": 1.0}
    return {
        "source_log_sigma": source_variance / total,
        "model_log_sigma": model_variance / total,
        "row_log_sigma": row_variance / total,
    }


def _inverse(groups: Mapping[str, Sequence[float]]) -> float:
    """Mean of the inverse sizes of groups."""
    return float(np.mean([1.0 / len(group) for group in groups.values()]))


def unmeasured_sigmas(
    parts: Mapping[str, tuple[Term, ...]], fitted: Fitted, numbers: Sequence[int]
) -> dict[str, float]:
    """What levels of parts add to the spread of some rows where they were not measured.

    Parameters
    ----------
    parts
        Terms by part.
    fitted
        The fit, whose slopes tell how estimates follow the terms.
    numbers
        The rows.
    """
    position = {term.name: at for at, term in enumerate(fitted.problem.terms)}
    slopes = fitted.slopes[list(numbers)]
    found = {}
    for part, terms in parts.items():
        for number, level in enumerate(terms[0].levels):
            variance = sum(
                float(np.mean(slopes[:, position[term.name]] ** 2)) * term.levels[number].tau ** 2
                for term in terms
            )
            found[unmeasured(part, level.kind)] = float(np.sqrt(variance))
    return found
