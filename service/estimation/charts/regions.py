"""Use case: what one deployment would come to in many places, ranked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.charts.bars import impacts_by_region
from service.charts.maps import impacts_map
from service.core.deployment import Region
from service.core.explanation import EstimateWarning
from service.core.impacts.footprint import Footprint
from service.core.interval import Interval, scale
from service.estimation.answers import Repeatable, frame, grounds, warning_entries
from service.estimation.charts.answers import (
    ChartFindings,
    ChartLocation,
    ChartPoint,
    ChartSeries,
)
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import PLACED, StyleRequest
from service.estimation.charts.series import axis, chart, point, series, unit_in_words
from service.estimation.formatting import number
from service.estimation.impacts.estimate import footprints_by_place
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.echo import echo
from service.estimation.inference.requests import PlacedRequest
from service.estimation.inference.spilling import computed_deployment
from service.estimation.platforms import sited
from service.estimation.references import Reference, separated
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems, named_regions, resolve_region
from service.estimation.verdict.names import deployment_name, place_names

_BASES = {"per_request": "request", "per_1k_tokens": "1,000 output tokens", "per_year": "year"}
#: Name and unit of an impact, its total, and the parts that it is stacked from, as footprints
#: state them.
_IMPACTS: Mapping[str, tuple[str, str, str, Mapping[str, str]]] = {
    "carbon": (
        "greenhouse gases",
        "gCO2e",
        "total_location_gco2e",
        {
            "operation": "operational_location_gco2e",
            "manufacturing of hardware": "embodied_gco2e",
        },
    ),
    "water": (
        "water weighted by stress",
        "L",
        "water_stress_weighted_l",
        {"water weighted by stress": "water_stress_weighted_l"},
    ),
    "water-volume": (
        "water",
        "L",
        "water_total_l",
        {"on site": "water_on_site_l", "at power stations": "water_off_site_l"},
    ),
    "energy": (
        "energy of the facility",
        "kWh",
        "facility_energy_kwh",
        {"energy": "facility_energy_kwh"},
    ),
}

#: Group of the region that the deployment is in.
ASKED_ABOUT = "asked about"


@dataclass(frozen=True, slots=True)
class Impact:
    """An impact in one place: figures of a footprint, for so many times it."""

    of: Footprint
    count: float

    def knows(self, name: str) -> bool:
        """Whether a figure of the footprint is known there."""
        return getattr(self.of, name) is not None

    def figure(self, name: str) -> Interval:
        """A figure that is known."""
        found: Interval = getattr(self.of, name)
        return scale(found, self.count)

    def value(self, name: str) -> float:
        """The best estimate of a figure that is known."""
        return float(getattr(self.of, name).value) * self.count


Placed = tuple[str, Impact]

#: Rankings that are kept: those of a few pages.
_MOST_KEPT = 4
#: Regions that one chart may show.
MOST_REGIONS = 60


class RegionsChartRequest(PlacedRequest):
    """The impact of one deployment in many regions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [PLACED | {"regions": "aws/eu-north-1,aws/us-east-1,gcp/europe-west9"}]
        }
    )

    regions: Annotated[
        tuple[Reference, ...],
        Field(max_length=1000),
        BeforeValidator(
            separated,
            json_schema_input_type=Annotated[str, Field(max_length=2_000)] | list[Reference],
        ),
    ] = ()
    """Ids, aliases or groups (GET /v1/region-groups), as a list or separated by commas; if empty,
    all cloud regions of the provider of region, or of all providers if region is not a cloud
    region."""
    impact: Literal["carbon", "water", "water-volume", "energy"] = "carbon"
    """carbon: location-based operation and manufacturing of hardware; water: on site and at power
    stations, weighted by the water stress of the place; water-volume: the same in litres wherever
    they are taken; energy: that of the facility."""
    basis: Literal["per_request", "per_1k_tokens", "per_year"] = "per_1k_tokens"
    """Basis of the impact: one request, 1,000 output tokens, or a year of the whole deployment."""
    shown: int = Field(20, ge=1, le=MOST_REGIONS)
    """Regions that are shown: the best ones, and region."""
    style: StyleRequest = StyleRequest()


class MapChartRequest(RegionsChartRequest):
    """The impact of one deployment in many regions, on a map."""

    shown: int = Field(1_000, ge=1, le=1_000)
    """Regions that are shown: the best ones."""


