"""Water and energy that cooling uses on site, by its kind and the weather."""

from __future__ import annotations

from service.core.elementwise import Number, maximum, minimum
from service.core.interval import Interval, independent_sum

#: Least water use of a site with a tower: blow-down and humidification go on in dry cold.
#: Source: water-aware scheduling data sets on arXiv:2405.17469, 2024.
LEAST_WUE_L_PER_KWH = 0.05

#: Two points of a second published fit: 1.52 L/kWh at 10 °C wet bulb and 1.68 at 21 °C. What lies
#: between and beyond is taken on the line through them. Source: as above.
_SECOND_FIT_CELSIUS = 10.0
_SECOND_FIT_L_PER_KWH = 1.52
_SECOND_FIT_SLOPE = (1.68 - 1.52) / (21.0 - 10.0)


def evaporative_wue(
    wet_bulb_celsius: Number, cycles_of_concentration: Number, evaporative_ratio: Number
) -> Interval:
    """On-site water per unit of IT energy of an evaporative cooling tower.

    ``S/(S − 1) · (6e-5·T³ − 0.01·T² + 0.61·T − 10.4)`` with T in degrees Fahrenheit, times the
    share of hours in which the tower runs. Feeding Celsius into it, as one public copy does, ends
    at the floor everywhere.

    Parameters
    ----------
    wet_bulb_celsius
        Mean wet-bulb temperature of the site [°C].
    cycles_of_concentration
        How often water is used before it is blown down, above 1 [-].
    evaporative_ratio
        Share of hours with evaporative cooling [-].

    Returns
    -------
    Interval
        [L/kWh]; the value is the all-evaporative upper fit, the lower end a second fit of the same
        tower, which is much lower: they disagree by a factor of two to three.

    References
    ----------
    Islam et al., 2016, and Li et al., 2023, https://arxiv.org/abs/2304.03271, as coded in the data
    sets of https://arxiv.org/abs/2405.17469.
    """
    fahrenheit = wet_bulb_celsius * 1.8 + 32.0
    blow_down = cycles_of_concentration / (cycles_of_concentration - 1.0)
    polynomial = 6e-5 * fahrenheit**3 - 0.01 * fahrenheit**2 + 0.61 * fahrenheit - 10.4
    upper = maximum(blow_down * polynomial, LEAST_WUE_L_PER_KWH) * evaporative_ratio
    second = _SECOND_FIT_L_PER_KWH + _SECOND_FIT_SLOPE * (wet_bulb_celsius - _SECOND_FIT_CELSIUS)
    lower = maximum(second, LEAST_WUE_L_PER_KWH) * evaporative_ratio
    return Interval(upper, minimum(lower, upper), upper)


def dry_wue() -> Interval:
    """On-site water of closed loops and dry coolers, which reject heat without evaporating any.

    Returns
    -------
    Interval
        [L/kWh]; zero, at most what a site with a tower uses at the least, for filling and cleaning.
    """
    return Interval(0.0, 0.0, LEAST_WUE_L_PER_KWH)


def dry_pue(pue_ratio: Interval, wue_l_per_kwh: Interval | None, added: Interval) -> Interval:
    """PUE of a site once it rejects its heat without evaporating water [-].

    Parameters
    ----------
    pue_ratio, wue_l_per_kwh
        PUE [-] and on-site water [L/kWh] of the site as it is; None where nobody states the water.
    added
        Energy that dry cooling needs beyond a tower's, per unit of IT energy [-].

    Returns
    -------
    Interval
        The same PUE for a site that hardly evaporates anything already.
    """
    if wue_l_per_kwh is not None and wue_l_per_kwh.value <= LEAST_WUE_L_PER_KWH:
        return pue_ratio
    return independent_sum((pue_ratio, added))
