"""What contracted generation covers of a consumption, hour by hour, and what waiting requests save.

References
----------
GHG Protocol, Scope 2 Guidance, 2015, whose revision proposes matching by the hour; Google, 24/7
Carbon-Free Energy: Methodologies and Metrics, 2021 (consumption that is met in its hour).
"""

from __future__ import annotations

from collections.abc import Sequence


def matched_ratio(consumed: Sequence[float], generated: Sequence[float]) -> float:
    """Share of a consumption that generation covers in the same interval [-].

    Never more than the share that it covers over all intervals together; the same where both have
    one shape.

    Parameters
    ----------
    consumed, generated
        Energy in each interval, in one unit; some is consumed.
    """
    met = sum(min(one, other) for one, other in zip(consumed, generated, strict=True))
    return met / sum(consumed)


def generated_like(shape: Sequence[float], total: float) -> list[float]:
    """Energy in each interval of a generation of a shape that adds up to a total.

    Parameters
    ----------
    shape
        Generation in each interval in any unit, above zero in some.
    total
        Energy of all intervals together.
    """
    whole = sum(shape)
    return [one / whole * total for one in shape]


def shifted(
    rates: Sequence[float],
    gco2e_per_kwh: Sequence[float],
    deferrable_ratio: float,
    later_intervals: int,
) -> list[float]:
    """Rates of requests in a day where some of them wait for a cleaner grid.

    From the cleanest interval on, each takes requests that came before it and can wait so long, of
    the dirtiest interval first, until it is as busy as the busiest one was: no more machines are
    needed. The day before was like this one. Requests move to a cleaner interval or stay.

    Parameters
    ----------
    rates, gco2e_per_kwh
        Requests and the grid in each interval, in order.
    deferrable_ratio
        Share of the requests of each interval that can wait [-].
    later_intervals
        By how many intervals they can wait [-].

    Returns
    -------
    list of float
        Rates after waiting, which add up to those before.
    """
    count, most = len(rates), max(rates)
    now, waiting = list(rates), [rate * deferrable_ratio for rate in rates]
    reach = min(later_intervals, count - 1)
    for target in sorted(range(count), key=lambda at: (gco2e_per_kwh[at], at)):
        before = [(target - back) % count for back in range(1, reach + 1)]
        for source in sorted(before, key=lambda at: (-gco2e_per_kwh[at], at)):
            room = most - now[target]
            if room <= 0.0 or gco2e_per_kwh[source] <= gco2e_per_kwh[target]:
                break
            moved = min(waiting[source], room)
            waiting[source] -= moved
            now[source] -= moved
            now[target] += moved
    return now
