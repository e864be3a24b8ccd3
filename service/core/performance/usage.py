"""How hard an accelerator works, phase by phase: what its power follows from."""

from __future__ import annotations

from dataclasses import replace

from service.core.deployment import Accelerator
from service.core.elementwise import Number, is_nothing, maximum, minimum, where
from service.core.lightweight import lightweight
from service.core.performance.kernels import peak_flops_per_s

#: Matrix precision in which work is counted: the energy of an operation goes with its operands'
#: width, as does the time that it takes, so that time at this rate tells both.
_REFERENCE_PRECISION = "bf16"
_LEAST_STEP_S = 1e-12


@lightweight
class PhaseUse:
    """What one accelerator does in one phase, such as computing prompts or decoding.

    ``time_ratio`` is the share of busy time that the phase takes, ``kernel_ratio`` the share of
    it in which kernels compute rather than wait to be issued or for messages [-]: a collective that
    waits for its peers keeps few of the units at work. ``bytes_per_s`` go to or come from
    memory [B/s]. ``matrix_flops_per_s`` is how many operations of 16-bit operands would keep
    matrix units at work as long as those of the phase do, padding and widening of weights
    included [FLOP/s]. ``host_ratio`` is the share of it in which processors of the host compute
    in place of the accelerator [-].
    """

    time_ratio: Number
    kernel_ratio: Number
    bytes_per_s: Number
    matrix_flops_per_s: Number
    host_ratio: Number = 0.0


@lightweight
class Usage:
    """How hard one accelerator works while requests are in flight.

    ``memory_utilisation_ratio`` and ``compute_utilisation_ratio`` are shares of peak bandwidth and
    peak FLOP/s; ``busy_ratio`` is the share of time in which any request is in flight. ``phases``
    are the same while prompts are computed, and while tokens are decoded or a model is trained.
    """

    memory_utilisation_ratio: Number
    compute_utilisation_ratio: Number
    busy_ratio: Number
    phases: tuple[PhaseUse, ...]

    @property
    def computing_ratio(self) -> Number:
        """Share of time in which processors of the host compute [-]."""
        computing: Number = 0.0
        for one in self.phases:
            if not is_nothing(one.host_ratio):
                computing = computing + one.time_ratio * one.host_ratio
        return computing if is_nothing(computing) else self.busy_ratio * computing

    def less(self, share: Number, busy_ratio: Number) -> Usage:
        """The same where only a share of the work comes: decoding waits for whoever is there."""
        *prompts, last = self.phases
        decodes = last.time_ratio > 0.0
        fewer = [
            replace(one, time_ratio=one.time_ratio * where(decodes, share, 1.0)) for one in prompts
        ]
        taken = sum((one.time_ratio for one in fewer), 0.0)
        rest = replace(
            last,
            time_ratio=where(decodes, maximum(1.0 - taken, 0.0), 0.0),
            matrix_flops_per_s=last.matrix_flops_per_s * share,
        )
        return replace(
            self,
            compute_utilisation_ratio=self.compute_utilisation_ratio * share,
            busy_ratio=busy_ratio,
            phases=(*fewer, rest),
        )


def reference_flops_per_s(accelerator: Accelerator) -> Number:
    """Peak in which matrix work is counted; zero where no rate is known that could tell it."""
    try:
        return peak_flops_per_s(accelerator, _REFERENCE_PRECISION)[0]
    except ValueError:
        return 0.0


def phase_use(
    time_ratio: Number,
    total_s: Number,
    waiting_s: Number,
    memory_bytes: Number,
    matrix_s: Number,
    reference_flops_per_s: Number,
    host_s: Number = 0.0,
) -> PhaseUse:
    """What an accelerator does in a phase, from a step of it.

    Parameters
    ----------
    time_ratio
        Share of busy time in such steps [-].
    total_s, waiting_s, matrix_s
        Time of a step, of it the time in which nothing computes, and the time that matrix units
        would take alone [s].
    memory_bytes
        Bytes to and from memory in a step [B].
    reference_flops_per_s
        Dense peak for operands of 16 bits [FLOP/s].
    host_s
        Time of a step in which processors of the host compute [s].
    """
    # A phase that never comes has steps of no length.
    total_s = maximum(total_s, _LEAST_STEP_S)
    kernel_ratio = maximum(1.0 - waiting_s / total_s, 0.0)
    bytes_per_s = memory_bytes / total_s
    matrix_flops_per_s = minimum(matrix_s / total_s, 1.0) * reference_flops_per_s
    host_ratio = host_s if is_nothing(host_s) else minimum(host_s / total_s, 1.0)
    return PhaseUse(time_ratio, kernel_ratio, bytes_per_s, matrix_flops_per_s, host_ratio)
