"""Memory beyond the accelerator: which tiers a deployment has, where things live, what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.engines import Engine, EngineRelease, engine_of_release
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, exact
from service.core.memory.inference.tiers import (
    InferenceTiers,
    MemoryTiers,
    Offload,
    SharedTier,
    host_link_bytes_per_s,
)
from service.core.memory.tiers import MemoryTier, TierWorth
from service.core.performance.host_experts import HostProcessors, HostReach
from service.core.performance.spread import NO_WIDENING
from service.estimation.calibrations import processors_calibration
from service.estimation.requests import MemoryTierRequest, OffloadRequest, ServingRequest
from service.estimation.resolution import Problems

#: What the host's memory is taken for where a request offloads and names no tier.
_USUAL_HOST_TIER = "ddr5-8ch"
#: What the memory of a machine's host is called where its platform alone tells of it.
_HOST_MEMORY = "host-memory"
#: Kinds whose memory lies behind a link of the accelerator.
_LINKED = frozenset({"host", "expansion", "pool", "storage"})


@dataclass(frozen=True, slots=True)
class ResolvedTiers:
    """The tiers of one request, resolved; ``entries`` are those of the catalog that were used."""

    value: MemoryTiers
    entries: tuple[Entry[MemoryTier], ...]
    warnings: tuple[EstimateWarning, ...]


def resolve_tiers(
    serving: ServingRequest,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
    problems: Problems,
    release: EngineRelease,
    experts_of: str | None = None,
) -> ResolvedTiers | None:
    """The tiers that a request names, or None where it stays within the accelerator.

    Where processors of the host compute experts, ``experts_of`` is the release that has them do so.
    Notes problems of tiers that are unknown or whose bandwidth is.
    """
    if experts_of is not None and not serving.memory_tiers:
        return _host_memory(serving, accelerator, experts_of, snapshot, problems)
    if not serving.memory_tiers and serving.offload is None:
        return None
    warnings: list[EstimateWarning] = []
    named = _named_tiers(serving, snapshot, problems)
    tiers = computed_by_host(
        MemoryTiers(
            _shared_tiers(named),
            _offload(serving, snapshot.engines[release.engine].value),
        ),
        serving,
        release,
        snapshot,
    )
    known = accelerator.platform.host_memory_bandwidth_bytes_per_s is not None
    if not serving.memory_tiers and not (known and any(one.of_platform for one in tiers.shared)):
        warnings.append(
            EstimateWarning(
                "host_memory_assumed",
                "two sockets of eight DDR5 channels each are assumed for what does not fit in "
                "the accelerators",
            )
        )
    for tier, (wanted, entry) in zip(tiers.shared, named, strict=True):
        warnings += _unknown_figures(tier, wanted, entry, accelerator)
        warnings += worth_warnings(tier.id, tier.beside_machine, tier.worth)
    if experts_of is not None and tiers.shared:
        own = exact(tiers.shared[0].bandwidth_bytes_per_s)
        tiers = replace(
            tiers, processors=_processors(accelerator, own, experts_of, snapshot, problems)
        )
        warnings.append(_experts_warning(accelerator, tiers.shared[0]))
    if tiers.reach is not None and not accelerator.unified_memory:
        warnings += _layers_warnings(accelerator, tiers)
    return ResolvedTiers(tiers, tuple(entry for _, entry in named), tuple(warnings))


def _host_memory(
    serving: ServingRequest,
    accelerator: Accelerator,
    release: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> ResolvedTiers | None:
    """The memory of the machine's host, which holds the experts that its processors compute."""
    bandwidth = accelerator.platform.host_memory_bandwidth_bytes_per_s
    processors = _processors(accelerator, bandwidth, release, snapshot, problems)
    if processors is None or bandwidth is None:
        return None
    memory = SharedTier(_HOST_MEMORY, "host", inf, float(bandwidth.value))
    engine = snapshot.engines[engine_of_release(release)].value
    tiers = MemoryTiers((memory,), _offload(serving, engine), processors)
    capacity = EstimateWarning(
        "tier_capacity_unknown",
        f"no capacity of {_HOST_MEMORY} is stated: it is assumed to be enough",
    )
    return ResolvedTiers(tiers, (), (_experts_warning(accelerator, memory), capacity))


