"""Memory beyond the accelerator: which tiers a deployment has, where things live, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator, Parallelism
from service.core.explanation import EstimateWarning
from service.core.interval import Z_90
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.tiers import (
    InferenceTiers,
    Offload,
    OutsideTier,
    SharedTier,
    inference_tiers,
)
from service.core.memory.tiers import MemoryTier
from service.core.performance.calibration import PerformanceCalibration
from service.estimation.answers import figure, known_figure
from service.estimation.requests import MemoryTierRequest, OffloadRequest, ServingRequest
from service.estimation.resolution import Problems

#: What the host's memory is taken for where a request offloads and names no tier.
_USUAL_HOST_TIER = "ddr5-8ch"
#: Kinds whose memory lies behind a link of the accelerator.
_LINKED = frozenset({"host", "expansion", "pool", "storage"})
#: Kinds that answer for host memory and for drives.
_HOST, _DRIVES = frozenset({"host", "expansion", "pool"}), frozenset({"storage"})


@dataclass(frozen=True, slots=True)
class Outside:
    """The tiers of one request, resolved; ``entries`` are those of the catalog that were used."""

    tiers: tuple[OutsideTier, ...]
    offload: Offload
    entries: tuple[Entry[MemoryTier], ...]
    warnings: tuple[EstimateWarning, ...]


def resolve_outside(
    serving: ServingRequest,
    accelerator: Accelerator,
    parallelism: Parallelism,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> Outside | None:
    """The tiers that a request names, or None where it stays within the accelerator.

    Notes problems of tiers that are unknown or whose bandwidth is.
    """
    asked = list(serving.memory_tiers)
    if not asked and serving.offload is None:
        return None
    warnings: list[EstimateWarning] = []
    if not asked:
        warnings.append(
            EstimateWarning(
                "host_memory_assumed",
                "no memory_tiers are given; two sockets of eight DDR5 channels each are assumed",
            )
        )
    found = _named_tiers(serving, snapshot, problems)
    tiers = [_outside(one, entry.value, accelerator, parallelism, warnings) for one, entry in found]
    entries = tuple(entry for _, entry in found)
    return Outside(tuple(tiers), _offload(serving.offload), entries, tuple(warnings))


def tiers_around(
    serving: ServingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[tuple[SharedTier, ...], Offload]:
    """The tiers that a request names, whatever accelerator they will stand beside.

    Notes problems of tiers that are unknown or whose bandwidth is.
    """
    found = _named_tiers(serving, snapshot, problems)
    tiers = tuple(shared_tier(one, entry.value) for one, entry in found)
    return tiers, _offload(serving.offload)


def _named_tiers(
    serving: ServingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> list[tuple[MemoryTierRequest, Entry[MemoryTier]]]:
    """Tiers that a request names, or the host's memory where it only offloads."""
    asked = list(serving.memory_tiers)
    if not asked and serving.offload is not None:
        asked = [MemoryTierRequest(tier=_USUAL_HOST_TIER, units=2)]
    found = []
    for at, one in enumerate(asked):
        wanted = one if isinstance(one, MemoryTierRequest) else MemoryTierRequest(tier=one)
        pointer = f"/serving/memory_tiers/{at}"
        entry = problems.attempt(
            pointer,
            lambda name=wanted.tier: snapshot.find("memory-tiers", name),  # type: ignore[misc]
        )
        if entry is None:
            continue
        if entry.value.bandwidth_bytes_per_s is None:
            problems.add(pointer, f"the bandwidth of {entry.id} is not known")
            continue
        found.append((wanted, entry))
    return found


def _offload(asked: OffloadRequest | None) -> Offload:
    chosen = asked or OffloadRequest()
    return Offload(
        weights_ratio=chosen.weights_ratio,
        kv_cache_ratio=chosen.kv_cache_ratio,
        parked_sequences=float(chosen.parked_sequences),
        overlap_ratio=chosen.overlap_ratio,
    )


def _outside(
    asked: MemoryTierRequest,
    tier: MemoryTier,
    accelerator: Accelerator,
    parallelism: Parallelism,
    warnings: list[EstimateWarning],
) -> OutsideTier:
    shared = shared_tier(asked, tier)
    users = min(parallelism.accelerator_count, accelerator.scale_up_domain_accelerators)
    link = host_link(accelerator)
    if shared.link_bytes_per_s is None and not accelerator.unified_memory and link is None:
        warnings.append(
            EstimateWarning(
                "host_link_unknown",
                f"{accelerator.name} has no published host link; {tier.name} is used at its own "
                "bandwidth. Give link_bytes_per_s if you know it",
            )
        )
    if shared.capacity_bytes == inf:
        warnings.append(
            EstimateWarning(
                "tier_capacity_unknown",
                f"{tier.id} has no typical capacity; it is assumed to be large enough. Give "
                "capacity_bytes if you know it",
            )
        )
    return shared.seen(users, inf if link is None else link)


