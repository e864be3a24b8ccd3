"""What every way of asking has in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from service.core.errors import InvalidInput, Unavailable


class Refused(InvalidInput):
    """The question cannot be answered; ``problem`` is the RFC 9457 problem that says why."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or "refused"))
        self.problem = problem


class NotReached(Unavailable):
    """Whoever was asked does not answer, or has failed."""


class EstimatorClient(Protocol):
    """A way of asking."""

    async def ask(self, question: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Parameters
        ----------
        question
            Path of the operation below ``/v1``, such as ``estimates/inference``.
        body
            What a POST of it would hold.

        Raises
        ------
        Refused
            If the question cannot be answered.
        NotReached
            If something that it takes is away.
        """

    async def look_up(self, collection: str, text: str, most: int) -> list[dict[str, Any]]:
        """Entries of the catalog that hold a text in id, name or an alias; at most so many.

        Raises
        ------
        Refused
            If there is no such collection.
        NotReached
            If something that it takes is away.
        """

    def sweep(
        self, body: Mapping[str, Any], told: Callable[[int, int], None]
    ) -> AsyncIterator[str]:
        """The rows of a sweep as pieces of a CSV table.

        Parameters
        ----------
        body
            What a POST of ``sweeps`` or ``sweeps/training`` would hold.
        told
            Is told how many of how many configurations are done.

        Raises
        ------
        Refused
            If it cannot be evaluated.
        NotReached
            If something that it takes is away.
        """

    async def import_file(
        self, body: Mapping[str, Any], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """What a tool's file says as measurements; see POST /v1/measurements/imports.

        Within this process nothing is stored, whatever the body says.

        Raises
        ------
        Refused
            If the file cannot be read.
        NotReached
            If something that it takes is away.
        """
