"""Groups of regions: all that a name of a search means, from one region to a continent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.entries.references import UnknownReference
from service.catalog.entries.texts import packaged_texts
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Region

_GROUPS = "region-groups"
#: Behind a provider, country or state: all cloud regions in it.
_ALL_IN = "/*"


def regions_meant(reference: str, snapshot: CatalogSnapshot) -> tuple[Entry[Region], ...]:
    """The regions that a name means.

    A region by its id or alias is itself. A group ("eu", "nordics") means all cloud regions in its
    countries, and so does a provider, country or state with ``/*`` behind it ("aws/*", "DE/*",
    "california/*").

    Raises
    ------
    UnknownReference
        If it means none.
    """
    try:
        return (snapshot.find("regions", reference),)
    except UnknownReference as unknown:
        try:
            found = tuple(_in_group(reference.removesuffix(_ALL_IN).strip(), snapshot))
        except UnknownReference:
            found = ()
        if not found and reference.endswith(_ALL_IN):
            found = tuple(_within(reference.removesuffix(_ALL_IN), snapshot))
        if not found:
            raise unknown from None
        # Marketplaces are meant by their own names only.
        return tuple(one for one in found if not one.document.get("marketplace")) or found


def listed_groups(snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """All named groups with the ids of their cloud regions."""
    return [
        {
            **text.fields,
            "regions": [region.id for region in _in_group(group, snapshot)],
        }
        for group, text in packaged_texts()[_GROUPS].by_id.items()
    ]


def _cloud_regions(snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    return (one for one in snapshot.regions.values() if one.document.get("kind") == "cloud")


def _in_group(name: str, snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    groups = packaged_texts()[_GROUPS]
    countries = frozenset(groups.by_id[groups.find(name)].fields["countries"])
    return (one for one in _cloud_regions(snapshot) if one.value.country in countries)


def _within(name: str, snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    """Cloud regions of a provider, or in a country or state."""
    own = [one for one in _cloud_regions(snapshot) if one.id.startswith(f"{name.casefold()}/")]
    if own:
        yield from own
        return
    place = snapshot.find("regions", name)
    state = place.document.get("subdivision")
    for one in _cloud_regions(snapshot):
        if state is not None:
            inside = one.document.get("subdivision") == state
        elif place.document.get("kind") == "country":
            inside = one.value.country == place.value.country
        else:
            inside = one.document.get("parent") == place.id
        if inside:
            yield one
