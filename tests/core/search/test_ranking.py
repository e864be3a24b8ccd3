"""Rankings: what must hold of any, and what they say of themselves."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.core.interval import Z_90
from service.core.search.ranking import (
    NEAR_TIE,
    burdens,
    factors,
    first_for,
    last_for,
    least_first,
    nearest_flip,
    ranking,
    robustness,
    shortlist,
    tie_of,
    weight_row,
)
from service.core.search.workloads import METRICS, WORKLOAD_KINDS

LEAST = np.full(len(METRICS), 1e-9)
TABLES = arrays(
    float,
    st.tuples(st.integers(1, 12), st.just(len(METRICS))),
    elements=st.floats(0.05, 20.0),
)
SHARES = arrays(float, len(METRICS), elements=st.floats(0.01, 1.0))


def weighing(shares):
    return shares / shares.sum()


def of(**weights):
    return np.array([weights.get(metric, 0.0) for metric in METRICS])


@pytest.mark.parametrize("kind", WORKLOAD_KINDS.values(), ids=lambda kind: kind.id)
def test_weights_of_a_kind_sum_to_one(kind):
    assert sum(kind.metric_weights_ratio.values()) == pytest.approx(1.0)
    assert set(kind.metric_weights_ratio) == set(METRICS)
    assert kind.evidence


@given(TABLES, SHARES, arrays(float, len(METRICS), elements=st.floats(0.05, 20.0)))
def test_a_further_candidate_changes_no_order(metrics, shares, further):
    weights = weighing(shares)
    order = ranking(np.vstack([metrics, further]), weights, LEAST).tolist()
    order.remove(len(metrics))
    assert order == ranking(metrics, weights, LEAST).tolist()


@given(TABLES, SHARES, st.sampled_from(range(len(METRICS))), st.floats(1e-3, 1e3))
def test_units_change_no_order(metrics, shares, column, factor):
    weights = weighing(shares)
    scores = np.sort(burdens(metrics, weights, LEAST))
    assume(len(scores) < 2 or np.diff(scores).min() > 1e-9)
    scaled = metrics.copy()
    scaled[:, column] *= factor
    assert ranking(scaled, weights, LEAST).tolist() == ranking(metrics, weights, LEAST).tolist()


@given(TABLES, SHARES)
def test_what_is_worse_in_everything_is_never_before(metrics, shares):
    weights = weighing(shares)
    place = np.argsort(ranking(metrics, weights, LEAST))
    for one in range(len(metrics)):
        worse = (metrics > metrics[one]).all(axis=1)
        assert (place[worse] > place[one]).all()


@given(TABLES, SHARES)
def test_the_score_is_the_product_of_its_factors_and_orders_as_the_ranking_does(metrics, shares):
    weights = weighing(shares)
    parts = factors(metrics, weights, LEAST)
    assert ((parts > 0.0) & (parts <= 1.0)).all()
    score = parts.prod(axis=1)
    order = ranking(metrics, weights, LEAST)
    assert (np.diff(score[order]) <= 1e-12).all()


def test_eight_times_dearer_for_the_same_rest_loses():
    metrics = np.tile(np.array([0.5, 1.0, 1.0, 1.0, 1.0, 1.0]), (2, 1))
    metrics[0, METRICS.index("cost")] = 8.0
    assert ranking(metrics, weighing(np.ones(6)), LEAST)[0] == 1


def test_unknown_costs_come_last_and_weigh_nothing_where_no_price_is_known():
    metrics = np.array([[0.5, 1.0, 0.1, 0.01, np.nan, 1.0], [1.0, 9.0, 2.0, 0.1, 5.0, 9.0]])
    weights = weight_row(dict.fromkeys(METRICS, 1.0), metrics)
    assert ranking(metrics, weights, LEAST).tolist() == [1, 0]
    assert np.isnan(factors(metrics, weights, LEAST)[0, METRICS.index("cost")])
    without = weight_row(dict.fromkeys(METRICS, 1.0), metrics[:1])
    assert without[METRICS.index("cost")] == 0.0
    assert without.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="has a weight"):
        weight_row({metric: float(metric == "cost") for metric in METRICS}, metrics[:1])


def test_nothing_at_all_counts_as_the_least_that_makes_a_difference():
    metrics = np.ones((2, len(METRICS)))
    metrics[0, METRICS.index("water")] = 0.0
    assert burdens(metrics, of(water=1.0), LEAST) == pytest.approx([np.log(1e-9), 0.0])


@given(TABLES, SHARES)
def test_the_nearest_flip_makes_the_two_score_alike(metrics, shares):
    weights = weighing(shares)
    order = ranking(metrics, weights, LEAST)
    flip = nearest_flip(metrics, weights, LEAST, order)
    if len(metrics) == 1:
        assert flip is None
        return
    assert flip is not None
    assert flip.rival == order[1]
    if flip.metric is None:
        return
    changed = metrics.copy()
    changed[flip.rival, METRICS.index(flip.metric)] *= 1.0 + flip.change_ratio
    both = burdens(changed[[order[0], flip.rival]], weights, LEAST)
    assert both[1] == pytest.approx(both[0], abs=1e-9)


def test_robust_choices_hold_in_most_draws_and_alike_ones_err_together():
    metrics = np.ones((2, len(METRICS)))
    metrics[1, METRICS.index("cost")] = 1.2
    spreads = np.full_like(metrics, 3.0)
    weights = of(cost=1.0)
    apart = robustness(metrics, spreads, np.array([0, 1]), weights, LEAST, 0)
    together = robustness(metrics, spreads, np.array([0, 0]), weights, LEAST, 0)
    assert 0.4 < apart < 0.75
    assert together == 1.0
    assert robustness(metrics[:1], spreads[:1], np.array([0]), weights, LEAST, 0) == 1.0


def test_a_near_tie_does_not_displace_a_choice():
    """What is one per cent cheaper on the same hardware leaves the choice to the other metrics."""
    metrics = np.ones((2, len(METRICS)))
    metrics[0, METRICS.index("cost")] = 1.01
    spreads, weights = np.full_like(metrics, 1.5), of(cost=1.0)
    drawn = (metrics, spreads, np.array([0, 0]), weights, LEAST, 0)
    assert robustness(*drawn) == 0.0
    assert robustness(*drawn, NEAR_TIE) == 1.0


def test_what_is_as_fast_as_estimates_tell_is_not_displaced():
    """A choice of fewest accelerators within one standard error is held to that error."""
    metrics = np.ones((2, len(METRICS)))
    metrics[0, METRICS.index("latency")] = 1.1
    spreads = np.full_like(metrics, 1.3)
    assert tie_of("fastest", metrics, spreads) == pytest.approx(np.log(1.3) / Z_90)
    assert tie_of("cheapest", metrics, spreads) == NEAR_TIE
    drawn = (metrics, spreads, np.array([0, 0]), of(latency=1.0), LEAST, 0)
    assert robustness(*drawn, tie_of("fastest", metrics, spreads)) == 1.0
    assert robustness(*drawn, NEAR_TIE) == 0.0


def test_of_as_many_accelerators_those_that_all_work_are_fastest():
    metrics = np.ones((3, len(METRICS)))
    metrics[:, METRICS.index("energy")] = (1.0, 2.0, 3.0)
    held, idle = np.array([16.0, 16.0, 8.0]), np.array([True, False, False])
    order, spreads = np.arange(3), np.full_like(metrics, 1.5)
    last = last_for("fastest", np.zeros(3, dtype=bool), idle)
    assert first_for("fastest", metrics, spreads, held, order, last).tolist() == [2, 1, 0]


@given(TABLES, st.floats(1.05, 2.0))
def test_what_is_fastest_for_more_accelerators_is_faster_than_estimates_err(metrics, spread):
    spreads = np.full_like(metrics, spread)
    held = np.arange(len(metrics), 0, -1).astype(float)
    order = ranking(metrics, of(cost=1.0), LEAST)
    first = first_for("fastest", metrics, spreads, held, order)
    times = metrics[:, METRICS.index("latency")]
    within = times <= times.min() * max(spread ** (1.0 / 1.645), 1.02)
    assert sorted(first.tolist()) == list(range(len(metrics)))
    assert within[first[0]]
    assert held[first[0]] == held[within].min()


@given(TABLES, SHARES, st.integers(1, 4))
def test_a_shortlist_has_what_is_first_for_each_priority(metrics, shares, most):
    weights = weighing(shares)
    accelerators = np.arange(len(metrics), 0, -1).astype(float)
    scarce = np.arange(len(metrics)) % 2 == 0
    idle = np.arange(len(metrics)) % 3 == 0
    spreads = np.full_like(metrics, 1.5)
    kept = set(
        shortlist(metrics, spreads, accelerators, scarce, idle, weights, LEAST, most).tolist()
    )
    order = ranking(metrics, weights, LEAST)
    assert set(order[:most].tolist()) <= kept
    for metric in ("cost", "latency"):
        values = metrics[:, METRICS.index(metric)]
        assert least_first(values, order)[0] in kept
        assert values[least_first(values, order)[0]] <= values.min() * 1.03
    for metric, priority in (("carbon", "lowest_carbon"), ("water", "lowest_water")):
        last = last_for(priority, scarce, idle)
        first = least_first(metrics[:, METRICS.index(metric)], order, last)[0]
        assert first in kept
        assert last[first] == last.min()
    assert int(np.argmin(accelerators)) in kept
