"""Sound of machines at a neighbour's place.

Levels are A-weighted decibels throughout: sound power ``Lw`` re 1 pW of a source, sound pressure
``Lp`` re 20 µPa at a place. A level without its distance or its kind says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log10 as _log10
from math import pi

from service.core.elementwise import Number, log
from service.core.explanation import Formula, paths
from service.core.interval import Interval

#: What outdoor predictions by spreading alone are commonly granted.
#: Source: ISO 9613-2:1996, table 5 (accuracy of 3 dB to 1 km for favourable propagation), widened
#: to 5 dB because ground, weather and directivity are not modelled.
SPREADING_UNCERTAINTY_DB = 5.0

#: Sound power over fan speed: 50·log10, the exponent of the fan laws for sound.
FAN_SOUND_EXPONENT = 5.0

#: Way of spreading: decibels per decade of distance, and the loss at one metre. A point in free
#: space spreads over 4πr², on hard ground over 2πr²; a long line on hard ground over πr a metre.
PROPAGATION: dict[str, tuple[float, float]] = {
    "free-field": (20.0, 10.0 * _log10(4.0 * pi)),
    "half-space": (20.0, 10.0 * _log10(2.0 * pi)),
    "line": (10.0, 10.0 * _log10(pi)),
}

#: Paths start at a ``SoundSource``.
SOURCE = (
    Formula(
        "source_db",
        "sound_power_db + 10 * log10(count) + 50 * log10(fan_speed_ratio) - building_loss_db",
        "Sum of incoherent sources; fan laws; ISO 9296 declared levels",
        "outside_db",
        unit="dB(A) re 1 pW",
    ),
)
#: Paths start at ``Noise``.
NOISE = (
    Formula(
        "sound_power_db",
        "10 * log10(sum(power_pw))",
        "Sum of incoherent sources",
        "sound_power_db",
        paths(power_pw="source_powers_pw"),
        unit="dB(A) re 1 pW",
    ),
    Formula(
        "sound_pressure_db",
        "sound_power_db - decay_db_per_decade * log10(distance_m) - spreading_db"
        " - air_absorption_db - barrier_db + directivity_db",
        "Outdoor propagation of sound after ISO 9613-2:1996, divergence term",
        "sound_pressure_db",
        paths(
            "path.decay_db_per_decade",
            "path.distance_m",
            "path.spreading_db",
            "path.air_absorption_db",
            "path.barrier_db",
            "path.directivity_db",
            "path.propagation",
        ),
        unit="dB(A) re 20 µPa",
    ),
)


@dataclass(frozen=True, slots=True)
class SoundSource:
    """Like machines: how many, the sound power of one [dB], and what changes it.

    ``fan_speed_ratio`` is the speed over that of the declared level [-]; ``building_loss_db`` the
    sound reduction of walls around the machines, 0 outdoors [dB].
    """

    count: Number
    sound_power_db: Number
    fan_speed_ratio: Number = 1.0
    building_loss_db: Number = 0.0

    @property
    def outside_db(self) -> Number:
        """Sound power of all these machines outside of the building [dB]."""
        change_db = fan_level_change_db(self.fan_speed_ratio) - self.building_loss_db
        return self.sound_power_db + 10.0 * _decades(self.count) + change_db


@dataclass(frozen=True, slots=True)
class Path:
    """The way from the sources to the receptor. Losses [dB], distance [m]."""

    distance_m: Number
    propagation: str = "half-space"
    air_absorption_db: Number = 0.0
    barrier_db: Number = 0.0
    directivity_db: Number = 0.0

    @property
    def decay_db_per_decade(self) -> float:
        """Loss for each tenfold distance [dB]."""
        return PROPAGATION[self.propagation][0]

    @property
    def spreading_db(self) -> float:
        """Loss at one metre [dB]."""
        return PROPAGATION[self.propagation][1]

    @property
    def losses_db(self) -> Number:
        """Losses beside spreading [dB]."""
        return self.air_absorption_db + self.barrier_db - self.directivity_db


@dataclass(frozen=True, slots=True)
class Noise:
    """Sound of a site at a receptor. Levels [dB(A)]; margins and distances are None without limit.

    ``margin_db`` is positive where the level stays below the limit.
    """

    sound_power_db: Number
    sound_pressure_db: Interval
    limit_db: Number | None
    margin_db: Interval | None
    required_distance_m: Interval | None
    path: Path
    sources: tuple[SoundSource, ...]

    @property
    def source_powers_pw(self) -> dict[str, Number]:
        """Sound power of each source outside of the building [pW]."""
        return {
            f"source_{at}": 10.0 ** (source.outside_db / 10.0)
            for at, source in enumerate(self.sources, start=1)
        }


def level_sum_db(levels_db: Iterable[Number]) -> Number:
    """Level of several incoherent sources together [dB]."""
    total: Number = 0.0
    for level in levels_db:
        total = total + 10.0 ** (level / 10.0)
    return 10.0 * _decades(total)


def fan_level_change_db(speed_ratio: Number) -> Number:
    """Change of a fan's sound power with its speed: 50·log10(n₂/n₁) [dB]."""
    return 10.0 * FAN_SOUND_EXPONENT * _decades(speed_ratio)


def fan_speed_ratio(level_change_db: Number) -> Number:
    """Speed ratio that changes a fan's sound power by so much [-]."""
    return 10.0 ** (level_change_db / (10.0 * FAN_SOUND_EXPONENT))


def sound_power_db(sources: Iterable[SoundSource]) -> Number:
    """Sound power of all sources together, outside of the building [dB]."""
    return level_sum_db(source.outside_db for source in sources)


def received_db(power_db: Number, path: Path) -> Number:
    """Sound pressure at the end of a path [dB].

    Parameters
    ----------
    power_db
        Sound power of the sources; for a line, of each metre [dB].
    path
        Distance, way of spreading, and losses.

    References
    ----------
    ISO 9613-2:1996, Attenuation of sound during propagation outdoors, section 7.1 (divergence).
    """
    decay_db = path.decay_db_per_decade * _decades(path.distance_m)
    return power_db - decay_db - path.spreading_db - path.losses_db


def required_distance_m(power_db: Number, path: Path, limit_db: Number) -> Number:
    """Distance at which the same path brings the level down to a limit [m]."""
    to_lose_db = power_db - path.spreading_db - path.losses_db - limit_db
    return 10.0 ** (to_lose_db / path.decay_db_per_decade)


def noise(sources: Sequence[SoundSource], path: Path, limit_db: Number | None = None) -> Noise:
    """Sound of a site at a receptor, with the margin to a limit.

    Parameters
    ----------
    sources
        Machines with their declared sound power [dB].
    path
        Way to the receptor.
    limit_db
        Level that must not be passed there [dB]; None for none.

    Returns
    -------
    Noise
        The interval grants spreading outdoors the usual uncertainty.
    """
    power = sound_power_db(sources)
    level = received_db(power, path)
    spread = SPREADING_UNCERTAINTY_DB
    pressure = Interval(level, level - spread, level + spread)
    margin = distance = None
    if limit_db is not None:
        margin = Interval(limit_db - level, limit_db - pressure.high, limit_db - pressure.low)
        distance = Interval(
            required_distance_m(power, path, limit_db),
            required_distance_m(power - spread, path, limit_db),
            required_distance_m(power + spread, path, limit_db),
        )
    return Noise(power, pressure, limit_db, margin, distance, path, tuple(sources))


def _decades(ratio: Number) -> Number:
    return log(ratio) / log(10.0)
