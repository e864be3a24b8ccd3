"""What a forward step processes, and the time that it takes by what it is spent on."""

from __future__ import annotations

from dataclasses import fields

from service.core.elementwise import Number, Truth, is_nothing, maximum, where
from service.core.lightweight import lightweight
from service.core.performance.spread import TimeShares


@lightweight
class StepLoad:
    """What one step processes on one replica (or one rank of a data-parallel expert group).

    ``prefill_tokens`` new prompt tokens from ``prefill_sequences`` prompts, each token attending
    to ``prefill_context_tokens`` tokens on average, and ``decode_sequences`` sequences of
    ``decode_context_tokens`` tokens that each get one more token. New tokens of no prompt are
    drafted ones, which the step checks.
    """

    prefill_tokens: Number
    prefill_sequences: Number
    prefill_context_tokens: Number
    decode_sequences: Number
    decode_context_tokens: Number

    @property
    def tokens(self) -> Number:
        """Tokens that pass through the layers [token]."""
        if is_nothing(self.prefill_tokens):
            return self.decode_sequences
        return self.prefill_tokens + self.decode_sequences

    @property
    def prompts(self) -> Truth:
        """Whether there are any prompts."""
        return self.prefill_sequences * self.prefill_tokens > 0

    @property
    def sequences(self) -> Number:
        """Sequences that have any of them [-]."""
        if is_nothing(self.prefill_sequences):
            return self.decode_sequences
        return self.prefill_sequences + self.decode_sequences


@lightweight
class StepTime:
    """Time of a step [s] and what bounds it.

    ``compute_s`` is the time that arithmetic would take alone, summed over operators; ``work_s``
    what arithmetic and memory traffic take together, of which ``compute_bound_s`` in operators
    whose arithmetic takes longer; ``interconnect_s`` and ``overhead_s`` come on top, of which
    ``unsure_overhead_s`` is how much the step changes with the logarithm of what hosts take: more
    than shows where a host would hold up the accelerator that takes a little longer. Kernels that
    narrow activations for experts take up to ``narrowing_s`` of the overhead. It waits for what
    lies outside for ``host_s`` of the work, in ``processors_s`` of which processors of the host
    compute. ``flops`` and ``memory_bytes`` are per rank.

    Where experts are spread over ranks, time and bytes are those of the rank whose experts were
    chosen most. The average rank computes ``uneven_s`` less, moves ``uneven_bytes`` less, and
    waits. Its arithmetic keeps matrix units busy for ``idle_compute_s`` less than ``compute_s``:
    the rest is the other rank's, or they wait for their operands within a kernel.
    """

    total_s: Number
    work_s: Number
    compute_s: Number
    compute_bound_s: Number
    interconnect_s: Number
    overhead_s: Number
    flops: Number
    memory_bytes: Number
    unsure_overhead_s: Number = 0.0
    narrowing_s: Number = 0.0
    host_s: Number = 0.0
    uneven_s: Number = 0.0
    idle_compute_s: Number = 0.0
    uneven_bytes: Number = 0.0
    processors_s: Number = 0.0

    @property
    def waiting_s(self) -> Number:
        """Time in which the average rank computes nothing: it waits for hosts and others [s]."""
        own_s = maximum(self.overhead_s - self.narrowing_s, 0.0)
        return self.interconnect_s + own_s + self.host_s + self.uneven_s

    @property
    def mean_compute_s(self) -> Number:
        """How long arithmetic of the average rank keeps its units busy [s]."""
        return self.compute_s - self.idle_compute_s

    @property
    def mean_bytes(self) -> Number:
        """Bytes to and from memory of the average rank [B]."""
        return self.memory_bytes - self.uneven_bytes

    @property
    def shares(self) -> TimeShares:
        """What the time is spent on [-]."""
        whole_s = self.work_s + self.interconnect_s + self.overhead_s
        return TimeShares(
            self.compute_bound_s / whole_s,
            (self.work_s - self.compute_bound_s) / whole_s,
            self.interconnect_s / whole_s,
            self.unsure_overhead_s / whole_s,
        )

    def followed_by(self, other: StepTime, times: Number) -> StepTime:
        """The step and then so many of another."""
        return StepTime(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name) * times
                for each in fields(self)
            }
        )

    def unless(self, condition: Truth, other: StepTime) -> StepTime:
        """The step, or another one where a condition holds."""
        return StepTime(
            **{
                each.name: where(condition, getattr(other, each.name), getattr(self, each.name))
                for each in fields(self)
            }
        )

    def slowed(self, ratio: Number) -> StepTime:
        """The same work in a multiple of the time."""
        return StepTime(
            total_s=self.total_s * ratio,
            work_s=self.work_s * ratio,
            compute_s=self.compute_s * ratio,
            compute_bound_s=self.compute_bound_s * ratio,
            interconnect_s=self.interconnect_s * ratio,
            overhead_s=self.overhead_s * ratio,
            flops=self.flops,
            memory_bytes=self.memory_bytes,
            unsure_overhead_s=self.unsure_overhead_s * ratio,
            narrowing_s=self.narrowing_s * ratio,
            host_s=self.host_s * ratio,
            uneven_s=self.uneven_s * ratio,
            idle_compute_s=self.idle_compute_s * ratio,
            uneven_bytes=self.uneven_bytes,
            processors_s=self.processors_s * ratio,
        )
