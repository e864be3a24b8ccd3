"""When a job that can wait had best run, by a forecast of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time [s since any epoch] with the grid's intensity in it [gCO2e/kWh]."""

    start_s: float
    end_s: float
    gco2e_per_kwh: float


@dataclass(frozen=True, slots=True)
class Window:
    """When to run, at what mean intensity, beside that of running at once [gCO2e/kWh]."""

    start_s: float
    end_s: float
    gco2e_per_kwh: float
    at_once_gco2e_per_kwh: float

    @property
    def saving_ratio(self) -> float:
        """Emissions saved by waiting, over those of running at once [-]."""
        if self.at_once_gco2e_per_kwh <= 0.0:
            return 0.0
        return 1.0 - self.gco2e_per_kwh / self.at_once_gco2e_per_kwh


def best_window(forecast: Sequence[Period], duration_s: float) -> Window | None:
    """The stretch of constant power in which a job emits least.

    Intensity is taken as constant within each period, so that the best stretch begins or ends where
    a period does.

    Parameters
    ----------
    forecast
        Periods that follow each other without gaps, in the order of time.
    duration_s
        Length of the job [s].

    Returns
    -------
    Window or None
        The earliest of the best; None if the forecast is shorter than the job.
    """
    if not forecast or forecast[-1].end_s - forecast[0].start_s < duration_s:
        return None
    first, last = forecast[0].start_s, forecast[-1].end_s - duration_s
    starts = {period.start_s for period in forecast}
    starts |= {period.end_s - duration_s for period in forecast}
    tried = sorted(start for start in starts if first <= start <= last)
    at_once = _mean(forecast, first, duration_s)
    best = min(tried, key=lambda start: (round(_mean(forecast, start, duration_s), 9), start))
    return Window(best, best + duration_s, _mean(forecast, best, duration_s), at_once)


def _mean(forecast: Sequence[Period], start_s: float, duration_s: float) -> float:
    total = 0.0
    for period in forecast:
        shared_s = min(period.end_s, start_s + duration_s) - max(period.start_s, start_s)
        total += max(shared_s, 0.0) * period.gco2e_per_kwh
    return total / duration_s
