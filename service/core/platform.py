"""Machines around accelerators: their power, links and making, and what a power limit leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from service.core.elementwise import Number, ceil, maximum, minimum, where
from service.core.interval import Interval, exact, independent_sum, scale
from service.core.stacking import FIGURE, NAME

if TYPE_CHECKING:
    from service.core.deployment import Accelerator

#: Power above idle grows with this power of the clock, where voltage follows the clock.
#: Dynamic power is C·V²·f (Weste and Harris, CMOS VLSI Design, 2010, section 5.2); measured on
#: GPUs, voltage rises about in proportion to the clock near its upper end.
CLOCK_EXPONENT = 3.0


@dataclass(frozen=True, slots=True)
class Site:
    """A building by what its cooling and supply take: PUE [-], and water on site [l/kWh of IT]."""

    pue_ratio: Interval
    wue_l_per_kwh: Interval | None


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of machine that holds accelerators, and the site that it usually stands in.

    All figures are of one machine without its accelerators. ``host_idle_w`` is drawn while
    nothing is asked of it, ``host_load_w`` while requests are in flight or a model is trained, and
    ``host_processors_w`` more while all of its processors compute, nothing where it is not known;
    what power supplies lose of all that passes them is left to ``supply_efficiency_ratio``.
    Platforms whose accelerators' power is that of the whole machine have no host of their own.
    ``accelerators`` is how many one machine holds, ``host_accelerators`` how many of them one
    operating system has, ``board_accelerators`` how many are sold as one board or rack, and
    ``shared_ratio`` is 1 where those that are not asked about belong to others, as in servers that
    are rented out in parts, else 0.
    ``rated_power_w`` is the most that a machine draws. What a machine took to make and weighs is
    that of its accelerators, too, where its ``whole_ratio`` is 1 and not 0. A core of its host
    takes ``core_time_ratio`` of the time that one of an accelerator server does; all together have
    a dense peak of ``host_matrix_flops_per_s`` with 16-bit operands, and read memory at
    ``host_memory_bandwidth_bytes_per_s`` at most. Unknown figures are None; ``kind`` is the class
    of machine that the spread of its power goes by.
    """

    id: str = field(metadata=NAME)
    name: str = field(metadata=NAME)
    kind: str = field(metadata=NAME)
    site_class: str = field(metadata=NAME)
    accelerators: Number = field(metadata=FIGURE)
    shared_ratio: Number = field(metadata=FIGURE)
    host_idle_w: Interval = field(metadata=FIGURE)
    host_load_w: Interval = field(metadata=FIGURE)
    supply_efficiency_ratio: Number = field(metadata=FIGURE)
    site_pue_ratio: Interval = field(metadata=FIGURE)
    site_wue_l_per_kwh: Interval | None = field(metadata=FIGURE)
    host_accelerators: Number = field(default=inf, metadata=FIGURE)
    board_accelerators: Number = field(default=1.0, metadata=FIGURE)
    rated_power_w: Number = field(default=inf, metadata=FIGURE)
    embodied_kgco2e: Interval | None = field(default=None, metadata=FIGURE)
    embodied_adpe_kgsbeq: Interval | None = field(default=None, metadata=FIGURE)
    embodied_primary_energy_mj: Interval | None = field(default=None, metadata=FIGURE)
    mass_kg: Interval | None = field(default=None, metadata=FIGURE)
    whole_ratio: Number = field(default=0.0, metadata=FIGURE)
    core_time_ratio: Number = field(default=1.0, metadata=FIGURE)
    host_matrix_flops_per_s: Interval | None = field(default=None, metadata=FIGURE)
    host_memory_bandwidth_bytes_per_s: Interval | None = field(default=None, metadata=FIGURE)
    host_processors_w: Interval = field(default=exact(0.0), metadata=FIGURE)

    @property
    def accelerators_of_a_host(self) -> Number:
        """Accelerators that one operating system starts processes on [-]."""
        return minimum(self.host_accelerators, self.accelerators)

    @property
    def site(self) -> Site:
        """The building that it usually stands in."""
        return Site(self.site_pue_ratio, self.site_wue_l_per_kwh)

    def bought(self, count: Number) -> Number:
        """Accelerators that whoever needs so many has to buy: whole boards, or racks [-]."""
        return ceil(count / self.board_accelerators) * self.board_accelerators

    def machines(self, count: Number) -> Number:
        """Machines that so many accelerators take up; a share of one where others have the rest."""
        parts = count / self.accelerators
        return where(self.shared_ratio > 0.0, parts, ceil(parts))

    def computing_machines(self, count: Number) -> Number:
        """Machines whose processors compute for so many accelerators, alone for them [-].

        Nobody else computes with processors that a deployment has taken, however small its part of
        a shared machine is. Machines with several hosts have as many parts.
        """
        of_host = self.accelerators_of_a_host
        return ceil(count / of_host) * of_host / self.accelerators

    def host_power_w(self, busy_ratio: Number) -> Interval:
        """Mean power of one machine's host, before its power supplies [W]."""
        idle, load = self.host_idle_w, self.host_load_w

        def mean_w(idle_w: Number, load_w: Number) -> Number:
            return idle_w + maximum(load_w - idle_w, 0.0) * busy_ratio

        return Interval(
            mean_w(idle.value, load.value), mean_w(idle.low, load.low), mean_w(idle.high, load.high)
        )


