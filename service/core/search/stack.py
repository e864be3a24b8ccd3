"""Several values as one whose figures are arrays, to compute with all of them at once.

How a field behaves is declared beside it, by :mod:`service.core.stacking`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import cache
from math import inf
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.core.deployment import Accelerator
from service.core.elementwise import Number
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact
from service.core.memory.inference.tiers import host_link_bytes_per_s
from service.core.performance.calibration import EngineOverhead
from service.core.performance.collectives import scale_out
from service.core.performance.kernels import OPERAND_BITS, engine_precision, multiplied_precision
from service.core.stacking import Stacking, declared

Value = TypeVar("Value")
#: A figure whose value is known.
Known = TypeVar("Known")

#: What a stack of values of several names is called.
SEVERAL = "several"


class Option(Protocol):
    """An accelerator that may be chosen, with what is measured of its family."""

    @property
    def accelerator(self) -> Accelerator:
        """The hardware."""

    @property
    def engine(self) -> EngineOverhead:
        """The engine's overheads on it."""


Chosen = TypeVar("Chosen", bound=Option)


class Stacks(Generic[Chosen]):
    """Options by position as stacks of those that are alike; the same stand together often."""

    def __init__(self, options: Sequence[Chosen], infrastructure: Infrastructure) -> None:
        self._options = options
        # Nobody knows what one without a known power draws: it stands in no stack.
        self._bare = {
            position: _bare(option, infrastructure)
            for position, option in enumerate(options)
            if option.accelerator.thermal_design_power_w is not None
        }
        numbers: dict[Hashable, int] = {}
        self._kinds = {
            position: numbers.setdefault(stacking_key(bare), len(numbers))
            for position, bare in self._bare.items()
        }
        self._peaks: dict[tuple[str, ...], Mapping[int, Mapping[str, Number]]] = {}
        self._groups: dict[Hashable, tuple[tuple[tuple[int, ...], Chosen], ...]] = {}
        self._stacks: dict[Hashable, tuple[tuple[tuple[int, ...], Chosen], ...]] = {}
        self._together: dict[tuple[int, ...], Chosen] = {}

    def of(
        self,
        positions: tuple[int, ...],
        times: int,
        precisions: tuple[str, ...],
    ) -> tuple[tuple[tuple[int, ...], Chosen], ...]:
        """Stacks with the positions of what is in them, in the order of the first of each.

        Each option stands ``times`` times in a row, with its peaks in the matrix ``precisions``
        and those that the engine adds up in.
        """
        key = positions, times, precisions
        if key not in self._stacks:
            wanted, found = frozenset(positions), []
            for members, stack in self._alike(precisions):
                rows = [row for row, position in enumerate(members) if position in wanted]
                if rows:
                    group = tuple(members[row] for row in rows)
                    found.append((group, taken(stack, np.repeat(rows, times))))
            self._stacks[key] = tuple(sorted(found, key=lambda each: each[0]))
        return self._stacks[key]

    def _alike(self, precisions: tuple[str, ...]) -> tuple[tuple[tuple[int, ...], Chosen], ...]:
        """All options that can compute in the precisions, in groups of those that are alike."""
        if precisions not in self._groups:
            peaks = self._peaks_for(precisions)
            groups: dict[Hashable, list[int]] = {}
            for position, found in peaks.items():
                alike = self._kinds[position], tuple(found)
                groups.setdefault(alike, []).append(position)
            self._groups[precisions] = tuple(
                (tuple(members), self._stacked(tuple(members), peaks))
                for members in groups.values()
            )
        return self._groups[precisions]

    def _peaks_for(self, precisions: tuple[str, ...]) -> Mapping[int, Mapping[str, Number]]:
        """Peaks that are used for some precisions, of all options that can compute in them."""
        if precisions not in self._peaks:
            peaks: dict[int, Mapping[str, Number]] = {}
            for position in self._kinds:
                option = self._options[position]
                wanted = used_precisions(precisions, option.engine)
                with suppress(ValueError):
                    peaks[position] = {
                        **used_peaks(option.accelerator, wanted),
                        **_unpacking(option),
                    }
            self._peaks[precisions] = peaks
        return self._peaks[precisions]

    def _stacked(
        self,
        members: tuple[int, ...],
        peaks: Mapping[int, Mapping[str, Number]],
    ) -> Chosen:
        """The options at some positions, which are alike, as one."""
        if members not in self._together:
            self._together[members] = stacked([self._bare[member] for member in members], 1)
        together: Any = self._together[members]
        first = members[0]
        accelerator = replace(
            together.accelerator,
            peak_flops_per_s={
                name: _figures([peaks[member][name] for member in members], 1)
                for name in peaks[first]
            },
        )
        whole: Chosen = replace(together, accelerator=accelerator)
        return whole


