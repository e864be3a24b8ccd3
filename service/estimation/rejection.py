"""A request that cannot be answered, with everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: where (RFC 6901 JSON pointer) and what.

    ``line`` and ``column``, counted from 1, say where it stands in a file that was sent;
    ``suggestions`` are values that would be accepted there.
    """

    pointer: str
    detail: str
    line: int | None = None
    column: int | None = None
    suggestions: tuple[str, ...] = ()


class Rejected(InvalidInput):
    """The request refers to unknown things, or asks for the impossible.

    Every use case raises it; only what one of them rejects beyond that is said there.
    """

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{error.pointer}: {error.detail}" for error in self.errors))
