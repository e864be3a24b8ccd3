"""How welcome a site is likely to be: an index of concern out of indicators that can be looked up.

The index is judgement with open parts, not a measurement, and no probability that a site is
refused or closed. Every part is a concern from 0 (none is known) to 1 (as much as anywhere).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.core.elementwise import Number, maximum, minimum
from service.core.interval import Interval, scale

#: How much each part counts where nobody says otherwise. Nobody has measured them: noise and water
#: are what most disputes are about. Bills of states count little, as many are about taxes.
USUAL_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "moratoria": 0.15,
        "legislation": 0.05,
        "grid_connection": 0.10,
        "water": 0.20,
        "noise": 0.20,
        "local_benefit": 0.10,
        "disputes": 0.10,
        "transparency": 0.10,
    }
)

#: Where each scale ends; judgement, after what is called extreme for each indicator.
#: Local measures and disputes: as many make half of the concern.
_HALF_AT_COUNT = 5.0
#: Years of waiting for the grid that the most crowded regions reach. Source: International Energy
#: Agency, Energy and AI, 2025.
_LONGEST_WAIT_YEARS = 10.0
#: Stress from which Aqueduct 4.0 calls a basin extremely stressed.
_EXTREME_STRESS_RATIO = 0.8
#: Margin to a noise limit beyond which nothing is heard of it, either way [dB].
_NOISE_RANGE_DB = 10.0
#: Distance at which a source of 100 dB over hard ground falls to 40 dB, the level of no observed
#: effect at night. Source: WHO Europe, Night noise guidelines, 2009; ISO 9613-2, spreading alone.
QUIET_DISTANCE_M = 398.0


def concern_of_count(count: Interval) -> Interval:
    """Concern that follows from a number of measures, bills or disputes; five make half of it."""
    return Interval(*(one / (one + _HALF_AT_COUNT) for one in (count.value, count.low, count.high)))


def concern_of_wait(years: Interval) -> Interval:
    """Concern that follows from years of waiting for a grid connection."""
    return _clipped(scale(years, 1.0 / _LONGEST_WAIT_YEARS))


def concern_of_stress(water_stress_ratio: Interval) -> Interval:
    """Concern that follows from withdrawals over supply of the basin."""
    return _clipped(scale(water_stress_ratio, 1.0 / _EXTREME_STRESS_RATIO))


def concern_of_margin(margin_db: Interval) -> Interval:
    """Concern that follows from the margin to a noise limit: half of it where it is just met."""
    ends = (margin_db.value, margin_db.high, margin_db.low)
    return _clipped(Interval(*(0.5 - 0.5 * end / _NOISE_RANGE_DB for end in ends)))


def concern_of_distance(distance_m: Number) -> Interval:
    """Concern that follows from the distance to the nearest homes, none from 398 m on."""
    share = 1.0 - distance_m / QUIET_DISTANCE_M
    return _clipped(Interval(share, share, share))


def concern_of_lack(share: Number) -> Interval:
    """Concern that follows from what is missing of a share, of benefit or of published figures."""
    return _clipped(Interval(1.0 - share, 1.0 - share, 1.0 - share))


@dataclass(frozen=True, slots=True)
class SocialLicence:
    """An index of concern from 0 to 100 with its parts.

    ``index`` is the weighted mean of the parts that are known; its ends let each unknown part be
    nothing or everything. None where no part is known. ``known_weight_ratio`` is the share of the
    weights that the known parts have.
    """

    index: Interval | None
    known_weight_ratio: float


def social_licence(
    concerns: Mapping[str, Interval | None], weights: Mapping[str, float]
) -> SocialLicence:
    """The index of parts that are known or not.

    Parameters
    ----------
    concerns
        Concern of each part, 0 to 1 [-]; None where it is not known.
    weights
        Of each part, not negative; their sum is above zero.
    """
    total = sum(weights[name] for name in concerns)
    known = {name: one for name, one in concerns.items() if one is not None}
    weight = sum(weights[name] for name in known)
    if weight <= 0.0:
        return SocialLicence(None, 0.0)

    def summed(end: str) -> float:
        return sum(weights[name] * float(getattr(one, end)) for name, one in known.items())

    index = Interval(
        100.0 * summed("value") / weight,
        100.0 * summed("low") / total,
        100.0 * (summed("high") + total - weight) / total,
    )
    return SocialLicence(index, weight / total)


def _clipped(concern: Interval) -> Interval:
    ends = (concern.value, concern.low, concern.high)
    return Interval(*(minimum(maximum(end, 0.0), 1.0) for end in ends))
