from __future__ import annotations

import pytest

from service.core.explanation import explain
from service.core.impacts.memory_choice import MEMORY_CHOICE, memory_choice
from service.core.interval import Interval, exact


def choice(saved: Interval):
    return memory_choice(saved, 80.0, exact(1e12), exact(1e-6), exact(1000.0), exact(1.2))


def test_the_break_even_is_saving_over_extra_energy():
    result = choice(exact(2.0))
    # 160 kg over 1e12 tokens; 1 µs · 1.2 kW = 1.2 mJ a token.
    assert result.saved_gco2e_per_token.value == pytest.approx(1.6e-7)
    assert result.extra_kwh_per_token.value == pytest.approx(1.2e-3 / 3.6e6)
    assert result.break_even_gco2e_per_kwh is not None
    assert result.break_even_gco2e_per_kwh.value == pytest.approx(480.0)
    assert [step.value for step in explain(result, MEMORY_CHOICE)] == [
        result.break_even_gco2e_per_kwh.value
    ]


def test_at_the_break_even_both_memories_emit_as_much():
    result = choice(Interval(2.0, 1.0, 3.0))
    assert result.break_even_gco2e_per_kwh is not None
    emitted = result.break_even_gco2e_per_kwh.value * result.extra_kwh_per_token.value
    assert emitted == pytest.approx(result.saved_gco2e_per_token.value)


def test_memory_that_saves_nothing_never_wins():
    result = choice(Interval(-0.5, -1.0, -0.1))
    assert result.break_even_gco2e_per_kwh is None
    assert explain(result, MEMORY_CHOICE) == ()


def test_a_saving_that_may_be_none_reaches_down_to_zero():
    result = choice(Interval(0.2, -0.5, 1.0))
    assert result.break_even_gco2e_per_kwh is not None
    assert result.break_even_gco2e_per_kwh.low == 0.0
