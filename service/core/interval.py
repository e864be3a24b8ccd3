"""Figures with a central 90 % interval, and the one place where intervals propagate.

An :class:`Interval` holds a central value and the 5th and 95th percentile. Combination rules
treat the parts as independent: half-widths of a sum add in quadrature, and half-widths of a
product add in quadrature after taking logarithms (first-order propagation for log-normal
factors). The lower and the upper side are carried separately, so skewed inputs stay skewed.

References
----------
JCGM 100:2008, Evaluation of measurement data: Guide to the expression of uncertainty in
measurement, section 5.1 (law of propagation of uncertainty for independent inputs),
https://www.bipm.org/documents/20126/2071204/JCGM_100_2008_E.pdf
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from numpy import ndarray

from service.core.elementwise import (
    Label,
    Number,
    Truth,
    either,
    exp,
    exp_root,
    label,
    log,
    maximum,
    minimum,
    positive,
    scaled,
    sqrt,
    where,
)
from service.core.lightweight import lightweight

#: Standard normal quantile at 95 %: half-width of a central 90 % interval in standard deviations.
Z_90 = 1.6448536269514722


@lightweight
class Interval:
    """A figure with its central 90 % interval: ``low <= value <= high``, all in one unit."""

    value: Number
    low: Number
    high: Number


def exact(value: Number) -> Interval:
    """A figure without uncertainty, such as a byte count fixed by a file format."""
    return Interval(value, value, value)


def from_log_sigma(value: Number, log_sigma: Number) -> Interval:
    """A non-negative figure whose logarithm has the standard deviation ``log_sigma``."""
    # Many figures have the spread of one calibration.
    spread = _kept_ratio(log_sigma) if log_sigma.__class__ is float else _end_ratio(log_sigma)
    return Interval(value, value / spread, value * spread)


def _end_ratio(log_sigma: Number) -> Number:
    """How many times a figure its upper end is [-]."""
    return exp(Z_90 * log_sigma)


_kept_ratio = lru_cache(maxsize=4096)(_end_ratio)


def independent_sum(parts: Iterable[Interval]) -> Interval:
    """Sum of independent figures of one unit; never below zero when all parts are not."""
    offset: Number | None = None
    alone: Interval | None = None
    several = False
    for part in parts:
        middle, low, high = part.value, part.low, part.high
        if low is high:
            offset = middle if offset is None else offset + middle
        elif alone is None:
            alone = part
            value, least, below, above = middle, low, middle - low, high - middle
        else:
            if not several:
                several, below, above = True, below * below, above * above
            under, over = middle - low, high - middle
            value, least = value + middle, least + low
            below, above = below + under * under, above + over * over
    if alone is None:
        return exact(0.0 if offset is None else offset)
    if several:
        # In quadrature the lower side never reaches past the sum of the lower ends.
        alone = Interval(value, maximum(value - sqrt(below), least), value + sqrt(above))
    return alone if offset is None else shift(alone, offset)


def scale(figure: Interval, factor: Number) -> Interval:
    """A figure times a non-negative exact factor (a count, a unit conversion)."""
    if factor.__class__ is float and factor == 1.0:
        return figure
    if figure.low is figure.high:
        return exact(figure.value * factor)
    return Interval(figure.value * factor, figure.low * factor, figure.high * factor)


def shift(figure: Interval, offset: Number) -> Interval:
    """A figure plus an exact offset."""
    if figure.low is figure.high:
        return exact(figure.value + offset)
    return Interval(figure.value + offset, figure.low + offset, figure.high + offset)


def without(whole: Interval, part: Interval) -> Interval:
    """A sum less one of its independent parts, whose spread leaves with it."""
    value = whole.value - part.value
    below = (whole.value - whole.low) ** 2 - (part.value - part.low) ** 2
    above = (whole.high - whole.value) ** 2 - (part.high - part.value) ** 2
    return Interval(value, value - sqrt(maximum(below, 0.0)), value + sqrt(maximum(above, 0.0)))


def product(*factors: Interval) -> Interval:
    """Product of independent non-negative figures.

    A factor whose value or lower end is zero has no logarithm. The product of the lower ends is
    then zero as well, and the upper side falls back to the product of the upper ends, which is
    wider than quadrature: safe for figures such as a grid with no measured emissions.
    """
    ratio: Number = 1.0
    unsure: list[Interval] = []
    for factor in factors:
        if factor.low is not factor.high:
            unsure.append(factor)
        else:
            ratio = scaled(factor.value, ratio)
    if not unsure:
        return exact(ratio)
    if len(unsure) == 1:
        return scale(unsure[0], ratio)
    value: Number = ratio
    below: Number = 0.0
    above: Number = 0.0
    for factor in unsure:
        middle, low = factor.value, factor.low
        if not positive(low):
            return _product_with_zeros(factors)
        value = middle * value
        under, over = log(middle / low), log(factor.high / middle)
        below, above = below + under * under, above + over * over
    return Interval(value, value / exp_root(below), value * exp_root(above))


def _product_with_zeros(factors: Sequence[Interval]) -> Interval:
    """Product of the ends where a lower end is zero, and of the logarithms elsewhere."""
    value: Number = 1.0
    low: Number = 1.0
    high: Number = 1.0
    zero: Truth = False
    for factor in factors:
        value = value * factor.value
        low = low * factor.low
        high = high * factor.high
        if factor.low is not factor.high:
            zero = either(zero, factor.low <= 0.0)
    if not isinstance(zero, ndarray) or zero.all():
        return Interval(value, low, high)
    rest = product(
        *(
            factor
            if factor.low is factor.high
            else Interval(
                *(where(zero, 1.0, end) for end in (factor.value, factor.low, factor.high))
            )
            for factor in factors
        )
    )
    return Interval(value, where(zero, low, rest.low), where(zero, high, rest.high))


def quotient(numerator: Interval, denominator: Interval) -> Interval:
    """Ratio of two independent figures; the denominator is positive over its whole interval."""
    if denominator.low is denominator.high:
        return scale(numerator, 1.0 / denominator.value)
    return product(
        numerator, Interval(1.0 / denominator.value, 1.0 / denominator.high, 1.0 / denominator.low)
    )


def damped(figure: Interval, ratio: Number) -> Interval:
    """A positive figure whose logarithm is a share as uncertain: what a time leaves in an energy.

    Where energy is power times time, a step that turns out shorter comes with more power: of its
    spread only the share that power does not follow is left.
    """
    if figure.low is figure.high:
        return figure
    value = figure.value
    return Interval(
        value, value * (figure.low / value) ** ratio, value * (figure.high / value) ** ratio
    )


def bounded(figure: Interval, least: Number, most: Number) -> Interval:
    """The figure with all three numbers kept within physical limits."""
    return Interval(
        minimum(maximum(figure.value, least), most),
        minimum(maximum(figure.low, least), most),
        minimum(maximum(figure.high, least), most),
    )


def at_most(figure: Interval, most: Number) -> Interval:
    """The figure with all three numbers kept below a limit."""
    return Interval(
        minimum(figure.value, most), minimum(figure.low, most), minimum(figure.high, most)
    )


def at_least(figure: Interval, least: Interval) -> Interval:
    """The figure with none of its three numbers below that of another, which it cannot undercut."""
    return Interval(
        maximum(figure.value, least.value),
        maximum(figure.low, least.low),
        maximum(figure.high, least.high),
    )


def certainty(room: Interval) -> Label:
    """How sure it is that a figure is not below zero: "yes", "likely", "unlikely" or "no"."""
    return certainty_of(room.value >= 0.0, room.low >= 0.0, room.high >= 0.0)


def shortfall(room: Interval) -> Interval:
    """How far a figure is below zero, in its unit; zero, never minus zero, where it is not."""
    return Interval(
        maximum(0.0 - room.value, 0.0),
        maximum(0.0 - room.high, 0.0),
        maximum(0.0 - room.low, 0.0),
    )


def certainty_of(central: Truth, surely: Truth, possibly: Truth) -> Label:
    """The same from whether it holds for the value, for all of the interval, and for any of it."""
    return label(surely, "yes", label(central, "likely", label(possibly, "unlikely", "no")))