def host_link(accelerator: Accelerator) -> float | None:
    """What an accelerator reads of its host at most [B/s].

    Infinite where both share one memory, None where it is not known.
    """
    if accelerator.unified_memory:
        return inf
    return accelerator.host_link_bandwidth_bytes_per_s


def shared_tier(asked: MemoryTierRequest, tier: MemoryTier) -> SharedTier:
    """A tier as it stands in the host, of known bandwidth."""
    capacity = asked.capacity_bytes
    if capacity is None and tier.capacity_bytes is not None:
        capacity = float(tier.capacity_bytes) * asked.units
    link = asked.link_bytes_per_s
    return SharedTier(
        id=tier.id,
        kind=tier.kind,
        capacity_bytes=inf if capacity is None else capacity,
        bandwidth_bytes_per_s=float(tier.bandwidth_bytes_per_s) * asked.units,  # type: ignore[arg-type]
        latency=tier.latency,
        users=asked.shared_by,
        link_bytes_per_s=inf if link is None and tier.kind not in _LINKED else link,
    )


def placed_tiers(memory: InferenceMemory, outside: Outside) -> InferenceTiers:
    """Where weights and caches of a deployment live."""
    return inference_tiers(memory, outside.tiers, outside.offload, None)


def with_tiers(
    accelerator: Accelerator, calibration: PerformanceCalibration, tiers: InferenceTiers
) -> tuple[Accelerator, PerformanceCalibration]:
    """Accelerator and calibration as steps see them when part of what they read lies outside.

    The bandwidth becomes what all tiers together amount to for the bytes of a step, and its
    spread joins that of the measured efficiencies.
    """
    if tiers.bandwidth is None:
        return accelerator, calibration
    found = tiers.bandwidth
    spread = log(found.high / found.low) / 2.0 / Z_90 if found.low > 0.0 else 0.0
    hardware = calibration.hardware
    wider = replace(
        hardware,
        decode_log_sigma=(hardware.decode_log_sigma**2 + spread**2) ** 0.5,
        prefill_log_sigma=(hardware.prefill_log_sigma**2 + spread**2) ** 0.5,
    )
    slower = replace(accelerator, memory_bandwidth_bytes_per_s=float(found.value))
    return slower, replace(calibration, hardware=wider)


def tiers_figures(tiers: InferenceTiers) -> dict[str, Any]:
    """The placement as it goes over the wire, for each accelerator."""
    named = [("accelerator", "device"), *((tier.id, tier.kind) for tier in tiers.outside)]
    return {
        "fits": tiers.fits and tiers.bandwidth is not None,
        "fits_certainty": tiers.fits_certainty,
        "unplaced_bytes": figure(tiers.unplaced),
        "host_bytes": figure(tiers.held_outside(_HOST)),
        "nvme_bytes": figure(tiers.held_outside(_DRIVES)),
        "effective_bandwidth_bytes_per_s": known_figure(tiers.bandwidth),
        "slowdown_ratio": known_figure(tiers.slowdown_ratio),
        "tiers": [
            {
                "tier": name,
                "kind": kind,
                "bandwidth_bytes_per_s": float(tiers.rooms[at].bandwidth_bytes_per_s),
                "room_bytes": None
                if tiers.rooms[at].capacity_bytes == inf
                else float(tiers.rooms[at].capacity_bytes),
                "used_bytes": figure(tiers.used[at]),
                "touched_bytes_per_step": float(tiers.placement.touched_bytes(at)),
                "hidden_share_ratio": tiers.free_share_ratio(at) if at else None,
                "parts_bytes": _parts(tiers, at),
            }
            for at, (name, kind) in enumerate(named)
        ],
    }


def _parts(tiers: InferenceTiers, at: int) -> Mapping[str, float]:
    held: dict[str, float] = {}
    for item in tiers.placement.of(at):
        held[item.name] = held.get(item.name, 0.0) + float(item.stored_bytes)
    return held


def tier_warnings(tiers: InferenceTiers) -> list[EstimateWarning]:
    """What a careful colleague would say of the placement."""
    said: list[EstimateWarning] = []
    if tiers.bandwidth is None:
        missing = tiers.unplaced.value / 1e9
        said.append(
            EstimateWarning(
                "tiers_too_small",
                f"{missing:.1f} GB per accelerator fit in none of the tiers; speed assumes that "
                "everything were in the accelerator",
            )
        )
    elif tiers.slowdown_ratio is not None and tiers.slowdown_ratio.value > _MUCH_SLOWER_RATIO:
        said.append(
            EstimateWarning(
                "tiers_slow_steps",
                "reading from memory outside the accelerator makes memory-bound steps "
                f"{tiers.slowdown_ratio.value:.1f} times as long: capacity outside is cheap, "
                "traffic is not",
            )
        )
    return said


#: Past this, people should look twice.
_MUCH_SLOWER_RATIO = 1.5
