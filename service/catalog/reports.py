"""Reports of measurements that correct what their organisation is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Reports that estimates learn from at most; of more, the newest.
MOST_REPORTS = 400


@dataclass(frozen=True, slots=True, eq=False)
class OwnReports:
    """An organisation's reports at one of its revisions: documents by the number of the report.

    ``organisation`` is None for those of all who have no key. Compared by identity, as snapshots
    are.
    """

    organisation: str | None
    revision: int
    documents: Mapping[int, Mapping[str, Any]]
