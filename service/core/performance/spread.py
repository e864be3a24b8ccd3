"""How unsure a time is by what it is spent on.

Kernels that read memory or multiply matrices are held to a datasheet's peaks; what a host and a
network take is not, and where routed experts lie decides how evenly accelerators work. The spread
of a time is that of kernels, widened by the shares that are known less well.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import NamedTuple

from service.core.elementwise import Number, is_nothing, sqrt
from service.core.lightweight import computed_once, lightweight
from service.core.stacking import FIGURE


class TimeShares(NamedTuple):
    """Shares of a time by what it is spent on, which add up to one or, with other waits, less [-].

    ``compute_ratio`` are kernels bound by arithmetic, ``memory_ratio`` those bound by bandwidth;
    ``interconnect_ratio`` is what messages take and ``overhead_ratio`` what hosts do;
    ``outside_ratio`` is what reading memory outside the accelerator adds to reading its own.
    """

    compute_ratio: Number
    memory_ratio: Number
    interconnect_ratio: Number
    overhead_ratio: Number
    outside_ratio: Number = 0.0

    @property
    def waiting(self) -> Number:
        """Time in which accelerators wait for hosts and for each other [-]."""
        return self.interconnect_ratio + self.overhead_ratio

    def reading_outside(self, ratio: Number) -> TimeShares:
        """The same where a share ``ratio`` of the time of memory is owed to what lies outside."""
        if is_nothing(ratio):
            return self
        return self._replace(
            memory_ratio=self.memory_ratio * (1.0 - ratio), outside_ratio=self.memory_ratio * ratio
        )

    def mixed(self, other: TimeShares, ratio: Number) -> TimeShares:
        """Shares of a time of which a share ``ratio`` is spent as another one is."""
        if self is other:
            return self
        rest = 1.0 - ratio
        return TimeShares(
            self.compute_ratio * rest + other.compute_ratio * ratio,
            self.memory_ratio * rest + other.memory_ratio * ratio,
            self.interconnect_ratio * rest + other.interconnect_ratio * ratio,
            self.overhead_ratio * rest + other.overhead_ratio * ratio,
            self.outside_ratio * rest + other.outside_ratio * ratio,
        )


@lightweight
class Widening:
    """How much less well parts of a time are known than kernels of measured engines and hardware.

    All are standard deviations over that of such kernels, for a time that is spent so alone [-]:
    ``waiting_spread_ratio`` of waiting for hosts and messages, ``outside_spread_ratio`` of memory
    outside the accelerator, ``experts_spread_ratio`` of models with routed experts, whatever their
    time is spent on, ``choices_spread_ratio`` of what such models spend on anything but arithmetic,
    and by mechanism what constants add that nobody measured for the engine or the hardware. They
    are independent of each other.

    Which experts are chosen decides which matrices are read and whom ranks wait for. A token's
    arithmetic does not depend on it: it is sent to as many experts whichever they are.
    """

    waiting_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    outside_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    experts_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    choices_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    compute_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    memory_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    interconnect_spread_ratio: Number = field(default=0.0, metadata=FIGURE)
    overhead_spread_ratio: Number = field(default=0.0, metadata=FIGURE)

    def ratio(self, shares: TimeShares, routed: bool) -> Number:
        """Spread of a time over that of kernels that are known: at least one [-]."""
        square: Number = 1.0
        if routed:
            of_choices = self.choices_spread_ratio * (1.0 - shares.compute_ratio)
            square = square + self.experts_spread_ratio**2 + of_choices * of_choices
        for spread_ratio, place in self._by_share:
            part = spread_ratio * shares[place]
            square = square + part * part
        if self._waits:
            part = self.waiting_spread_ratio * shares.waiting
            square = square + part * part
        return sqrt(square)

    @computed_once
    def _by_share(self) -> tuple[tuple[Number, int], ...]:
        """Those of a share that are not a plain zero, with the place of the share."""
        found = (
            (getattr(self, name.replace("_ratio", "_spread_ratio")), place)
            for place, name in enumerate(TimeShares._fields)
        )
        return tuple((ratio, place) for ratio, place in found if not is_nothing(ratio))

    @computed_once
    def _waits(self) -> bool:
        return not is_nothing(self.waiting_spread_ratio)


#: What it adds to the spread of kernels that nobody measured any through an interface: SYCL, CANN,
#: OpenCL, and processors, of whose machines a datasheet does not tell how much memory is fitted, in
#: how many domains, and how many threads compute. What is known of them alone, at low confidence,
#: is off by a fifth to a half (geerlingguy, ai-benchmarks, 2024-2026: AmpereOne, Raspberry Pi 5, a
#: laptop's processors, Arc Pro B50): assumed, to within a factor of two [-].
UNDRIVEN_SPREAD_RATIO = 2.5
#: What it adds to the spread of times of prompts that stages of a pipeline work at the same time:
#: how many do depends on how fast a host issues and copies to each, of which publications say
#: nothing. Speeds of 98 prompts on two to eight cards are off by half as much again as those of 85
#: on one (xiongjiedai, GPU-Benchmarks-on-LLM-Inference, 2024), and intervals of sources that were
#: left out have the best score with 0.12 where five sixths of the stages do, to within a third [-].
PIPELINED_LOG_SIGMA = 0.15
#: What constants of engines and hardware decide how long it takes.
MECHANISMS = ("compute", "memory", "interconnect", "overhead")
#: Those that kernels wait for.
OF_KERNELS = MECHANISMS[:2]
#: Every time is as well known as every other.
NO_WIDENING = Widening()
#: Names of the ratios.
WIDENINGS = tuple(each.name for each in fields(Widening))
