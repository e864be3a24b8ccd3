"""Regions of the catalog: the finest grid that is published, and what is known of each place."""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from tests.conftest import packaged

#: Places, the grid intensity that the finest source states [g/kWh], and who holds the figure.
FINEST = {
    "gcp/northamerica-northeast1": (5.48, "gcp/northamerica-northeast1"),
    "gcp/northamerica-northeast2": (58.56, "gcp/northamerica-northeast2"),
    "gcp/us-west1": (79.23, "gcp/us-west1"),
    "gcp/us-east1": (575.77, "gcp/us-east1"),
    "gcp/us-west3": (555.17, "gcp/us-west3"),
    "aws/ca-central-1": (1.9, "state/CA-QC"),
    "azure/canadacentral": (59.0, "state/CA-ON"),
    "aws/ca-west-1": (438.0, "state/CA-AB"),
    "aws/ap-southeast-4": (740.0, "state/AU-VIC"),
    "aws/ap-northeast-3": (296.19, "grid/JP-KN"),
    "azure/westus": (194.9, "us-grid/CAMX"),
    "azure/eastus3": (381.5, "us-grid/SRSO"),
    "runpod/US-WA-1": (120.9, "state/US-WA"),
    "ovh/BHS5": (1.9, "state/CA-QC"),
}
#: Cities, with the coordinates that an atlas gives them.
CITIES = {
    "aws/us-east-2": (39.96, -83.0),
    "gcp/us-south1": (32.78, -96.8),
    "gcp/us-west4": (36.17, -115.14),
    "azure/westus": (37.78, -122.42),
    "gcp/southamerica-east1": (-23.55, -46.63),
    "gcp/europe-west4": (53.44, 6.84),
}


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    a, b, c, d = map(radians, (*one, *other))
    return 12_742 * asin(sqrt(sin((c - a) / 2) ** 2 + cos(a) * cos(c) * sin((d - b) / 2) ** 2))


@pytest.mark.parametrize("region", FINEST)
def test_the_finest_grid_comes_first(packaged_snapshot: CatalogSnapshot, region: str) -> None:
    entry, (value, holder) = packaged_snapshot.regions[region], FINEST[region]
    assert entry.value.grid_gco2e_per_kwh is not None
    assert entry.value.grid_gco2e_per_kwh.value == pytest.approx(value, rel=0.03)
    assert entry.origins["grid_gco2e_per_kwh"].entry_id == holder


def test_every_intensity_says_whether_it_is_of_the_life_cycle(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    for entry in packaged_snapshot.regions.values():
        listed = entry.document["figures"].get("grid_gco2e_per_kwh", [])
        for figure in listed if isinstance(listed, list) else [listed]:
            said = "direct" in figure["note"] or "life cycle" in figure["note"]
            assert said, f"{entry.id}: {figure['note']}"


@pytest.mark.parametrize("region", CITIES)
def test_places_are_where_their_cities_are(packaged_snapshot: CatalogSnapshot, region: str) -> None:
    document = packaged_snapshot.regions[region].document
    assert kilometres((document["latitude"], document["longitude"]), CITIES[region]) < 35.0


def test_subregions_of_the_united_states_are_of_the_newest_edition(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    grids = [
        entry for id_, entry in packaged_snapshot.regions.items() if id_.startswith("us-grid/")
    ]
    assert len(grids) == 27
    assert {entry.origins["grid_gco2e_per_kwh"].source for entry in grids} == {"epa-egrid2023"}


def test_water_stress_is_known_for_every_region_of_a_cloud(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    unknown = [
        entry.id
        for entry in packaged_snapshot.regions.values()
        if entry.value.water_stress_ratio is None and entry.document["kind"] == "cloud"
    ]
    assert unknown == []


def test_classes_of_water_stress_are_those_of_the_state(packaged_snapshot: CatalogSnapshot) -> None:
    """A point beside a border falls into the state across it, as Council Bluffs into Nebraska."""
    states = {
        entry.document["subdivision"]: figure["value"]
        for entry in packaged_snapshot.regions.values()
        if entry.document["kind"] == "state"
        and (figure := entry.document["figures"].get("water_stress_ratio"))
    }
    assert len(states) >= 20
    # Canberra and Washington are in territories of their own, which have no code here.
    apart = {"Canberra", "Washington"}
    held = 0
    for entry in packaged_snapshot.regions.values():
        document = entry.document
        figure = document["figures"].get("water_stress_ratio")
        place = document.get("place")
        if document["kind"] == "cloud" and figure and place not in apart:
            stated = states.get(document.get("subdivision"), figure["value"])
            assert figure["value"] == stated, entry.id
            held += document.get("subdivision") in states
    assert held >= 40


def test_all_cloud_regions_know_their_climate(packaged_snapshot: CatalogSnapshot) -> None:
    clouds = [one for one in packaged_snapshot.regions.values() if one.document["kind"] == "cloud"]
    assert len(clouds) >= 380
    for entry in clouds:
        wet_bulb = entry.value.wet_bulb_celsius
        assert wet_bulb is not None, entry.id
        assert -12.0 <= wet_bulb.value <= 28.0, entry.id


def test_countries_have_a_wider_climate_than_their_cities(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    """Where only the country is known, the interval holds what its places have."""
    inside, places = 0, 0
    for entry in packaged_snapshot.regions.values():
        country = packaged_snapshot.regions.get(f"country/{entry.document.get('country')}")
        own = entry.document["figures"].get("wet_bulb_celsius")
        if entry.document["kind"] != "cloud" or own is None or country is None:
            continue
        wide = country.value.wet_bulb_celsius
        assert wide is not None
        places += 1
        inside += wide.low <= own["value"] <= wide.high
    assert places >= 250
    assert inside / places >= 0.9


def test_regions_of_a_city_have_the_same_place_grid_and_climate() -> None:
    """Clouds in one city confirm each other: figures came with each cloud's own list."""
    cities: dict[tuple[str, str | None, str], list[dict[str, Any]]] = {}
    for region in packaged()["regions"].values():
        if region["kind"] == "cloud" and "place" in region:
            city = (region["country"], region.get("subdivision"), region["place"])
            cities.setdefault(city, []).append(dict(region))
    shared = {city: regions for city, regions in cities.items() if len(regions) > 1}
    assert sum(map(len, shared.values())) > 200
    for city, regions in shared.items():
        for axis in ("latitude", "longitude"):
            ends = [region[axis] for region in regions]
            assert max(ends) - min(ends) <= 0.25, (city, axis)
        assert len({region["parent"] for region in regions}) == 1, city
        for name in ("water_stress_ratio", "wet_bulb_celsius", "electricity_usd_per_kwh"):
            told = {region["figures"].get(name, {}).get("value") for region in regions}
            assert len(told) == 1, (city, name)
