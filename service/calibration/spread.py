"""How far estimates are off for sources that no constant was fitted to, as three variances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

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
#: Standard deviations of the logarithm of a part that are tried, where rows have one.
_PART_LOG_SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5)
#: Sources from which on variances can be told from each other.
FEWEST_SOURCES = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure estimated without its source: its log error, and what is known to add to that.

    ``added`` is the variance that levels add that were not measured without the source,
    ``part_ratio`` the share of a time that is known less well than the rest.
    """

    source: str
    model: str
    error: float
    added: float
    part_ratio: float = 0.0


def three_sigmas(rows: Sequence[LeftOut]) -> dict[str, float]:
    """Standard deviations between sources, between models of a source, and between its rows.

    Moments of nested groups, each source counting the same, tell how the variance divides; its
    size is such that some more than nine in ten figures of a source lie inside, levels that were
    not measured counting by themselves.

    References
    ----------
    Searle, Casella, McCulloch, Variance Components, 1992, chapter 3 (nested groups).
    """
    shares = _shares(rows)
    errors, added = np.array([(row.error, row.added) for row in rows]).T
    total = _covering(errors, added, _weights(rows))
    return {name: float(np.sqrt(share * total)) for name, share in shares.items()}


@dataclass(frozen=True, slots=True)
class Borne:
    """What errors bear out: of the variance of unmeasured levels, and of a part's spread.

    ``rows`` have both as what is added.
    """

    unmeasured_ratio: float
    part_log_sigma: float
    rows: list[LeftOut]


def borne_out(rows: Sequence[LeftOut]) -> Borne:
    """How much of what priors let unmeasured levels add, and of a part's spread, errors bear out.

    They are those with which intervals hold enough, and are narrowest on average.
    """
    weights = _weights(rows)
    errors, unmeasured_variances, part_ratios = np.array(
        [(row.error, row.added, row.part_ratio) for row in rows]
    ).T
    parts = _PART_LOG_SIGMAS if np.any(part_ratios) else (0.0,)
    tried = []
    for share, sigma in product(_ADDED_SHARES, parts):
        added = unmeasured_variances * share + (part_ratios * sigma) ** 2
        variance = _covering(errors, added, weights) + added
        tried.append((float(weights @ np.sqrt(variance)), share, sigma, added))
    _, share, sigma, added = min(tried, key=lambda one: one[0])
    scaled = [replace(row, added=float(one)) for row, one in zip(rows, added, strict=True)]
    return Borne(share, sigma, scaled)


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
