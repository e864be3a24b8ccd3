"""What would make something fit, as it goes over the wire."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from service.core.techniques.plan import (
    Judge,
    Judgement,
    Plan,
    Propose,
    Taken,
    plans,
    single_changes,
)
from service.core.techniques.technique import Reach, Setup
from service.estimation.answers import Answer, Interval, figure
from service.estimation.detail import part_of

#: Host memory for each accelerator where none is given: 2 TB for eight of them.
#: Source: NVIDIA, DGX H100 datasheet, 2022, https://www.nvidia.com/en-us/data-center/dgx-h100/.
USUAL_HOST_BYTES = 256e9


class Mitigation(Answer):
    """A change that saves memory, and its effect on the whole.

    Time is per token, relative to the request as sent if it had fitted.
    """

    technique: str
    """Id among the techniques."""
    change: str
    """What changes in the request, in words."""
    reach: Reach
    """How far the change goes."""
    total_bytes: Interval
    """Memory after the change."""
    saved_bytes: float
    """Memory before the change minus memory after it."""
    gained_headroom_bytes: float
    """Memory saved, plus what the change adds to the available memory."""
    host_bytes: float
    """Host memory after the change, for each accelerator."""
    fits: bool
    accelerator_count: int
    """Accelerators after the change."""
    time_ratio: float
    """Time per token after the change over the time for the request as sent."""
    accelerator_time_ratio: float
    """Time per token × accelerators, after the change over the request as sent."""


class MitigationPlan(Answer):
    """Changes in order, each applied on top of the previous ones."""

    reach: Reach
    """Reach of the change that goes furthest."""
    fits: bool
    accelerator_count: int
    """Accelerators after all changes."""
    time_ratio: float
    """Time per token after all changes over that of the request as sent."""
    accelerator_time_ratio: float
    """Time per token × accelerators, after all changes over the request as sent."""
    steps: list[Mitigation]


@part_of("remedies")
class Mitigations(Answer, total=False):
    """What would make it fit."""

    would_help: list[Mitigation]
    """If memory is short, single changes that save memory, those that make it fit first."""
    plans: list[MitigationPlan]
    """If memory is short, sequences of changes until everything fits, one for each reach."""


NOTHING_TO_CHANGE: Mitigations = {"would_help": [], "plans": []}


def mitigations(start: Setup, judge: Judge[Setup], propose: Propose[Setup]) -> Mitigations:
    """Single changes that gain memory, and ordered plans that make a setup fit.

    Parameters
    ----------
    start
        Setup that does not fit.
    judge, propose
        Say what becomes of a setup, and what may be changed of it.
    """
    began = judge(start)
    if began is None:
        return NOTHING_TO_CHANGE
    return {
        "would_help": [_step(taken, began) for taken in single_changes(start, judge, propose)],
        "plans": [_plan(plan, began) for plan in plans(start, judge, propose)],
    }


def remembered(judge: Judge[Setup], key: Callable[[Setup], Hashable]) -> Judge[Setup]:
    """The same judge, which judges no setup twice."""
    known: dict[Hashable, Judgement[Setup] | None] = {}

    def judge_once(setup: Setup) -> Judgement[Setup] | None:
        name = key(setup)
        if name not in known:
            known[name] = judge(setup)
        return known[name]

    return judge_once


def _plan(plan: Plan[Any], began: Judgement[Any]) -> MitigationPlan:
    return {
        "reach": plan.reach,
        "fits": plan.fits,
        "accelerator_count": plan.steps[-1].after.accelerators,
        "time_ratio": plan.steps[-1].after.token_s / began.token_s,
        "accelerator_time_ratio": _accelerator_time(plan.steps[-1].after, began),
        "steps": [_step(taken, began) for taken in plan.steps],
    }


def _step(taken: Taken[Any], began: Judgement[Any]) -> Mitigation:
    """A step; its ratios compare with the setup as it was asked for, if it had fitted."""
    return {
        "technique": taken.technique.id,
        "change": taken.change.summary,
        "reach": taken.reach,
        "total_bytes": figure(taken.after.total_bytes),
        "saved_bytes": float(taken.before.total_bytes.value - taken.after.total_bytes.value),
        "gained_headroom_bytes": taken.gained_bytes,
        "host_bytes": taken.after.host_bytes,
        "fits": taken.after.fits,
        "accelerator_count": taken.after.accelerators,
        "time_ratio": taken.after.token_s / began.token_s,
        "accelerator_time_ratio": _accelerator_time(taken.after, began),
    }


def _accelerator_time(after: Judgement[Any], began: Judgement[Any]) -> float:
    return after.accelerator_token_s / began.accelerator_token_s
