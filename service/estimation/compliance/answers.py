"""Answers about rules: how a site, a company or a model stands to them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from service.estimation.answers import Answer, Repeatable

Verdict = Literal["pass", "fail", "due", "not_applicable", "unknown"]


class FailedRequirement(Answer):
    """A requirement that is not met."""

    fact: str
    """Name of the fact, as requests about rules call it."""
    comparison: Literal["at_most", "at_least", "above", "below", "is", "before", "from"]
    """How the fact would have to stand to the limit."""
    limit: float | str | bool
    """What the fact is compared with."""
    value: float | str | bool
    """The fact."""


class RuleFinding(Answer):
    """The verdict on one rule."""

    id: str
    name: str
    subject: Literal["site", "company", "model"]
    """Whom the rule is about."""
    effect: Literal["limit", "report", "permit", "advice"]
    """What the rule asks for."""
    status: Literal["in_force", "draft", "stayed", "repealed"]
    """Whether the rule is in force."""
    verdict: Verdict
    """What follows for the subject on the day."""
    reason: str
    due_on: str | None
    """Day from which, or by which, it applies."""
    met: bool | None
    """Whether a future requirement would be met."""
    missing: list[str]
    """Facts needed to decide."""
    failed: list[FailedRequirement]
    section: str | None
    """Where it stands in the source; null if it is the whole."""
    checked_on: str
    """Day on which the source was read."""
    source: str
    notes: str | None


_VerdictCounts = TypedDict(
    "_VerdictCounts", {"pass": Annotated[int, Field(description="Rules that are kept.")]}
)


class VerdictCounts(Answer, _VerdictCounts):
    """How many rules have each verdict."""

    fail: int
    """Rules that are broken."""
    due: int
    """Rules that apply from a later day."""
    unknown: int
    """Rules for which a fact is missing."""
    not_applicable: int
    """Rules that do not apply."""


class Compliance(Answer):
    """Every rule of the catalog that may apply in the place. Not legal advice."""

    on: str
    """Day that was asked about, by ISO 8601."""
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
