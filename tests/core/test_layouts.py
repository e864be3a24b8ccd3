"""How models are laid out where nobody says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.deployment import Parallelism
from service.core.layouts import (
    USUAL_SEQUENCES,
    Merit,
    has_fast_links,
    in_groups,
    replica_layouts,
    tensor_degrees,
    usual_layout,
)
from tests.core.deployments import H100

LLAMA_70B = parse_config(
    {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
)
#: All heads read one compressed cache.
DEEPSEEK = parse_config(
    {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "vocab_size": 129280,
    }
)
#: Links that run through the host.
PCIE = replace(H100, scale_up=replace(H100.scale_up, bandwidth_bytes_per_s=63e9))


def holds(at_least: int, requests_each: float = 1e9):
    """A model that takes so many accelerators, each of which has room for so many requests."""

    def room(layout: Parallelism, requests: float) -> bool:
        ranks = layout.replica_accelerators
        return ranks >= at_least and requests <= requests_each * (ranks - at_least + 1)

    return room


@pytest.mark.parametrize(
    ("count", "at_least", "in_flight", "expected"),
    [
        # Replicas before wide groups.
        (8, 1, 32.0, Parallelism(data=8)),
        (8, 1, None, Parallelism(data=8)),
        (8, 3, 32.0, Parallelism(tensor=4, data=2)),
        # Fewer requests than replicas: wider groups.
        (8, 1, 1.0, Parallelism(tensor=8)),
        (8, 1, 2.0, Parallelism(tensor=4, data=2)),
        # Three, five, seven.
        (3, 1, 32.0, Parallelism(data=3)),
        (3, 1, 1.0, Parallelism(tensor=2)),
        (3, 3, 32.0, Parallelism(pipeline=3)),
        (5, 3, 32.0, Parallelism(tensor=4)),
        (7, 1, 32.0, Parallelism(data=7)),
        (7, 5, 32.0, Parallelism(tensor=2, pipeline=3)),
        # Beyond what fast links join: stages.
        (16, 9, 32.0, Parallelism(tensor=8, pipeline=2)),
        (32, 9, 32.0, Parallelism(tensor=8, pipeline=2, data=2)),
        (16, 1, 1.0, Parallelism(tensor=8, data=2)),
        # What fits nowhere takes all there is.
        (8, 100, 1.0, Parallelism(tensor=8)),
        (24, 100, 1.0, Parallelism(tensor=8, pipeline=3)),
    ],
)
def test_the_usual_layout(count, at_least, in_flight, expected):
    assert usual_layout(LLAMA_70B, H100, count, in_flight, holds(at_least)) == expected


def test_a_copy_has_room_for_its_share_of_the_requests():
    # One accelerator holds ten requests: eight copies hold eighty, not a hundred.
    room = holds(1, 10.0)
    assert usual_layout(LLAMA_70B, H100, 8, 80.0, room).data == 8
    assert usual_layout(LLAMA_70B, H100, 8, 100.0, room) == Parallelism(tensor=8)
    assert usual_layout(LLAMA_70B, H100, 8, None, holds(1, USUAL_SEQUENCES)).data == 8
    assert usual_layout(LLAMA_70B, H100, 8, None, holds(1, USUAL_SEQUENCES / 2)).data == 4


def test_of_layouts_with_room_that_employ_as_many_the_one_of_most_merit_stands_in():
    def merit(wanted: int):
        return lambda layout: Merit(1.0 / (1 + abs(layout.tensor - wanted)), 1.0)

    for wanted in (1, 2, 4, 8):
        found = usual_layout(LLAMA_70B, H100, 8, 32.0, holds(1), merit=merit(wanted))
        assert found == Parallelism(tensor=wanted, data=8 // wanted)
    # What has no room is no candidate, however good, nor is what leaves accelerators without work.
    found = usual_layout(LLAMA_70B, H100, 8, 32.0, holds(3), merit=merit(1))
    assert found == Parallelism(tensor=4, data=2)
    found = usual_layout(LLAMA_70B, H100, 8, 2.0, holds(1), merit=merit(1))
    assert found == Parallelism(tensor=4, data=2)
    found = usual_layout(LLAMA_70B, H100, 7, 32.0, holds(2), merit=merit(4))
    assert found == Parallelism(tensor=2, data=3)
    # Of equal merit it is the one of most copies.
    found = usual_layout(LLAMA_70B, H100, 8, 32.0, holds(1), merit=lambda _: Merit(1.0, 1.0))
    assert found == Parallelism(data=8)


def by_copies(requests_each: float):
    """A model of which an accelerator holds an eighth of the experts, or an eighth of it all."""

    def room(layout: Parallelism, requests: float) -> bool:
        held = max(layout.tensor * layout.pipeline, layout.expert)
        return held >= 8 and requests <= requests_each

    return room


def test_copies_share_experts_where_that_is_faster_or_has_more_room():
    def merit(sharing_s: float):
        return lambda layout: Merit(1.0, sharing_s if layout.joined_copies > 1 else 1.0)

    sharing, whole = Parallelism(expert=8, data=8), Parallelism(tensor=8)
    for in_flight, each, request_s, expected in (
        (256.0, 1e9, 0.9, sharing),
        (256.0, 1e9, 1.1, whole),
        # A rank of tensor parallelism would hold the cache of all requests, a copy that of its own.
        (256.0, 100.0, 1.1, sharing),
        # One request gives work to one copy.
        (1.0, 1e9, 0.9, whole),
    ):
        found = usual_layout(
            DEEPSEEK,
            H100,
            8,
            in_flight,
            by_copies(each),
            merit=merit(request_s),
            shares_experts=True,
        )
        assert found == expected
    # Over more than a fast domain, in place of stages.
    wide = usual_layout(DEEPSEEK, H100, 16, 64.0, holds_share(16), shares_experts=True)
    assert wide == Parallelism(expert=16, data=16)
    assert usual_layout(DEEPSEEK, H100, 8, 256.0, by_copies(1e9)) == whole
    assert usual_layout(LLAMA_70B, H100, 8, 9.0, holds(8), shares_experts=True) == whole


def test_what_serves_best_stands_in_where_no_layout_has_room_for_all_requests():
    # Copies that share experts have most room, stages of single accelerators second.
    def merit(layout: Parallelism) -> Merit:
        return Merit(1.0, 1.0 / max(layout.joined_copies, 1.0))

    found = usual_layout(
        DEEPSEEK, H100, 16, 1e6, by_copies(100.0), merit=merit, shares_experts=True
    )
    assert found == Parallelism(expert=16, data=16)
    # Of dense models it is not the widest copy because that could hold most.
    narrow = {1: 1.0, 2: 3.0, 4: 2.0, 8: 1.0}
    found = usual_layout(
        LLAMA_70B, H100, 8, 1e6, few(2), merit=lambda one: Merit(narrow[one.tensor], 1.0)
    )
    assert found == Parallelism(tensor=2, data=4)


def few(accelerators: int):
    """A model that so many accelerators hold, with room for few requests in any layout."""
    return lambda layout, requests: layout.replica_accelerators >= accelerators and requests <= 9.0


def test_ranks_that_share_experts_need_not_divide_them():
    # 72 accelerators of one domain, which hold 288 copies of 256 experts.
    domain = replace(H100, scale_up_domain_accelerators=72)
    found = usual_layout(
        DEEPSEEK,
        domain,
        72,
        4096.0,
        by_copies(1e9),
        merit=lambda one: Merit(1.0, 1.0 / max(one.joined_copies, 1.0)),
        shares_experts=True,
    )
    assert found == Parallelism(expert=72, data=72)


def holds_share(ranks: int):
    """A model whose experts so many ranks hold, however they are divided."""
    return lambda layout, _requests: max(layout.replica_accelerators, layout.expert) >= ranks


def test_searches_try_copies_that_share_experts():
    shared = [one for one in replica_layouts(DEEPSEEK, 16, shares_experts=True) if one.tensor == 1]
    assert [one.expert for one in shared if one.joined_copies > 1] == [2, 4, 8, 16]
    assert not any(one.joined_copies > 1 for one in replica_layouts(DEEPSEEK, 16))
    assert in_groups(9, Parallelism(expert=8)) == 16
    assert in_groups(9, Parallelism(tensor=8, expert=8)) == 9


def test_a_group_is_no_wider_than_a_processor_s_cards_where_links_run_through_the_host():
    assert has_fast_links(H100)
    assert not has_fast_links(PCIE)
    assert usual_layout(LLAMA_70B, PCIE, 8, 1.0, holds(1)) == Parallelism(tensor=4, data=2)
    assert usual_layout(LLAMA_70B, PCIE, 8, 1.0, holds(5)) == Parallelism(tensor=8)


def test_there_are_as_many_copies_as_are_needed():
    layout = usual_layout(LLAMA_70B, H100, 8, 1.0, holds(1), least_copies=2)
    assert layout == Parallelism(tensor=4, data=2)


def test_what_may_lie_outside_is_not_divided_into_stages():
    assert usual_layout(LLAMA_70B, H100, 16, 1.0, holds(100), spills=True).pipeline == 1


def test_degrees_divide_the_heads_unless_the_engine_pads_them():
    assert tensor_degrees(LLAMA_70B, 12) == (1, 2, 4, 8)
    assert tensor_degrees(LLAMA_70B, 12, pads_heads=True) == (1, 2, 3, 4, 6, 12)


def test_searches_try_stages_of_the_widest_groups_alone():
    tried = replica_layouts(LLAMA_70B, 16)
    assert Parallelism(tensor=8, pipeline=2) in tried
    assert Parallelism(tensor=2, pipeline=2) not in tried
    assert all(one.replica_accelerators <= 16 for one in tried)


@pytest.mark.parametrize(
    ("count", "at_least", "in_flight", "expected"),
    [
        # One request at a time keeps the accelerators of one copy at work, one after the other.
        (4, 1, 1.0, Parallelism(pipeline=4)),
        (3, 2, 1.0, Parallelism(pipeline=3)),
        # Many requests keep copies at work.
        (4, 1, 64.0, Parallelism(data=4)),
        (8, 3, 64.0, Parallelism(pipeline=4, data=2)),
    ],
)
def test_engines_that_divide_by_layers_have_stages_alone(count, at_least, in_flight, expected):
    found = usual_layout(LLAMA_70B, PCIE, count, in_flight, holds(at_least), divides_layers=True)
    assert found == expected


def test_engines_that_divide_by_layers_take_all_accelerators_for_more_than_fits():
    room = holds(2, requests_each=1.0)
    found = usual_layout(LLAMA_70B, PCIE, 8, 64.0, room, divides_layers=True)
    assert found == Parallelism(pipeline=8)


def test_searches_try_stages_alone_where_an_engine_divides_by_layers():
    found = replica_layouts(LLAMA_70B, 8, divides_layers=True)
    assert found == tuple(Parallelism(pipeline=n) for n in (1, 2, 3, 4, 6, 8))
