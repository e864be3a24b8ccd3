"""Inference with memory beyond the accelerator: what lives where, and what that costs a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from service.core.architecture.model import MixtureOfExperts
from service.core.architecture.tensors import TensorClass
from service.core.deployment import Accelerator
from service.core.elementwise import Label, Number, Truth, both, ceil, maximum, minimum, where
from service.core.interval import Interval, certainty_of, shift
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.placement import Part, Placement, Room, place
from service.core.memory.tiers import (
    UNKNOWN_WORTH,
    TierWorth,
    Traffic,
    effective_bandwidth,
    free_share,
    shared_bandwidth,
    step_time_s,
)
from service.core.performance.host_experts import HostProcessors

#: What the part of routed experts is called.
_EXPERTS = "expert_weights"
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

    Capacity and bandwidth are of all of it; infinite capacity has no bound. ``users`` of None are
    all accelerators of the deployment that one host holds; a ``link_bytes_per_s`` of None is the
    accelerator's own to its host, of which ``link_efficiency_ratio`` is reached.
    """

    id: str
    kind: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    users: int | None = None
    link_bytes_per_s: float | None = None
    link_efficiency_ratio: float = 1.0
    worth: TierWorth = UNKNOWN_WORTH

    @property
    def beside_machine(self) -> bool:
        """Whether it comes on top of the machine, which has its host's memory."""
        return beside_machine(self.kind)

    def seen(self, users: Number, link_bytes_per_s: Number) -> OutsideTier:
        """The part of one of so many users, through a link [B/s]."""
        sharing = users if self.users is None else self.users
        link = link_bytes_per_s if self.link_bytes_per_s is None else self.link_bytes_per_s
        return OutsideTier(
            id=self.id,
            kind=self.kind,
            capacity_bytes=self.capacity_bytes / sharing,
            bandwidth_bytes_per_s=shared_bandwidth(
                self.bandwidth_bytes_per_s, sharing, link * self.link_efficiency_ratio
            ),
            worth=self.worth,
        )


@dataclass(frozen=True, slots=True)
class Offload:
    """What is moved out whether there is room or not.

    ``to`` is the position of the tier that takes those shares of weights and caches; caches of
    ``parked_sequences``, idle conversations of all replicas, go wherever there is room.
    ``overlap_ratio`` is how much of the slower transfers prefetching hides; ends take it at 0 and
    at 1.
    """

    weights_ratio: float = 0.0
    kv_cache_ratio: float = 0.0
    parked_sequences: float = 0.0
    to: int = 0
    overlap_ratio: float = USUAL_OVERLAP_RATIO


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
    """

    shared: tuple[SharedTier, ...]
    offload: Offload
    processors: HostProcessors | None = None


@dataclass(frozen=True, slots=True)
class InferenceTiers:
    """Where everything lives on the fullest accelerator, and what a decoding step reads.

    The first of ``used_bytes``, ``rooms`` and the placement's tiers is the accelerator, the others
    are those of ``outside``. ``fits`` says whether everything has a place, ``fits_certainty`` the
    same of the whole interval: "yes", "likely", "unlikely" or "no". ``bandwidth_bytes_per_s`` is
    what all tiers together amount to [B/s], and ``slowdown_ratio`` how much longer a step reads
    than with room for everything in the accelerator; where something has no place, they are as if
    there were room. ``processors`` compute the experts, none of which the accelerator then reads:
    an accelerator's part of those of its host.
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

    @property
    def effective_bandwidth(self) -> Interval | None:
        """Bandwidth that all tiers together amount to; None if something has no place [B/s]."""
        return self.bandwidth_bytes_per_s if self.fits else None

    @property
    def outside_bytes(self) -> Number:
        """What all tiers outside hold for one accelerator [B]."""
        return sum(self.placement.stored_bytes(index) for index in range(1, len(self.rooms)))

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
        """What a step reads of each tier; experts, by the processors of the host."""
        read = _traffic(self.placement, self.rooms)
        if self.processors is None:
            return read
        own = Traffic(read[1].touched_bytes, self.processors.bytes_per_s.value)
        return (read[0], own, *read[2:])

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
    outside = tuple(tier.seen(users, inf if link is None else link) for tier in tiers.shared)
    computed = tiers.processors is not None
    parts = inference_parts(memory, offload, copies, experts_outside=computed)
    bandwidth = accelerator.memory_bandwidth_bytes_per_s
    others = [Room(tier.capacity_bytes, tier.bandwidth_bytes_per_s) for tier in outside]
    budget = shift(memory.kv_cache_budget_bytes, memory.weights_bytes.value)
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
    read = placement.without(_EXPERTS) if computed else placement
    together, slowdown = _speed(read, rooms, offload.overlap_ratio, fits)
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
    )


