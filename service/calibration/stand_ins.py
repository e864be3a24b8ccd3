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

from service.calibration.spread import interval_score
from service.core.elementwise import FloatArray
from service.core.interval import Z_90

#: What is left out together, and which levels are then not measured: of hardware, whose kernels
#: those of a class of engines are as well, and of software.
HARDWARE, SOFTWARE = "family", "engine"
LEVELS: Mapping[str, frozenset[str]] = {
    HARDWARE: frozenset({"vendor", "family", "host", "kernels", "link"}),
    SOFTWARE: frozenset({"class", "engine", "generation", "interface", "backend", "built"}),
}
#: Ratios of what stand-ins add to what priors let them that are tried. The least keeps what was
#: measured somewhere surer than what was not.
_RATIOS = np.geomspace(0.5, 8.0, 25)
_ROUNDS = 2
#: Fewer groups do not show how far others may lie.
FEWEST_GROUPS = 4
#: Ratio that is taken where there are fewer groups: half of the spread that priors allow, beside
#: one of times of 0.2.
USUAL_RATIO = 2.5


@dataclass(frozen=True, slots=True)
class Strangers:
    """Times of groups that were left out whole, each with what its spread is made of.

    ``errors`` are log errors without sign, ``sigmas`` spreads of kernels that are known,
    ``squares`` those of their ratios to it where all levels are measured, and ``added`` what
    levels that are not measured add to these by kind, as priors have it. ``known`` are variances
    beside it. All have an element for each row.
    """

    errors: FloatArray
    sigmas: FloatArray
    squares: FloatArray
    added: Mapping[str, FloatArray]
    known: FloatArray
    weights: FloatArray

    def log_sigmas(self, ratios: Mapping[str, float]) -> FloatArray:
        """Standard deviations of the logarithms of the times, by ratios to what priors have."""
        squares = self.squares
        for kind, ratio in ratios.items():
            squares = squares + ratio**2 * self.added[kind]
        found: FloatArray = np.sqrt(self.sigmas**2 * squares + self.known)
        return found

    def inside_ratio(self, ratios: Mapping[str, float]) -> float:
        """Share of the rows inside their intervals, by their weights [-]."""
        inside = self.errors <= Z_90 * self.log_sigmas(ratios)
        return float(self.weights[inside].sum())


def best_ratios(strangers: Mapping[str, Strangers]) -> dict[str, float]:
    """Ratios to what priors let levels add with which intervals of strangers have the best score.

    Parameters
    ----------
    strangers
        Rows by what was left out; kinds of which too few groups were measured are not there.
    """
    found = dict.fromkeys(LEVELS, USUAL_RATIO)
    for _ in range(_ROUNDS):
        for kind, rows in strangers.items():
            scores = [
                interval_score(
                    rows.errors, rows.log_sigmas({**found, kind: float(ratio)}), rows.weights
                )
                for ratio in _RATIOS
            ]
            found[kind] = float(_RATIOS[int(np.argmin(scores))])
    return found


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
