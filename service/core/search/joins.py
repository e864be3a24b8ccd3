"""Which layouts an accelerator's links join."""

from __future__ import annotations

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, minimum

#: Classes of machines that stand by themselves: no network joins them as one of servers does.
_BY_THEMSELVES = frozenset(("laptop", "phone", "soc-board", "mini-pc"))
#: Those that stand on or beside a desk: several take requests side by side, and fast links reach no
#: further than one.
_DESKS = frozenset(("desktop", "workstation"))


def joins(accelerator: Accelerator, layout: Parallelism) -> bool:
    """Whether fast links join a layout's groups; nobody divides a model among laptops or boards."""
    group = max(layout.tensor, layout.expert)
    if accelerator.platform.kind in _BY_THEMSELVES:
        group = max(group, layout.replica_accelerators)
        return bool(group <= accelerator.platform.accelerators_of_a_host)
    return bool(group <= _fast_joined(accelerator))


def joins_run(accelerator: Accelerator, layout: Parallelism, *, desks_apart: bool = False) -> bool:
    """Whether a run can be laid out so; nobody divides one among laptops or boards.

    With ``desks_apart``, among workstations neither: they are one's own, and no cluster.
    """
    kind, host = accelerator.platform.kind, accelerator.platform.accelerators_of_a_host
    # A desk's machine of one accelerator has it built in, and nothing to join others by.
    desk_apart = kind in _DESKS and (desks_apart or host == 1)
    if desk_apart or kind in _BY_THEMSELVES:
        return bool(layout.accelerator_count <= host)
    return bool(layout.tensor <= _fast_joined(accelerator))


def _fast_joined(accelerator: Accelerator) -> Number:
    """Accelerators that fast links join [-]."""
    joined = accelerator.scale_up_domain_accelerators
    if accelerator.platform.kind in _DESKS:
        return minimum(joined, accelerator.platform.accelerators_of_a_host)
    return joined
