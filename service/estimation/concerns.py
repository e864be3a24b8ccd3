"""What of the grounds of an estimate concerns an answer about memory, or about memory and times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from service.catalog.entries.entry import Entry
from service.catalog.entries.specs import FIGURES
from service.core.explanation import EstimateWarning

Entries: TypeAlias = list[tuple[str, Entry[Any]]]

#: Remarks on speed alone, and on nothing but power, making and money, by their codes.
_OF_SPEED = frozenset(
    {
        "acceptance_assumed",
        "efficiency_not_measured",
        "host_link_unknown",
        "kind_of_run_not_measured",
        "lengths_left_open",
        "no_peer_to_peer",
        "speed_left_open",
        "tensor_across_slow_links",
        "tiers_slow_steps",
    }
)
_OF_USE = frozenset(
    {
        "platform_unknown",
        "power_not_measured",
        "tier_energy_unknown",
        "tier_making_unknown",
        "tier_price_unknown",
    }
)
#: Figures of hardware that tell how much it holds, and those of making, of hosts and of prices.
_SIZES = frozenset({"memory_bytes", "memory_usable_bytes"})
_FIGURES_OF_USE = frozenset(
    {
        "embodied_adpe_kgsbeq",
        "embodied_kgco2e",
        "embodied_primary_energy_mj",
        "host_idle_w",
        "host_load_w",
        "host_processors_w",
        "mass_kg",
        "price_usd",
        "rated_power_w",
        "supply_efficiency_ratio",
    }
)


@dataclass(frozen=True, slots=True)
class Concern:
    """What an answer tells: remarks, calibrations and figures that it does not rest on.

    ``without`` are codes of remarks, ``calibrations`` the first parts of the ids of those that
    do not count, ``untold`` the names of figures.
    """

    without: frozenset[str]
    calibrations: frozenset[str]
    untold: frozenset[str]
    platforms: bool = True

    def warnings(self, every: Iterable[EstimateWarning]) -> tuple[EstimateWarning, ...]:
        """Those that concern the answer."""
        return tuple(
            one for one in every if one.code not in self.without and one.about not in self.untold
        )

    def entries(self, every: Iterable[tuple[str, Entry[Any]]]) -> Entries:
        """Entries of the catalog that it rests on."""
        return [
            (collection, entry)
            for collection, entry in every
            if (collection != "platforms" or self.platforms)
            and (
                collection != "calibrations" or entry.id.partition("/")[0] not in self.calibrations
            )
        ]


#: All that there is.
OF_ALL = Concern(frozenset(), frozenset(), frozenset())
#: Memory and times, without power, making and money.
OF_TIMES = Concern(_OF_USE, frozenset({"infrastructure", "power"}), _FIGURES_OF_USE)
#: Memory without times.
OF_MEMORY = Concern(
    _OF_USE | _OF_SPEED,
    OF_TIMES.calibrations | {"speed"},
    _FIGURES_OF_USE | (frozenset(FIGURES["accelerators"]) - _SIZES),
    platforms=False,
)
