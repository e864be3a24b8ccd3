"""How a figure came about: formulas as data, applied to the results that hold their figures.

A formula names what it reads as paths of attributes, so that results know nothing of formulas, an
unexplained estimate pays nothing, and the figures of an explanation are those of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from service.core.interval import Interval
from service.core.lightweight import lightweight

#: What an expression may call, beside ``+ - * / **``, comparisons and ``a if b else c``.
FUNCTIONS = frozenset(
    {"min", "max", "sum", "ceil", "floor", "sqrt", "exp", "log", "log10", "expm1"}
)

#: Units as explanations write them, by the ending of a figure's name.
UNITS = {
    "_bytes": "B",
    "_bytes_per_s": "B/s",
    "_bytes_per_token": "B/token",
    "_days": "d",
    "_flop_per_byte": "FLOP/B",
    "_flops": "FLOP",
    "_gco2e": "gCO2e",
    "_gco2e_per_kwh": "gCO2e/kWh",
    "_hours": "h",
    "_kg": "kg",
    "_kgsbeq": "kg Sb-eq",
    "_kwh": "kWh",
    "_l": "L",
    "_m3_per_s": "m³/s",
    "_mj": "MJ",
    "_per_s": "1/s",
    "_ratio": "1",
    "_s": "s",
    "_sequences": "sequence",
    "_tokens": "token",
    "_usd_per_hour": "USD/h",
    "_w": "W",
    "_wh": "Wh",
}

_WORDS = frozenset({"if", "else", "and", "or"})
_TEXT = re.compile(r'"[^"]*"')
_NAME = re.compile(r"\b[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of a result: what it yields, in which unit, and who says so.

    ``expression`` is arithmetic over names, in the notation of Python. ``value`` is the path of
    the explained figure (``"plan.weights.total_bytes"``). Names are attributes of the result;
    ``inputs`` has the :func:`paths` of those that stand elsewhere, and of what is shown beside the
    expression. A path to figures by name stands for all of them, as in ``sum(weights_bytes)``.
    Units are those that the names end in: ``unit`` is given where the value's name has none.
    """

    name: str
    expression: str
    source: str
    value: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""

    def __post_init__(self) -> None:
        """Read the unit from the value's name."""
        object.__setattr__(self, "unit", self.unit or unit_of(self.value))


def unit_of(path: str) -> str:
    """Unit that the last name with a unit in a path ends in, empty where none has one."""
    for name in reversed(path.split(".")):
        endings = [ending for ending in UNITS if f"_{name}".endswith(ending)]
        if endings:
            return UNITS[max(endings, key=len)]
    return ""


def paths(*same: str, **renamed: str) -> dict[str, str]:
    """Paths by name: the last attribute of a path is its name, unless another is given."""
    return {path.rpartition(".")[2]: path for path in same} | renamed


@lightweight
class Step:
    """One formula applied to named inputs."""

    formula: Formula
    inputs: Mapping[str, float | str]
    value: float


@dataclass(frozen=True, slots=True)
class EstimateWarning:
    """Something a careful colleague would mention beside the figures.

    ``message`` is a sentence without field names; ids in it become names when it is told. ``about``
    names the figure that it is about, where the code alone does not say which.
    """

    code: str
    message: str
    about: str = ""


def explain(result: object, formulas: Iterable[Formula]) -> tuple[Step, ...]:
    """The formulas applied to a result, in order, without those that it has no figures for.

    Returns
    -------
    tuple of Step
        Where an input is several figures by name, the expression has the names of all of them.
    """
    steps = []
    for formula in formulas:
        expression, value = formula.expression, _figure(result, formula.value)
        read = names(expression)
        figures = {name: _figure(result, formula.inputs.get(name, name)) for name in read}
        if value is None or any(figure is None for figure in figures.values()):
            continue
        inputs: dict[str, Any] = {}
        for name, figure in figures.items():
            parts = {name: figure}
            if isinstance(figure, Mapping):
                parts = {_part_name(part, name): _plain(each) for part, each in figure.items()}
                expression = re.sub(rf"\b{name}\b", ", ".join(parts), expression)
            inputs |= parts
        for name, path in formula.inputs.items():
            if name not in figures and (told := _figure(result, path)) is not None:
                inputs[name] = str(told)
        steps.append(Step(replace(formula, expression=expression), inputs, value))
    return tuple(steps)


@lru_cache(maxsize=1024)
def names(expression: str) -> tuple[str, ...]:
    """Names of the figures in an expression, in order."""
    words = dict.fromkeys(_NAME.findall(_TEXT.sub("", expression)))
    return tuple(name for name in words if name not in FUNCTIONS | _WORDS)


def _figure(result: object, path: str) -> Any:
    """What stands at a path; None where a part of it is unknown."""
    at: Any = result
    for name in path.split("."):
        if at is not None:
            at = at.get(name) if isinstance(at, Mapping) else getattr(at, name)
    return _plain(at)


def _plain(figure: Any) -> Any:
    return figure.value if isinstance(figure, Interval | Enum) else figure


def _part_name(part: object, name: str) -> str:
    """Name of the figure of a part, its own before the name that all parts have."""
    return re.sub(r"\W+", "_", f"{_plain(part)}_{name}")
