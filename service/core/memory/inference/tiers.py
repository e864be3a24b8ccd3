"""Inference with memory beyond the accelerator: what lives where, and what that costs a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from service.core.deployment import Accelerator
from service.core.elementwise import Label, Number, Truth, both, maximum, minimum, where
from service.core.interval import Interval, certainty_of, exact, scale, shift
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.parts import EXPERTS, experts_touched_ratio, inference_parts
from service.core.memory.placement import Placement, Room, place
from service.core.memory.tiers import (
    UNKNOWN_WORTH,
    TierWorth,
    Traffic,
    copied_in_turn,
    effective_bandwidth,
    free_share,
    shared_bandwidth,
    step_time_s,
)
from service.core.performance.calibration import COPIED_TOKENS
from service.core.performance.host_experts import HostProcessors, HostReach
from service.core.platform import Platform

#: Prefetching hides anything from nothing to all but the slowest tier; the value is halfway.
USUAL_OVERLAP_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class OutsideTier:
    """Memory beside the accelerator's own: the part of it that one accelerator may use.

    ``kind`` is that of :class:`~service.core.memory.tiers.MemoryTier`; a capacity without bound
    is infinite [B], the bandwidth is what arrives at the accelerator [B/s].
    """

    id: str
    kind: str
    capacity_bytes: Number
    bandwidth_bytes_per_s: Number
    worth: TierWorth

    @property
    def beside_machine(self) -> bool:
        """Whether it comes on top of the machine, which has its host's memory."""
        return beside_machine(self.kind)


@dataclass(frozen=True, slots=True)
class SharedTier:
    """Memory of a host, a pool or drives, before it is divided among the accelerators that use it.

    Capacity and bandwidth are of all of it; infinite capacity has no bound. That ``of_platform``
    has the bandwidth of the platform's host memory, where that is known. ``users`` of None are
    all accelerators of the deployment that one host holds; a ``link_bytes_per_s`` of None is the
    accelerator's own to its host, of which ``link_efficiency_ratio`` is reached.
    """

    id: str
    kind: str
    capacity_bytes: float
    bandwidth_bytes_per_s: Number
    users: int | None = None
    link_bytes_per_s: float | None = None
    link_efficiency_ratio: float = 1.0
    worth: TierWorth = UNKNOWN_WORTH
    of_platform: bool = False

    @property
    def beside_machine(self) -> bool:
        """Whether it comes on top of the machine, which has its host's memory."""
        return beside_machine(self.kind)

    def peak_bytes_per_s(self, platform: Platform) -> Interval:
        """What all of it delivers in a machine of a platform [B/s]."""
        own = platform.host_memory_bandwidth_bytes_per_s if self.of_platform else None
        return exact(self.bandwidth_bytes_per_s) if own is None else own

    def seen(
        self, users: Number, link_bytes_per_s: Number, *, in_turn: bool = False
    ) -> OutsideTier:
        """The part of one of so many users, through a link [B/s].

        Where layers are copied ``in_turn`` its bytes pass through memory of the host, unless
        somebody states what arrives.
        """
        sharing = users if self.users is None else self.users
        link = link_bytes_per_s if self.link_bytes_per_s is None else self.link_bytes_per_s
        own = self.bandwidth_bytes_per_s
        arriving = shared_bandwidth(own, sharing, link * self.link_efficiency_ratio)
        if in_turn and self.link_bytes_per_s is None:
            arriving = copied_in_turn(
                own / sharing, link * self.link_efficiency_ratio, mapped=self.kind == "storage"
            )
        return OutsideTier(
            id=self.id,
            kind=self.kind,
            capacity_bytes=self.capacity_bytes / sharing,
            bandwidth_bytes_per_s=arriving,
            worth=self.worth,
        )


@dataclass(frozen=True, slots=True)
class Offload:
    """What is moved out whether there is room or not.

    ``to`` is the position of the tier that takes those shares of weights and caches; caches of
    ``parked_sequences``, idle conversations of all replicas, go wherever there is room.
    ``overlap_ratio`` is how much of the slower transfers prefetching hides; ends take it at 0 and
    at 1, but for layers that are copied ``in_turn``, where it holds as it is.
    """

    weights_ratio: float = 0.0
    kv_cache_ratio: float = 0.0
    parked_sequences: float = 0.0
    to: int = 0
    overlap_ratio: float = USUAL_OVERLAP_RATIO
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class TierContent:
    """What a tier holds, by part [B], and what a decoding step reads of it."""

    name: str
    parts_bytes: Mapping[str, Number]
    stored_bytes: Number
    touched_bytes: Number
    bandwidth_bytes_per_s: Number
    time_s: Number


