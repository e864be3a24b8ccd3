"""Use case: a measurement beside the estimate of the same configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.catalog.snapshot import CatalogSnapshot
from service.core.learning import is_implausible
from service.estimation.measurements.computed import Computed, computed
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import NotEstimated


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A measured figure beside its estimate, in the quantity's unit.

    ``low`` to ``high`` is the estimate's 90 % interval.
    """

    quantity: str
    measured: float
    value: float
    low: float
    high: float

    @property
    def error_ratio(self) -> float:
        """(estimate − measured) / measured [-]."""
        return self.value / self.measured - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured figure lies in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def width_ratio(self) -> float:
        """Upper over lower end of the interval [-]; infinite where it reaches zero."""
        return self.high / self.low if self.low > 0.0 else float("inf")

    @property
    def implausible(self) -> bool:
        """Whether it is so far off that it is kept and marked, but nothing follows from it."""
        return is_implausible(self.value, self.measured)


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A document beside its estimate.

    ``refused`` gives the reason for each figure that no estimate gives; ``foresaw`` says of
    a configuration that ran out of memory whether the estimate says so too, None of others.
    """

    document: MeasurementDocument
    computed: Computed
    figures: tuple[ComparedFigure, ...]
    refused: Mapping[str, str]
    foresaw: bool | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it could be compared."""
        return not self.figures and self.foresaw is None


def compared(document: MeasurementDocument, snapshot: CatalogSnapshot) -> ComparedDocument:
    """A document's figures with their estimates.

    Raises
    ------
    Rejected
        If the request cannot be answered, with pointers into it.
    """
    found = computed(document, snapshot)
    figures: list[ComparedFigure] = []
    refused: dict[str, str] = {}
    for name, measured in document.figures.items():
        try:
            estimate = found.read(name)
        except NotEstimated as reason:
            refused[name] = str(reason)
            continue
        figures.append(
            ComparedFigure(
                name, measured, float(estimate.value), float(estimate.low), float(estimate.high)
            )
        )
    foresaw = None
    if document.ran_out_of_memory:
        foresaw = found.fits is False
    return ComparedDocument(document, found, tuple(figures), refused, foresaw)
