"""Learning curves: what k own reports do to the other rows of a source that nobody fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from random import Random

import numpy as np

from service.core.interval import Z_90
from service.core.learning import Kin, Lessons, Likeness
from service.validation.learning.rows import GROUPS, SourceRow, error_ratio

#: Numbers of rows that are reported.
REPORTED = (0, 1, 2, 3, 5)
DRAWS = 50
_SEED = 20_261_122
#: Rows that are predicted in a draw at most.
_MOST_PREDICTED = 40

_GROUP = {name: group for group, names in GROUPS.items() for name in names}


@dataclass(frozen=True, slots=True)
class Relation:
    """How what is predicted is alike to what is reported.

    Reports come from one group by ``inner`` of a larger one by ``outer``; the rest of the same
    group is predicted, or all of the others where ``elsewhere``.
    """

    name: str
    outer: Callable[[Kin], Hashable]
    inner: Callable[[Kin], Hashable]
    elsewhere: bool = True


def _deployment(kin: Kin) -> Hashable:
    return kin.model, kin.hardware, kin.engine, kin.deployment


RELATIONS = (
    Relation("other loads of the same deployment", _deployment, _deployment, elsewhere=False),
    Relation("other formats or counts", lambda kin: (kin.model, kin.hardware), _deployment),
    Relation("other hardware", lambda kin: kin.model, lambda kin: kin.hardware),
    Relation("other models", lambda kin: (kin.hardware, kin.engine), lambda kin: kin.model),
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A figure that was not reported, without and with what was: log errors and spreads [-]."""

    source: str
    group: str
    published_log_ratio: float
    own_log_ratio: float
    published_log_sigma: float
    own_log_sigma: float


@dataclass(frozen=True, slots=True)
class Curve:
    """How good predictions are: each source weighs the same.

    ``*_error_ratio`` are the median and nine tenths of errors over what was measured,
    ``coverage_ratio`` the share inside the 90 % interval, ``width_ratio`` its median width.
    """

    sources: int
    median_error_ratio: float
    p90_error_ratio: float
    coverage_ratio: float
    width_ratio: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Predictions of a group of quantities after so many reports, and the same without them."""

    relation: str
    group: str
    reported: int
    without: Curve
    own: Curve


def learning_curves(
    rows: Sequence[SourceRow], likeness: Mapping[str, Likeness], draws: int = DRAWS
) -> list[CurvePoint]:
    """Points of all curves, by relation, group of quantities and number of reports."""
    by_source: dict[str, list[SourceRow]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    points = []
    for relation in RELATIONS:
        found: dict[tuple[str, int], list[Prediction]] = defaultdict(list)
        for source in sorted(by_source):
            for count in REPORTED[1:]:
                for one in _predicted(by_source[source], relation, count, likeness, draws):
                    found[one.group, count].append(one)
        points += [
            CurvePoint(
                relation.name,
                group,
                count,
                _curve(some, lambda one: (one.published_log_ratio, one.published_log_sigma)),
                _curve(some, lambda one: (one.own_log_ratio, one.own_log_sigma)),
            )
            for group in GROUPS
            for count in REPORTED[1:]
            if (some := found.get((group, count)))
        ]
    return points


def _predicted(
    rows: Sequence[SourceRow],
    relation: Relation,
    count: int,
    likeness: Mapping[str, Likeness],
    draws: int,
) -> Iterator[Prediction]:
    """Predictions of one source: draws of what is reported, and of what is predicted by it."""
    random = Random(f"{_SEED} {relation.name} {rows[0].source} {count}")  # noqa: S311
    pools = list(_pools(rows, relation, count))
    for _ in range(draws if pools else 0):
        inside, outside = random.choice(pools)
        drawn = random.sample(range(len(inside)), count)
        chosen = [inside[at] for at in drawn]
        rest = outside or [row for at, row in enumerate(inside) if at not in drawn]
        if len(rest) > _MOST_PREDICTED:
            rest = random.sample(rest, _MOST_PREDICTED)
        yield from predictions(Lessons([row.report for row in chosen], likeness), rest)


def _pools(
    rows: Sequence[SourceRow], relation: Relation, count: int
) -> Iterator[tuple[list[SourceRow], list[SourceRow]]]:
    """Rows to report from, with the others that are predicted by them."""
    outer: dict[Hashable, dict[Hashable, list[SourceRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        kin = row.report.kin
        outer[relation.outer(kin)][relation.inner(kin)].append(row)
    for groups in outer.values():
        for name, inside in groups.items():
            if not relation.elsewhere:
                if len(inside) > count:
                    yield inside, []
                continue
            outside = [row for other, some in groups.items() if other != name for row in some]
            if outside and len(inside) >= count:
                yield inside, outside


def predictions(lessons: Lessons, rows: Sequence[SourceRow]) -> Iterator[Prediction]:
    """Figures of rows with and without what reports say of their channels."""
    kins = [row.report.kin for row in rows]
    told = {channel: lessons.posteriors(kins, channel) for channel in lessons.likeness}
    for at, row in enumerate(rows):
        sigma = row.report.log_sigma
        for seen in row.report.observations:
            group = _GROUP.get(seen.quantity)
            if group is None or not row.log_sigma[seen.quantity]:
                continue
            shift = before = after = 0.0
            for channel, (means, spreads) in told.items():
                moved = seen.elasticity_ratio.get(channel, 0.0) * sigma.get(channel, 0.0)
                shift += moved * float(means[at])
                before += moved**2
                after += (moved * float(spreads[at])) ** 2
            kept = sqrt(after / before) if before else 1.0
            published = row.log_sigma[seen.quantity]
            yield Prediction(
                row.source,
                group,
                seen.log_ratio,
                seen.log_ratio - shift,
                published,
                published * kept,
            )


def _curve(found: Sequence[Prediction], read: Callable[[Prediction], tuple[float, float]]) -> Curve:
    counts: dict[str, int] = defaultdict(int)
    for one in found:
        counts[one.source] += 1
    weights = np.array([1.0 / counts[one.source] for one in found])
    weights = weights / weights.sum()
    told = [read(one) for one in found]
    errors = np.array([error_ratio(log_ratio) for log_ratio, _ in told])
    inside = np.array([abs(log_ratio) <= Z_90 * sigma for log_ratio, sigma in told])
    widths = np.array([exp(2.0 * Z_90 * sigma) for _, sigma in told])
    return Curve(
        sources=len(counts),
        median_error_ratio=_quantile(errors, weights, 0.5),
        p90_error_ratio=_quantile(errors, weights, 0.9),
        coverage_ratio=float(weights @ inside),
        width_ratio=_quantile(widths, weights, 0.5),
    )


def _quantile(values: Iterable[float], weights: Iterable[float], share: float) -> float:
    """The least value that so much of the weight does not exceed."""
    found, heavy = np.asarray(list(values)), np.asarray(list(weights))
    order = np.argsort(found, kind="stable")
    summed = np.cumsum(heavy[order])
    return float(found[order][min(int(np.searchsorted(summed, share)), len(found) - 1)])
