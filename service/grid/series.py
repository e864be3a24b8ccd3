"""The grid's intensity over time, as a provider tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from service.core.errors import Unavailable
from service.core.impacts.scheduling import Period

Signal: TypeAlias = Literal["average", "marginal"]

_MOST_GCO2E_PER_KWH = 5_000.0
_MOST_POINTS = 1_000


class ProviderFailed(Unavailable):
    """A provider does not answer, refuses, or answers what cannot be understood."""


@dataclass(frozen=True, slots=True)
class Series:
    """Intensity now and to come [gCO2e/kWh].

    ``at`` is the time that ``now_gco2e_per_kwh`` is about, ``zone`` the provider's name of the
    place, ``forecast`` periods that follow each other.
    """

    provider: str
    signal: Signal
    zone: str
    at: datetime
    now_gco2e_per_kwh: float
    forecast: tuple[Period, ...]


def intensity(given: object) -> float:
    """A number from a provider, if it can be an intensity.

    Raises
    ------
    ProviderFailed
        If it is none.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ProviderFailed("an intensity is not a number")
    if not 0.0 <= given <= _MOST_GCO2E_PER_KWH:
        raise ProviderFailed("an intensity is out of bounds")
    return float(given)


def moment(given: object) -> datetime:
    """A time from a provider, in UTC.

    Raises
    ------
    ProviderFailed
        If it is none.
    """
    if not isinstance(given, str) or len(given) > 40:
        raise ProviderFailed("a time is not a text")
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise ProviderFailed("a time is not ISO 8601") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def following(points: Sequence[tuple[datetime, float]]) -> tuple[Period, ...]:
    """Periods from the points at which they start, the last as long as the one before."""
    if len(points) > _MOST_POINTS:
        raise ProviderFailed("a forecast is too long")
    ordered = sorted(points)
    starts = [start.timestamp() for start, _ in ordered]
    if len(starts) < 2:
        return ()
    ends = [*starts[1:], 2.0 * starts[-1] - starts[-2]]
    return tuple(
        Period(start, end, value)
        for start, end, (_, value) in zip(starts, ends, ordered, strict=True)
        if end > start
    )
