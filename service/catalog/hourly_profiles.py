"""How the intensity of grids goes up and down over a day and a year."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from service.catalog.entries.entry import Entry
from service.catalog.entries.texts import packaged_texts
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Region

_PROFILES = "hourly-profiles"
#: Days of the months of a year without a leap day.
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class HourlyProfile:
    """Intensity of a grid by month and local hour, over its mean of the year.

    ``ratios`` has a row of 24 hours for each of 12 months [-].
    """

    id: str
    name: str
    year: int
    time_zone: str
    ratios: tuple[tuple[float, ...], ...]
    source: str

    def day(self, month: int | None = None) -> tuple[float, ...]:
        """A mean day of a month, from 1, or of the year: ratios of its 24 hours."""
        if month is not None:
            return self.ratios[month - 1]
        return tuple(
            sum(days * self.ratios[of][hour] for of, days in enumerate(_DAYS)) / sum(_DAYS)
            for hour in range(24)
        )


def profile_of(region: Entry[Region], snapshot: CatalogSnapshot) -> HourlyProfile | None:
    """The profile of the grid that a region is on, or that a wider place of it is; None without."""
    entry: Entry[Region] | None = region
    while entry is not None:
        found = _by_grid().get(entry.id)
        if found is not None:
            return found
        parent = entry.document.get("parent")
        entry = None if parent is None else snapshot.regions.get(parent)
    return None


@cache
def _by_grid() -> Mapping[str, HourlyProfile]:
    profiles: dict[str, HourlyProfile] = {}
    for profile_id, text in packaged_texts()[_PROFILES].by_id.items():
        fields = text.fields
        profile = HourlyProfile(
            profile_id,
            fields["name"],
            fields["year"],
            fields["time_zone"],
            tuple(tuple(month) for month in fields["ratios"]),
            text.sources[0]["id"],
        )
        profiles |= dict.fromkeys(fields["grids"], profile)
    return profiles
