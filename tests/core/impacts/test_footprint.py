from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.deployment import Region
from service.core.explanation import explain
from service.core.impacts.footprint import FOOTPRINT, Footprint, footprint
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, exact
from service.core.platform import ALONE
from tests.core.deployments import H100, INFRASTRUCTURE, STOCKHOLM

BARE = Infrastructure(
    hardware_life_years=exact(4.0),
    idle_ratio=exact(0.1),
)


def place(grid: float | None, pue: float, wue: float | None, ewif: float | None) -> Region:
    def known(value: float | None) -> Interval | None:
        return None if value is None else exact(value)

    return Region(
        "test", "test", "US", known(grid), None, exact(pue), known(wue), known(ewif), None
    )


def of_energy(kwh: float, region: Region) -> Footprint:
    return footprint(exact(kwh), None, None, region, INFRASTRUCTURE)


def test_gpt3_training_energy_gives_the_published_552_tonnes():
    # 1,287 MWh at the meter and 0.429 kg/kWh (Patterson et al., 2021).
    result = of_energy(1_287_000, place(429.0, 1.0, None, None))
    assert result.operational_location_gco2e is not None
    assert result.operational_location_gco2e.value / 1e6 == pytest.approx(552, rel=0.005)


def test_bloom_training_energy_gives_the_published_dynamic_emissions():
    result = of_energy(433_196, place(57.0, 1.0, None, None))
    assert result.operational_location_gco2e is not None
    assert result.operational_location_gco2e.value / 1e6 == pytest.approx(24.69, rel=0.005)


def test_jegham_water_of_a_query_follows_with_pue_applied_once():
    # 0.42 Wh at the meter on the Azure row: PUE 1.12, 0.30 L/kWh on site, 4.35 off site.
    result = of_energy(0.42e-3 / 1.12, place(350.0, 1.12, 0.30, 4.35))
    assert result.water_total_l is not None
    assert result.water_total_l.value * 1000 == pytest.approx(1.9395, rel=0.005)
    assert result.operational_location_gco2e is not None
    assert result.operational_location_gco2e.value == pytest.approx(0.147, rel=0.005)


def test_an_hour_of_an_h100_carries_the_sci_share_of_its_making():
    card = replace(H100, embodied_kgco2e=exact(164.0), platform=ALONE)
    result = footprint(exact(0.0), exact(1.0), card, STOCKHOLM, BARE)
    assert result.embodied_gco2e is not None
    assert result.embodied_gco2e.value == pytest.approx(4.677, rel=0.005)


def test_water_on_site_ignores_pue_and_water_off_site_does_not():
    lean = of_energy(100.0, place(400.0, 1.1, 0.5, 3.0))
    fat = of_energy(100.0, place(400.0, 2.2, 0.5, 3.0))
    assert lean.water_on_site_l == fat.water_on_site_l
    assert lean.water_off_site_l is not None
    assert fat.water_off_site_l is not None
    assert fat.water_off_site_l.value == pytest.approx(2 * lean.water_off_site_l.value)


def test_unknown_factors_give_unknown_figures_and_never_zero():
    result = of_energy(10.0, place(None, 1.2, None, 3.0))
    assert result.operational_location_gco2e is None
    assert result.operational_market_gco2e is None
    assert result.water_on_site_l is None
    assert result.water_total_l is None
    assert result.embodied_gco2e is None
    assert result.total_location_gco2e is None
    assert result.water_off_site_l is not None


@given(
    kwh=st.floats(1e-6, 1e9),
    factor=st.floats(1.001, 1e3),
    grid=st.floats(0.0, 1500.0),
    pue=st.floats(1.0, 3.0),
)
def test_footprints_are_linear_in_energy(kwh, factor, grid, pue):
    region = place(grid, pue, 0.4, 2.0)
    one, many = of_energy(kwh, region), of_energy(kwh * factor, region)
    for name in ("operational_location_gco2e", "water_total_l", "facility_energy_kwh"):
        assert getattr(many, name).value == pytest.approx(factor * getattr(one, name).value)


def test_every_figure_of_the_footprint_appears_in_a_step():
    known = replace(
        STOCKHOLM,
        market_gco2e_per_kwh=exact(5.0),
        marginal_gco2e_per_kwh=exact(600.0),
        adpe_kgsbeq_per_kwh=exact(5e-8),
    )
    result = footprint(Interval(10.0, 8.0, 13.0), exact(20.0), H100, known, INFRASTRUCTURE)
    values = {step.formula.name: step.value for step in explain(result, FOOTPRINT)}
    assert values == {
        "facility_energy_kwh": result.facility_energy_kwh.value,
        "operational_location_gco2e": result.operational_location_gco2e.value,
        "operational_market_gco2e": result.operational_market_gco2e.value,
        "marginal_signal_gco2e": result.marginal_signal_gco2e.value,
        "embodied_gco2e": result.embodied_gco2e.value,
        "total_location_gco2e": result.total_location_gco2e.value,
        "on_site_l": result.water_on_site_l.value,
        "off_site_l": result.water_off_site_l.value,
        "total_l": result.water_total_l.value,
        "stress_weighted_l": result.water_stress_weighted_l.value,
        "e_waste_kg": result.e_waste_kg.value,
        "primary_energy_mj": result.primary_energy_mj.value,
        "abiotic_depletion_kgsbeq": result.abiotic_depletion_kgsbeq.value,
    }


