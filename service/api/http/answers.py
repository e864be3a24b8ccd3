"""The answer that is an error."""

from __future__ import annotations

from typing import NotRequired

from service.estimation.answers import Answer, FieldProblem


class ProblemDetails(Answer):
    """An error, as in RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: NotRequired[list[FieldProblem]]
    suggestions: NotRequired[list[str]]
    """Paths of what may have been meant by one that leads nowhere."""