def _unpacking(option: Option) -> Mapping[str, Number]:
    """The peak of the units that unpack weights, where the engine keeps them busy with that.

    Units of which nobody says how fast they are slow nothing down.
    """
    if not option.engine.unpacking_operations:
        return {}
    return {"fp32": option.accelerator.peak_flops_per_s.get("fp32", inf)}


def _bare(option: Chosen, infrastructure: Infrastructure) -> Chosen:
    """An option whose accelerator has all that stacks need but peaks."""
    some: Any = option
    accelerator = replace(
        settled(some.accelerator, infrastructure),
        peak_flops_per_s={},
    )
    bare: Chosen = replace(some, accelerator=accelerator)
    return bare


def used_precisions(precisions: Sequence[str], engine: EngineOverhead) -> tuple[str, ...]:
    """Matrix precisions that are asked for, and what an engine multiplies in their place."""
    integers = ("int8",) if engine.multiplies_integers else ()
    return tuple(
        dict.fromkeys(
            used
            for each in precisions
            for used in (each, engine_precision(each, engine), *integers)
        )
    )


def settled(accelerator: Accelerator, infrastructure: Infrastructure) -> Accelerator:
    """An accelerator with everything filled in that formulas take in place of what is unknown.

    Parameters
    ----------
    accelerator
        Of known thermal design power.
    infrastructure
        Gives the usual power at rest.
    """
    link = host_link_bytes_per_s(accelerator)
    return replace(
        accelerator,
        scale_out=scale_out(accelerator),
        host_link_bandwidth_bytes_per_s=inf if link is None else link,
        idle_power_w=infrastructure.idle_power_w(accelerator),
        waiting_power_w=infrastructure.waiting_power_w(accelerator),
    )


def used_peaks(accelerator: Accelerator, precisions: Sequence[str]) -> Mapping[str, Number]:
    """Peaks that are used for some matrix precisions [FLOP/s].

    They have the name of the precision where operands are not widened for it.

    Raises
    ------
    ValueError
        If the accelerator has no peak in one of the precisions or wider.
    """
    peaks = {}
    for wanted in precisions:
        used = multiplied_precision(accelerator, wanted)
        same_width = OPERAND_BITS[used] == OPERAND_BITS[wanted]
        peaks[wanted if same_width else used] = accelerator.peak_flops_per_s[used]
    return peaks


def stacking_key(value: Any) -> Hashable:
    """What values must share to be stacked: all that formulas choose by before they compute."""
    if _form(value.__class__) is _Form.MAPPING:
        return tuple(value)
    alike, figures = _readers(value.__class__)
    return (
        *alike(value),
        *[
            None if _form(figure.__class__) is _Form.FIGURE else stacking_key(figure)
            for figure in figures(value)
        ],
    )


class _Form(Enum):
    """What a figure is: a number or an interval, numbers by name, or a value made of figures."""

    FIGURE = "figure"
    MAPPING = "mapping"
    VALUE = "value"


@cache
def _form(kind: Any) -> _Form:
    if issubclass(kind, Mapping):
        return _Form.MAPPING
    return _Form.VALUE if is_dataclass(kind) and kind is not Interval else _Form.FIGURE


@cache
def _readers(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], ...]:
    """What reads the fields of a class by which formulas choose, and those that are figures."""
    return tuple(_reader(names) for names in _names(kind))


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads fields of a value, faster than one by one."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


