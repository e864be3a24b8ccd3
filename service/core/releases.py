"""Which releases of an engine somebody may mean who names none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp

from service.core.engines import Generation

#: How many of the requests that name no release are about what somebody ran once and published;
#: the others are about what is installed now [-]. Nobody has counted them, and neither is rare.
_PUBLISHED_RATIO = 0.5
#: Mean time from when model, accelerator and engine are there to a run that is published [month].
#: It is 5 in the 21 packaged publications of inference that tell both months, none of which took
#: longer than 9 on average; the few that tell their year alone took longer (hardware_catalog/
#: measurements, 2026).
_MEAN_MONTHS = 6.0


def older_in_use(generations: Sequence[Generation], since: str) -> Iterator[tuple[str, float]]:
    """Generations that a model may have run with and newer ones have replaced.

    Parameters
    ----------
    generations
        Those of an engine, from the oldest to the newest.
    since
        Day from which on the model can run, in ISO 8601.

    Yields
    ------
    tuple of str and float
        Id of a generation, and the share of requests naming none that mean it or an older one [-].
    """
    if not generations:
        return
    begin = _months(max(since, generations[0].since))
    for one, after in pairwise(generations):
        months = _months(after.since) - begin
        if months > 0.0:
            yield one.id, _PUBLISHED_RATIO * run_by_ratio(months)


def run_by_ratio(months: float) -> float:
    """Share of published runs that were made so many months after they could be [-].

    Few are made in the first weeks and few after a year, as by a gamma distribution of shape 2.
    """
    part = 2.0 * months / _MEAN_MONTHS
    return 1.0 - (1.0 + part) * exp(-part)


def _months(day: str) -> float:
    """Months up to a day, or to the first one of a month or year in ISO 8601."""
    year, month, number = (*map(int, day.split("-")), 1, 1)[:3]
    return 12.0 * year + month + (number - 1) / 31.0
