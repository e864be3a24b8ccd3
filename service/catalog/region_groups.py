"""Groups of regions: all that a name of a search means, from one region to a continent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.entries.references import (
    MOST_CANDIDATES,
    MOST_SUGGESTIONS,
    AmbiguousReference,
    UnknownReference,
)
from service.catalog.entries.texts import packaged_texts
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Region

_GROUPS = "region-groups"
#: Behind a provider, country or state: all cloud regions in it.
_ALL_IN = "/*"
#: Before the name of a provider, which may be left out.
_PROVIDER = "provider/"


def regions_meant(reference: str, snapshot: CatalogSnapshot) -> tuple[Entry[Region], ...]:
    """The regions that a name means.

    A region by its id or alias is itself. A group ("eu", "nordics") means all cloud regions in its
    countries, a provider ("aws", "provider/aws") all of its own, and a country or state with ``/*``
    behind it ("DE/*", "california/*") all cloud regions there.

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
        except UnknownReference as group:
            near = tuple(dict.fromkeys((*group.suggestions, *unknown.suggestions)))
            if not isinstance(unknown, AmbiguousReference):
                unknown = UnknownReference("regions", reference, near[:MOST_SUGGESTIONS])
            found = ()
        if not found:
            name = reference.removesuffix(_ALL_IN)
            everything = name != reference
            found = tuple(_within(name, snapshot) if everything else _rented_by(name, snapshot))
        if not found:
            raise unknown from None
        return _rentable(found)


def _rentable(found: Iterable[Entry[Region]]) -> tuple[Entry[Region], ...]:
    """Regions but those of marketplaces, which are meant by their own names only."""
    regions = tuple(found)
    return tuple(one for one in regions if not one.document.get("marketplace")) or regions


def one_region(reference: str, snapshot: CatalogSnapshot) -> Entry[Region]:
    """The one region that a name means: a group means its average, where one is published.

    Raises
    ------
    AmbiguousReference
        If it means several, with their ids.
    UnknownReference
        If it means none.
    """
    average = _average(reference)
    if average is not None and average in snapshot.regions:
        return snapshot.regions[average]
    meant = regions_meant(reference, snapshot)
    if len(meant) > 1:
        ids = tuple(region.id for region in meant)
        raise AmbiguousReference("regions", reference, ids[:MOST_CANDIDATES])
    return meant[0]


def listed_groups(snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """All named groups with the ids of their cloud regions."""
    return [
        {
            **text.fields,
            "average": text.fields.get("average"),
            "regions": [region.id for region in _rentable(_in_group(group, snapshot))],
        }
        for group, text in packaged_texts()[_GROUPS].by_id.items()
    ]


def _average(name: str) -> str | None:
    """Id of the region that stands for a group by this name as a whole."""
    groups = packaged_texts()[_GROUPS]
    group = groups.known(name)
    return None if group is None else groups.by_id[group].fields.get("average")


def _cloud_regions(snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    return (one for one in snapshot.regions.values() if one.document.get("kind") == "cloud")


def _in_group(name: str, snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    groups = packaged_texts()[_GROUPS]
    countries = frozenset(groups.by_id[groups.find(name)].fields["countries"])
    return (one for one in _cloud_regions(snapshot) if one.value.country in countries)


def _rented_by(name: str, snapshot: CatalogSnapshot) -> list[Entry[Region]]:
    """Cloud regions of a provider."""
    provider = name.strip().casefold().removeprefix(_PROVIDER)
    return [one for one in _cloud_regions(snapshot) if one.id.startswith(f"{provider}/")]


def _within(name: str, snapshot: CatalogSnapshot) -> Iterator[Entry[Region]]:
    """Cloud regions of a provider, or in a country or state."""
    own = _rented_by(name, snapshot)
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
