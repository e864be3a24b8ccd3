"""Every input of a plan moves a figure or a warning, or is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.use_cases import USE_CASES
from tests.estimation.inputs import LABELS, Changes, inputs, unmoved
from tests.estimation.test_every_input_of_estimates import HARDWARE, SERVED

#: One copy: a deployment without a load.
COPY: dict[str, Any] = SERVED | {
    "accelerator_count": 1,
    "parallelism": {"data": 1},
    "workload": {"input_tokens": 1024},
}

FLEET: dict[str, Any] = {
    "years": 6,
    "loads": [
        {
            "name": "chat",
            "deployment": COPY,
            "requests_per_s": 40.0,
            "peak_ratio": 2.0,
            "token_price": {
                "provider": "an API",
                "usd_per_million_input_tokens": 0.2,
                "usd_per_million_output_tokens": 0.6,
            },
        }
    ],
    "refresh_years": 3,
}
OF_FLEET: Changes = {
    "years": ({}, 3),
    "loads[].requests_per_s": ({}, 80.0),
    "loads[].peak_ratio": ({}, 4.0),
    "loads[].growth_per_year_ratio": ({}, 0.5),
    "loads[].starts_in_year": ({}, 2),
    "loads[].ends_after_year": ({}, 4),
    "loads[].token_price.usd_per_million_input_tokens": ({}, 0.5),
    "loads[].token_price.usd_per_million_output_tokens": ({}, 0.9),
    "loads[].token_price.usd_per_million_cached_tokens": (
        {"loads[].deployment.workload.prefix_cached_ratio": 0.5},
        0.1,
    ),
    "loads[].token_price.change_per_year_ratio": ({}, -0.2),
    "loads[].token_price.priced_on": ({}, "2026-11-20"),
    "loads[].token_price.gco2e_per_1k_output_tokens": ({}, 2.85),
    "loads[].token_price.l_per_1k_output_tokens": ({}, 0.1125),
    "reserve_ratio": ({}, 0.5),
    "spare_copies": ({}, 2),
    "refresh_years": ({}, 5),
    "second_life_years": ({}, 3.0),
    "grid_change_per_year_ratio": ({}, -0.1),
    "purchase_price_change_per_year_ratio": (
        {"loads[].deployment.cost.purchase_usd_per_accelerator": 3e4},
        -0.1,
    ),
    "discount_per_year_ratio": ({}, 0.1),
}

DAY = [float(rate) for rate in (5, 5, 20, 60, 80, 60, 30, 10)]
TRAFFIC: dict[str, Any] = {
    "deployment": COPY | {"region": "aws/us-west-1"},
    "requests_per_s": DAY,
    "interval_s": 10_800.0,
    "scaling": "each-interval",
}
SUN = {"generation": [0.0, 0.0, 1.0, 4.0, 5.0, 2.0, 0.0, 0.0]}
WAITING = {"ratio": 0.5, "within_s": 43_200.0}
OF_TRAFFIC: Changes = {
    "requests_per_s": ({}, [2.0 * rate for rate in DAY]),
    "interval_s": ({}, 3600.0),
    "scaling": ({}, "fixed"),
    "copies": ({"scaling": "fixed"}, 20),
    "reserve_ratio": ({}, 0.5),
    "spare_copies": ({}, 2),
    "least_copies": ({}, 4),
    "start_s": ({}, 600.0),
    "starts_at_hour": ({}, 6.0),
    "month": ({}, 7),
    "grid_gco2e_per_kwh": ({}, [100.0] * 8),
    "days_per_year": ({}, 200.0),
    "contract": ({}, SUN),
    "contract.generation": ({"contract": SUN}, [1.0] * 8),
    "contract.contracted_ratio": ({"contract": SUN}, 0.5),
    "contract.gco2e_per_kwh": ({"contract": SUN}, 20.0),
    "contract.residual_gco2e_per_kwh": ({"contract": SUN}, 700.0),
    "deferrable": ({}, WAITING),
    "deferrable.ratio": ({"deferrable": WAITING}, 0.1),
    "deferrable.within_s": ({"deferrable": WAITING}, 10_800.0),
}

SITE: dict[str, Any] = {
    "region": "country/DE",
    "site_kw": 2000.0,
    "racks": 40,
    "rack_kw": 40.0,
    "options": [{"accelerator": "nvidia-h100-sxm-80gb"}],
    "serves": {"model": "meta-llama/Llama-3.1-70B", "workload": {"input_tokens": 1024}},
    "compliance": {"on": "2027-11-22"},
}
HEARD = {
    "site": {
        "sound_sources": [{"count": 4, "sound_power_db": 90}],
        "receptor_distance_m": 100,
        "noise_limit_db": 40,
    }
}
EVAPORATES = {"site": {"cooling": "evaporative-tower", "wet_bulb_celsius": 10.0}}
CONTRACT = {"electricity.contracted_ratio": 0.5}
BUSY = {"hardware": {"amortisation": "busy-hours", "in_use_ratio": 0.5}}
OF_SITE: Changes = {
    "site_kw": ({}, 1000.0),
    "racks": ({}, 10),
    "rack_kw": ({}, 12.0),
    "rack_air_kw": ({}, 20.0),
    "machines_per_rack": ({}, 1),
    "reserve_ratio": ({}, 0.3),
    "water_l_per_day": (EVAPORATES, 10.0),
    "options[].accelerator": ({}, "amd-mi300x-192gb"),
    "options[].platform": ({}, "server-8"),
    "options[].power_limit_w": ({}, 400.0),
    "electricity.contracted_ratio": ({}, 0.5),
    "electricity.contracted_gco2e_per_kwh": (CONTRACT, 50.0),
    "electricity.matching": (CONTRACT, "hourly"),
    "electricity.hourly_matched_ratio": (CONTRACT | {"electricity.matching": "hourly"}, 0.2),
    "electricity.residual_gco2e_per_kwh": ({}, 600.0),
    "electricity.marginal_gco2e_per_kwh": ({}, 700.0),
    "hardware.life_years": ({}, 3.0),
    "hardware.second_life_years": ({}, 2.0),
    "hardware.reused_ratio": ({}, 0.5),
    "hardware.collected_ratio": ({}, 0.9),
    "hardware.added_memory_gb": ({}, 100.0),
    "hardware.added_memory": ({"hardware.added_memory_gb": 100.0}, "hbm3"),
    "hardware.treatment_kgco2e_per_kg": ({}, 0.1),
    "hardware.in_use_ratio": (BUSY, 0.3),
    # One of both alone is refused.
    "hardware": ({}, BUSY["hardware"]),
    "site.cooling": ({}, "dry"),
    "site.wet_bulb_celsius": (EVAPORATES, 20.0),
    "site.cycles_of_concentration": (EVAPORATES, 3.0),
    "site.evaporative_ratio": (EVAPORATES, 0.5),
    "site.municipal_supply_l_per_day": (EVAPORATES, 1e6),
    "site.sound_sources[].count": (HEARD, 8),
    "site.sound_sources[].sound_power_db": (HEARD, 100.0),
    "site.sound_sources[].fan_speed_ratio": (HEARD, 0.7),
    "site.sound_sources[].building_loss_db": (HEARD, 10.0),
    "site.receptor_distance_m": (HEARD, 200.0),
    "site.propagation": (HEARD, "line"),
    "site.air_absorption_db": (HEARD, 2.0),
    "site.barrier_db": (HEARD, 10.0),
    "site.directivity_db": (HEARD, 3.0),
    "site.noise_limit_db": (HEARD, 60.0),
    "site.liquid_cooled_ratio": ({}, 0.5),
    "site.air_temperature_rise_k": ({}, 8.0),
    "site.hard_disk_ratio": ({}, 0.5),
    "site.rack_fan_speed_ratio": ({"site.hard_disk_ratio": 0.5}, 1.2),
    "site.mounting": ({}, "isolated"),
    "site.area_m2": ({"site": {"area_m2": 2e4, "mean_it_kw": 1e3}}, 1e4),
    "site.mean_it_kw": ({"site": {"area_m2": 2e4, "mean_it_kw": 1e3}}, 2e3),
    "site.rack_kw": ({}, 10.0),
    "site.accelerators_per_rack": ({}, 16),
    **{name: HARDWARE[name] for name in ("facility.pue_ratio",)},
    "facility.site_class": ({}, "home"),
    "region": ({}, "country/FR"),
    "region.parent": ({"region": {"parent": "country/DE"}}, "country/FR"),
    "region.figures": ({"region": {"parent": "country/DE"}}, {"grid_gco2e_per_kwh": 10.0}),
    "region.country": ({"region": HARDWARE["region.cooling.wet_bulb_celsius"][0]["region"]}, "FR"),
    **{name: HARDWARE[name] for name in HARDWARE if name.startswith("region.cooling.")},
}

#: What is asked of a copy is an estimate's own, and perturbed there.
CASES: dict[str, tuple[dict[str, Any], Changes, set[str]]] = {
    "plans/fleet": (
        FLEET,
        OF_FLEET,
        {"loads[].deployment", "loads[].name", "loads[].token_price.provider"},
    ),
    "plans/traffic": (TRAFFIC, OF_TRAFFIC, {"deployment"}),
    "plans/site": (
        SITE,
        OF_SITE,
        LABELS | {"serves", "options[].accelerator", "options[].platform", "hardware.amortisation"},
    ),
}
#: Fields of a deployment that plans have no figures of, and say so.
UNTOLD = {
    "network_round_trip_s": 0.05,
    "compliance": {"on": "2026-11-22"},
    "workload.calls_per_task": 4,
    "workload.tool_s": 1.0,
    "workload.context_growth_tokens": 500,
    "workload.context_kept_cached": True,
    "cost.usd_per_tco2e": 100.0,
    "cost.amortisation_years": 2.0,
}


@pytest.mark.parametrize("question", CASES)
def test_every_input_moves_a_figure_or_a_warning(packaged_snapshot, question):
    base, changes, left = CASES[question]
    asked = inputs(USE_CASES[question].request, frozenset({"compliance", *left}))
    assert set(changes) >= asked
    assert unmoved(question, base, changes, packaged_snapshot) == []


@pytest.mark.parametrize(
    ("question", "base", "place"),
    [("plans/fleet", FLEET, "loads[].deployment"), ("plans/traffic", TRAFFIC, "deployment")],
)
def test_what_a_plan_tells_nothing_of_is_said(packaged_snapshot, question, base, place):
    changes: Changes = {f"{place}.{name}": ({}, value) for name, value in UNTOLD.items()}
    assert unmoved(question, base, changes, packaged_snapshot) == []
