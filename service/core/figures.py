"""Values of measured constants, read from figures of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from service.core.interval import Interval

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Measured constants of one calibration by name; what is true or false stands as 1 or 0.
Figures: TypeAlias = Mapping[str, Interval]

Measured = TypeVar("Measured", bound="DataclassInstance")


def from_figures(kind: type[Measured], figures: Figures, **given: Any) -> Measured:
    """A dataclass of measured constants from the figures that its fields are named after.

    Parameters
    ----------
    kind
        The dataclass. A field that is an interval takes the whole figure, any other one its value.
    figures
        Figures by name. One that a field has a default for may be missing.
    given
        Fields that are no figures.

    Raises
    ------
    KeyError
        If a figure is missing.
    """
    values = dict(given)
    for field in fields(kind):
        if field.name in given or (field.name not in figures and field.default is not MISSING):
            continue
        figure, declared = figures[field.name], str(field.type)
        if declared == "bool":
            values[field.name] = bool(figure.value)
        else:
            values[field.name] = figure if declared.startswith("Interval") else figure.value
    return kind(**values)