#: An accelerator by itself, of whose surroundings nothing is counted.
ALONE = Platform(
    id="none",
    name="no machine",
    kind="none",
    site_class="none",
    accelerators=1.0,
    shared_ratio=0.0,
    host_idle_w=exact(0.0),
    host_load_w=exact(0.0),
    supply_efficiency_ratio=1.0,
    site_pue_ratio=exact(1.0),
    site_wue_l_per_kwh=exact(0.0),
    embodied_kgco2e=exact(0.0),
    embodied_adpe_kgsbeq=exact(0.0),
    embodied_primary_energy_mj=exact(0.0),
    mass_kg=exact(0.0),
)


def share_of(figure: Interval | None, platform: Platform) -> Interval | None:
    """What one of a full machine's accelerators carries of the machine's figure."""
    return None if figure is None else scale(figure, 1.0 / platform.accelerators)


def with_machine(own: Interval | None, machine: Interval | None, whole: bool) -> Interval | None:
    """A figure of an accelerator with its share of the machine; None where either is unknown.

    Parameters
    ----------
    own, machine
        Of the accelerator, and of its share of the machine.
    whole
        Whether the machine's figure contains the accelerator.
    """
    if whole:
        return machine
    return None if own is None or machine is None else independent_sum((own, machine))


def clock_ratio(limit_w: Number, idle_w: Number, most_w: Number) -> Number:
    """Share of its clocks that an accelerator keeps under a power limit [-].

    Parameters
    ----------
    limit_w, idle_w, most_w
        Power limit, idle power and thermal design power [W].

    References
    ----------
    Weste and Harris, CMOS VLSI Design, 4th edition, 2010, section 5.2 (dynamic power C·V²·f).
    """
    share = (limit_w - idle_w) / (most_w - idle_w)
    return float(share ** (1.0 / CLOCK_EXPONENT))


@dataclass(frozen=True, slots=True)
class PowerNeeds:
    """What of its power an accelerator cannot save by slower clocks.

    It draws ``idle_w`` at rest, and ``resident_ratio`` of what lies between that and its thermal
    design power as long as it holds a model. Each byte that its memory moves takes
    ``memory_j_per_byte``, and programs reach ``memory_ratio`` of the bandwidth [-].
    """

    idle_w: float
    resident_ratio: float
    memory_j_per_byte: float
    memory_ratio: float

    def resident_w(self, most_w: float) -> float:
        """Power with a model in memory and nothing to do, by the thermal design power [W]."""
        return self.idle_w + self.resident_ratio * (most_w - self.idle_w)


def limited(accelerator: Accelerator, limit_w: float, needs: PowerNeeds) -> Accelerator:
    """An accelerator under a power limit that is at most its thermal design power [W].

    Power ends at the limit. Clocks of matrix units fall with the cube root of what is left above
    idle, and the speed of what arithmetic bounds with them. Memory keeps its clock, but moves no
    more bytes than what is left beside a resident model pays for: the energy of a byte does not
    fall with the clocks of the cores.

    Raises
    ------
    ValueError
        If its thermal design power is unknown, or the limit is not within.
    """
    most_w = accelerator.thermal_design_power_w
    if most_w is None:
        raise ValueError(f"{accelerator.id} has no thermal design power")
    resident_w = needs.resident_w(float(most_w))
    if not resident_w < limit_w <= float(most_w):
        raise ValueError(
            f"must be above {resident_w:.3g} W, which {accelerator.id} draws with a model in "
            f"memory and nothing to do, and at most {float(most_w):g} W, its thermal design power"
        )
    ratio = clock_ratio(limit_w, needs.idle_w, float(most_w))
    peaks = {name: peak * ratio for name, peak in accelerator.peak_flops_per_s.items()}
    paid_bytes_per_s = (limit_w - resident_w) / needs.memory_j_per_byte
    return replace(
        accelerator,
        power_limit_w=limit_w,
        clock_ratio=ratio,
        peak_flops_per_s=peaks,
        memory_bandwidth_bytes_per_s=minimum(
            accelerator.memory_bandwidth_bytes_per_s, paid_bytes_per_s / needs.memory_ratio
        ),
    )


