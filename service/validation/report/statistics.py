"""How far estimates are off: each source counts once, and each configuration once within it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from service.core.explanation import EstimateWarning
from service.estimation.measurements.compared import ComparedFigure
from service.estimation.measurements.quantities import Kind

#: What codes of warnings end with that speak of constants of others.
_NOT_MEASURED = "_not_measured"


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure beside its estimate, with what it is a figure of.

    ``configuration`` is the same for all documents of one source that ask the same;
    ``engine_class`` is "–" where nothing runs, ``output_tokens`` are those of a request [tokens],
    ``warnings`` those of the estimate, ``stand_ins`` codes of those that say that nobody measured
    such software or hardware.
    """

    figure: ComparedFigure
    kind: Kind
    id: str
    source: str
    configuration: str
    model: str
    accelerator: str
    accelerators: int
    family: str
    engine: str
    engine_class: str
    weights: str
    output_tokens: float = 1.0
    warnings: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()

    @property
    def quantity(self) -> str:
        """Name of what was measured."""
        return self.figure.quantity


def stand_ins(warnings: Iterable[EstimateWarning]) -> tuple[str, ...]:
    """Codes of the warnings that others' constants stand in for what nobody measured."""
    return tuple(one.code for one in warnings if one.code.endswith(_NOT_MEASURED))


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Summary of comparisons. Ratios [-], None where there is nothing to summarise."""

    figures: int
    median_error_ratio: float | None = None
    p90_error_ratio: float | None = None
    coverage_ratio: float | None = None
    median_width_ratio: float | None = None
    bias_ratio: float | None = None


def accuracy(compared: Sequence[Compared]) -> Accuracy:
    """Errors, coverage and width over comparisons.

    Quantiles are the smallest value at which the accumulated weight reaches the share asked for;
    ``bias_ratio`` is the median signed error. An estimate without an interval holds a measurement
    only if it meets it.
    """
    if not compared:
        return Accuracy(0)
    weights = weights_of(compared)
    figures = [entry.figure for entry in compared]
    inside = sum(weight for figure, weight in zip(figures, weights, strict=True) if figure.inside)
    errors = [abs(figure.error_ratio) for figure in figures]
    return Accuracy(
        figures=len(compared),
        median_error_ratio=weighted_quantile(errors, weights, 0.5),
        p90_error_ratio=weighted_quantile(errors, weights, 0.9),
        coverage_ratio=inside / sum(weights),
        median_width_ratio=_finite(
            weighted_quantile([figure.width_ratio for figure in figures], weights, 0.5)
        ),
        bias_ratio=weighted_quantile([figure.error_ratio for figure in figures], weights, 0.5),
    )


def weights_of(compared: Sequence[Compared]) -> list[float]:
    """What each comparison counts: sources alike, configurations alike within a source."""
    figures = Counter((entry.source, entry.configuration) for entry in compared)
    configurations = Counter(source for source, _ in figures)
    return [
        1.0 / configurations[entry.source] / figures[entry.source, entry.configuration]
        for entry in compared
    ]


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


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
