"""What a site's neighbours and its own machines notice: noise, heat, vibration, town water."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.explanation import EstimateWarning, Step, explain
from service.core.impacts.footprint import Footprint
from service.core.impacts.noise import NOISE, SOURCE, Noise, Path, SoundSource, noise
from service.core.impacts.site import (
    HEAT,
    VIBRATION,
    Heat,
    Vibration,
    municipal_share,
    rack_heat,
    vibration,
)
from service.core.interval import Interval, exact, independent_sum, scale
from service.core.platform import share_of
from service.estimation.answers import figure, known_figure
from service.estimation.confidence import judged
from service.estimation.impacts.answers import (
    MunicipalWater,
    NoiseAtReceptor,
    RackHeat,
    SiteAnswer,
    VibrationIndex,
)
from service.estimation.impacts.requests import SiteRequest

COOLING_CLASSES = "site/cooling-classes"

_FAILURES = (
    "no failure rate is predicted from the index, because no public rate of failures by vibration "
    "was found"
)


class Site:
    """The parts of a site that a request says enough about to compute; others are None."""

    def __init__(
        self,
        asked: SiteRequest,
        snapshot: CatalogSnapshot,
        accelerator: Accelerator | None,
    ) -> None:
        self._asked = asked
        self.noise = _noise(asked)
        self.heat = _heat(asked, snapshot, accelerator)
        self.vibration = _vibration(asked, self.heat)

    def steps(self) -> tuple[Step, ...]:
        """The formulas applied, in order, with the figures that went in and came out."""
        sources = () if self.noise is None else self.noise.sources
        return (
            *(step for source in sources for step in explain(source, SOURCE)),
            *explain(self.noise, NOISE),
            *explain(self.heat, HEAT),
            *explain(self.vibration, VIBRATION),
        )

    def warnings(self) -> tuple[EstimateWarning, ...]:
        """What a careful colleague would say about the site's figures."""
        found = []
        margin = self.noise.margin_db if self.noise is not None else None
        if margin is not None and margin.low < 0.0:
            verdict = "is passed" if margin.high < 0.0 else "may be exceeded"
            found.append(
                EstimateWarning(
                    "noise_limit",
                    f"the noise limit {verdict}: margin {margin.value:.1f} dB, "
                    f"{margin.low:.1f} to {margin.high:.1f}",
                )
            )
        if self.noise is not None:
            found.append(
                EstimateWarning(
                    "noise_is_spreading_only",
                    "tones, low frequencies, ground and weather are not modelled; people may "
                    "complain even where the limit is met",
                )
            )
        return tuple(found)

    def answer(self, result: Footprint, count: float, days: float) -> SiteAnswer:
        """The site as it goes over the wire.

        Parameters
        ----------
        result, count
            Footprint, and how many of it the period holds.
        days
            Length of the period [d].
        """
        return {
            "noise": _noise_answer(self.noise),
            "heat": _heat_answer(self.heat),
            "vibration": _vibration_answer(self.vibration),
            "municipal_water": self._municipal(result, count, days),
        }

    def _municipal(self, result: Footprint, count: float, days: float) -> MunicipalWater | None:
        supply = self._asked.municipal_supply_l_per_day
        if supply is None or result.water_on_site_l is None:
            return None
        share = municipal_share(scale(result.water_on_site_l, count), supply * days)
        return {"supply_l_per_day": supply, "used_on_site_ratio": figure(share)}


def _noise(asked: SiteRequest) -> Noise | None:
    if not asked.sound_sources or asked.receptor_distance_m is None:
        return None
    sources = [
        SoundSource(
            source.count, source.sound_power_db, source.fan_speed_ratio, source.building_loss_db
        )
        for source in asked.sound_sources
    ]
    path = Path(
        asked.receptor_distance_m,
        asked.propagation,
        asked.air_absorption_db,
        asked.barrier_db,
        asked.directivity_db,
    )
    return noise(sources, path, asked.noise_limit_db)


def _heat(
    asked: SiteRequest,
    snapshot: CatalogSnapshot,
    accelerator: Accelerator | None,
) -> Heat | None:
    rack_kw: Interval | None = None
    if asked.rack_kw is not None:
        rack_kw = exact(asked.rack_kw)
    elif asked.accelerators_per_rack is not None and accelerator is not None:
        most_w, platform = accelerator.most_power_w, accelerator.platform
        if most_w is not None:
            host_w = share_of(platform.host_power_w(1.0), platform) or exact(0.0)
            unit_w = independent_sum((exact(float(most_w)), host_w))
            each_kw = 1e-3 / float(platform.supply_efficiency_ratio)
            rack_kw = scale(unit_w, asked.accelerators_per_rack * each_kw)
    if rack_kw is None:
        return None
    limits = snapshot.calibrations[COOLING_CLASSES].value
    classes = sorted(
        ((name.removesuffix("_kw"), float(most.value)) for name, most in limits.items()),
        key=lambda item: item[1],
    )
    return rack_heat(rack_kw, asked.liquid_cooled_ratio, asked.air_temperature_rise_k, classes)


def _vibration(asked: SiteRequest, heat: Heat | None) -> Vibration | None:
    if heat is None:
        return None
    return vibration(
        asked.hard_disk_ratio,
        asked.rack_fan_speed_ratio,
        float(heat.air_cooled_kw.value),
        asked.mounting,
    )


def _noise_answer(result: Noise | None) -> NoiseAtReceptor | None:
    if result is None:
        return None
    return {
        "sound_power_db": float(result.sound_power_db),
        "distance_m": float(result.path.distance_m),
        "sound_pressure_db": figure(result.sound_pressure_db),
        "limit_db": None if result.limit_db is None else float(result.limit_db),
        "margin_db": known_figure(result.margin_db),
        "required_distance_m": known_figure(result.required_distance_m),
        "confidence": {
            "level": "medium",
            "reason": "spreading alone, ±5 dB; declared levels are used as given",
        },
    }


def _heat_answer(result: Heat | None) -> RackHeat | None:
    if result is None:
        return None
    return {
        "rack_kw": figure(result.rack_kw),
        "air_cooled_kw": figure(result.air_cooled_kw),
        "airflow_m3_per_s": figure(result.airflow_m3_per_s),
        "cooling_class": result.cooling_class,
        "air_cooling_class": result.air_cooling_class,
        "confidence": judged(result.airflow_m3_per_s),
    }


def _vibration_answer(result: Vibration | None) -> VibrationIndex | None:
    if result is None:
        return None
    return {
        "index": float(result.index),
        "band": result.band,
        "drivers": {name: float(part) for name, part in result.drivers_ratio.items()},
        "expected_failures": None,
        "confidence": {"level": "low", "reason": _FAILURES},
    }
