"""How a figure came about, step by step.

Results keep the inputs they were computed from and build their steps on demand, so the figures
in an explanation are the figures in the answer and an unexplained estimate pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as it is shown to people: what it yields, in which unit, and who says so."""

    name: str
    expression: str
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Step:
    """One formula applied to named inputs."""

    formula: Formula
    inputs: Mapping[str, float | str]
    value: float


@dataclass(frozen=True, slots=True)
class EstimateWarning:
    """Something a careful colleague would mention beside the figures."""

    code: str
    message: str
