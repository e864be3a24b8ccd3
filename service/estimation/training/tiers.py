"""A memory tier that a training run offloads to: an accelerator's share of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Parallelism
from service.core.explanation import EstimateWarning
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact, product
from service.core.memory.inference.tier_costs import provided_bytes
from service.core.memory.tiers import MemoryTier
from service.core.memory.training.memory import TrainingMemory
from service.core.memory.training.settings import OffloadTier
from service.core.memory.transfers import of_size
from service.estimation.inference.tiers import shared_tier, worth_warnings
from service.estimation.requests import MemoryTierRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingOffloadRequest

_PLACE = "/training/offload/memory_tier"
#: Kinds of memory that lie outside an accelerator.
_OUTSIDE = ("host", "expansion", "pool", "storage")


def resolve_tier(
    asked: TrainingOffloadRequest,
    snapshot: CatalogSnapshot,
    problems: Problems,
    place: str = _PLACE,
) -> Entry[MemoryTier] | None:
    """The memory tier of a run, if it has one; notes at ``place`` what cannot be offloaded to."""
    named = asked.memory_tier
    if named is None:
        for name in ("optimizer", "parameters", "activations"):
            if getattr(asked, name) == "tier":
                problems.add(place, f"name the memory tier that takes the {name}")
        return None
    wanted = named.tier if isinstance(named, MemoryTierRequest) else named
    entry = problems.attempt(place, lambda: snapshot.find("memory-tiers", wanted))
    if entry is None:
        return None
    if entry.value.kind not in _OUTSIDE:
        problems.add(
            place, f"{entry.id} is {entry.value.kind} memory; use one of {', '.join(_OUTSIDE)}"
        )
    elif entry.value.bandwidth_bytes_per_s is None:
        problems.add(place, f"the bandwidth of {entry.id} is not known")
    else:
        return entry
    return None


def tier_share(
    asked: TrainingOffloadRequest,
    tier: MemoryTier,
    accelerator: Accelerator,
    parallelism: Parallelism,
) -> OffloadTier:
    """What an accelerator has of a tier that others of its host, or as many as asked, share."""
    users = min(parallelism.accelerator_count, accelerator.scale_up_domain_accelerators)
    return share_of(asked, tier, users)


def share_of(asked: TrainingOffloadRequest, tier: MemoryTier, users: int = 1) -> OffloadTier:
    """What an accelerator has of a tier that as many as asked share, or else so many ``users``."""
    named = asked.memory_tier
    wanted = named if isinstance(named, MemoryTierRequest) else MemoryTierRequest(tier=tier.id)
    shared = shared_tier(wanted, tier)
    seen = shared.seen(users, inf)
    return OffloadTier(
        id=tier.id,
        capacity_bytes=float(seen.capacity_bytes),
        bandwidth_bytes_per_s=float(shared.bandwidth_bytes_per_s / (shared.users or users)),
        link_bytes_per_s=wanted.link_bytes_per_s,
        link_efficiency_ratio=wanted.link_efficiency_ratio,
        is_storage=tier.kind == "storage",
        beside_machine=seen.beside_machine,
        worth=seen.worth,
    )


def tier_held_bytes(memory: TrainingMemory) -> Interval | None:
    """What has to be there of memory beside the machine, for each accelerator; None without [B]."""
    tier = memory.settings.offload.tier
    if tier is None or not tier.beside_machine or not memory.tier_bytes:
        return None
    return provided_bytes(tier.capacity_bytes, exact(memory.tier_bytes))


def tier_price_usd(memory: TrainingMemory) -> Interval | None:
    """Price of that memory; None without, or where nobody states it [USD]."""
    held, tier = tier_held_bytes(memory), memory.settings.offload.tier
    if held is None or tier is None or tier.worth.price_usd_per_gb is None:
        return None
    return product(of_size(tier.worth.price_usd_per_gb, 1.0), held)


def around_with_tier(around: Infrastructure, memory: TrainingMemory) -> Infrastructure:
    """What stands around an accelerator, with the making of the memory that it offloads to."""
    held, tier = tier_held_bytes(memory), memory.settings.offload.tier
    if held is None or tier is None or tier.worth.embodied_kgco2e_per_gb is None:
        return around
    made = product(of_size(tier.worth.embodied_kgco2e_per_gb, 1.0), held)
    return replace(around, memory_kgco2e=made)


def offload_warnings(
    asked: TrainingOffloadRequest, tier: OffloadTier | None
) -> Iterator[EstimateWarning]:
    """What to say of a tier that nothing goes to, or of unknown size."""
    if tier is None:
        return
    if "tier" not in (asked.optimizer, asked.parameters, asked.activations):
        yield EstimateWarning(
            "memory_tier_unused", f"{tier.id} stays empty; plans may use it if memory is short"
        )
    elif "tier" not in (asked.parameters, asked.activations):
        named = asked.memory_tier
        said = named.model_fields_set if isinstance(named, MemoryTierRequest) else frozenset()
        unused = sorted(said & {"link_bytes_per_s", "link_efficiency_ratio"})
        if unused:
            yield EstimateWarning(
                "setting_unused",
                f"the host updates optimizer states where they are: {' and '.join(unused)} of "
                f"{tier.id} change nothing unless weights or activations are kept there, too",
                about="offload.memory_tier",
            )
    if "tier" in (asked.optimizer, asked.parameters, asked.activations):
        yield from worth_warnings(tier.id, tier.beside_machine, tier.worth)
    if tier.capacity_bytes == inf:
        yield EstimateWarning(
            "tier_capacity_unknown",
            f"no capacity of {tier.id} is stated: it is assumed to be enough",
        )
