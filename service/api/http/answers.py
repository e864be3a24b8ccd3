"""The answer that is an error."""

from __future__ import annotations

from typing import NotRequired

from service.estimation.answers import Answer, FieldProblem


class ProblemDetails(Answer):
    """An error, as in RFC 9457."""

    type: str
    """Address of the kind of problem, which stays the same."""
    title: str
    """The kind of problem in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong with this request."""
    instance: str
    """urn:request: and the id of the request, which stands in X-Request-ID and in the log."""
    errors: NotRequired[list[FieldProblem]]
    suggestions: NotRequired[list[str]]
    """Paths of what may have been meant by one that leads nowhere."""