def _processors(
    accelerator: Accelerator,
    memory_bytes_per_s: Interval | None,
    release: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> HostProcessors | None:
    """What processors of the machine's host reach with experts; notes it if nobody knows."""
    platform = accelerator.platform
    if platform.host_matrix_flops_per_s is None or memory_bytes_per_s is None:
        problems.add(
            "/platform",
            f"the processors of the host compute the experts, but the speed of those of "
            f"{platform.name} is not known: give a platform with host_matrix_flops_per_s and "
            "host_memory_bandwidth_bytes_per_s",
        )
        return None
    reach = _reach(release, snapshot, unmeasured=True)
    return HostProcessors(
        reach.multiplying(platform.host_matrix_flops_per_s), reach.reading(memory_bytes_per_s)
    )


def _reach(release: str, snapshot: CatalogSnapshot, *, unmeasured: bool = False) -> HostReach:
    """What processors of a host reach of their peaks with a release of an engine.

    Spreads are those of kernels, or of ``unmeasured`` ones, where nothing else says how unsure it
    is what lies outside the accelerator.
    """
    found = processors_calibration(snapshot, release)
    hardware, wider = found.hardware, found.widening if unmeasured else NO_WIDENING
    return HostReach(
        matrix_ratio=float(hardware.matrix_ratio[16]),
        memory_ratio=float(hardware.memory_ratio),
        matrix_log_sigma=float(hardware.prefill_log_sigma * hypot(1.0, wider.compute_spread_ratio)),
        memory_log_sigma=float(hardware.decode_log_sigma * hypot(1.0, wider.memory_spread_ratio)),
    )


def computed_by_host(
    tiers: MemoryTiers, serving: ServingRequest, release: EngineRelease, snapshot: CatalogSnapshot
) -> MemoryTiers:
    """The same tiers for an engine whose host computes what lies in its memory, if it does.

    Where the request names none, that memory is the one of the platform.
    """
    if snapshot.engines[release.engine].value.offloaded != "host":
        return tiers
    shared = tiers.shared
    if not serving.memory_tiers:
        shared = tuple(
            replace(one, id=_HOST_MEMORY, capacity_bytes=inf, of_platform=True) for one in shared
        )
    return replace(tiers, shared=shared, reach=_reach(release.key, snapshot))


def _layers_warnings(accelerator: Accelerator, tiers: MemoryTiers) -> Iterator[EstimateWarning]:
    """What to say where processors compute what lies in memory of the host."""
    platform = accelerator.platform
    for tier in tiers.shared:
        if tier.kind != "host":
            continue
        peak = tier.peak_bytes_per_s(platform).value
        yield EstimateWarning(
            "layers_on_host",
            f"the processors of {platform.name} compute what lies in {tier.id}, at "
            f"{peak / 1e9:.0f} GB/s of memory bandwidth and one layer after the other; for steps "
            "of 32 tokens and more it is copied to the accelerator. No measurements of this were "
            "fitted; stating the memory and the platform narrows the intervals",
        )


def _experts_warning(accelerator: Accelerator, memory: SharedTier) -> EstimateWarning:
    return EstimateWarning(
        "experts_on_host",
        f"the processors of {accelerator.platform.name} compute the routed experts, at "
        f"{memory.bandwidth_bytes_per_s / 1e9:.0f} GB/s of memory bandwidth. No measurements of "
        "this were fitted, so intervals are wide; stating the memory and the platform narrows them",
    )


def tiers_around(
    serving: ServingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> MemoryTiers | None:
    """The tiers that a request names, whatever accelerator they will stand beside.

    Notes problems of tiers that are unknown or whose bandwidth is.
    """
    named = _named_tiers(serving, snapshot, problems)
    if not named:
        return None
    return MemoryTiers(_shared_tiers(named), _offload(serving, None))


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
        if entry.value.bandwidth_bytes_per_s is None and wanted.link_bytes_per_s is None:
            problems.add(
                pointer, f"the bandwidth of {entry.id} is not known; give link_bytes_per_s"
            )
            continue
        found.append((wanted, entry))
    return found


def _shared_tiers(
    named: Sequence[tuple[MemoryTierRequest, Entry[MemoryTier]]],
) -> tuple[SharedTier, ...]:
    """Tiers as they stand in the host; one before another holds what is usual, unless told."""
    last = len(named) - 1
    return tuple(
        shared_tier(asked, entry.value, usual=at < last) for at, (asked, entry) in enumerate(named)
    )


def _offload(serving: ServingRequest, engine: Engine | None) -> Offload:
    """What is moved out, and how it comes back: as asked for, or as an engine does."""
    chosen = serving.offload or OffloadRequest()
    way = None if engine is None else engine.offloaded
    whole = way == "whole" and bool(serving.memory_tiers) and serving.offload is None
    in_turn = way == "in-turn" and "overlap_ratio" not in chosen.model_fields_set
    return Offload(
        weights_ratio=1.0 if whole else chosen.weights_ratio,
        kv_cache_ratio=chosen.kv_cache_ratio,
        parked_sequences=float(chosen.parked_sequences),
        overlap_ratio=0.0 if in_turn else chosen.overlap_ratio,
        in_turn=in_turn,
    )


def _unknown_figures(
    tier: SharedTier,
    wanted: MemoryTierRequest,
    entry: Entry[MemoryTier],
    accelerator: Accelerator,
) -> Iterator[EstimateWarning]:
    """What to say of a tier beside an accelerator where a figure of either is not known."""
    if tier.link_bytes_per_s is None and host_link_bytes_per_s(accelerator) is None:
        yield EstimateWarning(
            "host_link_unknown",
            f"no bandwidth is published for the link between {accelerator.name} and its host: "
            f"{entry.value.name} is assumed to be read at its own bandwidth",
        )
    usual = entry.value.usual_capacity_bytes
    taken = None if usual is None or wanted.capacity_bytes is not None else usual * wanted.units
    if tier.capacity_bytes == taken:
        yield EstimateWarning(
            "tier_capacity_unknown",
            f"how much {tier.id} holds is not stated: it is assumed to be "
            f"{tier.capacity_bytes / 1e9:.0f} GB, as is usual, and the rest lies beyond",
        )
    elif tier.capacity_bytes == inf:
        yield EstimateWarning(
            "tier_capacity_unknown",
            f"no capacity of {tier.id} is stated: it is assumed to be enough",
        )


def shared_tier(asked: MemoryTierRequest, tier: MemoryTier, *, usual: bool = False) -> SharedTier:
    """A tier as it stands in the host; one whose bandwidth nobody states has that of its link.

    It holds as much as it can, or as is ``usual``, where nobody says.
    """
    capacity = asked.capacity_bytes
    unit = tier.usual_capacity_bytes if usual else None
    unit = tier.capacity_bytes if unit is None else unit
    if capacity is None and unit is not None:
        capacity = float(unit) * asked.units
    link = asked.link_bytes_per_s
    own = tier.bandwidth_bytes_per_s
    bandwidth = float(own) * asked.units if own is not None else float(link or inf)
    return SharedTier(
        id=tier.id,
        kind=tier.kind,
        capacity_bytes=inf if capacity is None else capacity,
        bandwidth_bytes_per_s=bandwidth,
        users=asked.shared_by,
        link_bytes_per_s=inf if link is None and tier.kind not in _LINKED else link,
        link_efficiency_ratio=asked.link_efficiency_ratio,
        worth=tier_worth(asked, tier),
    )


def tier_worth(asked: MemoryTierRequest, tier: MemoryTier) -> TierWorth:
    """What a tier costs to have, to make and to read: as stated, else as the catalog has it."""
    price, energy = asked.price_usd_per_gb, asked.energy_pj_per_bit
    return TierWorth(
        price_usd_per_gb=tier.price_usd_per_gb if price is None else exact(price),
        embodied_kgco2e_per_gb=tier.embodied_kgco2e_per_gb,
        energy_pj_per_bit=tier.energy_pj_per_bit if energy is None else exact(energy),
    )


def worth_warnings(
    tier_id: str, beside_machine: bool, worth: TierWorth
) -> Iterator[EstimateWarning]:
    """What of a tier is left out of totals because nobody states it."""
    if worth.energy_pj_per_bit is None:
        yield EstimateWarning(
            "tier_energy_unknown",
            f"the energy of moving a bit of {tier_id} is unpublished: that of its traffic is left "
            "out of the totals until you state it",
        )
    if not beside_machine:
        return
    if worth.price_usd_per_gb is None:
        yield EstimateWarning(
            "tier_price_unknown",
            f"no price of {tier_id} is known: it is left out of the cost of owning until you state "
            "it",
        )
    if worth.embodied_kgco2e_per_gb is None:
        yield EstimateWarning(
            "tier_making_unknown",
            f"the manufacturing of {tier_id} is unpublished and left out of embodied emissions",
        )


def tier_warnings(tiers: InferenceTiers) -> list[EstimateWarning]:
    """What a careful colleague would say of the placement."""
    said: list[EstimateWarning] = []
    if not tiers.fits:
        missing = tiers.unplaced_bytes.value / 1e9
        said.append(
            EstimateWarning(
                "tiers_too_small",
                f"the memory outside the accelerators is also too small, by {missing:.1f} GB per "
                "accelerator: speed is given as if everything fitted",
            )
        )
    elif tiers.slowdown_ratio.value > _MUCH_SLOWER_RATIO:
        said.append(
            EstimateWarning(
                "tiers_slow_steps",
                "reading from memory outside the accelerator makes memory-bound steps "
                f"{tiers.slowdown_ratio.value:.1f} times as long",
            )
        )
    return said


#: Past this, people should look twice.
_MUCH_SLOWER_RATIO = 1.5
