"""Routed experts that the processors of the host compute, beside accelerators that do the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.core.elementwise import Number, log
from service.core.interval import Z_90, Interval, scale
from service.core.stacking import FIGURE


@dataclass(frozen=True, slots=True)
class HostProcessors:
    """What processors reach with products of experts, all of one host together.

    ``flops_per_s`` [FLOP/s] with 16-bit operands, which they widen narrower weights to, and
    ``bytes_per_s`` [B/s] of the memory that holds the weights.
    """

    flops_per_s: Interval = field(metadata=FIGURE)
    bytes_per_s: Interval = field(metadata=FIGURE)

    def of_one(self, users: Number) -> HostProcessors:
        """The part of one of so many accelerators that have their experts computed."""
        return HostProcessors(
            scale(self.flops_per_s, 1.0 / users), scale(self.bytes_per_s, 1.0 / users)
        )

    @property
    def log_sigmas(self) -> tuple[Number, Number]:
        """Spreads of the time of arithmetic, and of that of reading weights [-]."""
        return _log_sigma(self.flops_per_s), _log_sigma(self.bytes_per_s)


def _log_sigma(rate: Interval) -> Number:
    spread: Number = log(rate.high / rate.low) / 2.0 / Z_90
    return spread