@dataclass(frozen=True, slots=True)
class MemoryTiers:
    """Memory around an accelerator, in the order in which it was named, and what is moved there.

    Where there are ``processors``, they compute routed experts, all of which lie in the first.
    With a ``reach``, processors that reach so much compute what lies in memory of the host in steps
    of few tokens, and others copy it, one tier after the other.
    """

    shared: tuple[SharedTier, ...]
    offload: Offload
    processors: HostProcessors | None = None
    reach: HostReach | None = None


@dataclass(frozen=True, slots=True)
class InferenceTiers:
    """Where everything lives on the fullest accelerator, and what a decoding step reads.

    The first of ``used_bytes``, ``rooms`` and the placement's tiers is the accelerator, the others
    are those of ``outside``. ``fits`` says whether everything has a place, ``fits_certainty`` the
    same of the whole interval: "yes", "likely", "unlikely" or "no". ``bandwidth_bytes_per_s`` is
    what all tiers together amount to [B/s], and ``slowdown_ratio`` how much longer a step reads
    than with room for everything in the accelerator; where something has no place, they are as if
    there were room. ``processors`` compute the experts, none of which the accelerator then reads:
    an accelerator's part of those of its host. Where processors compute what lies in memory of the
    host, ``host_bytes_per_s`` is how fast, by tier outside and None for others, and
    ``copying_bytes_per_s`` what all tiers amount to for steps that copy it [B/s].
    """

    memory: InferenceMemory
    outside: tuple[OutsideTier, ...]
    offload: Offload
    rooms: tuple[Room, ...]
    placement: Placement
    used_bytes: tuple[Interval, ...]
    unplaced_bytes: Interval
    fits: Truth
    fits_certainty: Label
    bandwidth_bytes_per_s: Interval
    slowdown_ratio: Interval
    processors: HostProcessors | None = None
    host_bytes_per_s: tuple[Interval | None, ...] = ()
    copying_bytes_per_s: Interval | None = None

    @property
    def effective_bandwidth(self) -> Interval | None:
        """Bandwidth that all tiers together amount to; None if something has no place [B/s]."""
        return self.bandwidth_bytes_per_s if self.fits else None

    @property
    def overlap_ratio(self) -> float:
        """Share of slower transfers that a decoding step hides; none where hosts compute [-]."""
        return self.offload.overlap_ratio if self.copying_bytes_per_s is None else 0.0

    @property
    def outside_bytes(self) -> Number:
        """What all tiers outside hold for one accelerator [B]."""
        return sum(self.placement.stored_bytes(index) for index in range(1, len(self.rooms)))

    @property
    def spilled(self) -> Truth:
        """Whether everything has a place because a part of it lies outside the accelerator."""
        return both(self.fits, self.outside_bytes > _NOTHING_BYTES)

    def held_outside(self, kinds: Iterable[str]) -> Interval:
        """Bytes in tiers of some kinds, for all accelerators together [B]."""
        wanted = set(kinds)
        held = [
            used
            for tier, used in zip(self.outside, self.used_bytes[1:], strict=True)
            if tier.kind in wanted
        ]
        count = self.memory.deployment.parallelism.accelerator_count
        # Together, because one accelerator's size decides all of them.
        return Interval(
            count * sum(used.value for used in held),
            count * sum(used.low for used in held),
            count * sum(used.high for used in held),
        )

    def free_share_ratio(self, tier: int) -> Number:
        """Share of a step's traffic that a tier outside could deliver hidden by the others."""
        return free_share(
            self.rooms[0].bandwidth_bytes_per_s, self.rooms[tier].bandwidth_bytes_per_s
        )

    def traffic(self) -> tuple[Traffic, ...]:
        """What a decoding step reads of each tier; by processors of the host what they compute."""
        rates = [None if each is None else each.value for each in self.host_bytes_per_s]
        read = _traffic(self.placement, self.rooms, rates)
        if self.processors is None:
            return read
        own = Traffic(read[1].touched_bytes, self.processors.bytes_per_s.value)
        return (read[0], own, *read[2:])

    @property
    def drives_ratio(self) -> Number:
        """Share of the time in which a decoding step reads that drives take [-]."""
        times = [one.time_s for one in self.traffic()]
        drives = [
            time_s
            for tier, time_s in zip(self.outside, times[1:], strict=True)
            if tier.kind == "storage"
        ]
        return sum(drives) / maximum(sum(times), _LEAST_S)

    @property
    def computed_ratio(self) -> Number:
        """Share of the time for what lies outside in which processors compute, not wait [-]."""
        times = [one.time_s for one in self.traffic()[1:]]
        computed = [
            time_s for tier, time_s in zip(self.outside, times, strict=True) if tier.kind == "host"
        ]
        return sum(computed) / maximum(sum(times), _LEAST_S)

    @property
    def room_bytes(self) -> Number:
        """Room for weights and caches in the accelerator [B]."""
        return self.rooms[0].capacity_bytes

    @property
    def contents(self) -> tuple[TierContent, ...]:
        """What each tier holds, the accelerator's memory first."""
        names = ("accelerator", *(tier.id for tier in self.outside))
        contents = []
        for index, (name, traffic) in enumerate(zip(names, self.traffic(), strict=True)):
            parts: dict[str, Number] = {}
            for item in self.placement.of(index):
                parts[item.name] = parts.get(item.name, 0.0) + item.stored_bytes
            contents.append(
                TierContent(
                    name=name,
                    parts_bytes=parts,
                    stored_bytes=self.placement.stored_bytes(index),
                    touched_bytes=traffic.touched_bytes,
                    bandwidth_bytes_per_s=traffic.bandwidth_bytes_per_s,
                    time_s=traffic.time_s,
                )
            )
        return tuple(contents)

    @property
    def touched_bytes(self) -> dict[str, Number]:
        """What a step touches of each tier [B]."""
        return {tier.name: tier.touched_bytes for tier in self.contents}

    @property
    def time_s(self) -> dict[str, Number]:
        """How long a step reads each tier [s]."""
        return {tier.name: tier.time_s for tier in self.contents}


