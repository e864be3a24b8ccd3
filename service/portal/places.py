"""Where better choices may stand, as the form asks it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from service.catalog.entries.references import UnknownReference
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.wording import place_name

SearchedPlace = Literal[
    "here", "country", "eu", "nordics", "europe", "north-america", "asia", "anywhere"
]
#: The same as people read it.
PLACES: Mapping[SearchedPlace, str] = MappingProxyType(
    {
        "here": "this place only",
        "country": "this country",
        "eu": "the European Union",
        "nordics": "the Nordic countries",
        "europe": "Europe",
        "north-america": "North America",
        "asia": "Asia",
        "anywhere": "anywhere",
    }
)

EVERYWHERE = "everywhere"


def where_searched(place: SearchedPlace, region: str | None, snapshot: CatalogSnapshot) -> str:
    """Where a search looks, in words that follow "Searched"."""
    if place == "anywhere" or (region is None and place in ("here", "country")):
        return EVERYWHERE
    return f"in {_named(place, region, snapshot)}"


def _named(place: SearchedPlace, region: str | None, snapshot: CatalogSnapshot) -> str:
    if region is None or place not in ("here", "country"):
        return PLACES[place]
    try:
        entry = snapshot.find("regions", region)
    except UnknownReference:
        return PLACES[place]
    own = f"country/{entry.value.country}"
    return place_name(own if place == "country" and own in snapshot.regions else entry.id, snapshot)


def searched_regions(
    place: SearchedPlace, region: str | None, snapshot: CatalogSnapshot
) -> list[str] | None:
    """The regions that a search covers; None means all clouds.

    In a country that is your own site, its clouds are searched, too.
    """
    if place == "anywhere":
        return None
    if place not in ("here", "country"):
        return [place]
    if region is None:
        return None
    try:
        entry = snapshot.find("regions", region)
    except UnknownReference:
        return [region]
    country = entry.value.country
    if place == "here" or not country:
        return [entry.id]
    clouds = f"{country}/*"
    try:
        regions_meant(clouds, snapshot)
    except UnknownReference:
        return [entry.id]
    return [clouds] if entry.document.get("kind") == "cloud" else [entry.id, clouds]
