"""Arithmetic that accepts plain floats or numpy arrays.

Formulas are written once. Plain ``+ - * /`` already work on both; the functions here supply what
the operators lack, and stay on the standard library when every argument is a plain number, which
is several times faster than a numpy call on a scalar. Classes are compared, which takes half the
time of ``isinstance``: arrays here are of no subclass.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray  # looked up a thousand times an estimate
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
#: A condition, or an array of conditions.
Truth: TypeAlias = bool | NDArray[np.bool_]
#: A word, or an array of words.
Label: TypeAlias = str | NDArray[np.str_]
#: One figure, or an array of figures of the same quantity: every formula takes either.
Number: TypeAlias = float | FloatArray


def plain(number: Any) -> float:
    """A figure of one configuration as a float, whatever kind of number it is."""
    found: float = number.item() if number.__class__ is ndarray else float(number)
    return found


def whole(number: Any) -> int:
    """A figure of one configuration without its fraction."""
    return math.trunc(plain(number))


def finite(number: Any) -> bool:
    """Whether a figure of one configuration is neither infinite nor undefined."""
    return bool(-math.inf < number < math.inf)


def maximum(first: Number, second: Number) -> Number:
    """Larger of two numbers, element by element."""
    if first.__class__ is ndarray or second.__class__ is ndarray:
        return np.maximum(first, second)
    return first if first >= second else second


def minimum(first: Number, second: Number) -> Number:
    """Smaller of two numbers, element by element."""
    if first.__class__ is ndarray or second.__class__ is ndarray:
        return np.minimum(first, second)
    return first if first <= second else second


def where(condition: Truth, if_true: Number, if_false: Number) -> Number:
    """Choose element by element; for a plain condition, one of the two values as it is."""
    if (
        condition.__class__ is ndarray
        or if_true.__class__ is ndarray
        or if_false.__class__ is ndarray
    ):
        return np.where(condition, if_true, if_false)
    return if_true if condition else if_false


def label(condition: Truth, if_true: Label, if_false: Label) -> Label:
    """Choose words element by element; for a plain condition, one of the two as it is."""
    if condition.__class__ is ndarray:
        return np.where(condition, if_true, if_false)
    return if_true if condition else if_false


def both(first: Truth, second: Truth) -> Truth:
    """Whether both conditions hold, element by element."""
    if first.__class__ is ndarray or second.__class__ is ndarray:
        return np.logical_and(first, second)
    return first and second


def either(first: Truth, second: Truth) -> Truth:
    """Whether one of the conditions holds or both do, element by element."""
    if first.__class__ is ndarray or second.__class__ is ndarray:
        return np.logical_or(first, second)
    return first or second


def positive(number: Number) -> bool:
    """Whether a figure is above zero in all configurations where it is known."""
    if number.__class__ is ndarray:
        number = np.fmin.reduce(number, axis=None, initial=math.inf)
    return bool(number > 0.0)


def is_nothing(number: Number) -> bool:
    """Whether a figure is a plain zero, with which nothing need be computed."""
    return number.__class__ is float and number == 0.0


def scaled(number: Number, ratio: Number) -> Number:
    """A number times a ratio; the number itself where that is a plain one."""
    return number if ratio.__class__ is float and ratio == 1.0 else number * ratio


def everywhere(condition: Truth) -> bool:
    """Whether a condition holds for all elements."""
    return bool(condition.all()) if condition.__class__ is ndarray else bool(condition)


def ceil(number: Number) -> Number:
    """Smallest whole number not below ``number``."""
    return np.ceil(number) if number.__class__ is ndarray else float(math.ceil(number))


def floor(number: Number) -> Number:
    """Largest whole number not above ``number``."""
    return np.floor(number) if number.__class__ is ndarray else float(math.floor(number))


def exp(number: Number) -> Number:
    """Exponential function: e to the power of ``number``, rounded alike for one and for many."""
    return np.exp(number) if number.__class__ is ndarray else float(np.exp(number))


def exp_root(square: Number) -> Number:
    """Exponential function of the square root of a non-negative number, as :func:`exp`."""
    if square.__class__ is ndarray:
        return np.exp(np.sqrt(square))
    return float(np.exp(math.sqrt(square)))


def expm1(number: Number) -> Number:
    """Exponential function less one, exact for small numbers too."""
    return np.expm1(number) if number.__class__ is ndarray else math.expm1(number)


def log(number: Number) -> Number:
    """Natural logarithm of a positive ``number``."""
    return np.log(number) if number.__class__ is ndarray else math.log(number)


def hypot(first: Number, second: Number) -> Number:
    """Root of the sum of two squares, as independent spreads add up."""
    if first.__class__ is ndarray or second.__class__ is ndarray:
        return np.hypot(first, second)
    return math.hypot(first, second)


def sqrt(number: Number) -> Number:
    """Square root of a non-negative ``number``."""
    return np.sqrt(number) if number.__class__ is ndarray else math.sqrt(number)
