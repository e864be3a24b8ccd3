"""Rules that a site, a company or a model meets in a place, as dated data with conditions.

What is not known is never assumed: a rule that turns on a missing fact is "unknown", with the fact
named. None of this is legal advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from service.core.interval import Interval

Fact: TypeAlias = Interval | str | bool
Comparison: TypeAlias = Literal["at_most", "at_least", "above", "below", "is", "before", "from"]
Verdict: TypeAlias = Literal["pass", "fail", "due", "not_applicable", "unknown"]
Effect: TypeAlias = Literal["limit", "report", "permit", "advice"]
Status: TypeAlias = Literal["in_force", "draft", "stayed", "repealed"]

#: Stands among the places of a rule for all members of the European Union.
#: Source: Treaty on European Union, Art. 52, as amended up to 2020.
EUROPEAN_UNION = "eu"
MEMBERS = frozenset(
    {
        *("AT", "BE", "BG", "HR", "CY", "CZ", "DK", "EE", "FI", "FR", "DE", "GR", "HU", "IE"),
        *("IT", "LV", "LT", "LU", "MT", "NL", "PL", "PT", "RO", "SK", "SI", "ES", "SE"),
    }
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A fact compared with a value: a number, a text, a truth or a date (ISO 8601)."""

    fact: str
    comparison: Comparison
    value: float | str | bool

    def holds(self, facts: Mapping[str, Fact]) -> bool | None:
        """Whether it holds; None where the fact is missing or its interval lies on both sides."""
        known = facts.get(self.fact)
        if known is None:
            return None
        if isinstance(known, Interval):
            return _compared(known, self.comparison, float(self.value))
        if self.comparison == "before":
            return str(known) < str(self.value)
        if self.comparison == "from":
            return str(known) >= str(self.value)
        return known == self.value


@dataclass(frozen=True, slots=True)
class Rule:
    """A requirement with where, when and for whom it holds.

    It holds in the ``regions`` (everywhere, if there are none) from ``begins`` until before
    ``ends`` for everything that all conditions of ``applies`` are true of, and asks for all
    conditions of ``requires``. ``due`` is the month and day of a yearly report ("05-15").
    """

    id: str
    regions: frozenset[str]
    effect: Effect
    status: Status
    begins: str | None
    ends: str | None
    due: str | None
    applies: tuple[Condition, ...]
    requires: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """How something stands to a rule, and why.

    ``due_on`` is the day from which, or by which, something is due; ``met`` tells of a rule that
    is still to come whether it would be kept; ``missing`` names facts that would decide, and
    ``failed`` the requirements that are not met.
    """

    verdict: Verdict
    reason: str
    due_on: str | None = None
    met: bool | None = None
    missing: tuple[str, ...] = ()
    failed: tuple[Condition, ...] = ()


def check(rule: Rule, facts: Mapping[str, Fact], places: frozenset[str], on: str) -> Finding:
    """How something stands to a rule on a day.

    Returns
    -------
    Finding
        "pass" and "fail" for requirements in force; "due" for those to come, for reports and for
        permits; "unknown" wherever a fact is missing that decides.
    """
    if rule.regions and not rule.regions & places:
        return Finding("not_applicable", "holds elsewhere")
    if rule.status != "in_force":
        return Finding(
            "not_applicable", f"not in force: {rule.status}; {_would_apply(rule, facts)}"
        )
    if rule.ends is not None and on >= rule.ends:
        return Finding("not_applicable", f"ended on {rule.ends}")
    scope = [(condition, condition.holds(facts)) for condition in rule.applies]
    if any(held is False for _, held in scope):
        return Finding("not_applicable", "its conditions are not met")
    missing = tuple(condition.fact for condition, held in scope if held is None)
    if missing:
        return Finding("unknown", "whether it applies is not known", missing=missing)
    judged = [(condition, condition.holds(facts)) for condition in rule.requires]
    failed = tuple(condition for condition, held in judged if held is False)
    open_ = tuple(condition.fact for condition, held in judged if held is None)
    met = False if failed else None if open_ else True
    if rule.begins is not None and on < rule.begins:
        reason = f"begins on {rule.begins}"
        return Finding("due", reason, rule.begins, met if judged else None, open_, failed)
    if failed:
        return Finding("fail", "a requirement is not met", missing=open_, failed=failed)
    if open_:
        return Finding("unknown", "whether it is met is not known", missing=open_)
    if rule.effect == "report":
        return Finding("due", "a report is due", _next(rule.due, on))
    if not judged:
        reason = "a permit is needed" if rule.effect == "permit" else "to be taken account of"
        return Finding("due", reason)
    return Finding("pass", "all requirements are met", met=True)


def _would_apply(rule: Rule, facts: Mapping[str, Fact]) -> str:
    """Whether a rule that is not in force is about what the facts tell of."""
    scope = [condition.holds(facts) for condition in rule.applies]
    if any(held is False for held in scope):
        return "its conditions are not met either"
    return "it would apply" if all(scope) else "whether it would apply is not known"


def _compared(known: Interval, comparison: Comparison, value: float) -> bool | None:
    if comparison in ("at_most", "below"):
        strict = comparison == "below"
        if known.high < value or (known.high == value and not strict):
            return True
        beyond = known.low > value or (known.low == value and strict)
        return False if beyond else None
    if comparison in ("at_least", "above"):
        strict = comparison == "above"
        if known.low > value or (known.low == value and not strict):
            return True
        beyond = known.high < value or (known.high == value and strict)
        return False if beyond else None
    return bool(known.low == known.high == value)


def _next(month_and_day: str | None, on: str) -> str | None:
    """The next such day of a year, today included."""
    if month_and_day is None:
        return None
    year = int(on[:4])
    day = f"{year:04d}-{month_and_day}"
    return day if day >= on else f"{year + 1:04d}-{month_and_day}"
