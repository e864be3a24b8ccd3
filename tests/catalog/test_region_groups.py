"""What names of regions mean, from one of them to a continent, and what is suggested."""

from __future__ import annotations

import pytest

from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.entries.texts import packaged_texts
from service.catalog.region_groups import listed_groups, one_region, regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.core.compliance import MEMBERS


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("EU", {"aws/eu-north-1", "hetzner/fsn1-dc14"}, {"aws/eu-west-2", "azure/norwayeast"}),
        ("EEA", {"azure/norwayeast"}, {"aws/eu-central-2"}),
        ("Nordics", {"azure/norwayeast", "aws/eu-north-1"}, {"aws/eu-west-1"}),
        ("europe", {"aws/eu-west-2", "aws/eu-central-2"}, {"aws/us-east-1"}),
        ("UK", {"aws/eu-west-2", "azure/ukwest"}, {"aws/eu-west-1", "country/GB"}),
        ("aws/*", {"aws/us-east-1"}, {"gcp/us-east1"}),
        ("DE/*", {"aws/eu-central-1", "hetzner/nbg1-dc3"}, {"country/DE", "aws/eu-west-1"}),
        ("California/*", {"aws/us-west-1", "runpod/US-CA-1"}, {"aws/us-west-2"}),
        ("us-grid/NWPP/*", {"aws/us-west-2"}, {"aws/us-west-1"}),
        ("eu/*", {"aws/eu-north-1"}, {"aws/us-east-1"}),
    ],
)
def test_a_group_means_all_cloud_regions_in_it(
    packaged_snapshot: CatalogSnapshot, name: str, inside: set[str], outside: set[str]
) -> None:
    found = {entry.id for entry in regions_meant(name, packaged_snapshot)}
    assert inside <= found
    assert not outside & found


@pytest.mark.parametrize("name", ["country/DE", "germany", "Québec", "aws/eu-north-1"])
def test_a_place_is_itself(packaged_snapshot: CatalogSnapshot, name: str) -> None:
    (entry,) = regions_meant(name, packaged_snapshot)
    assert entry is packaged_snapshot.find("regions", name)


@pytest.mark.parametrize(
    ("typed", "city"),
    [("Stokholm", "Stockholm"), ("Zurick", "Zürich"), ("Amsterdm", "Amsterdam")],
)
def test_regions_of_the_city_that_sounds_alike_are_suggested(
    packaged_snapshot: CatalogSnapshot, typed: str, city: str
) -> None:
    with pytest.raises(UnknownReference) as unknown:
        regions_meant(typed, packaged_snapshot)
    assert unknown.value.suggestions
    for suggested in unknown.value.suggestions:
        place = packaged_snapshot.regions[suggested].document["place"]
        assert place.replace("ü", "u") == city.replace("ü", "u")


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        # A city that a provider is not known in, that it is in, and a slip in its own id.
        ("gcp/us-chicago-1", "azure/northcentralus"),
        ("us-chicago-2", "oci/us-chicago-1"),
        ("aws/stockholm", "aws/eu-north-1"),
        ("azure/frankfurt", "azure/germanywestcentral"),
        ("aws/eu-nrth-1", "aws/eu-north-1"),
        ("nordiks", "nordics"),
    ],
)
def test_what_looks_alike_is_suggested_of_the_same_provider_first(
    packaged_snapshot: CatalogSnapshot, typed: str, first: str
) -> None:
    with pytest.raises(UnknownReference) as unknown:
        regions_meant(typed, packaged_snapshot)
    suggested = unknown.value.suggestions
    assert suggested[0] == first
    places = {"us", "se", "de", "ie"}
    for one in suggested[1:]:
        assert packaged_snapshot.regions[one].value.country.casefold() in places, suggested


@pytest.mark.parametrize("typed", ["nowhere/*", "/*", "*", "", "x" * 300])
def test_what_means_nothing_is_refused(packaged_snapshot: CatalogSnapshot, typed: str) -> None:
    with pytest.raises(UnknownReference):
        regions_meant(typed, packaged_snapshot)


def test_groups_hold_the_countries_that_they_are_of(packaged_snapshot: CatalogSnapshot) -> None:
    groups = packaged_texts()["region-groups"].by_id
    assert frozenset(groups["eu"].fields["countries"]) == MEMBERS
    assert set(groups["eea"].fields["countries"]) - MEMBERS == {"IS", "LI", "NO"}
    known = {entry.value.country for entry in packaged_snapshot.regions.values()}
    for id_, text in groups.items():
        assert known & set(text.fields["countries"]), id_
        for alias in (id_, *text.fields["aliases"]):
            assert not packaged_snapshot.references["regions"].candidates(alias), alias
    listed = {group["id"]: group for group in listed_groups(packaged_snapshot)}
    assert "aws/eu-north-1" in listed["nordics"]["regions"]


@pytest.mark.parametrize("name", ["aws", "AWS", "provider/aws", "aws/*"])
def test_a_provider_means_all_of_its_regions(packaged_snapshot: CatalogSnapshot, name: str) -> None:
    meant = {region.id for region in regions_meant(name, packaged_snapshot)}
    assert meant == {id_ for id_ in packaged_snapshot.regions if id_.startswith("aws/")}


def test_a_group_is_no_single_region(packaged_snapshot: CatalogSnapshot) -> None:
    with pytest.raises(AmbiguousReference) as several:
        one_region("benelux", packaged_snapshot)
    meant = [region.id for region in regions_meant("benelux", packaged_snapshot)]
    assert list(several.value.suggestions) == meant[:20]
    assert one_region("aws/eu-north-1", packaged_snapshot).id == "aws/eu-north-1"


@pytest.mark.parametrize(
    ("name", "region"), [("EU", "grid/eu"), ("Europe", "grid/europe"), ("UK", "country/GB")]
)
def test_where_one_place_is_asked_for_a_group_means_its_average(
    packaged_snapshot: CatalogSnapshot, name: str, region: str
) -> None:
    assert one_region(name, packaged_snapshot).id == region
    assert len(regions_meant(name, packaged_snapshot)) > 1


def test_averages_of_groups_lie_among_their_countries(packaged_snapshot: CatalogSnapshot) -> None:
    for id_, text in packaged_texts()["region-groups"].by_id.items():
        average = text.fields.get("average")
        if average is not None:
            mean = packaged_snapshot.regions[average].value.grid_gco2e_per_kwh
            each = [
                entry.value.grid_gco2e_per_kwh.value
                for entry in packaged_snapshot.regions.values()
                if entry.value.country in text.fields["countries"]
                and entry.document["kind"] == "country"
                and entry.value.grid_gco2e_per_kwh is not None
            ]
            assert min(each) <= mean.value <= max(each), id_


def test_a_group_that_is_nearly_spelt_is_suggested(packaged_snapshot: CatalogSnapshot) -> None:
    with pytest.raises(UnknownReference) as unknown:
        regions_meant("nordcs", packaged_snapshot)
    assert unknown.value.suggestions[0] == "nordics"
