"""What becomes of accelerators and their machines: life, waste, and whose making they carry."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator, memory_kind
from service.core.elementwise import Number
from service.core.interval import Interval, at_most, independent_sum, scale
from service.core.platform import share_of, with_machine
from service.core.years import HOURS_PER_YEAR


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """How long hardware is kept, what becomes of it, and what stands in for unknown figures.

    ``idle_ratio`` is the idle share of thermal design power where a device's own is unknown; cards
    with graphics memory draw ``card_idle_w`` and a share ``card_idle_ratio`` of it.
    ``waiting_ratio`` is what stacked memory and clocks take beyond that while a program holds a
    model; ``primary_energy`` stands in for grids whose own is unknown.

    The making is shared out over ``hardware_life_years`` and the ``second_life_years`` that
    another owner adds. By default over calendar time; ``in_use_ratio`` below 1 shares it out over
    the hours in use alone, so that idle hardware is carried by whoever does use it.
    ``reused_ratio`` is the share of the mass that goes on in other machines in the end.
    ``memory_kgco2e`` is the making of memory that was added to the server, per accelerator,
    ``treatment_kgco2e_per_kg`` emissions of treating waste.
    """

    hardware_life_years: Interval
    idle_ratio: Interval
    primary_energy_mj_per_kwh: Interval | None = None
    e_waste_collected_ratio: Interval | None = None
    e_waste_boards_ratio: Interval | None = None
    e_waste_batteries_ratio: Interval | None = None
    memory_kgco2e: Interval | None = None
    treatment_kgco2e_per_kg: Interval | None = None
    second_life_years: Number = 0.0
    in_use_ratio: Number = 1.0
    reused_ratio: Number = 0.0
    waiting_ratio: Interval | None = None
    card_idle_w: Interval | None = None
    card_idle_ratio: Interval | None = None

    def idle_power_w(self, accelerator: Accelerator) -> Interval:
        """Idle power of an accelerator: its own figure, else what is usual for its TDP [W]."""
        if accelerator.idle_power_w is not None:
            return accelerator.idle_power_w
        power_w = accelerator.thermal_design_power_w
        if power_w is None:
            raise ValueError(f"{accelerator.name} has neither idle nor thermal design power")
        card_w, card_ratio = self.card_idle_w, self.card_idle_ratio
        if card_w is not None and card_ratio is not None and _is_card(accelerator):
            return at_most(independent_sum((card_w, scale(card_ratio, power_w))), power_w)
        return scale(self.idle_ratio, power_w)

    def waiting_power_w(self, accelerator: Accelerator) -> Interval:
        """Power of an accelerator whose program holds a model and has nothing to do [W].

        Its own figure, else idle power with what devices with stacked memory draw beyond it: their
        clocks stay up as long as a program is there. Others are taken to fall asleep.
        """
        if accelerator.waiting_power_w is not None:
            return accelerator.waiting_power_w
        idle_w, most_w = self.idle_power_w(accelerator), accelerator.thermal_design_power_w
        if self.waiting_ratio is None or most_w is None or not _is_stacked(accelerator):
            return idle_w
        return independent_sum((idle_w, scale(self.waiting_ratio, most_w)))

    def embodied_kgco2e(self, accelerator: Accelerator) -> Interval | None:
        """Making of one accelerator with its share of the machine [kgCO2e]; None if unknown."""
        made = of_machine(accelerator, "embodied_kgco2e")
        if made is None or self.memory_kgco2e is None:
            return made
        return independent_sum((made, self.memory_kgco2e))

    def service_hours(self) -> Interval:
        """Hours that the making of hardware is shared out over, second life included [h]."""
        first = self.hardware_life_years
        if self.second_life_years:
            more = self.second_life_years
            first = Interval(first.value + more, first.low + more, first.high + more)
        return scale(first, HOURS_PER_YEAR * self.in_use_ratio)


def _is_card(accelerator: Accelerator) -> bool:
    return memory_kind(accelerator.memory_technology) == "gddr"


def _is_stacked(accelerator: Accelerator) -> bool:
    return accelerator.memory_technology.upper().startswith("HBM")


@dataclass(frozen=True, slots=True)
class Making:
    """Making and mass of one accelerator with its share of the machine, over its service hours.

    None where a part is unknown. It is the same for every footprint of a deployment.
    """

    embodied_kgco2e: Interval | None
    mass_kg: Interval | None
    adpe_kgsbeq: Interval | None
    primary_energy_mj: Interval | None
    service_hours: Interval


def making(accelerator: Accelerator | None, around: Infrastructure) -> Making:
    """Making and mass of an accelerator with its share of the machine; unknown without one."""
    hours = around.service_hours()
    if accelerator is None:
        return Making(None, None, None, None, hours)
    return Making(
        around.embodied_kgco2e(accelerator),
        of_machine(accelerator, "mass_kg"),
        of_machine(accelerator, "embodied_adpe_kgsbeq"),
        of_machine(accelerator, "embodied_primary_energy_mj"),
        hours,
    )


def of_machine(accelerator: Accelerator, name: str) -> Interval | None:
    """A figure of an accelerator with its share of the machine, which has one of that name."""
    platform = accelerator.platform
    share = share_of(getattr(platform, name), platform)
    return with_machine(getattr(accelerator, name), share, bool(platform.whole_ratio))
