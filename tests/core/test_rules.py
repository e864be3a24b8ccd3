from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.compliance import Condition, Rule, check
from service.core.interval import Interval, exact

GERMANY = frozenset({"country/DE", "eu"})
TODAY = "2026-11-21"


def rule(**changes) -> Rule:
    fields = {
        "id": "r",
        "regions": frozenset({"country/DE"}),
        "effect": "limit",
        "status": "in_force",
        "begins": None,
        "ends": None,
        "due": None,
        "applies": (Condition("connected_load_kw", "at_least", 300.0),),
        "requires": (Condition("pue_ratio", "at_most", 1.3),),
    }
    return Rule(**(fields | changes))


def verdict(facts, on=TODAY, places=GERMANY, **changes) -> str:
    return check(rule(**changes), facts, places, on).verdict


BIG = {"connected_load_kw": exact(500.0)}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (BIG | {"pue_ratio": exact(1.3)}, "pass"),
        (BIG | {"pue_ratio": exact(1.31)}, "fail"),
        (BIG | {"pue_ratio": Interval(1.25, 1.2, 1.4)}, "unknown"),
        (BIG | {"pue_ratio": Interval(1.25, 1.2, 1.29)}, "pass"),
        (BIG, "unknown"),
        ({"pue_ratio": exact(2.0)}, "unknown"),
        ({"connected_load_kw": exact(299.0)}, "not_applicable"),
        ({}, "unknown"),
    ],
)
def test_what_is_not_known_is_never_assumed(facts, expected):
    assert verdict(facts) == expected


def test_where_and_when_it_does_not_hold():
    facts = BIG | {"pue_ratio": exact(2.0)}
    assert verdict(facts, places=frozenset({"country/FR", "eu"})) == "not_applicable"
    assert verdict(facts, regions=frozenset({"eu"})) == "fail"
    assert verdict(facts, regions=frozenset()) == "fail"
    assert verdict(facts, status="draft") == "not_applicable"
    assert verdict(facts, ends=TODAY) == "not_applicable"
    assert verdict(facts, ends="2026-11-22") == "fail"


def test_what_is_to_come_is_due_and_says_whether_it_would_be_kept():
    for ratio, met in ((2.0, False), (1.2, True), (None, None)):
        facts = BIG if ratio is None else BIG | {"pue_ratio": exact(ratio)}
        found = check(rule(begins="2027-07-01"), facts, GERMANY, TODAY)
        assert (found.verdict, found.due_on, found.met) == ("due", "2027-07-01", met)
    assert verdict(BIG | {"pue_ratio": exact(2.0)}, on="2027-07-01", begins="2027-07-01") == "fail"


@pytest.mark.parametrize(
    ("on", "day"),
    [("2026-05-14", "2026-05-15"), ("2026-05-15", "2026-05-15"), ("2026-05-16", "2027-05-15")],
)
def test_a_yearly_report_is_due_on_its_next_day(on, day):
    found = check(rule(effect="report", due="05-15", requires=()), BIG, GERMANY, on)
    assert (found.verdict, found.due_on) == ("due", day)


def test_days_texts_and_truths_are_compared_too():
    from_july = (Condition("commissioned_on", "from", "2026-07-01"),)
    before = (Condition("commissioned_on", "before", "2026-07-01"),)
    facts = {"commissioned_on": "2026-07-01", "pue_ratio": exact(1.0), "zone": "mixed", "new": True}
    assert verdict(facts, applies=from_july) == "pass"
    assert verdict(facts, applies=before) == "not_applicable"
    assert verdict(facts, applies=(Condition("zone", "is", "mixed"),)) == "pass"
    assert verdict(facts, applies=(Condition("new", "is", False),)) == "not_applicable"
    strict = (Condition("pue_ratio", "below", 1.0),)
    assert verdict(facts, applies=(), requires=strict) == "fail"
    assert verdict(facts, applies=(), requires=(Condition("pue_ratio", "above", 1.0),)) == "fail"


@given(st.floats(1.0, 5.0), st.floats(1.0, 5.0), st.floats(1.0, 5.0))
def test_a_wider_range_never_decides_what_a_narrower_left_open(low, value, high):
    low, value, high = sorted((low, value, high))
    point = verdict(BIG | {"pue_ratio": exact(value)})
    ranged = verdict(BIG | {"pue_ratio": Interval(value, low, high)})
    assert ranged in (point, "unknown")
