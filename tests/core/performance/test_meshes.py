"""Groups in a mesh have the links between them, not those to accelerators of other groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.performance.collectives import all_reduce, all_to_all, send
from tests.core.deployments import H100

#: As fast together as H100's links through its switch, of which each pair has a seventh.
MESH = replace(
    H100,
    scale_up_pair_bandwidth_bytes_per_s=H100.scale_up.bandwidth_bytes_per_s / 7.0,
)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("collective", [all_reduce, all_to_all])
def test_a_group_has_a_link_for_each_other_member(collective, ranks):
    switched, meshed = (collective(ranks, one, 0.7, 1e-5) for one in (H100, MESH))
    assert meshed.fixed_s == switched.fixed_s
    assert meshed.byte_s == pytest.approx(switched.byte_s * 7.0 / (ranks - 1))


def test_twice_as_many_ranks_of_a_mesh_reduce_faster_and_no_slower_than_a_switch_at_most():
    byte_s = [all_reduce(ranks, MESH, 0.7, 0.0).byte_s for ranks in (2, 4, 8)]
    assert byte_s[0] > byte_s[1] > byte_s[2]
    assert byte_s[2] == pytest.approx(all_reduce(8, H100, 0.7, 0.0).byte_s)


def test_a_stage_passes_on_what_it_has_over_one_link():
    assert send(False, MESH, 0.7).byte_s == pytest.approx(7.0 * send(False, H100, 0.7).byte_s)


def test_arrays_of_which_some_have_a_switch_are_computed_as_they_are_alone():
    pairs = np.array([np.nan, MESH.scale_up_pair_bandwidth_bytes_per_s])
    both = replace(MESH, scale_up_pair_bandwidth_bytes_per_s=pairs)
    alone = [all_reduce(2, one, 0.7, 0.0).byte_s for one in (H100, MESH)]
    assert all_reduce(2, both, 0.7, 0.0).byte_s == pytest.approx(alone)
