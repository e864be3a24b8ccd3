"""Answers that need an extra which may not be installed."""

from __future__ import annotations

from service.api.http.problems import Problem
from service.extras import EXTRAS, how_to_add, is_installed


def need(extra: str) -> None:
    """Go on if an extra is installed.

    Raises
    ------
    Problem
        If it is not (501), with how to add it.
    """
    if not is_installed(extra):
        told = f"{EXTRAS[extra].purpose} need the extra {extra!r}: {how_to_add([extra])}"
        raise Problem("extra-missing", told)
