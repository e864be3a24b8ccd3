"""What would make a setup fit: single changes, and ordered plans of them.

A plan is greedy: of all changes that are allowed it takes the one that loses the least
accelerator time per byte gained, until everything fits, and then drops what turned out not to be
needed. One plan is made for each reach: the same result on the same accelerators first, then nearly
the same result, more accelerators for the same result, and another recipe last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Generic, TypeAlias

from service.core.interval import Interval
from service.core.techniques.technique import REACHES, Change, Reach, Setup, Technique

#: Changes that gain less than this share of the capacity are left out.
_LEAST_GAIN_RATIO = 1e-3
_MOST_STEPS = 12
#: Time lost that no estimate can tell from none, as a share of the time of a token.
_FREE_RATIO = 5e-3

#: What a plan of each reach may use: more accelerators are there to keep the result.
_ALLOWED: Mapping[Reach, tuple[Reach, ...]] = MappingProxyType(
    {
        "same-result": ("same-result",),
        "near-same-result": ("same-result", "near-same-result"),
        "more-accelerators": ("same-result", "more-accelerators"),
        "other-recipe": ("same-result", "near-same-result", "other-recipe"),
    }
)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[Setup]):
    """A setup with what a plan has to know of it.

    ``total_bytes`` is its memory on the fullest accelerator, ``headroom_bytes`` what is left beside
    it (negative if it does not fit), ``host_bytes`` what it keeps in host memory for each
    accelerator, of ``host_capacity_bytes`` [B]. ``token_s`` is its time for each token, with all
    accelerators at work [s].
    """

    setup: Setup
    total_bytes: Interval
    capacity_bytes: float
    headroom_bytes: float
    host_bytes: float
    host_capacity_bytes: float
    fits: bool
    accelerators: int
    token_s: float

    @property
    def accelerator_token_s(self) -> float:
        """Accelerator time for each token [s]."""
        return self.token_s * self.accelerators


@dataclass(frozen=True, slots=True)
class Taken(Generic[Setup]):
    """A change that was made, and what became of the setup by it."""

    technique: Technique
    change: Change[Setup]
    before: Judgement[Setup]
    after: Judgement[Setup]

    @property
    def reach(self) -> Reach:
        """How far this way of applying the technique goes."""
        return self.change.reach or self.technique.reach

    @property
    def gained_bytes(self) -> float:
        """Headroom gained [B]."""
        return self.after.headroom_bytes - self.before.headroom_bytes

    @property
    def lost_s(self) -> float:
        """Accelerator time lost for each token; negative if time is gained [s]."""
        return self.after.accelerator_token_s - self.before.accelerator_token_s


@dataclass(frozen=True, slots=True)
class Plan(Generic[Setup]):
    """Changes in the order in which they are made, at least one of them of ``reach``."""

    reach: Reach
    steps: tuple[Taken[Setup], ...]

    @property
    def fits(self) -> bool:
        """Whether everything fits after the last step."""
        return self.steps[-1].after.fits


#: What is compared of changes; see :func:`_cost`.
Cost: TypeAlias = tuple[float, bool, int, float, float, float]
_UNKNOWN: Cost = (-inf, False, 0, 0.0, 0.0, 0.0)
_HOPELESS: Cost = (inf, True, 0, 0.0, 0.0, 0.0)

#: What becomes of a setup; None of one that cannot be.
Judge = Callable[[Setup], Judgement[Setup] | None]
#: Changes that techniques propose to a setup, the least drastic of a technique first.
Propose = Callable[[Setup], Iterable[tuple[Technique, Iterable[Change[Setup]]]]]


def single_changes(
    start: Setup, judge: Judge[Setup], propose: Propose[Setup]
) -> tuple[Taken[Setup], ...]:
    """Changes that gain memory by themselves, the fitting ones first, then by reach and time.

    Returns
    -------
    tuple of Taken
        Of each technique and reach the least drastic change that fits, or else the one that gains
        most; more accelerators only where they make it fit.
    """
    best: dict[tuple[str, Reach], Taken[Setup]] = {}
    now = judge(start)
    if now is None:
        return ()
    for technique, changes in propose(start):
        _, gaining = _changes(now, judge, technique, changes, REACHES)
        for taken in gaining:
            if taken.reach == "more-accelerators" and not taken.after.fits:
                continue
            name = technique.id, taken.reach
            if name not in best or taken.gained_bytes > best[name].gained_bytes:
                best[name] = taken

    def rank(taken: Taken[Setup]) -> tuple[bool, int, float]:
        return not taken.after.fits, REACHES.index(taken.reach), taken.lost_s

    return tuple(sorted(best.values(), key=rank))


def plans(start: Setup, judge: Judge[Setup], propose: Propose[Setup]) -> tuple[Plan[Setup], ...]:
    """Ordered plans that make a setup fit, one for each reach that offers one of its own.

    Returns
    -------
    tuple of Plan
        Those that fit. If none does, one of all reaches together, which fits or comes as near as
        it can; nothing if not even one change helps.
    """
    began = judge(start)
    if began is None:
        return ()
    fitting: list[Plan[Setup]] = []
    for reach, allowed in _ALLOWED.items():
        steps = _greedy(began, judge, propose, allowed)
        if not steps or not steps[-1].after.fits:
            continue
        steps = _pruned(began, judge, steps)
        if any(taken.reach == reach for taken in steps):
            fitting.append(Plan(reach, steps))
    if fitting:
        return tuple(fitting)
    steps = _pruned(began, judge, _greedy(began, judge, propose, REACHES))
    if not steps:
        return ()
    furthest = max((taken.reach for taken in steps), key=REACHES.index)
    return (Plan(furthest, steps),)


def _greedy(
    began: Judgement[Setup], judge: Judge[Setup], propose: Propose[Setup], allowed: Sequence[Reach]
) -> tuple[Taken[Setup], ...]:
    """The cheapest change, again and again, until everything fits.

    What a technique costs rarely falls while others are applied, so that one whose last known cost
    is above the best gaining is not judged again.
    """
    steps: list[Taken[Setup]] = []
    now, costs = began, dict[str, Cost]()
    while not now.fits and len(steps) < _MOST_STEPS:
        proposed = sorted(propose(now.setup), key=lambda item: costs.get(item[0].id, _UNKNOWN))
        best: Taken[Setup] | None = None
        for technique, changes in proposed:
            if best is not None and costs.get(technique.id, _UNKNOWN) >= _cost(best):
                break
            judged, gaining = _changes(now, judge, technique, changes, allowed)
            if not judged:
                continue
            cheapest = min(gaining, key=_cost, default=None)
            costs[technique.id] = _HOPELESS if cheapest is None else _cost(cheapest)
            if cheapest is not None and (best is None or _cost(cheapest) < _cost(best)):
                best = cheapest
        if best is None:
            break
        steps.append(best)
        now = best.after
    return tuple(steps)


def _cost(taken: Taken[Setup]) -> Cost:
    """Time lost per byte that was needed.

    Of changes that cost nothing one that makes it fit comes first, then the fewest accelerators
    and the least host memory, the most time gained if it fits, and the largest gain.
    """
    needed = min(taken.gained_bytes, -taken.before.headroom_bytes)
    free = taken.lost_s <= _FREE_RATIO * taken.before.accelerator_token_s
    fits = taken.after.fits
    return (
        0.0 if free else taken.lost_s / needed,
        not fits,
        taken.after.accelerators,
        taken.after.host_bytes,
        taken.lost_s if fits else 0.0,
        -taken.gained_bytes,
    )


def _changes(
    now: Judgement[Setup],
    judge: Judge[Setup],
    technique: Technique,
    changes: Iterable[Change[Setup]],
    allowed: Sequence[Reach],
) -> tuple[bool, list[Taken[Setup]]]:
    """Whether any was judged, and those that gain memory, up to the first that fits.

    What cannot be, or would take more host memory than there is, does not count.
    """
    least = _LEAST_GAIN_RATIO * now.capacity_bytes
    judged, gaining = False, []
    for change in changes:
        if (change.reach or technique.reach) not in allowed:
            continue
        judged = True
        after = judge(change.apply(now.setup))
        if after is None:
            continue
        taken = Taken(technique, change, now, after)
        if _is_too_much_for_host(taken.after, now):
            continue
        if taken.gained_bytes > least:
            gaining.append(taken)
        if taken.after.fits:
            break
    return judged, gaining


def _pruned(
    began: Judgement[Setup], judge: Judge[Setup], steps: tuple[Taken[Setup], ...]
) -> tuple[Taken[Setup], ...]:
    """The steps without those that are not needed, the ones that lose most time tried first.

    Steps that do not make it fit stay as they are.
    """
    if not steps or not steps[-1].after.fits:
        return steps
    for candidate in sorted(steps, key=lambda taken: -taken.lost_s):
        rest = [taken for taken in steps if taken.change is not candidate.change]
        again = _replayed(began, judge, rest)
        if not again:
            continue
        before, after = steps[-1].after, again[-1].after
        slower = after.accelerator_token_s > (1.0 + _FREE_RATIO) * before.accelerator_token_s
        if after.fits and not slower and not _is_too_much_for_host(after, began):
            steps = again
    return steps


def _is_too_much_for_host(after: Judgement[Setup], before: Judgement[Setup]) -> bool:
    return after.host_bytes > max(before.host_bytes, before.host_capacity_bytes)


def _replayed(
    began: Judgement[Setup], judge: Judge[Setup], steps: Sequence[Taken[Setup]]
) -> tuple[Taken[Setup], ...]:
    """The steps from the start again; none if they cannot be made without others."""
    made: list[Taken[Setup]] = []
    now = began
    for taken in steps:
        after = judge(taken.change.apply(now.setup))
        if after is None:
            return ()
        made.append(Taken(taken.technique, taken.change, now, after))
        now = after
    return tuple(made)
