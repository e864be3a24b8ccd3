"""Counts of what was tried, for ``./headroom fuzz``, which collects them from many processes."""

from __future__ import annotations

import json
import os
from pathlib import Path


def told(**counts: object) -> None:
    """Add a line to the file that ``HEADROOM_FUZZ_TALLY`` names, if it does."""
    path = os.environ.get("HEADROOM_FUZZ_TALLY")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps(counts) + "\n")


def cases(usual: int) -> int:
    """Cases to try of one kind: ``HEADROOM_FUZZ_CASES``, else as many as every run has time for."""
    return int(os.environ.get("HEADROOM_FUZZ_CASES") or usual)


def is_repeatable() -> bool:
    """Whether to try the same cases each time: not where many are asked for."""
    return "HEADROOM_FUZZ_CASES" not in os.environ
