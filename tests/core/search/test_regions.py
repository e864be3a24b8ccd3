"""Rows in regions say what the footprint of each row says."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.deployment import Region
from service.core.impacts.footprint import footprint
from service.core.impacts.infrastructure import Infrastructure, Making
from service.core.interval import Interval, exact
from service.core.search.regions import in_regions, making_of_rows
from service.core.search.regions import stacked as regions_stacked

AROUND = Infrastructure(
    Interval(5.0, 4.0, 6.0),
    Interval(0.12, 0.07, 0.2),
)
FIGURES = ("operational_location_gco2e", "total_location_gco2e", "water_total_l", "embodied_gco2e")


@st.composite
def intervals(draw, least=1e-3, most=1e3):
    value = draw(st.floats(least, most))
    below, above = draw(st.floats(1.0, 3.0)), draw(st.floats(1.0, 3.0))
    return Interval(value, value / below, value * above)


@st.composite
def regions(draw):
    return Region(
        id="somewhere",
        name="somewhere",
        country="SE",
        grid_gco2e_per_kwh=draw(st.none() | intervals()),
        market_gco2e_per_kwh=None,
        pue_ratio=draw(intervals(1.0, 2.0)),
        wue_l_per_kwh=draw(st.none() | intervals()),
        ewif_l_per_kwh=draw(st.none() | intervals()),
        water_stress_ratio=None,
    )


def stacked(figures):
    ends = ("value", "low", "high")
    return Interval(*(np.array([getattr(one, end) for one in figures]) for end in ends))


@given(st.lists(regions(), min_size=1, max_size=4))
def test_stacked_regions_have_the_operation_of_each(places):
    together = footprint(exact(1.0), None, None, regions_stacked(places), AROUND)
    for name in ("facility_energy_kwh", "operational_location_gco2e", "water_total_l"):
        for at, place in enumerate(places):
            alone = getattr(footprint(exact(1.0), None, None, place, AROUND), name)
            found = np.broadcast_to(getattr(together, name).value, len(places))[at]
            assert np.isnan(found) if alone is None else found == alone.value


@given(
    st.lists(st.tuples(intervals(), intervals(), st.integers(0, 1)), min_size=1, max_size=5),
    st.lists(regions(), min_size=1, max_size=4),
    intervals(),
)
def test_each_row_in_each_region_has_the_footprint_of_a_single_estimate(rows, places, embodied):
    kwh, hours = stacked([row[0] for row in rows]), stacked([row[1] for row in rows])
    offer = np.array([row[2] for row in rows])
    makings = (embodied, None)
    found = in_regions(
        kwh,
        hours,
        making_of_rows(makings, offer, AROUND),
        places,
        AROUND,
        lambda one: {name: getattr(one, name) for name in FIGURES},
    )
    at = 0
    for row_kwh, row_hours, row_offer in rows:
        made = Making(makings[row_offer], None, None, None, AROUND.service_hours())
        for region in places:
            single = footprint(row_kwh, row_hours, None, region, AROUND, made)
            for name in FIGURES:
                expected = getattr(single, name)
                for end in fields(Interval):
                    value = np.asarray(getattr(found[name], end.name))[at]
                    if expected is None:
                        assert np.isnan(value)
                    else:
                        assert value == pytest.approx(getattr(expected, end.name), rel=1e-12)
            at += 1
    assert all(len(np.asarray(one.value)) == at for one in found.values())


def test_a_region_without_a_grid_has_no_carbon_and_keeps_its_water():
    somewhere = Region(
        "a", "a", "SE", None, None, Interval(1.2, 1.1, 1.3), *[Interval(1.0, 0.9, 1.1)] * 2, None
    )
    elsewhere = replace(somewhere, grid_gco2e_per_kwh=Interval(100.0, 90.0, 110.0))
    one = Interval(np.ones(1), np.full(1, 0.9), np.full(1, 1.1))
    found = in_regions(
        one,
        one,
        making_of_rows((Interval(300.0, 200.0, 400.0),), np.zeros(1, dtype=int), AROUND),
        [somewhere, elsewhere],
        AROUND,
        lambda found: {"carbon": found.total_location_gco2e, "water": found.water_total_l},
    )
    assert np.isnan(found["carbon"].value).tolist() == [True, False]
    assert np.isnan(found["water"].value).tolist() == [False, False]