def regions_chart(request: RegionsChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """An impact of the deployment in each region, the least first.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible, or if the impact is
        known in none of the regions.
    """
    _, _, _, parts = _IMPACTS[request.impact]
    ranking = _ranked(request, snapshot)
    shown = ranking.best(request.shown)
    split = (
        series(
            part,
            [
                point(id_, impact.figure(path), name=ranking.names[id_])
                for id_, impact in shown
                if impact.knows(path)
            ],
        )
        for part, path in parts.items()
    )
    return _chart(request, snapshot, ranking, shown, split)


def map_chart(request: MapChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """An impact of the deployment in each region of known place, the least first.

    Raises
    ------
    Rejected
        If the request refers to unknown things or asks for the impossible, or if the impact or the
        place is known of none of the regions.
    """
    ranking = _ranked(request, snapshot)
    shown = _chart(request, snapshot, ranking, ranking.best(request.shown))
    total = shown["series"][-1]
    points = [point for point in total["points"] if point["location"] is not None]
    if not points:
        raise Rejected(
            [FieldError("/regions", "the impact is not known for any region that can be drawn")]
        )
    adrift = [point["label"] for point in total["points"] if point["location"] is None]
    adrift.sort(key=lambda label: label != request.region)
    unplaced = EstimateWarning("place_unknown", f"the location of {_listed(adrift)} is not known")
    names = place_names(adrift, snapshot)
    missing = f" Not on the map: {_listed([names[one] for one in adrift])}." if adrift else ""
    _, _, deployment = shown["title"].partition(": ")
    return {
        **shown,
        "title": f"{_span(points, _IMPACTS[request.impact][0])}: {deployment}",
        "description": shown["description"] + missing,
        "series": [{"name": total["name"], "points": points}],
        "warnings": [*shown["warnings"], *(warning_entries([unplaced]) if adrift else ())],
    }


@dataclass(frozen=True, slots=True)
class _Ranking:
    """A deployment's impact in many places, the least first, and where it is unknown."""

    computed: ComputedDeployment
    home: str
    entries: Mapping[str, Entry[Region]]
    names: Mapping[str, str]
    placed: Sequence[Placed]
    unknown: Sequence[str]

    def best(self, most: int) -> list[Placed]:
        """The best, with the region that was asked about in the last place if not among them."""
        best = list(self.placed[:most])
        asked = dict(self.placed).get(self.home)
        if asked is None or self.home in dict(best):
            return best
        return [*best[: most - 1], (self.home, asked)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A ranking that is asked for, however much of it is shown."""

    asked: str
    request: RegionsChartRequest = field(compare=False)


def _ranked(request: RegionsChartRequest, snapshot: CatalogSnapshot) -> _Ranking:
    asked = request.model_dump_json(exclude={"style", "shown"})
    return _ranking(snapshot, _Asked(asked, request))


@derived(_MOST_KEPT)
def _ranking(snapshot: CatalogSnapshot, asked: _Asked) -> _Ranking:
    """The ranking, kept for the other chart of it: a page shows a list and a map."""
    request, problems = asked.request, Problems()
    year = request.period.year
    home = problems.attempt("/region", lambda: resolve_region(request.region, snapshot, year))
    places = _places(request, home, snapshot, problems)
    computed = computed_deployment(request, snapshot, problems)
    home = problems.resolved(home)
    total = _IMPACTS[request.impact][2]
    placed: list[Placed] = []
    unknown = []
    entries = {entry.id: entry for entry in (*places, home)}
    footprint_in = footprints_by_place(computed, request.basis)
    for entry in entries.values():
        place = sited(entry, computed.resolved.machine, request.facility, snapshot).region
        impact = None if footprint_in is None else Impact(*footprint_in(place.value))
        if impact is not None and impact.knows(total):
            placed.append((place.id, impact))
        else:
            unknown.append(place.id)
    if not placed:
        raise Rejected(
            [FieldError("/regions", f"{request.impact} is not known for any of these regions")]
        )
    placed.sort(key=lambda pair: (pair[1].value(total), pair[0]))
    return _Ranking(computed, home.id, entries, place_names(entries, snapshot), placed, unknown)


def _chart(
    request: RegionsChartRequest,
    snapshot: CatalogSnapshot,
    ranking: _Ranking,
    shown: list[Placed],
    split: Iterable[ChartSeries] = (),
) -> ChartFindings:
    """What a chart of a ranking shows: ``split`` into parts, and the totals."""
    name, unit, total, _ = _IMPACTS[request.impact]
    home, names = ranking.home, ranking.names
    warnings = list(ranking.computed.warnings)
    if ranking.unknown:
        warnings.append(
            EstimateWarning(
                "impact_unknown", f"no figure of {name} is known for {_listed(ranking.unknown)}"
            )
        )
    resolved = ranking.computed.resolved
    ids = dict(shown)
    entries = [
        *resolved.entries(),
        *(("regions", entry) for id_, entry in ranking.entries.items() if id_ in ids),
    ]
    answer: Repeatable = {**frame(snapshot.revision), **grounds(snapshot, warnings, entries, None)}
    basis = _BASES[request.basis]
    totals = series(
        "total",
        [
            point(
                id_,
                impact.figure(total),
                group=ASKED_ABOUT if id_ == home else None,
                location=located(ranking.entries[id_]),
                name=names[id_],
            )
            for id_, impact in shown
        ],
    )
    return chart(
        f"{_finding(shown, total, name, home, names)}: {deployment_name(echo(resolved), snapshot)}",
        _told(ranking.placed, total, home, unit, basis, names),
        (None, axis(f"{name} per {basis}", unit)),
        [*split, totals],
        [answer],
    )


def located(entry: Entry[Region]) -> ChartLocation | None:
    """Where a region is [deg], if the catalog or the caller says so."""
    latitude, longitude = (entry.document.get(name) for name in ("latitude", "longitude"))
    if latitude is None or longitude is None:
        return None
    return {"latitude_deg": float(latitude), "longitude_deg": float(longitude)}


def _places(
    request: RegionsChartRequest,
    home: Entry[Region] | None,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> list[Entry[Region]]:
    year = request.period.year
    if request.regions:
        found = named_regions(request.regions, "/regions", snapshot, problems)
        return [resolve_region(id_, snapshot, year) for id_ in found]
    clouds = [entry for entry in snapshot.regions.values() if entry.document.get("kind") == "cloud"]
    provider = None if home is None else home.id.partition("/")[0]
    own = [entry for entry in clouds if entry.id.partition("/")[0] == provider]
    return [resolve_region(entry.id, snapshot, year) for entry in own or clouds]


def _finding(
    shown: list[Placed],
    total: str,
    name: str,
    home: str,
    names: Mapping[str, str],
) -> str:
    """The least of what is shown, and how much more the place that was asked about has."""
    least_id, least = shown[0]
    other_id = home if home in dict(shown) and home != least_id else shown[-1][0]
    lowest, other = (one.value(total) for one in (least, dict(shown)[other_id]))
    finding = f"Least {name} in {names[least_id]}"
    if lowest <= 0.0 or other_id == least_id:
        return finding
    return f"{finding}, {number(other / lowest)} times as much in {names[other_id]}"


def _span(points: Sequence[ChartPoint], name: str) -> str:
    """How far places are apart, which is what a map shows."""
    ends = points[0], points[-1]
    least, most = (one.get("name", one["label"]) for one in ends)
    lowest, highest = (float(one["y"]["value"]) for one in ends)
    if lowest <= 0.0 or len(points) == 1:
        return f"Least {name} in {least}"
    are, those = ("are", "those") if name.endswith("gases") else ("is", "that")
    times = number(highest / lowest)
    return f"{name[0].upper()}{name[1:]} in {most} {are} {times} times {those} in {least}"


def _told(
    placed: Sequence[Placed],
    total: str,
    home: str,
    unit: str,
    basis: str,
    names: Mapping[str, str],
) -> str:
    least_id, least = placed[0]
    most_id, most = placed[-1]
    lowest, highest = least.value(total), most.value(total)
    told = (
        f"Of {len(placed)} regions, {names[least_id]} is the lowest with {number(lowest)} "
        f"{unit_in_words(unit)} per {basis} and {names[most_id]} the highest "
        f"with {number(highest)}."
    )
    if home in dict(placed):
        rank = [id_ for id_, _ in placed].index(home) + 1
        own = dict(placed)[home].value(total)
        told += f" {names[home]} is number {rank} of {len(placed)} with {number(own)}."
    return told


def _listed(ids: Sequence[str]) -> str:
    few = ", ".join(ids[:5])
    return few if len(ids) <= 5 else f"{few} and {len(ids) - 5} more"


KINDS = (
    ChartKind(
        "impacts-by-region",
        "RegionsChart",
        "Chart: carbon, water or energy of a deployment in many regions, ranked",
        "The impact of one deployment in each region, split into its parts, the least first.",
        RegionsChartRequest,
        regions_chart,
        impacts_by_region,
    ),
    ChartKind(
        "impacts-map",
        "MapChart",
        "Chart: carbon, water or energy of a deployment in many regions, on a map",
        "The impact of one deployment in each region whose place is known, on a map of the world.",
        MapChartRequest,
        map_chart,
        impacts_map,
    ),
)
