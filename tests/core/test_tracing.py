"""Figures that note what is computed with them do what plain numbers do, or refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core import elementwise as e
from service.core.interval import Interval, bounded, independent_sum, product, quotient, scale
from service.core.tracing import Place, Tape, Traced, Untraceable
from service.estimation.programs import compiled
from service.estimation.rows import Rows

NUMBERS = st.floats(0.01, 1e6, allow_subnormal=False)


def some_of_everything(x: Any, y: Any) -> list[Any]:
    """Every function that formulas compute with, and every operator."""
    figure = Interval(x, x / 2.0, x * 3)
    other = scale(Interval(y, y * 0.9, y * 1.25), 4.0)
    return [
        *(x + y, 1 + x, x - 2.5, 3 - x, x * y, 2 * x, x / y, 1.0 / x, x**2, 2.0 ** (1 / x)),
        *(-x, abs(2.0 - x), x // 3, 7.5 // y, x % y, 1e9 % x, round(x, 2)),
        *(e.maximum(x, y), e.minimum(x, 3.0), e.where(x > y, x, 1.0), e.where(True, x, y)),
        *(e.ceil(x), e.floor(y), e.log(x), e.exp(-x), e.expm1(-y), e.hypot(x, y), e.sqrt(x)),
        *(e.plain(x), e.whole(x), math.ceil(x), max(x, y), min(x, 2.0), sum([x, y])),
        e.where(e.both(x > 1.0, e.either(y > x, x != 2.0)), 1.0, x),
        *(e.label(x >= y, "more", "less"), f"{x:.3g} and {y:,.1f}"),
        *(figure.low, product(figure, other).high, quotient(figure, other).low),
        independent_sum((figure, other, Interval(x, x, x))).low,
        bounded(figure, 0.5, 40.0).high,
    ]


def traced(function: Callable[..., list[Any]], *numbers: float) -> Callable[..., list[Any] | None]:
    tape = Tape()
    found = function(*(tape.input(number) for number in numbers))
    places = [each.place for each in found if type(each) is Traced]
    program = compiled(tape, places)

    def again(*others: float) -> list[Any] | None:
        results = program(*others)
        if results is None:
            return None
        left = iter(results)
        return [next(left) if type(each) is Traced else each for each in found]

    return again


def without_words(found: list[Any]) -> list[Any]:
    return [each for each in found if not isinstance(each, str) or "and" not in each]


@settings(max_examples=30)
@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_code_repeats_what_plain_numbers_do(x: float, y: float, a: float, b: float) -> None:
    """To the last bit, for any inputs that lead to the same decisions."""
    again = traced(some_of_everything, x, y)
    for first, second in ((x, y), (a, b), (int(a) + 1, b)):
        found = again(first, second)
        if found is None:
            assert (first, second) != (x, y)
            continue
        plain = without_words(some_of_everything(first, second))
        for repeated, expected in zip(without_words(found), plain, strict=True):
            assert repeated == expected


@settings(max_examples=30)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40), st.sampled_from([float, int])
)
def test_many_rows_get_what_code_gives_each(
    rows: list[tuple[float, float]], kind: type[float]
) -> None:
    """To the last bit and of the same type; None for rows that are decided otherwise."""
    rows = [(kind(x) + 1, y) for x, y in rows]
    tape = Tape()
    found = some_of_everything(*(tape.input(number) for number in rows[0]))
    places = [each.place for each in found if type(each) is Traced]
    # Words are noted in texts.
    places += [Place(at) for at, (name, _) in enumerate(tape.expressions) if name == "format"]
    program = compiled(tape, places)
    together = Rows(tape, places, [type(number) for number in rows[0]])
    told = together([[row[at] for row in rows] for at in range(2)])
    assert [repr(each) for each in told] == [repr(program(*row)) for row in rows]
    assert told[0] is not None


def test_rows_are_not_computed_once_they_are_decided_otherwise() -> None:
    """Nor do they stop the others where they could not be computed."""
    tape = Tape()
    x = tape.input(5.0)
    found = 1.0 / (x - 2.0) if x > 3.0 else x
    rows = Rows(tape, [found.place], [float])
    assert rows([[2.0, 4.0, 3.0, 6.0]]) == [None, (0.5,), None, (0.25,)]
    assert rows([[2.0, 1.0]]) == [None, None]


def test_rows_that_cannot_be_computed_are_refused() -> None:
    tape = Tape()
    x = tape.input(5.0)
    quotient, root = 1.0 / (x - 2.0), e.sqrt(x - 1.0)
    power = (x - 3.0) ** 0.5
    for place in (quotient.place, root.place, power.place):  # type: ignore[union-attr]
        with pytest.raises((ArithmeticError, ValueError)):
            Rows(tape, [place], [float])([[3.0, 2.0, 0.0]])


def test_other_decisions_are_not_repeated() -> None:
    def decided(x: Any) -> list[Any]:
        return [x * 2.0] if x > 3.0 and x != 7.0 else [x]

    again = traced(decided, 5.0)
    assert again(4.0) == [8.0]
    assert again(2.0) is None
    assert again(7.0) is None


def test_words_are_written_when_their_figure_is_known() -> None:
    tape = Tape()
    text = f"at most {tape.input(12.345) * 2.0:.1f} a second"
    [place] = [
        each for each in range(len(tape.expressions)) if tape.expressions[each][0] == "format"
    ]
    assert f"\ue000{place}\ue001 a second" in text


def test_what_a_figure_decides_is_computed_once_however_often_it_is_asked() -> None:
    tape = Tape()
    x = tape.input(2.0)
    assert (x * 3.0).place == (x * 3.0).place
    assert (x * 3.0).place != (x * 3).place
    assert (x * 0.0).place != (x * -0.0).place


@pytest.mark.parametrize(
    "hide",
    [float, int, hash, str, repr, math.sin, math.isfinite, list, len, "{!r}".format],
    ids=lambda hide: getattr(hide, "__name__", "format"),
)
def test_what_would_hide_where_a_figure_came_from_is_refused(hide: Callable[[Any], Any]) -> None:
    with pytest.raises(Untraceable):
        hide(Tape().input(1.5))


def test_figures_of_many_do_not_mix_with_traced_ones() -> None:
    import numpy as np

    x = Tape().input(1.5)
    for mix in (
        lambda: np.ones(3) * x,
        lambda: e.maximum(x, np.ones(3)),
        lambda: np.sin(x),
        lambda: np.add.reduce(x),
        lambda: np.stack([x, x]),
        lambda: x / 0.0,
    ):
        with pytest.raises(Untraceable):
            mix()
    assert x != "max"
    assert x != None  # noqa: E711 - as a comparison of fields does