@dataclass(frozen=True, slots=True)
class MachineLink:
    """How a machine joins its accelerators: bandwidth of one direction, time of a message.

    ``bridged`` links come in place of those of the cards; others are slots, which cards use as
    far as both go. ``accelerators`` is how many the link joins, None for all of the machine.
    """

    bandwidth_bytes_per_s: float
    latency_s: float | None
    bridged: bool
    accelerators: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """A platform with what it does to the accelerators in it.

    ``accelerator_power_w`` is the limit of power that it sets them; ``integrated`` machines are
    made around one kind of accelerator, whose figures of power contain processor and memory:
    what they draw idle, ``idle_wall_w``, it draws. ``scale_out_bandwidth_bytes_per_s`` and
    ``scale_out_latency_s`` are of the network, for each accelerator. Unknown figures are None.
    """

    platform: Platform
    link: MachineLink | None
    host_link_bandwidth_bytes_per_s: float | None
    accelerator_power_w: float | None
    integrated: bool
    peer_to_peer: bool | None
    idle_wall_w: Interval | None = None
    scale_out_bandwidth_bytes_per_s: float | None = None
    scale_out_latency_s: float | None = None


#: What accelerators send each other through host memory over what their slots carry: it passes
#: them twice, and both ways at the same time.
#: Source: tinygrad, open-gpu-kernel-modules, issue 17, 2024 (RTX 4090 on PCIe 4.0 x16); of two
#: RTX 5090 on PCIe 5.0 x8, 15 of 31.5 GB/s in either direction (their drivers without peer-to-peer,
#: 2025).
_THROUGH_HOST_RATIO = 0.5


def placed(accelerator: Accelerator, machine: Machine, *, on_slots: bool) -> Accelerator:
    """An accelerator as it is in a machine: with its host, links and limit of power.

    Parameters
    ----------
    accelerator
        As its maker sells it.
    machine
        Where it is put.
    on_slots
        Whether its own link to others is the slot that it sits in.
    """
    found = replace(
        accelerator,
        platform=machine.platform,
        host_link_bandwidth_bytes_per_s=_slower(
            accelerator.host_link_bandwidth_bytes_per_s, machine.host_link_bandwidth_bytes_per_s
        ),
    )
    link = machine.link
    if link is not None and (link.bridged or on_slots):
        own = accelerator.scale_up
        bandwidth: Number = link.bandwidth_bytes_per_s
        if not link.bridged:
            slot = found.host_link_bandwidth_bytes_per_s
            if machine.peer_to_peer is False and slot is not None:
                bandwidth = minimum(bandwidth, _THROUGH_HOST_RATIO * slot)
            bandwidth = minimum(own.bandwidth_bytes_per_s, bandwidth)
        latency_s = own.latency_s if link.latency_s is None else link.latency_s
        found = replace(
            found,
            scale_up=replace(own, bandwidth_bytes_per_s=bandwidth, latency_s=latency_s),
            scale_up_pair_bandwidth_bytes_per_s=None,
            scale_up_domain_accelerators=link.accelerators
            or int(float(machine.platform.accelerators)),
        )
    bandwidth_out = machine.scale_out_bandwidth_bytes_per_s
    if bandwidth_out is not None:
        network = accelerator.scale_out or accelerator.scale_up
        stated_s = machine.scale_out_latency_s
        delay_s = network.latency_s if stated_s is None else stated_s
        network = replace(network, bandwidth_bytes_per_s=bandwidth_out, latency_s=delay_s)
        found = replace(found, scale_out=network)
    if machine.integrated and accelerator.idle_power_w is None:
        found = replace(found, idle_power_w=machine.idle_wall_w)
    if accelerator.thermal_design_power_w is None or machine.accelerator_power_w is None:
        return found
    return replace(found, thermal_design_power_w=machine.accelerator_power_w)


def _slower(own: Number | None, machine: Number | None) -> Number | None:
    if own is None or machine is None:
        return machine if own is None else own
    return minimum(own, machine)
