"""When a model or accelerator was released, as far as its document says."""

from __future__ import annotations

from calendar import monthrange

from service.catalog.entries.documents import Document


def released_by(document: Document) -> str | None:
    """The last day that ``released`` may mean, in ISO 8601; None where only a year is known.

    A month counts as whole.
    """
    released = document.get("released")
    if released is None:
        return None
    date = str(released["date"])
    if date.count("-") > 1:
        return date
    year, month = map(int, date.split("-"))
    return f"{date}-{monthrange(year, month)[1]:02d}"