@cache
def _names(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of a class by which formulas choose, and those that are figures."""
    fields = declared(kind)
    alike = tuple(name for name, stacking in fields if stacking is Stacking.ALIKE)
    return alike, tuple(name for name, stacking in fields if stacking is Stacking.FIGURE)


def stacked(values: Sequence[Value], times: int) -> Value:
    """Values as one, each standing ``times`` times in a row.

    Parameters
    ----------
    values
        Of one class, which declares how its fields are stacked, and of one :func:`stacking_key`.
    times
        How often each is repeated in the arrays.

    Returns
    -------
    Value
        Figures are arrays of ``len(values) × times`` elements, NaN where one is unknown; what is
        the same for all remains a plain number, with which formulas are faster.

    Raises
    ------
    ValueError
        If formulas choose by something in which the values differ.
    """
    first: Any = values[0]
    columns = {
        name: _column([getattr(value, name) for value in values], stacking, times, name)
        for name, stacking in declared(first.__class__)
    }
    together: Value = replace(first, **columns)
    return together


def taken(stack: Value, rows: NDArray[np.intp]) -> Value:
    """Some of the values of a stack, in the order of the given rows."""
    some: Any = stack
    columns = {}
    for name, stacking in declared(some.__class__):
        whole = getattr(some, name)
        if stacking is Stacking.FIGURE and (part := _taken(whole, rows)) is not whole:
            columns[name] = part
    together: Value = replace(some, **columns)
    return together


#: Classes of what is the same for all values of a stack.
_SHARED = frozenset({float, int, bool, str, type(None)})


def _taken(figure: Any, rows: NDArray[np.intp]) -> Any:
    if figure.__class__ in _SHARED:
        return figure
    if isinstance(figure, np.ndarray):
        return figure[rows]
    if isinstance(figure, Interval):
        value = _taken(figure.value, rows)
        if figure.low is figure.high:
            return exact(value)
        return Interval(value, _taken(figure.low, rows), _taken(figure.high, rows))
    if isinstance(figure, Mapping):
        return {name: _taken(each, rows) for name, each in figure.items()}
    return taken(figure, rows) if is_dataclass(figure) else figure


def _column(values: Sequence[Any], stacking: Stacking, times: int, name: str) -> Any:
    first = values[0]
    if all(value is first for value in values):
        return first
    if stacking is Stacking.NAME:
        return first if len(set(values)) == 1 else SEVERAL
    if stacking is Stacking.ALIKE:
        if any(value != first for value in values):
            raise ValueError(f"values of different {name} cannot be stacked")
        return first
    classes = set(map(type, values))
    if classes == {Interval}:
        return _interval(values, times)
    forms = {_form(kind) for kind in classes}
    if forms == {_Form.FIGURE}:
        return _figure(values, times)
    if len(forms) > 1 or (forms == {_Form.MAPPING} and len({tuple(each) for each in values}) > 1):
        raise ValueError(f"values of different parts of {name} cannot be stacked")
    if forms == {_Form.MAPPING}:
        return {key: _figures([value[key] for value in values], times) for key in first}
    return stacked(values, times)


def _figure(values: Sequence[Interval | Number | None], times: int) -> Interval | Number:
    """Intervals or numbers as one; NaN where there is none."""
    intervals = [value for value in values if isinstance(value, Interval)]
    numbers = [value for value in values if value is not None and not isinstance(value, Interval)]
    if intervals:
        return _interval(_filled(values, intervals, _UNKNOWN), times)
    return _figures(_filled(values, numbers, np.nan), times)


def _filled(values: Sequence[object], known: Sequence[Known], unknown: Known) -> list[Known]:
    """The known figures in the places of what is known, and the unknown one elsewhere."""
    following = iter(known)
    return [unknown if value is None else next(following) for value in values]


_UNKNOWN = exact(np.nan)


def _interval(values: Sequence[Interval], times: int) -> Interval:
    middle = _figures([value.value for value in values], times)
    if all(value.low is value.high for value in values):
        return exact(middle)
    return Interval(
        middle,
        _figures([value.low for value in values], times),
        _figures([value.high for value in values], times),
    )


def _figures(values: Sequence[Number], times: int) -> Number:
    return values[0] if len(set(values)) == 1 else np.repeat(np.asarray(values), times)
