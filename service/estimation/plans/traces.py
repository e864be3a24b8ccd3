"""Traffic out of a trace: rates by the interval, and how lengths of requests differ."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, isfinite
from typing import Any

from service.core.errors import InvalidInput

#: Names that columns go by in published traces; the first that a table has is taken.
_ARRIVAL = ("arrival_s", "timestamp", "arrived_at", "arrival_time", "TIMESTAMP")
_INPUT = ("input_tokens", "ContextTokens", "num_prefill_tokens", "prompt_tokens", "Request tokens")
_OUTPUT = (
    *("output_tokens", "GeneratedTokens", "num_decode_tokens", "completion_tokens"),
    "Response tokens",
)
#: Lengths that a histogram tells apart.
_BINS = 128
_DAY_S = 86_400.0
#: Shortest interval of a plan [s], and a share of one that rounding may add.
_LEAST_S, _NOTHING = 60.0, 1e-9
#: Minutes.
_HALF_AN_HOUR = 30
#: Rows between two reports of progress.
_STRIDE = 100_000


class TraceNotUnderstood(InvalidInput):
    """A table that is no trace of requests."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a trace says: ``fields`` of a plan, and how it bursts.

    ``busiest_minute_ratio`` is what the busiest minute has over the mean of the hour around it [-],
    of which rates of long intervals know nothing.
    """

    fields: Mapping[str, Any]
    busiest_minute_ratio: float


def traffic_of(
    lines: Iterable[str],
    interval_s: float = 3600.0,
    progress: Callable[[int], None] | None = None,
) -> Traffic:
    """Fields of a plan of traffic from a CSV table with a row for each request.

    Parameters
    ----------
    lines
        The table, with a head. Arrivals are seconds from any start, or dates with times (UTC where
        no zone is stated). Rows need no order.
    interval_s
        About the length of an interval [s]. Rates are means over the time that the trace covers.
    progress
        Is told how many rows were read, now and then; None for nobody.

    Returns
    -------
    Traffic
        ``requests_per_s``, ``interval_s`` and ``deployment.workload`` with histograms of lengths.

    Raises
    ------
    TraceNotUnderstood
        If a column is missing, or a cell is no number; the text names the line.
    """
    table = csv.reader(lines)
    head = [name.strip() for name in next(table, [])]
    arrival, inputs, outputs = (_column(head, names) for names in (_ARRIVAL, _INPUT, _OUTPUT))
    arrivals: list[float] = []
    lengths = {"input_tokens": Counter[int](), "output_tokens": Counter[int]()}
    of_input, of_output = lengths.values()
    for row in table:
        if not row:
            continue
        try:
            arrivals.append(_seconds(row[arrival]))
            of_input[int(row[inputs])] += 1
            of_output[int(row[outputs])] += 1
        except (ValueError, IndexError, OverflowError) as error:
            raise TraceNotUnderstood(f"line {table.line_num}: {error}") from None
        if progress is not None and len(arrivals) % _STRIDE == 0:
            progress(len(arrivals))
    if not arrivals:
        raise TraceNotUnderstood("the table has no requests")
    rates, each_s = _rates(arrivals, interval_s)
    plan = {
        "requests_per_s": rates,
        "interval_s": each_s,
        "deployment": {
            "workload": {name: _histogram(counted) for name, counted in lengths.items()}
        },
    }
    return Traffic(plan, _busiest_minute_ratio(arrivals))


def _column(head: list[str], names: tuple[str, ...]) -> int:
    for name in names:
        if name in head:
            return head.index(name)
    raise TraceNotUnderstood(
        f"no column {names[0]} (or {', '.join(names[1:])}); there are {', '.join(head)[:200]}"
    )


def _seconds(text: str) -> float:
    """Seconds of a number, or of a date with a time."""
    try:
        seconds = float(text)
    except ValueError:
        # Published traces state more digits of a second than can be read.
        whole, dot, rest = text.strip().partition(".")
        digits = "".join(one for one in rest[:6] if one.isdigit())
        zone = rest.lstrip("0123456789")
        stamp = datetime.fromisoformat(f"{whole}{dot}{digits}{zone}")
        return stamp.replace(tzinfo=stamp.tzinfo or UTC).timestamp()
    if not isfinite(seconds):
        raise ValueError(f"{text} is not a time")
    return seconds


def _rates(arrivals: list[float], interval_s: float) -> tuple[list[float], float]:
    """Mean rate in each interval of a day over the time that the trace covers, and their length.

    Days begin at midnight where arrivals are dates, else at the first request. A trace without
    dates that is shorter than a day is divided into intervals of one length, no longer than asked
    for, so that none is half covered (an interval has a minute at least).
    """
    first, last = min(arrivals), max(arrivals)
    # A request stands for the time to the next one.
    end = last + (last - first) / max(len(arrivals) - 1, 1)
    dated = first >= _DAY_S * 365.0
    start = first - first % _DAY_S if dated else first
    intervals = ceil(_DAY_S / interval_s)
    if not dated and end - start < _DAY_S:
        covered_s = end - start
        wanted = ceil(covered_s / interval_s - _NOTHING)
        intervals = max(1, min(wanted, int(covered_s / _LEAST_S)))
        interval_s = max(_LEAST_S, covered_s / intervals)
    counted = Counter(
        min(int((at - start) % _DAY_S / interval_s), intervals - 1) for at in arrivals
    )
    covered = [
        _covered_s(at * interval_s, interval_s, start, first, end) for at in range(intervals)
    ]
    shortest = min(interval_s, _LEAST_S)
    return [counted[at] / max(covered[at], shortest) for at in range(intervals)], interval_s


def _busiest_minute_ratio(arrivals: list[float]) -> float:
    """Requests of the busiest minute over the mean of the hour around it [-]."""
    start = min(arrivals)
    minutes = Counter(int((at - start) // _LEAST_S) for at in arrivals)
    busiest, most = max(minutes.items(), key=lambda one: (one[1], -one[0]))
    span = range(max(0, busiest - _HALF_AN_HOUR), min(max(minutes), busiest + _HALF_AN_HOUR) + 1)
    return most * len(span) / sum(minutes[at] for at in span)


def _covered_s(begins_s: float, interval_s: float, start: float, first: float, end: float) -> float:
    """Time of an interval of the day that lies within a trace, over all its days [s]."""
    total, day = 0.0, start
    ends_s = min(begins_s + interval_s, _DAY_S)
    while day < end:
        total += max(0.0, min(day + ends_s, end) - max(day + begins_s, first))
        day += _DAY_S
    return total


def _histogram(counted: Counter[int]) -> dict[str, list[float]]:
    """Lengths in at most 128 groups of as many requests each, every group by its mean."""
    if min(counted) < 0:
        raise TraceNotUnderstood("a length is below zero")
    total = sum(counted.values())
    groups: list[list[float]] = []
    seen = 0
    for length, count in sorted(counted.items()):
        group = min(_BINS - 1, seen * _BINS // total)
        while len(groups) <= group:
            groups.append([0.0, 0.0])
        groups[group][0] += float(max(length, 1) * count)
        groups[group][1] += float(count)
        seen += count
    filled = [(tokens / count, count) for tokens, count in groups if count]
    return {"tokens": [mean for mean, _ in filled], "shares": [count for _, count in filled]}
