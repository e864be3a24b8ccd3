"""Fronts against brute force, and what must hold of any front."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.core.search.dominance import front

TABLES = arrays(
    float,
    st.tuples(st.integers(1, 40), st.integers(1, 4)),
    elements=st.integers(0, 12).map(float),
)


def brute_force(metrics, tolerance):
    def beats(other, row):
        return all(o <= r for o, r in zip(other, row, strict=True)) and any(
            r > o + abs(o) * tolerance for o, r in zip(other, row, strict=True)
        )

    seen = set()
    kept = []
    for position, row in enumerate(metrics):
        if tuple(row) not in seen and not any(beats(other, row) for other in metrics):
            kept.append(position)
        seen.add(tuple(row))
    return kept


def is_beaten(metrics, row, tolerance):
    others_no_worse = (metrics <= metrics[row]).all(axis=1)
    return (others_no_worse & (metrics[row] > metrics * (1.0 + tolerance)).any(axis=1)).any()


@given(TABLES, st.sampled_from([0.0, 0.1, 0.5]))
def test_fronts_are_those_of_brute_force(metrics, tolerance):
    assert front(metrics, tolerance).tolist() == brute_force(metrics.tolist(), tolerance)


@given(TABLES, st.sampled_from([0.0, 0.1]))
def test_whoever_is_left_out_is_beaten_or_a_copy(metrics, tolerance):
    kept = front(metrics, tolerance)
    for row in set(range(len(metrics))) - set(kept.tolist()):
        copied = any((metrics[row] == metrics[k]).all() for k in kept)
        assert copied or is_beaten(metrics, row, tolerance)


@given(TABLES, st.floats(0.5, 2.0))
def test_units_do_not_matter(metrics, factor):
    scaled = metrics * np.array([factor] + [1.0] * (metrics.shape[1] - 1))
    assert front(scaled, 0.0).tolist() == front(metrics, 0.0).tolist()


def test_many_rows_in_blocks():
    metrics = np.random.default_rng(7).integers(0, 1000, (20_000, 3)).astype(float)
    kept = front(metrics, 0.0)
    sample = metrics[:: len(metrics) // 500]
    best = metrics[kept]
    for row in sample:
        assert (best <= row).all(axis=1).any()
    assert not any(is_beaten(metrics, row, 0.0) for row in kept)


def test_nothing_has_no_front():
    assert front(np.empty((0, 3)), 0.1).tolist() == []
    assert front(np.array([[1.0, 2.0]]), 0.1).tolist() == [0]


@pytest.mark.parametrize(("tolerance", "kept"), [(0.0, [0]), (0.1, [0, 1])])
def test_near_ties_stay(tolerance, kept):
    metrics = np.array([[1.0, 1.0], [1.05, 1.0], [1.2, 1.0]])
    assert front(metrics, tolerance).tolist() == kept
