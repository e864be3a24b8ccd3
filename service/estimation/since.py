"""Since when models run on accelerators, which decides the releases that a request may mean."""

from __future__ import annotations

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.entries.released import released_by
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator

#: The licence of models that only papers describe.
_NOT_RELEASED = "not released"


def runs_since(
    model: Entry[ModelArchitecture], accelerator: Entry[Accelerator], snapshot: CatalogSnapshot
) -> str:
    """The day from which on a model can run on an accelerator, in ISO 8601.

    Of either the month is known or the year. A model can run from the end of the month on in which
    its repository was made; of one whose year alone is known, from the year's first day. Engines
    come to support an accelerator by the end of the month or year in which it appears. Where nobody
    says of which year a model is, it is that of the first of its type.
    """
    year = model.document.get("release_year") or _first_years(snapshot).get(model.value.model_type)
    appeared = released_by(model.document) or f"{year or 0:04d}-01-01"
    supported = accelerator.document.get("release_year") or 0
    return max(appeared, released_by(accelerator.document) or f"{supported:04d}-12-31")


@derived()
def _first_years(snapshot: CatalogSnapshot) -> dict[str, int]:
    """The year of the first model of each type whose weights anybody can have."""
    found: dict[str, int] = {}
    for entry in snapshot.models.values():
        year, type_ = entry.document.get("release_year"), entry.value.model_type
        if year is not None and entry.document.get("licence") != _NOT_RELEASED:
            found[type_] = min(year, found.get(type_, year))
    return found
