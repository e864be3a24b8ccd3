"""Shapes of how a site, a company or a model stands to rules."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.deployment_responses import Answer

Verdict = Literal["pass", "fail", "due", "not_applicable", "unknown"]


class FailedRequirement(Answer):
    """A requirement that is not met."""

    fact: str
    comparison: Literal["at_most", "at_least", "above", "below", "is", "before", "from"]
    limit: float | str | bool
    value: float | str | bool


class RuleFinding(Answer):
    """How something stands to one rule."""

    id: str
    name: str
    subject: Literal["site", "company", "model"]
    effect: Literal["limit", "report", "permit", "advice"]
    status: Literal["in_force", "draft", "stayed", "repealed"]
    verdict: Verdict
    reason: str
    due_on: str | None = Field(description="Day from which, or by which, something is due.")
    met: bool | None = Field(description="Whether a requirement to come would be kept.")
    missing: list[str] = Field(description="Facts that would decide.")
    failed: list[FailedRequirement]
    section: str | None
    checked_on: str = Field(description="Day on which the source was read.")
    source: str
    notes: str | None


class VerdictCounts(Answer):
    """How many rules have each verdict."""

    fail: int
    due: int
    unknown: int
    # A word of the language: in answers it is "pass".
    pass_: int = Field(alias="pass")
    not_applicable: int


class Compliance(Answer):
    """Every rule of the catalog that may hold in the place. No legal advice."""

    on: str
    places: list[str] = Field(description="The region with all that contain it.")
    verdicts: VerdictCounts
    missing: list[str] = Field(description="Facts that would decide rules that are unknown.")
    rules: list[RuleFinding] = Field(description="What needs attention first.")
