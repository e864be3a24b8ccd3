"""Weights that the processors of the host multiply, beside accelerators that do the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.core.elementwise import Number, exp, hypot, log
from service.core.interval import Z_90, Interval, scale
from service.core.stacking import FIGURE


@dataclass(frozen=True, slots=True)
class HostProcessors:
    """What processors reach with products of weights, all of one host together.

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


@dataclass(frozen=True, slots=True)
class HostReach:
    """Shares of their datasheets' peaks that processors of a host reach, and their spreads [-]."""

    matrix_ratio: float
    memory_ratio: float
    matrix_log_sigma: float
    memory_log_sigma: float

    def multiplying(self, peak_flops_per_s: Interval) -> Interval:
        """Arithmetic that is reached with 16-bit operands [FLOP/s]."""
        return _reached(peak_flops_per_s, self.matrix_ratio, self.matrix_log_sigma)

    def reading(self, peak_bytes_per_s: Interval) -> Interval:
        """Bandwidth that is reached of the memory that holds the weights [B/s]."""
        return _reached(peak_bytes_per_s, self.memory_ratio, self.memory_log_sigma)


def _reached(peak: Interval, ratio: float, log_sigma: float) -> Interval:
    """What is reached of a peak, with its own interval and the spread of the share together."""
    factor = exp(Z_90 * hypot(_log_sigma(peak), log_sigma))
    value = peak.value * ratio
    return Interval(value, value / factor, value * factor)


def _log_sigma(rate: Interval) -> Number:
    spread: Number = log(rate.high / rate.low) / 2.0 / Z_90
    return spread
