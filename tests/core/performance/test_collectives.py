"""Messages between accelerators: through switches, and where each pair has links of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.performance.collectives import (
    all_reduce,
    all_to_all,
    link_between,
    rate_among,
    send,
)
from tests.core.deployments import H100

DOMAIN = H100.scale_up_domain_accelerators
WHOLE = H100.scale_up.bandwidth_bytes_per_s
#: The same links, an equal part of which leads to each of the others.
MESH = replace(H100, scale_up_pair_bandwidth_bytes_per_s=WHOLE / (DOMAIN - 1))


def test_all_of_a_mesh_exchange_as_fast_as_through_switches():
    assert rate_among(DOMAIN, MESH) == pytest.approx(WHOLE)
    for collective in (all_reduce, all_to_all):
        meshed, switched = (collective(DOMAIN, one, 1.0, 0.0).byte_s for one in (MESH, H100))
        assert meshed == pytest.approx(switched)


def test_a_part_of_a_mesh_uses_only_the_links_between_its_members():
    for ranks in (2, 4):
        meshed, switched = (all_reduce(ranks, one, 1.0, 0.0).byte_s for one in (MESH, H100))
        assert meshed / switched == pytest.approx((DOMAIN - 1) / (ranks - 1))
    # A reduction takes as long however many take part: each has links of its own to each other.
    times = [ranks * all_reduce(ranks, MESH, 1.0, 0.0).byte_s for ranks in (2, 4, DOMAIN)]
    assert times == pytest.approx([times[0]] * 3)


def test_a_message_to_one_neighbour_takes_the_links_to_it_alone():
    assert send(False, MESH, 1.0).byte_s == pytest.approx(
        (DOMAIN - 1) * send(False, H100, 1.0).byte_s
    )
    assert send(True, MESH, 1.0) == send(True, H100, 1.0)
    assert link_between(False, H100).bandwidth_bytes_per_s == WHOLE


def test_in_stacks_what_nobody_says_of_pairs_is_a_switch():
    stacked = replace(
        H100, scale_up_pair_bandwidth_bytes_per_s=np.array([np.nan, WHOLE / (DOMAIN - 1)])
    )
    found = [rate_among(2, one) for one in (H100, MESH)]
    np.testing.assert_allclose(rate_among(2, stacked), found)
