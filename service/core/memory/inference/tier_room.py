"""Room in an accelerator beside which other memory stands, and what the accelerator holds."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, maximum, minimum, where
from service.core.interval import Interval, shift
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.tiers import InferenceTiers


@dataclass(frozen=True, slots=True)
class RoomWithTiers:
    """The figures of :class:`InferenceMemory` that change where tiers take what has no room.

    Sequences and tokens that were asked for have room if everything has a place; how many more the
    tiers could take is not computed.
    """

    tiers: InferenceTiers

    @property
    def memory(self) -> InferenceMemory:
        """What is needed, wherever it lies."""
        return self.tiers.memory

    @property
    def headroom_bytes(self) -> Interval:
        """What stays free in the accelerator; below zero by what has no place anywhere [B]."""
        room = shift(self.memory.room_bytes, self.memory.weights_bytes.value)
        used, lacking = self.tiers.used_bytes[0], self.tiers.unplaced_bytes

        def free(room: Number, used: Number, lacking: Number) -> Number:
            return where(lacking > 0.0, -lacking, maximum(room - used, 0.0))

        return Interval(
            free(room.value, used.value, lacking.value),
            free(room.low, used.value, lacking.high),
            free(room.high, used.high, lacking.low),
        )

    @property
    def shortfall_bytes(self) -> Interval:
        """What has no place anywhere [B]."""
        return self.tiers.unplaced_bytes

    @property
    def allocated_bytes(self) -> Interval:
        """What tensors take of the accelerator at the peak of a step [B]."""
        return self._inside(self.memory.allocated_bytes)

    @property
    def reserved_bytes(self) -> Interval:
        """The same with what the allocator holds beyond it [B]."""
        return self._inside(self.memory.reserved_bytes)

    @property
    def process_bytes(self) -> Interval:
        """What the process takes of the accelerator [B]."""
        held = self.memory.process_bytes
        return held if self.memory.engine.fills_share else self._inside(held)

    def _inside(self, everywhere: Interval) -> Interval:
        """A size without what lies outside the accelerator, whose memory bounds it."""
        memory = self.memory
        inside = memory.engine.sized(everywhere.value - self.tiers.outside_bytes)

        def held(everywhere: Number, inside: Number) -> Number:
            return where(self.tiers.spilled, minimum(inside, memory.capacity_bytes), everywhere)

        return Interval(
            held(everywhere.value, inside.value),
            held(everywhere.low, inside.low),
            held(everywhere.high, inside.high),
        )

    @property
    def kv_cache_bytes_per_token(self) -> Number:
        """Size of the next token at the workload's length [B]."""
        return self.memory.kv_cache_bytes_per_token

    @property
    def kv_cache_capacity_tokens(self) -> Interval:
        """Tokens of all sequences of one replica that have room [token]."""
        asked = self.memory.tokens * self.memory.concurrency_per_replica
        return self._at_least(asked, self.memory.kv_cache_capacity_tokens)

    @property
    def max_concurrency(self) -> Interval:
        """Sequences that have room, over all replicas [-]."""
        return self._at_least(self.memory.workload.concurrency, self.memory.max_concurrency)

    @property
    def max_context_tokens(self) -> Interval:
        """The longest sequence that has room at the workload's concurrency [token]."""
        return self._at_least(self.memory.tokens, self.memory.max_context_tokens)

    def _at_least(self, asked: Number, inside: Interval) -> Interval:
        def room(inside: Number) -> Number:
            return where(self.tiers.fits, maximum(inside, asked * 1.0), inside)

        return Interval(room(inside.value), room(inside.low), room(inside.high))
