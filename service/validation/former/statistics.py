"""How far estimates are off, with every source counting once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from service.validation.rows.tables import Row


@dataclass(frozen=True, slots=True)
class Compared:
    """An estimate beside its measurement, in the same unit.

    ``low`` to ``high`` is the estimate's 90 % interval; ``family`` the hardware's, and
    ``warnings`` what the answer warned of.
    """

    row: Row
    metric: str
    family: str
    unit: str
    measured: float
    value: float
    low: float
    high: float
    warnings: tuple[str, ...]

    @property
    def error_ratio(self) -> float:
        """Relative deviation of the estimate, signed [-]."""
        return self.value / self.measured - 1.0

    @property
    def covered(self) -> bool:
        """Whether the measurement lies in the estimate's interval."""
        return self.low <= self.measured <= self.high

    @property
    def width_ratio(self) -> float:
        """Upper over lower end of the interval [-]; infinite where it reaches zero."""
        return self.high / self.low if self.low > 0.0 else float("inf")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Summary of comparisons. Ratios [-], None where there is nothing to summarise."""

    rows: int
    median_error_ratio: float | None
    p90_error_ratio: float | None
    coverage_ratio: float | None
    median_width_ratio: float | None
    bias_ratio: float | None


def accuracy(compared: Sequence[Compared]) -> Accuracy:
    """Errors, coverage and width over comparisons, weighted so that each source counts once.

    A row weighs one over the number of rows of its source. Quantiles are the smallest value at
    which the accumulated weight reaches the share asked for; ``bias_ratio`` is the median signed
    error. Coverage and width are those of the estimates that have an interval: a figure that is
    stated as exact, such as the size of weights, has none to lie in.
    """
    if not compared:
        return Accuracy(0, None, None, None, None, None)
    rows_of = Counter(entry.row.source for entry in compared)
    weights = [1.0 / rows_of[entry.row.source] for entry in compared]
    errors = [abs(entry.error_ratio) for entry in compared]
    ranged = [
        (entry, weight)
        for entry, weight in zip(compared, weights, strict=True)
        if entry.high > entry.low
    ]
    ranged_weights = [weight for _, weight in ranged]
    covered = sum(weight for entry, weight in ranged if entry.covered)
    return Accuracy(
        rows=len(compared),
        median_error_ratio=weighted_quantile(errors, weights, 0.5),
        p90_error_ratio=weighted_quantile(errors, weights, 0.9),
        coverage_ratio=covered / sum(ranged_weights) if ranged else None,
        median_width_ratio=(
            weighted_quantile([entry.width_ratio for entry, _ in ranged], ranged_weights, 0.5)
            if ranged
            else None
        ),
        bias_ratio=weighted_quantile([c.error_ratio for c in compared], weights, 0.5),
    )


def weighted_quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Smallest value at which the accumulated weight reaches a share of the whole.

    Parameters
    ----------
    values, weights
        At least one value, and a positive weight for each.
    share
        Share of the weight [-], 0 to 1.
    """
    ordered = sorted(zip(values, weights, strict=True))
    # Sums of fractions like 1/3 miss their share by rounding alone.
    wanted = share * sum(weights) * (1.0 - 1e-9)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= wanted:
            return value
    return ordered[-1][0]
