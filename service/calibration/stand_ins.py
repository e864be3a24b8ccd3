"""How far hardware and engines lie from what stands in for them, as those show that are left out.

Priors say how far constants of a family may lie from those of its vendor, and of an engine from
those of its class: as wide as physics allows. How far times lie apart is seen where all rows of a
family, or of an engine, are left out together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.core.elementwise import FloatArray

#: What is left out together, and which levels are then not measured: of hardware, whose kernels
#: those of a class of engines are as well, and of software.
HARDWARE, SOFTWARE = "family", "engine"
LEVELS: Mapping[str, frozenset[str]] = {
    HARDWARE: frozenset({"vendor", "family", "host", "kernels", "link"}),
    SOFTWARE: frozenset({"class", "engine", "generation", "interface", "backend", "built"}),
}
#: Ratios of what stand-ins add to what priors let them that are tried. The least keeps what was
#: measured somewhere surer than what was not.
_RATIOS = np.geomspace(0.5, 8.0, 17)
#: Fewer groups do not show how far others may lie.
FEWEST_GROUPS = 4
#: Ratio that is taken where there are fewer groups: half of the spread that priors allow, beside
#: one of times of 0.2.
USUAL_RATIO = 2.5
USUAL: Mapping[str, float] = dict.fromkeys(LEVELS, USUAL_RATIO)


@dataclass(frozen=True, slots=True)
class Strangers:
    """Times of groups that were left out whole, each with what its spread is made of.

    ``errors`` are log errors without sign, ``sigmas`` spreads of kernels that are known,
    ``squares`` those of their ratios to it where all levels are measured, and ``added`` what
    levels that are not measured add to these by kind, as priors have it. ``known`` are variances
    beside it. All have an element for each row; ``groups`` is the number of groups.
    """

    errors: FloatArray
    sigmas: FloatArray
    squares: FloatArray
    added: Mapping[str, FloatArray]
    known: FloatArray
    weights: FloatArray
    groups: int

    def log_sigmas(self, ratios: Mapping[str, float]) -> FloatArray:
        """Standard deviations of the logarithms of the times, by ratios to what priors have."""
        squares = self.squares
        for kind, added in self.added.items():
            squares = squares + ratios[kind] ** 2 * added
        found: FloatArray = np.sqrt(squares * (self.sigmas**2 + self.known))
        return found

    def likelihood(self, ratios: Mapping[str, float]) -> float:
        """Logarithm of how likely the errors are by Laplace's distribution, as of sizes."""
        sigmas = self.log_sigmas(ratios)
        found = self.weights @ (np.log(sigmas) + np.sqrt(2.0) * self.errors / sigmas)
        return -self.groups * float(found)


def likely_ratios(strangers: Mapping[str, Strangers]) -> dict[str, float]:
    """Ratios to what priors let levels add, as errors of strangers have them.

    A group's errors have much in common, and so count as one: the few groups that there are leave
    ratios open within a factor, all of which variances are averaged over.

    Parameters
    ----------
    strangers
        Rows by what was left out; kinds of which too few groups were measured are not there.

    References
    ----------
    Gelman, Prior distributions for variance parameters in hierarchical models, 2006,
    https://doi.org/10.1214/06-BA117A (variances of few groups).
    """
    found = dict(USUAL)
    for kind in LEVELS:
        if kind in strangers:
            found[kind] = _likely(strangers[kind], kind, found)
    return found


def _likely(rows: Strangers, kind: str, others: Mapping[str, float]) -> float:
    """Root of the mean square of a ratio, each as likely as it makes errors, beside others."""
    logs = np.array([rows.likelihood({**others, kind: ratio}) for ratio in _RATIOS.tolist()])
    chances = np.exp(logs - logs.max())
    return float(np.sqrt(chances @ _RATIOS**2 / chances.sum()))


def weights_by_group(
    groups: Sequence[str], sources: Sequence[str], configurations: Sequence[str]
) -> FloatArray:
    """Weights of rows that add up to one: groups alike, and within these sources alike.

    Within a source configurations count the same, however many rows they have.
    """
    rows = list(zip(groups, sources, configurations, strict=True))
    alike = Counter(rows)
    of_source = Counter((group, source) for group, source, _ in alike)
    of_group = Counter(group for group, _ in of_source)
    return np.array(
        [1.0 / alike[row] / of_source[row[:2]] / of_group[row[0]] / len(of_group) for row in rows]
    )