def host_link_bytes_per_s(accelerator: Accelerator) -> Number | None:
    """What an accelerator reads of its host at most [B/s].

    Infinite where both share one memory, None where it is not known.
    """
    return inf if accelerator.unified_memory else accelerator.host_link_bandwidth_bytes_per_s


def inference_parts(
    memory: InferenceMemory,
    offload: Offload,
    copies: Number = 1.0,
    *,
    experts_outside: bool = False,
) -> list[Part]:
    """What a decoding step stores and touches on the fullest accelerator.

    All weights and caches of running sequences are read once, but of the embedding table only the
    rows of the step's tokens, and of routed experts those that some token chose. Parked sequences
    are divided among the replicas of all ``copies`` of the deployment. With ``experts_outside`` all
    routed experts lie in the first tier.

    References
    ----------
    Expected share of experts in use when each of B tokens picks k of E: 1 − (1 − k/E)^B.
    """
    architecture = memory.deployment.architecture
    sequences = maximum(memory.concurrency_per_replica * 1.0, 1.0)
    touched = {TensorClass.EXPERT: _experts_touched_ratio(memory, sequences)}
    if not architecture.tied_embeddings:
        touched[TensorClass.EMBEDDING] = minimum(sequences / architecture.vocab_size, 1.0)
    names = {TensorClass.EXPERT: _EXPERTS, TensorClass.EMBEDDING: "embedding_weights"}
    by_name: dict[str, tuple[Number, Number]] = {}
    for kind, size in memory.weights_by_class_bytes.items():
        name = names.get(kind, "other_weights")
        stored, read = by_name.get(name, (0.0, 0.0))
        by_name[name] = (stored + size, read + size * touched.get(kind, 1.0))
    parts: list[Part] = []
    for name, (stored, read) in by_name.items():
        moved_ratio = 1.0 if experts_outside and name == _EXPERTS else offload.weights_ratio
        parts += _divided(name, stored, read, moved_ratio, offload.to)
    cache = memory.kv_cache_bytes.value * 1.0
    parts += _divided("kv_cache", cache, cache, offload.kv_cache_ratio, offload.to)
    if offload.parked_sequences:
        each = memory.sequence_bytes - memory.shared_bytes
        parked = ceil(offload.parked_sequences / (memory.deployment.parallelism.data * copies))
        parts.append(Part("parked_kv_cache", parked * each, 0.0))
    return parts


def _divided(
    name: str, stored: Number, touched: Number, outside_ratio: float, tier: int
) -> list[Part]:
    """A part, or two where a share of it is bound to a tier outside."""
    moved = Part(name, stored * outside_ratio, touched * outside_ratio, tier + 1)
    stays = Part(name, stored * (1.0 - outside_ratio), touched * (1.0 - outside_ratio))
    return [part for part in (moved, stays) if np.any(part.stored_bytes)]


def _experts_touched_ratio(memory: InferenceMemory, sequences: Number) -> Number:
    parallelism = memory.deployment.parallelism
    if parallelism.expert > parallelism.tensor:
        sequences = sequences * parallelism.data
    held, read = 0.0, 0.0 * sequences
    for group in memory.deployment.architecture.groups:
        if isinstance(group.feed_forward, MixtureOfExperts):
            experts = group.feed_forward
            size = group.count * sum(
                tensor.elements
                for tensor in experts.tensors
                if tensor.tensor_class is TensorClass.EXPERT
            )
            missed = (1.0 - experts.experts_per_token / experts.experts) ** sequences
            held += size
            read = read + size * (1.0 - missed)
    return read / held if held else 1.0


def _traffic(placement: Placement, rooms: Sequence[Room]) -> tuple[Traffic, ...]:
    return tuple(
        Traffic(placement.touched_bytes(index), room.bandwidth_bytes_per_s)
        for index, room in enumerate(rooms)
    )


def _speed(
    placement: Placement, rooms: Sequence[Room], overlap_ratio: float, fits: Truth
) -> tuple[Interval, Interval]:
    """Bandwidth with tiers, and how much longer a step is than with one tier for everything."""
    traffic = _traffic(placement, rooms)
    own = rooms[0].bandwidth_bytes_per_s
    alone = 1.0 / maximum(sum(tier.touched_bytes for tier in traffic) / own, _LEAST_S)

    def bandwidth(hidden: float) -> Number:
        return where(fits, effective_bandwidth(traffic, hidden), own)

    def slowdown(hidden: float) -> Number:
        return where(fits, step_time_s(traffic, hidden) * alone, 1.0)

    return (
        Interval(bandwidth(overlap_ratio), bandwidth(0.0), bandwidth(1.0)),
        Interval(slowdown(overlap_ratio), slowdown(1.0), slowdown(0.0)),
    )


#: Stands for no time where something is divided by it [s].
_LEAST_S = 1e-300


def _spread(value: Number, one: Number, other: Number) -> Interval:
    return Interval(value, minimum(minimum(value, one), other), maximum(maximum(value, one), other))
