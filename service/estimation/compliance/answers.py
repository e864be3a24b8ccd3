"""Answers about rules: how a site, a company or a model stands to them."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from service.estimation.answers import Answer, Repeatable

Verdict = Literal["pass", "fail", "due", "not_applicable", "unknown"]


class FailedRequirement(Answer):
    """A requirement that is not met."""

    fact: str
    comparison: Literal["at_most", "at_least", "above", "below", "is", "before", "from"]
    limit: float | str | bool
    value: float | str | bool


class RuleFinding(Answer):
    """The verdict on one rule."""

    id: str
    name: str
    subject: Literal["site", "company", "model"]
    effect: Literal["limit", "report", "permit", "advice"]
    status: Literal["in_force", "draft", "stayed", "repealed"]
    verdict: Verdict
    reason: str
    due_on: str | None
    """Day from which, or by which, it applies."""
    met: bool | None
    """Whether a future requirement would be met."""
    missing: list[str]
    """Facts needed to decide."""
    failed: list[FailedRequirement]
    section: str | None
    checked_on: str
    """Day on which the source was read."""
    source: str
    notes: str | None


_VerdictCounts = TypedDict("_VerdictCounts", {"pass": int})


class VerdictCounts(Answer, _VerdictCounts):
    """How many rules have each verdict."""

    fail: int
    due: int
    unknown: int
    not_applicable: int


class Compliance(Answer):
    """Every rule of the catalog that may apply in the place. Not legal advice."""

    on: str
    places: list[str]
    """The region and all regions that contain it."""
    verdicts: VerdictCounts
    missing: list[str]
    """Facts needed to decide the rules whose verdict is unknown."""
    rules: list[RuleFinding]
    """Most important findings first."""


class ComplianceAnswer(Repeatable, Compliance):
    """Whether a site, a company or a model meets the rules of a place on a given day."""

    region: str
