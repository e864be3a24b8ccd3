"""Choosing a place on a map: every cloud region where it stands, by how clean its grid is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from service.catalog.snapshot import CatalogSnapshot
from service.charts.maps import land
from service.estimation.formatting import number
from service.estimation.verdict.names import place_names
from service.estimation.wording import cloud_name, place_name
from service.portal.questions import PageRequest
from service.portal.rendering import rendered
from service.portal.training_questions import TrainingPageRequest

#: Parts of the world as the map shows them: name, and west, north, width and height [deg].
_VIEWS = {
    "world": ("The world", (-180.0, 84.0, 360.0, 142.0)),
    "europe": ("Europe", (-25.0, 70.0, 70.0, 37.0)),
    "north-america": ("North America", (-135.0, 58.0, 85.0, 43.0)),
    "asia": ("Asia and Pacific", (60.0, 50.0, 125.0, 90.0)),
}
#: Intensities up to which a grid has a colour, and what people call them [g CO₂e/kWh].
_CLASSES = ((100.0, "clean"), (300.0, "middling"), (float("inf"), "dirty"))
#: Radius of a dot as a share of the map's width.
_DOT_RATIO = 0.006

View = Literal["world", "europe", "north-america", "asia"]


class PlaceRequest(PageRequest):
    """What the page is asked, and the part of the world that is shown."""

    view: View = "world"


class TrainingPlaceRequest(TrainingPageRequest):
    """Likewise of the page about training."""

    view: View = "world"


class Question(Protocol):
    """What asks for a place."""

    region: str

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A place on the map, and in the list below it.

    ``name`` is its town with its cloud, ``cloud`` the latter alone, told apart from others in town.
    """

    region: str
    name: str
    town: str
    cloud: str
    country: str
    told: str
    grade: str
    x: float
    y: float
    link: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """Towns of a country whose electricity emits the same, each with the clouds in it."""

    told: str
    towns: tuple[tuple[str, tuple[Dot, ...]], ...]


def map_page(
    request: Question, snapshot: CatalogSnapshot, *, page: str, address: str, view: View
) -> str:
    """The map, with a link for every place to the page that asks.

    Parameters
    ----------
    request
        What is asked.
    snapshot
        The catalog.
    page, address
        Where the page is that asks, and where this map is.
    view
        The part of the world that is shown.
    """
    name, (west, north, width, height) = _VIEWS[view]
    dots = sorted(_dots(request, snapshot, page), key=lambda dot: dot.name)
    inside = [
        dot for dot in dots if west <= dot.x <= west + width and north - height <= -dot.y <= north
    ]
    return rendered(
        "places.html",
        here="Train a model" if page == "training" else "Serve a model",
        title="Choose a place",
        trail=((f"{page or './'}?{request.link(view=None)}", "The question"),),
        view=name,
        views=[
            (words, f"{address}?{request.link(view=id_)}", id_ == view)
            for id_, (words, _) in _VIEWS.items()
        ],
        box=f"{west:g} {-north:g} {width:g} {height:g}",
        land=_land(),
        dots=inside,
        countries=[
            (country, grids(there))
            for country, there in _grouped(inside, lambda dot: dot.country).items()
        ],
        radius=round(width * _DOT_RATIO, 3),
    )


def grids(dots: Iterable[Dot]) -> list[Grid]:
    """Places of a country by what their electricity emits, that of most of them first."""
    by_figure = _grouped(dots, lambda dot: dot.told)
    return [
        Grid(
            told,
            tuple((town, tuple(there)) for town, there in _grouped(same, _town).items()),
        )
        for told, same in sorted(by_figure.items(), key=lambda one: -len(one[1]))
    ]


def _town(dot: Dot) -> str:
    return dot.town


def _grouped(dots: Iterable[Dot], key: Callable[[Dot], str]) -> dict[str, list[Dot]]:
    found: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        found[key(dot)].append(dot)
    return dict(sorted(found.items()))


def _dots(request: Question, snapshot: CatalogSnapshot, page: str) -> Iterator[Dot]:
    placed = {
        id_: entry
        for id_, entry in snapshot.regions.items()
        if entry.document.get("kind") == "cloud" and entry.document.get("latitude") is not None
    }
    names = place_names(placed, snapshot)
    for id_, entry in placed.items():
        grid = entry.value.grid_gco2e_per_kwh
        intensity = None if grid is None else float(grid.value)
        cloud = cloud_name(id_, entry.value.name)
        yield Dot(
            region=id_,
            name=names[id_],
            town=str(entry.document.get("place") or names[id_]),
            cloud=f"{cloud}{names[id_].removeprefix(place_name(id_, snapshot))}",
            country=place_name(f"country/{entry.value.country}", snapshot),
            told="" if intensity is None else f"{number(round(intensity))} g CO₂e/kWh",
            grade="unknown"
            if intensity is None
            else next(grade for most, grade in _CLASSES if intensity <= most),
            x=float(entry.document["longitude"]),
            y=-float(entry.document["latitude"]),
            link=f"{page or './'}?{request.link(region=id_, view=None)}",
            chosen=id_ == request.region,
        )


@lru_cache(maxsize=1)
def _land() -> str:
    """The outline of the land as a path, a degree for a unit."""
    geometry = land()
    polygons = geometry["coordinates"]
    rings = (ring for polygon in polygons for ring in polygon)
    return "".join("M" + "L".join(f"{x:g} {-y:g}" for x, y in ring) + "Z" for ring in rings)
