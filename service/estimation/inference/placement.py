"""Which bytes live where, where memory beyond the accelerator is used: part of answers."""

from __future__ import annotations

from math import inf

from service.core.interval import product
from service.core.memory.inference.tier_costs import provided_bytes
from service.core.memory.inference.tiers import InferenceTiers
from service.core.memory.transfers import of_size
from service.estimation.answers import Answer, FitCertainty, Interval, figure, known_figure
from service.estimation.writing import written

#: Kinds that answer for host memory and for drives.
_HOST, _DRIVES = frozenset({"host", "expansion", "pool"}), frozenset({"storage"})


class TierPrice(Answer):
    """What one tier costs."""

    price_usd: Interval | None
    """Of the accelerator's part: all of it where it has a size, else what is used; null for the
    accelerator's own memory, and where no price is known."""
    beside_machine: bool
    """Whether it comes on top of the machine, and counts in cost.owned and embodied emissions."""


class TierUse(TierPrice):
    """What one tier holds for one accelerator."""

    tier: str
    """Id in /v1/memory-tiers."""
    kind: str
    bandwidth_bytes_per_s: float
    """As it arrives at the accelerator."""
    room_bytes: float | None
    """Null if not known."""
    used_bytes: Interval
    touched_bytes_per_step: float
    """Read by one decoding step."""
    hidden_share_ratio: float | None
    """Share of a step's traffic that could come from this tier without making the step longer."""
    parts_bytes: dict[str, float]
    """What it holds, by part."""


class Placement(FitCertainty):
    """Which bytes are placed where, for each accelerator."""

    fits: bool
    """Whether everything fits into the tiers, by the central estimate."""
    unplaced_bytes: Interval
    """Bytes that fit in none of the tiers."""
    host_bytes: Interval
    """In host memory, expansion and pools, all together."""
    nvme_bytes: Interval
    """On storage, all together."""
    effective_bandwidth_bytes_per_s: Interval | None
    """Of all tiers together, for the bytes of a step; null if something does not fit."""
    slowdown_ratio: Interval | None
    """Time to read the bytes of a step over the time if everything were in the accelerator."""
    tiers: list[TierUse]


def placement(tiers: InferenceTiers) -> Placement:
    """The placement as it goes over the wire, for each accelerator."""
    named = [("accelerator", "device"), *((tier.id, tier.kind) for tier in tiers.outside)]
    return {
        "fits": bool(tiers.fits),
        **written(tiers, FitCertainty),
        "unplaced_bytes": figure(tiers.unplaced_bytes),
        "host_bytes": figure(tiers.held_outside(_HOST)),
        "nvme_bytes": figure(tiers.held_outside(_DRIVES)),
        "effective_bandwidth_bytes_per_s": known_figure(tiers.effective_bandwidth),
        "slowdown_ratio": figure(tiers.slowdown_ratio) if tiers.fits else None,
        "tiers": [
            {
                "tier": name,
                "kind": kind,
                "bandwidth_bytes_per_s": float(tiers.contents[at].bandwidth_bytes_per_s),
                "room_bytes": None
                if tiers.rooms[at].capacity_bytes == inf
                else float(tiers.rooms[at].capacity_bytes),
                "used_bytes": figure(tiers.used_bytes[at]),
                "touched_bytes_per_step": float(tiers.placement.touched_bytes(at)),
                "hidden_share_ratio": float(tiers.free_share_ratio(at)) if at else None,
                "parts_bytes": _parts(tiers, at),
                **_worth(tiers, at),
            }
            for at, (name, kind) in enumerate(named)
        ],
    }


def _worth(tiers: InferenceTiers, at: int) -> TierPrice:
    """What an accelerator's part of a tier costs, and whether it comes on top of the machine."""
    if at == 0:
        return {"price_usd": None, "beside_machine": False}
    tier = tiers.outside[at - 1]
    price = tier.worth.price_usd_per_gb
    held = provided_bytes(tier.capacity_bytes, tiers.used_bytes[at])
    return {
        "price_usd": None if price is None else figure(product(of_size(price, 1.0), held)),
        "beside_machine": tier.beside_machine,
    }


def _parts(tiers: InferenceTiers, at: int) -> dict[str, float]:
    held: dict[str, float] = {}
    for item in tiers.placement.of(at):
        held[item.name] = held.get(item.name, 0.0) + float(item.stored_bytes)
    return held
