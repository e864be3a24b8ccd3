"""Which rented instances hold groups of accelerators that fast links have to join."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from service.catalog.derived import derived
from service.catalog.entries.platforms import on_slots
from service.catalog.snapshot import CatalogSnapshot


@derived(most=1024)
def joined_from(snapshot: CatalogSnapshot, accelerator_id: str) -> float:
    """Accelerators of an instance from which on links as fast join it to others of its kind [-].

    Where links of their own reach beyond a host (slices of TPUs, racks of NVLink), whole hosts are
    rented side by side at the price of each. Infinite elsewhere, and where nothing is listed.
    """
    listed = snapshot.accelerators.get(accelerator_id)
    if listed is None or on_slots(listed.document):
        return inf
    host = float(listed.value.platform.accelerators_of_a_host)
    return host if listed.value.scale_up_domain_accelerators > host else inf


def whole_groups(sizes: Sequence[int], group: int, joined: float) -> tuple[bool, ...]:
    """Which instances of these sizes hold tensor-parallel groups whole; else, the largest.

    From ``joined`` accelerators on, several of them do together.
    """
    least = min(group, max(sizes, default=0))
    return tuple(size >= min(least, joined) for size in sizes)
