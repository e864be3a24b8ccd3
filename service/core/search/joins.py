"""Which layouts an accelerator's links join."""

from __future__ import annotations

from service.core.deployment import Accelerator, Parallelism

#: Classes of machines that stand by themselves: no network joins them as one of servers does.
_BY_THEMSELVES = frozenset(("laptop", "phone", "soc-board", "mini-pc"))


def joins(accelerator: Accelerator, layout: Parallelism) -> bool:
    """Whether fast links join a layout's groups; nobody divides a model among laptops or boards."""
    group = max(layout.tensor, layout.expert)
    if accelerator.platform.kind in _BY_THEMSELVES:
        group = max(group, layout.replica_accelerators)
        return bool(group <= accelerator.platform.accelerators_of_a_host)
    return bool(group <= accelerator.scale_up_domain_accelerators)


def joins_run(accelerator: Accelerator, layout: Parallelism) -> bool:
    """Whether a run can be laid out so; nobody divides one among laptops or boards."""
    if accelerator.platform.kind in _BY_THEMSELVES:
        return bool(layout.accelerator_count <= accelerator.platform.accelerators_of_a_host)
    return bool(layout.tensor <= accelerator.scale_up_domain_accelerators)
