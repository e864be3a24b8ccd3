"""Plans on a made-up setup: names of what was changed, with bytes and seconds by table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.core.interval import exact
from service.core.techniques.plan import Judgement, plans, single_changes
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.technique import Change, Reach

CAPACITY = 100.0
BASE = TECHNIQUES[0]


@dataclass(frozen=True)
class Option:
    """A change that saves bytes, takes time and has a reach; several of one name are graded."""

    name: str
    saves: float
    takes_s: float = 0.0
    reach: Reach = "same-result"
    accelerators: int = 1
    host: float = 0.0


def workshop(*options: Option, total=150.0):
    """A judge and proposals that know the options; each name can be applied once."""

    def judge(setup: frozenset[Option]) -> Judgement:
        memory = total - sum(option.saves for option in setup)
        return Judgement(
            setup=setup,
            total_bytes=exact(memory),
            capacity_bytes=CAPACITY,
            headroom_bytes=CAPACITY - memory,
            host_bytes=sum(option.host for option in setup),
            host_capacity_bytes=50.0,
            fits=memory <= CAPACITY,
            accelerators=max((option.accelerators for option in setup), default=1),
            token_s=1.0 + sum(option.takes_s for option in setup),
        )

    def propose(setup: frozenset[Option]):
        taken = {option.name for option in setup}
        for name in dict.fromkeys(option.name for option in options):
            if name in taken:
                continue
            yield (
                replace(BASE, id=name),
                [
                    Change(name, lambda now, option=option: now | {option}, option.reach)
                    for option in options
                    if option.name == name
                ],
            )

    return frozenset(), judge, propose


def named(plan):
    return [taken.technique.id for taken in plan.steps]


def test_the_least_time_per_byte_comes_first():
    [plan] = plans(
        *workshop(Option("dear", 60, 0.9), Option("cheap", 30, 0.1), Option("b", 25, 0.2))
    )
    assert named(plan) == ["cheap", "b"]
    assert plan.fits
    assert plan.steps[0].gained_bytes == 30
    assert plan.steps[1].before == plan.steps[0].after


def test_bytes_beyond_what_is_missing_do_not_count():
    # 0.5 s for 50 bytes that are needed are dearer than 0.4 s, however many more they save.
    [plan] = plans(*workshop(Option("large", 500, 0.5), Option("enough", 50, 0.4)))
    assert named(plan) == ["enough"]


def test_steps_that_turn_out_unneeded_are_dropped():
    # The free 5 bytes come first, then the 50 that suffice alone.
    [plan] = plans(*workshop(Option("free", 5), Option("enough", 50, 0.4)))
    assert named(plan) == ["enough"]
    [plan] = plans(*workshop(Option("free", 5), Option("rest", 45, 0.4)))
    assert named(plan) == ["free", "rest"]


def test_a_step_that_gains_time_is_kept():
    [plan] = plans(*workshop(Option("faster", 5, -0.3), Option("enough", 50, 0.4)))
    assert named(plan) == ["faster", "enough"]


def test_of_free_changes_the_one_that_fits_and_gains_most_time_is_taken():
    [plan] = plans(
        *workshop(Option("large", 90, -0.1), Option("fast", 60, -0.3), Option("part", 40, -0.9))
    )
    assert named(plan) == ["fast"]


def test_of_free_changes_those_with_fewer_accelerators_come_first():
    [plan] = plans(
        *workshop(
            Option("few", 30, -0.6, "more-accelerators", accelerators=2),
            Option("many", 45, -0.9, "more-accelerators", accelerators=8),
            Option("rest", 20, 0.0),
        )
    )
    assert named(plan) == ["rest", "few"]


def test_what_the_host_cannot_hold_is_not_planned():
    [plan] = plans(*workshop(Option("host", 60, 0.0, host=60), Option("slow", 60, 0.5)))
    assert named(plan) == ["slow"]
    [plan] = plans(*workshop(Option("host", 60, 0.0, host=50), Option("slow", 60, 0.5)))
    assert named(plan) == ["host"]


def test_each_reach_has_a_plan_of_its_own():
    found = plans(
        *workshop(
            Option("slow", 60, 0.9),
            Option("near", 60, 0.2, "near-same-result"),
            Option("more", 60, -0.4, "more-accelerators", accelerators=2),
            Option("other", 60, -0.5, "other-recipe"),
        )
    )
    assert [(plan.reach, named(plan)) for plan in found] == [
        ("same-result", ["slow"]),
        ("near-same-result", ["near"]),
        ("more-accelerators", ["more"]),
        ("other-recipe", ["other"]),
    ]
    more = found[2].steps[-1].after
    assert more.accelerator_token_s == 2 * more.token_s


def test_a_reach_without_a_better_way_of_its_own_has_no_plan():
    found = plans(*workshop(Option("same", 60, 0.1), Option("near", 60, 0.2, "near-same-result")))
    assert [plan.reach for plan in found] == ["same-result"]


def test_what_no_reach_can_alone_all_may_together():
    [plan] = plans(
        *workshop(
            Option("near", 20, 0.0, "near-same-result"),
            Option("more", 40, 0.1, "more-accelerators"),
        )
    )
    assert (plan.reach, plan.fits) == ("more-accelerators", True)
    assert sorted(named(plan)) == ["more", "near"]


def test_the_nearest_is_told_where_nothing_fits():
    [plan] = plans(*workshop(Option("a", 10), Option("b", 20, 0.1)))
    assert not plan.fits
    assert sorted(named(plan)) == ["a", "b"]
    assert plans(*workshop()) == ()
    assert plans(*workshop(Option("worse", -10))) == ()


def test_of_a_technique_the_least_drastic_that_fits_is_shown():
    shown = single_changes(
        *workshop(
            Option("bits", 20, 0.0, "near-same-result"),
            Option("bits", 55, 0.1, "near-same-result"),
            Option("bits", 80, 0.1, "near-same-result"),
            Option("little", 10, -0.1),
            Option("dust", 0.05),
        )
    )
    assert [(taken.technique.id, taken.gained_bytes) for taken in shown] == [
        ("bits", 55),
        ("little", 10),
    ]


def test_more_accelerators_are_shown_only_where_they_suffice():
    shown = single_changes(
        *workshop(
            Option("few", 20, 0.0, "more-accelerators"),
            Option("many", 60, 0.0, "more-accelerators"),
        )
    )
    assert [taken.technique.id for taken in shown] == ["many"]
