"""Electronic waste by stream, and what longer use and reuse avoid."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator
from service.core.elementwise import Number
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact, independent_sum, product, quotient, scale
from service.core.platform import share_of
from service.core.years import HOURS_PER_YEAR


@dataclass(frozen=True, slots=True)
class Waste:
    """Mass of hardware that an amount of accelerator time turns into waste [kg].

    ``boards``, ``batteries`` and ``other`` split the total by what it is, ``collected`` and
    ``uncollected`` by where it goes; ``avoided`` is what first-life hardware without reuse would
    have added. ``treatment_kgco2e`` are emissions of treating all of it [kgCO2e].
    """

    total_kg: Interval
    accelerators_kg: Interval
    servers_kg: Interval
    boards_kg: Interval | None
    batteries_kg: Interval | None
    other_kg: Interval | None
    collected_kg: Interval | None
    uncollected_kg: Interval | None
    avoided_kg: Interval
    treatment_kgco2e: Interval | None = None


def waste(
    accelerator_hours: Interval, accelerator: Accelerator, infrastructure: Infrastructure
) -> Waste | None:
    """Electronic waste of accelerator time, by stream.

    Parameters
    ----------
    accelerator_hours
        Time for which accelerators are reserved, all together [h].
    accelerator
        The device, with its mass and that of the machine that it stands in [kg].
    infrastructure
        Service life, reuse, and shares of the streams.

    Returns
    -------
    Waste or None
        None where the mass of the device or of its machine is unknown.
    """
    platform = accelerator.platform
    device_kg, server_kg = accelerator.mass_kg, share_of(platform.mass_kg, platform)
    if platform.whole_ratio:
        device_kg = exact(0.0)
    if device_kg is None or server_kg is None:
        return None
    worn = quotient(accelerator_hours, infrastructure.service_hours())
    left = 1.0 - infrastructure.reused_ratio
    total = scale(product(worn, independent_sum((device_kg, server_kg))), left)
    boards = _share(total, infrastructure.e_waste_boards_ratio)
    batteries = _share(total, infrastructure.e_waste_batteries_ratio)
    collected = infrastructure.e_waste_collected_ratio
    return Waste(
        total_kg=total,
        accelerators_kg=scale(product(worn, device_kg), left),
        servers_kg=scale(product(worn, server_kg), left),
        boards_kg=boards,
        batteries_kg=batteries,
        other_kg=_share(
            total,
            _rest(infrastructure.e_waste_boards_ratio, infrastructure.e_waste_batteries_ratio),
        ),
        collected_kg=_share(total, collected),
        uncollected_kg=_share(total, _rest(collected, exact(0.0))),
        avoided_kg=avoided_by_reuse(
            scale(independent_sum((device_kg, server_kg)), accelerator_hours.value), infrastructure
        ),
        treatment_kgco2e=_share(total, infrastructure.treatment_kgco2e_per_kg),
    )


def avoided_by_reuse(unit_hours: Interval, infrastructure: Infrastructure) -> Interval:
    """What a second life and reuse save, in the unit of a device's making or mass.

    Parameters
    ----------
    unit_hours
        Figure of one device times the hours for which devices are reserved [unit · h].
    infrastructure
        First life, second life and reused share.

    Returns
    -------
    Interval
        The figure over the first life alone, less the part over the whole life that is not reused.

    References
    ----------
    Wang et al., E-waste challenges of generative artificial intelligence, 2024,
    https://doi.org/10.1038/s43588-024-00712-6.
    """
    first = infrastructure.hardware_life_years.value
    whole = first + infrastructure.second_life_years
    hours: Number = HOURS_PER_YEAR * infrastructure.in_use_ratio
    saved = (1.0 / first - (1.0 - infrastructure.reused_ratio) / whole) / hours
    return scale(unit_hours, saved)


def _share(total: Interval, ratio: Interval | None) -> Interval | None:
    return None if ratio is None else product(total, ratio)


def _rest(first: Interval | None, second: Interval | None) -> Interval | None:
    """What two shares leave of the whole."""
    if first is None or second is None:
        return None
    taken = independent_sum((first, second))
    return Interval(1.0 - taken.value, 1.0 - taken.high, 1.0 - taken.low)
