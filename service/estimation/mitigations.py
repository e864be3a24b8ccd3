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
from service.core.techniques.technique import Setup
from service.estimation.answers import Mitigation, MitigationPlan, Mitigations, figure

#: Host memory for each accelerator where none is given: 2 TB for eight of them.
#: Source: NVIDIA, DGX H100 datasheet, 2022, https://www.nvidia.com/en-us/data-center/dgx-h100/.
USUAL_HOST_BYTES = 256e9

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