def test_idle_power_falls_back_to_the_usual_share_of_tdp():
    unknown = replace(H100, idle_power_w=None)
    assert INFRASTRUCTURE.idle_power_w(unknown).value == pytest.approx(0.12 * 700)


def test_graphics_cards_fall_asleep_to_some_watts_whatever_their_limit():
    around = replace(
        INFRASTRUCTURE, card_idle_w=Interval(6.0, 3.0, 12.0), card_idle_ratio=exact(0.035)
    )

    def idle_w(technology, limit_w):
        card = replace(
            H100,
            idle_power_w=None,
            memory_technology=technology,
            thermal_design_power_w=limit_w,
        )
        return around.idle_power_w(card).value

    assert idle_w("GDDR6X", 350.0) == pytest.approx(6.0 + 0.035 * 350.0)
    assert idle_w("GDDR6X", 350.0) < idle_w("HBM3", 350.0) == pytest.approx(0.12 * 350.0)
    # Never more than it may draw.
    assert idle_w("GDDR6", 5.0) == 5.0


def test_what_waits_with_a_model_draws_its_own_figure_or_more_where_memory_is_stacked():
    around = replace(INFRASTRUCTURE, waiting_ratio=Interval(0.06, 0.03, 0.1))
    told = replace(H100, waiting_power_w=exact(121.0))
    stacked, card = (replace(H100, memory_technology=kind) for kind in ("HBM3", "GDDR6X"))
    assert around.waiting_power_w(told).value == 121.0
    assert around.waiting_power_w(stacked).value == pytest.approx(70.0 + 0.06 * 700.0)
    assert around.waiting_power_w(card) == H100.idle_power_w


@given(pue=st.floats(1.0, 3.0), wue=st.floats(0.0, 5.0), ewif=st.floats(0.0, 20.0))
def test_pue_enters_once_however_it_comes_in(pue, wue, ewif):
    # The same meter reading, once as IT energy with a PUE and once as facility energy without.
    outside = of_energy(100.0, place(400.0, pue, wue, ewif))
    inside = of_energy(100.0 * pue, place(400.0, 1.0, wue / pue, ewif))
    for name in ("operational_location_gco2e", "water_total_l", "primary_energy_electricity_mj"):
        assert getattr(outside, name).value == pytest.approx(getattr(inside, name).value)
    assert outside.water_on_site_l is not None
    assert outside.water_on_site_l.value == pytest.approx(100.0 * wue)
    assert outside.water_off_site_l is not None
    assert outside.water_off_site_l.value == pytest.approx(100.0 * pue * ewif)


def test_a_marginal_signal_is_in_no_total():
    quiet = footprint(exact(1.0), exact(1.0), H100, STOCKHOLM, INFRASTRUCTURE)
    loud = footprint(
        exact(1.0),
        exact(1.0),
        H100,
        replace(STOCKHOLM, marginal_gco2e_per_kwh=exact(900.0)),
        INFRASTRUCTURE,
    )
    assert loud.marginal_signal_gco2e is not None
    assert loud.marginal_signal_gco2e.value == pytest.approx(900.0 * 1.12)
    assert loud.total_location_gco2e == quiet.total_location_gco2e


def test_depletion_of_the_hardware_is_known_where_that_of_the_grid_is_not():
    result = footprint(exact(1.0), exact(8766.0), H100, STOCKHOLM, INFRASTRUCTURE)
    assert result.abiotic_depletion_kgsbeq is None
    assert result.abiotic_depletion_hardware_kgsbeq is not None
    assert result.abiotic_depletion_hardware_kgsbeq.value == pytest.approx((0.0072 + 0.038) / 5.0)


def test_a_second_life_and_busy_hours_share_out_the_making_as_named():
    one_year = exact(8766.0)

    def embodied(**changes):
        around = replace(BARE, **changes)
        card = replace(H100, platform=ALONE)
        result = footprint(exact(0.0), one_year, card, STOCKHOLM, around).embodied_gco2e
        assert result is not None
        return result.value

    assert embodied() == pytest.approx(273_000 / 4)
    assert embodied(second_life_years=2.0) == pytest.approx(273_000 / 6)
    assert embodied(in_use_ratio=0.5) == pytest.approx(273_000 / 2)
    assert embodied(memory_kgco2e=exact(100.0)) == pytest.approx(373_000 / 4)
