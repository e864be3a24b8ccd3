"""What a site's neighbours, floor and machines notice: heat, vibration, land, municipal water."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from service.core.elementwise import Number, log, maximum, minimum
from service.core.explanation import Formula, paths
from service.core.interval import Interval, scale
from service.core.years import HOURS_PER_YEAR

#: Density and specific heat of air at 20 °C and sea level.
#: Source: ISO 2533:1975, standard atmosphere, and tables of dry air.
AIR_KG_PER_M3 = 1.204
AIR_J_PER_KG_K = 1005.0

#: Weights of the vibration index and the rack density at which its density term is full. They are
#: judgement, not measurement: no public failure rate was found to weigh them by.
VIBRATION_WEIGHTS = {"hard_disks": 0.35, "fans": 0.25, "density": 0.20, "mounting": 0.20}
FULL_DENSITY_KW = 50.0
MOUNTING = {"none": 1.0, "grommets": 0.5, "isolated": 0.0}
Band: TypeAlias = Literal["low", "medium", "high"]
#: Index above which a band begins.
VIBRATION_BANDS: tuple[tuple[float, Band], ...] = ((66.0, "high"), (33.0, "medium"), (0.0, "low"))

#: Cooling by liquid at the chips, and the share of heat from which on a rack counts as such.
DIRECT_LIQUID = "direct_liquid"
_MOSTLY_LIQUID = 0.5

#: Paths start at ``Heat``.
HEAT = (
    Formula(
        "airflow_m3_per_s",
        "1000 * air_cooled_kw / (1.204 * 1005 * temperature_rise_k)",
        "Sensible heat of an air stream, Q = ṁ · cp · ΔT, at 20 °C and sea level",
        "airflow_m3_per_s",
    ),
)
#: Paths start at ``Vibration``.
VIBRATION = (
    Formula(
        "vibration_index",
        "100 * (0.35 * hard_disks + 0.25 * fans + 0.20 * density + 0.20 * mounting)",
        "Headroom's own indicator: an order of concern, not a failure probability",
        "index",
        paths(*(f"drivers_ratio.{name}" for name in VIBRATION_WEIGHTS)),
        unit="1",
    ),
)


@dataclass(frozen=True, slots=True)
class Heat:
    """Heat of a rack [kW], the air that carries what no liquid does, and how it is cooled.

    ``air_cooling_class`` is the way to cool what air carries, None where it carries nothing.
    """

    rack_kw: Interval
    air_cooled_kw: Interval
    airflow_m3_per_s: Interval
    temperature_rise_k: Number
    cooling_class: str
    air_cooling_class: str | None


def rack_heat(
    rack_kw: Interval,
    liquid_ratio: Number,
    temperature_rise_k: Number,
    classes: Sequence[tuple[str, Number]],
) -> Heat:
    """Heat and airflow of a rack.

    Parameters
    ----------
    rack_kw
        Electrical power of the rack, all of which becomes heat [kW].
    liquid_ratio
        Share of the heat that liquid carries away [-].
    temperature_rise_k
        Warming of the air across the rack [K].
    classes
        Names of ways to cool with the heat in air that each serves at most [kW], in rising order;
        the last of them is a hybrid of air and liquid, and what is beyond it takes liquid.

    Notes
    -----
    The heat in the air decides between the ways to cool by air. A rack whose liquid carries half
    or more is cooled directly by liquid, one whose liquid carries less is a hybrid.
    """
    air_kw = scale(rack_kw, 1.0 - liquid_ratio)
    flow = scale(air_kw, 1000.0 / (AIR_KG_PER_M3 * AIR_J_PER_KG_K * temperature_rise_k))
    by_air = next((name for name, most_kw in classes if air_kw.value <= most_kw), DIRECT_LIQUID)
    named = by_air
    if liquid_ratio > 0.0 and by_air != DIRECT_LIQUID:
        named = DIRECT_LIQUID if liquid_ratio >= _MOSTLY_LIQUID else classes[-1][0]
    in_air = by_air if air_kw.value > 0.0 else None
    return Heat(rack_kw, air_kw, flow, temperature_rise_k, named, in_air)


@dataclass(frozen=True, slots=True)
class Vibration:
    """An order of concern about vibration, 0 to 100, with what drives it."""

    index: Number
    band: Band
    drivers_ratio: dict[str, Number]


def vibration(
    hard_disk_ratio: Number, speed_ratio: Number, air_cooled_kw: Number, mounting: str
) -> Vibration:
    """Vibration index of a rack.

    Parameters
    ----------
    hard_disk_ratio
        Share of the bytes that lie on hard disks [-].
    speed_ratio
        Fan speed over the usual one [-]; unbalance force grows with its square, 40·log10 [dB].
    air_cooled_kw
        Heat that air carries out of the rack [kW].
    mounting
        Key of `MOUNTING`.

    References
    ----------
    Turner, Effects of data center vibration on compute system performance, 2009 (hard disks lose
    throughput on vibrating floors).
    """
    fans = _clipped((unbalance_level_change_db(speed_ratio) + 12.0) / 24.0)
    drivers = {
        "hard_disks": _clipped(hard_disk_ratio),
        "fans": fans,
        "density": _clipped(air_cooled_kw / FULL_DENSITY_KW),
        "mounting": MOUNTING[mounting],
    }
    index = 100.0 * sum(VIBRATION_WEIGHTS[name] * part for name, part in drivers.items())
    band: Band = next((name for least, name in VIBRATION_BANDS if index >= least), "low")
    return Vibration(index, band, drivers)


def unbalance_level_change_db(speed_ratio: Number) -> Number:
    """Change of the vibration level of an unbalanced rotor: F = m·e·ω², so 40·log10 [dB]."""
    return 40.0 * log(speed_ratio) / log(10.0)


def land_m2_years(it_energy_kwh: Interval, site_m2: Number, site_it_kw: Number) -> Interval:
    """Share of a site's area and time that an amount of IT energy occupies [m²·year].

    Parameters
    ----------
    it_energy_kwh
        Energy of the IT equipment [kWh].
    site_m2, site_it_kw
        Area of the site [m²] and the mean IT power it is used at [kW].
    """
    return scale(it_energy_kwh, site_m2 / (site_it_kw * HOURS_PER_YEAR))


def municipal_share(water_l: Interval, supply_l: Number) -> Interval:
    """Share of a town's supply over the same time that is used on site [-]."""
    return scale(water_l, 1.0 / supply_l)


def _clipped(share: Number) -> Number:
    return minimum(maximum(share, 0.0), 1.0)