def beside_machine(kind: str) -> bool:
    """Whether memory of a kind comes on top of the machine, which has its host's memory."""
    return kind != "host"


def inference_tiers(
    memory: InferenceMemory, tiers: MemoryTiers, copies: Number = 1.0
) -> InferenceTiers:
    """Place weights and caches of an inference deployment in the accelerator and outside it.

    Activations and what libraries hold stay in the accelerator.

    Parameters
    ----------
    memory
        What the fullest accelerator needs.
    tiers
        The memory around it, and what is moved there regardless.
    copies
        Deployments like this one that share the load and stand side by side: they share hosts [-].

    Returns
    -------
    InferenceTiers
        Placement, verdict, and the bandwidth that the tiers together amount to.
    """
    accelerator, offload = memory.deployment.accelerator, tiers.offload
    users = minimum(
        memory.deployment.parallelism.accelerator_count * copies,
        accelerator.scale_up_domain_accelerators,
    )
    link = host_link_bytes_per_s(accelerator)
    peaks = [tier.peak_bytes_per_s(accelerator.platform) for tier in tiers.shared]
    outside = tuple(
        replace(tier, bandwidth_bytes_per_s=peak.value).seen(
            users, inf if link is None else link, in_turn=offload.in_turn
        )
        for tier, peak in zip(tiers.shared, peaks, strict=True)
    )
    computed = tiers.processors is not None
    parts = inference_parts(memory, offload, copies, experts_outside=computed)
    bandwidth = accelerator.memory_bandwidth_bytes_per_s
    others = [Room(tier.capacity_bytes, tier.bandwidth_bytes_per_s) for tier in outside]
    budget = shift(memory.room_bytes, memory.weights_bytes.value)
    # Weights and caches cannot make up for other parts that are too large by themselves.
    lacking = Interval(*(maximum(-room, 0.0) for room in (budget.value, budget.high, budget.low)))

    def placed(room: Number) -> tuple[tuple[Room, ...], Placement]:
        rooms = (Room(maximum(room, 0.0), bandwidth), *others)
        return rooms, place(parts, rooms)

    rooms, placement = placed(budget.value)
    _, narrow = placed(budget.low)
    _, wide = placed(budget.high)
    used = tuple(
        _spread(*(each.stored_bytes(index) for each in (placement, narrow, wide)))
        for index in range(len(rooms))
    )
    unplaced = _spread(
        placement.stored_bytes(None) + lacking.value,
        narrow.stored_bytes(None) + lacking.high,
        wide.stored_bytes(None) + lacking.low,
    )
    fits = both(placement.fits, lacking.value == 0.0)
    read = placement.without(EXPERTS) if computed else placement
    together, slowdown = _speed(read, rooms, offload, fits)
    rates: tuple[Interval | None, ...] = ()
    copying = None
    if tiers.reach is not None and not accelerator.unified_memory:
        # Stages of which each holds layers take turns at the processors.
        takers = maximum(users / memory.deployment.parallelism.pipeline, 1.0)
        rates = tuple(
            _computed(memory, placement, at, peak, tiers.reach, tier.users or takers)
            if tier.kind == "host"
            else None
            for at, (tier, peak) in enumerate(zip(tiers.shared, peaks, strict=True), 1)
        )
        copying, _ = _speed(read, rooms, replace(offload, overlap_ratio=0.0), fits)
        together, slowdown = _decoding(read, rooms, rates, fits)
    return InferenceTiers(
        memory=memory,
        outside=outside,
        offload=offload,
        rooms=rooms,
        placement=placement,
        used_bytes=used,
        unplaced_bytes=unplaced,
        fits=fits,
        fits_certainty=certainty_of(fits, both(narrow.fits, lacking.high == 0.0), wide.fits),
        bandwidth_bytes_per_s=together,
        slowdown_ratio=slowdown,
        processors=None if tiers.processors is None else tiers.processors.of_one(users),
        host_bytes_per_s=rates,
        copying_bytes_per_s=copying,
    )


