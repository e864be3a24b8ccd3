"""Rankings: what must hold of any, and what they say of themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.core.search.ranking import (
    Anchor,
    nearest_flip,
    ranking,
    robustness,
    scores,
    utilities,
    weight_row,
)
from service.core.search.workloads import METRICS, WORKLOAD_KINDS

ANCHORS = {
    "headroom": Anchor(0.5, 1.0),
    "latency": Anchor(1.0, 10.0),
    "carbon": Anchor(0.1, 2.0),
    "water": Anchor(0.01, 0.1),
    "cost": Anchor(0.001, 0.02),
}
WEIGHTS = weight_row(dict.fromkeys(METRICS, 0.2), ANCHORS)
WORST = np.array([ANCHORS[m].worst for m in METRICS])
TABLES = arrays(
    float, st.tuples(st.integers(1, 12), st.just(5)), elements=st.floats(0.05, 1.2)
).map(lambda shares: shares * WORST)


@pytest.mark.parametrize("kind", WORKLOAD_KINDS.values(), ids=lambda kind: kind.id)
def test_weights_of_a_kind_sum_to_one(kind):
    assert sum(kind.metric_weights_ratio.values()) == pytest.approx(1.0)
    assert set(kind.metric_weights_ratio) == set(METRICS)
    assert kind.evidence


@given(TABLES)
def test_a_further_candidate_changes_no_other_score(metrics):
    utility = utilities(metrics, ANCHORS)
    worse = np.vstack([metrics, metrics.max(axis=0) * 1.1])
    assert scores(utilities(worse, ANCHORS), WEIGHTS)[:-1] == pytest.approx(
        scores(utility, WEIGHTS)
    )
    order = ranking(worse, ANCHORS, WEIGHTS).tolist()
    order.remove(len(metrics))
    assert order == ranking(metrics, ANCHORS, WEIGHTS).tolist()


@given(TABLES)
def test_contributions_add_up_and_utilities_stay_within_bounds(metrics):
    utility = utilities(metrics, ANCHORS)
    assert ((utility >= 0.0) & (utility <= 1.0)).all()
    assert (utility * WEIGHTS).sum(axis=1) == pytest.approx(scores(utility, WEIGHTS))


@given(TABLES, st.floats(1.5, 1000.0))
def test_units_leave_the_order(metrics, factor):
    scaled_anchors = ANCHORS | {
        "water": Anchor(ANCHORS["water"].best * factor, ANCHORS["water"].worst * factor)
    }
    scaled = metrics.copy()
    scaled[:, METRICS.index("water")] *= factor
    assert scores(utilities(scaled, scaled_anchors), WEIGHTS) == pytest.approx(
        scores(utilities(metrics, ANCHORS), WEIGHTS)
    )


def test_unknown_costs_have_no_utility_and_weights_scale_up_without_an_anchor():
    metrics = np.array([[0.5, 1.0, 0.1, 0.01, np.nan]])
    assert scores(utilities(metrics, ANCHORS), WEIGHTS) == pytest.approx([0.8])
    known = {m: a for m, a in ANCHORS.items() if m != "cost"}
    row = weight_row(dict.fromkeys(METRICS, 0.2), known)
    assert row.sum() == pytest.approx(1.0)
    assert scores(utilities(metrics, known), row) == pytest.approx([1.0])
    with pytest.raises(ValueError, match="has a weight"):
        weight_row({m: float(m == "cost") for m in METRICS}, known)


def test_a_single_candidate_is_always_first():
    metrics = np.array([[0.6, 2.0, 0.5, 0.05, 0.01]])
    found = robustness(metrics, np.full_like(metrics, 1.5), ANCHORS, WEIGHTS, 0)
    assert found == 1.0
    assert nearest_flip(metrics, ANCHORS, WEIGHTS, np.array([0])) is None


def test_near_ties_are_no_clear_winners_and_great_leads_are():
    close = np.array([[0.6, 2.0, 0.5, 0.05, 0.01], [0.6, 2.01, 0.5, 0.05, 0.01]])
    far = np.array([[0.6, 2.0, 0.5, 0.05, 0.01], [0.9, 9.0, 1.9, 0.09, 0.019]])
    spread = np.full((2, 5), 1.5)
    unsure = robustness(close, spread, ANCHORS, WEIGHTS, 0)
    assert 0.2 < unsure < 0.8
    assert robustness(far, spread, ANCHORS, WEIGHTS, 0) > 0.95
    again = robustness(close, spread, ANCHORS, WEIGHTS, 0)
    assert again == unsure


@given(TABLES.filter(lambda metrics: len(metrics) > 1))
def test_the_flip_turns_the_choice(metrics):
    order = ranking(metrics, ANCHORS, WEIGHTS)
    flip = nearest_flip(metrics, ANCHORS, WEIGHTS, order)
    assert flip.rival == order[1]
    if flip.metric is None:
        return
    changed = metrics.copy()
    changed[flip.rival, METRICS.index(flip.metric)] *= 1.0 + flip.change_ratio
    found = scores(utilities(changed, ANCHORS), WEIGHTS)
    assert found[flip.rival] == pytest.approx(found[order[0]])


def test_of_equal_scores_the_one_that_goes_further_comes_first():
    best = np.array([ANCHORS[metric].best for metric in METRICS])
    worst = np.array([ANCHORS[metric].worst for metric in METRICS])
    reach, beyond = best * 0.9, best * 0.5
    nearly = best + (worst - best) * 0.01
    metrics = np.vstack([nearly, reach, beyond])
    found = scores(utilities(metrics, ANCHORS), WEIGHTS)
    assert found[1] == found[2] > found[0]
    assert ranking(metrics, ANCHORS, WEIGHTS).tolist() == [2, 1, 0]
    # What lies beyond an anchor never makes up for falling short of another.
    uneven = best.copy()
    uneven[0], uneven[1] = best[0] * 0.01, nearly[1]
    assert ranking(np.vstack([uneven, reach]), ANCHORS, WEIGHTS).tolist() == [1, 0]
