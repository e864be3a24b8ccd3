"""Shapes of answers about claims."""

from __future__ import annotations

from pydantic import Field

from service.api.responses import Answer
from service.estimation.claims import Verdict


class ClaimDocument(Answer):
    """A document that a claim stands in."""

    id: str
    title: str


class ClaimEntry(Answer):
    """What a document states, and what it comes to."""

    id: str
    documents: list[ClaimDocument]
    subject: str
    stated: str
    recomputed: float | None = Field(
        description="The right figure in `unit`, computed anew; null where there is none."
    )
    unit: str | None
    verdict: Verdict = Field(
        description="wrong; conditional: right only under settings that are not stated; "
        "unsupported: the cited source does not say it; unit: right in another unit; internal: the "
        "documents contradict each other; right."
    )
    note: str


class ClaimPage(Answer):
    """Claims."""

    catalog_revision: int
    engine_version: str
    items: list[ClaimEntry]