def _computed(
    memory: InferenceMemory,
    placement: Placement,
    tier: int,
    peak_bytes_per_s: Interval,
    reach: HostReach,
    takers: Number,
) -> Interval:
    """How fast processors work through what a step of decoding touches of a tier [B/s].

    They read it from their memory or multiply it, whatever takes longer; those of which nobody
    says how fast they multiply are taken to keep up.
    """
    read = scale(reach.reading(peak_bytes_per_s), 1.0 / takers)
    peak = memory.deployment.accelerator.platform.host_matrix_flops_per_s
    if peak is None:
        return read
    # Steps of more copy what lies there.
    sequences = minimum(maximum(memory.concurrency_per_replica * 1.0, 1.0), COPIED_TOKENS)
    one, all_of_them = (experts_touched_ratio(memory, count) for count in (1.0, sequences))
    rows = {EXPERTS: sequences * one / all_of_them, "other_weights": sequences}
    bytes_per_weight = memory.deployment.precision.weights.bits_per_element / 8.0
    flops: Number = 0.0
    for item in placement.of(tier):
        products = item.touched_bytes / bytes_per_weight * rows.get(item.name, 0.0)
        flops = flops + 2.0 * products
    # A byte and an operation at least, where there is nothing to do.
    intensity = maximum(flops, 1.0) / maximum(placement.touched_bytes(tier), 1.0)
    multiplied = scale(reach.multiplying(peak), 1.0 / takers)
    return Interval(
        minimum(read.value, multiplied.value / intensity),
        minimum(read.low, multiplied.low / intensity),
        minimum(read.high, multiplied.high / intensity),
    )


def host_link_bytes_per_s(accelerator: Accelerator) -> Number | None:
    """What an accelerator reads of its host at most [B/s].

    Infinite where both share one memory, None where it is not known.
    """
    return inf if accelerator.unified_memory else accelerator.host_link_bandwidth_bytes_per_s


def _traffic(
    placement: Placement, rooms: Sequence[Room], outside: Sequence[Number | None] = ()
) -> tuple[Traffic, ...]:
    """What is read of each tier, by processors at the rates of those outside that are given."""
    rates = dict(enumerate(outside, 1))
    return tuple(
        Traffic(
            placement.touched_bytes(index), room.bandwidth_bytes_per_s if rate is None else rate
        )
        for index, room in enumerate(rooms)
        for rate in (rates.get(index),)
    )


def _decoding(
    placement: Placement, rooms: Sequence[Room], rates: Sequence[Interval | None], fits: Truth
) -> tuple[Interval, Interval]:
    """As :func:`_speed`, where processors of the host work in turn with the accelerator."""
    own = rooms[0].bandwidth_bytes_per_s

    def bandwidth(end: str) -> Number:
        outside = [None if each is None else getattr(each, end) for each in rates]
        return where(fits, effective_bandwidth(_traffic(placement, rooms, outside)), own)

    together = Interval(*map(bandwidth, ("value", "low", "high")))
    slower = Interval(*(own / each for each in (together.value, together.high, together.low)))
    return together, slower


def _speed(
    placement: Placement, rooms: Sequence[Room], offload: Offload, fits: Truth
) -> tuple[Interval, Interval]:
    """Bandwidth with tiers, and how much longer a step is than with one tier for everything."""
    traffic = _traffic(placement, rooms)
    own = rooms[0].bandwidth_bytes_per_s
    alone = 1.0 / maximum(sum(tier.touched_bytes for tier in traffic) / own, _LEAST_S)

    def bandwidth(hidden: float) -> Number:
        return where(fits, effective_bandwidth(traffic, hidden), own)

    def slowdown(hidden: float) -> Number:
        return where(fits, step_time_s(traffic, hidden) * alone, 1.0)

    usual = offload.overlap_ratio
    least, most = (usual, usual) if offload.in_turn else (0.0, 1.0)
    return (
        Interval(bandwidth(usual), bandwidth(least), bandwidth(most)),
        Interval(slowdown(usual), slowdown(most), slowdown(least)),
    )


#: Less than this outside is rounding [B].
_NOTHING_BYTES = 1e-3
#: Stands for no time where something is divided by it [s].
_LEAST_S = 1e-300


def _spread(value: Number, one: Number, other: Number) -> Interval:
    return Interval(value, minimum(minimum(value, one), other), maximum(maximum(value, one), other))
