"""Use case: how welcome a site is likely to be in a place, from indicators with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Region
from service.core.explanation import EstimateWarning, Formula, explain
from service.core.impacts.society import (
    USUAL_WEIGHTS,
    SocialLicence,
    concern_of_count,
    concern_of_distance,
    concern_of_lack,
    concern_of_margin,
    concern_of_stress,
    concern_of_wait,
    social_licence,
)
from service.core.interval import Interval, exact
from service.estimation.answers import figure, frame, grounds, known_figure
from service.estimation.compliance.check import check_rules
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.sites import Site
from service.estimation.resolution import Problems, resolve_region
from service.estimation.society.answers import (
    SocialLicenceAnswer,
    SocialPart,
    SocialPartName,
)
from service.estimation.society.requests import SocialLicenceRequest

_TABLE = "society/"
_REQUEST = "request"
#: What operators publish of a place, if they do.
_PUBLISHED = ("pue_ratio", "wue_l_per_kwh", "carbon_free_energy_ratio")

INDEX = (
    Formula(
        "Index of concern",
        "100 * weighted_concerns / known_weights",
        "Weighted mean of the parts that are known; weights and scales are judgement",
        "index",
        unit="1",
    ),
)


@dataclass(frozen=True, slots=True)
class _Indicator:
    """A part as it is known: its concern, what it is read from, and where that comes from."""

    indicator: str
    concern: Interval | None = None
    value: Interval | None = None
    year: int | None = None
    source: str | None = None


def social_licence_answer(
    request: SocialLicenceRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> SocialLicenceAnswer:
    """The index of a place and a site there, with its parts.

    Raises
    ------
    Rejected
        If the region is unknown.
    """
    problems = Problems()
    region = problems.resolved(
        problems.attempt("/region", lambda: resolve_region(request.region, snapshot))
    )
    table = [snapshot.calibrations[id_] for id_ in _places(region) if id_ in snapshot.calibrations]
    parts: Mapping[SocialPartName, _Indicator] = {
        "moratoria": _counted(table, "local_moratoria_count", "moratoria of local governments"),
        "legislation": _counted(table, "state_bills_count", "bills of the state"),
        "grid_connection": _waited(table),
        "water": _water(region),
        "noise": _noise(request, snapshot),
        "local_benefit": _benefit(request),
        "disputes": _disputes(request),
        "transparency": _transparency(request, region),
    }
    weights = _weights(request)
    if sum(weights.values()) <= 0.0:
        problems.refuse("/weights", "must not all be 0")
    result = social_licence({name: part.concern for name, part in parts.items()}, weights)
    checked = None
    if request.compliance is not None:
        checked = check_rules(request.compliance, region, snapshot)
    entries: list[tuple[str, Entry[Any]]] = [("regions", region)]
    entries += [("calibrations", entry) for entry in table]
    warnings = [*_warnings(parts), *(() if checked is None else checked.warnings)]
    return {
        **frame(snapshot.revision),
        "region": region.id,
        "index": known_figure(result.index),
        "known_weight_ratio": result.known_weight_ratio,
        "parts": [_part(name, one, weights) for name, one in parts.items()],
        "failed_rules": None
        if checked is None
        else [rule["id"] for rule in checked.answer["rules"] if rule["verdict"] == "fail"],
        **grounds(
            snapshot,
            warnings,
            entries,
            (lambda: explain(_explained(result, parts, weights), INDEX))
            if request.explain or detail.has("explanation")
            else None,
            detail=detail,
        ),
    }


def _places(region: Entry[Region]) -> Iterator[str]:
    """Entries of the table for a place, the finest first."""
    subdivision = region.document.get("subdivision")
    if isinstance(subdivision, str):
        yield f"{_TABLE}{subdivision.casefold()}"
    if region.value.country:
        yield f"{_TABLE}{region.value.country.casefold()}"


def _stated(table: list[Entry[Any]], name: str) -> tuple[Interval, int | None, str | None] | None:
    for entry in table:
        if name in entry.value:
            origin = entry.origins[name]
            return entry.value[name], origin.year, origin.source
    return None


def _counted(table: list[Entry[Any]], name: str, indicator: str) -> _Indicator:
    found = _stated(table, name)
    if found is None:
        return _Indicator(indicator)
    count, year, source = found
    return _Indicator(indicator, concern_of_count(count), count, year, source)


def _waited(table: list[Entry[Any]]) -> _Indicator:
    indicator = "years until a connection to the grid"
    found = _stated(table, "grid_connection_wait_years")
    if found is None:
        return _Indicator(indicator)
    years, year, source = found
    return _Indicator(indicator, concern_of_wait(years), years, year, source)


def _water(region: Entry[Region]) -> _Indicator:
    indicator = "withdrawals over supply of the basin"
    stress = region.value.water_stress_ratio
    if stress is None:
        return _Indicator(indicator)
    origin = region.origins.get("water_stress_ratio")
    year, source = (None, _REQUEST) if origin is None else (origin.year, origin.source)
    return _Indicator(indicator, concern_of_stress(stress), stress, year, source)


def _noise(request: SocialLicenceRequest, snapshot: CatalogSnapshot) -> _Indicator:
    if request.site is not None:
        heard = Site(request.site, snapshot, None).noise
        if heard is not None and heard.margin_db is not None:
            margin = heard.margin_db
            indicator = "dB below the noise limit at the receptor"
            return _Indicator(indicator, concern_of_margin(margin), margin, None, _REQUEST)
    indicator = "metres to the nearest homes"
    distance = request.homes_distance_m
    if distance is None:
        return _Indicator(indicator)
    return _Indicator(indicator, concern_of_distance(distance), exact(distance), None, _REQUEST)


def _benefit(request: SocialLicenceRequest) -> _Indicator:
    indicator = "share of ownership and benefit that stays in the place"
    share = request.local_benefit_ratio
    if share is None:
        return _Indicator(indicator)
    return _Indicator(indicator, concern_of_lack(share), exact(share), None, _REQUEST)


def _disputes(request: SocialLicenceRequest) -> _Indicator:
    indicator = "disputes on record"
    if request.disputes_count is None:
        return _Indicator(indicator)
    count = exact(float(request.disputes_count))
    return _Indicator(indicator, concern_of_count(count), count, None, _REQUEST)


def _transparency(request: SocialLicenceRequest, region: Entry[Region]) -> _Indicator:
    """What is published of the place itself; of a place that is no operator's, nothing is."""
    indicator = "share of PUE, water use and carbon-free share that is published of the place"
    if request.published_ratio is not None:
        share = request.published_ratio
        return _Indicator(indicator, concern_of_lack(share), exact(share), None, _REQUEST)
    if region.document.get("kind") != "cloud":
        return _Indicator(indicator)
    own = [
        origin
        for name in _PUBLISHED
        if (origin := region.origins.get(name)) is not None and origin.entry_id == region.id
    ]
    share = len(own) / len(_PUBLISHED)
    years = [origin.year for origin in own if origin.year is not None]
    source = own[0].source if own else None
    year = max(years) if years else None
    return _Indicator(indicator, concern_of_lack(share), exact(share), year, source)


def _weights(request: SocialLicenceRequest) -> dict[str, float]:
    given = request.weights.model_dump(exclude_none=True)
    return dict(USUAL_WEIGHTS) | given


def _part(name: SocialPartName, part: _Indicator, weights: Mapping[str, float]) -> SocialPart:
    return {
        "name": name,
        "weight_ratio": weights[name] / sum(weights.values()),
        "concern_ratio": known_figure(part.concern),
        "indicator": part.indicator,
        "indicator_value": None if part.value is None else figure(part.value),
        "year": part.year,
        "source": part.source,
    }


def _explained(
    result: SocialLicence,
    parts: Mapping[SocialPartName, _Indicator],
    weights: Mapping[str, float],
) -> dict[str, Any]:
    known = {name: part.concern for name, part in parts.items() if part.concern is not None}
    return {
        "weighted_concerns": sum(weights[name] * float(one.value) for name, one in known.items()),
        "known_weights": sum(weights[name] for name in known),
        "index": None if result.index is None else float(result.index.value),
    }


def _warnings(parts: Mapping[SocialPartName, _Indicator]) -> Iterator[EstimateWarning]:
    yield EstimateWarning(
        "index_is_judgement",
        "weights and scales are judgement, not measurement; read the parts, and do not take the "
        "index for a probability",
    )
    unknown = [name for name, part in parts.items() if part.concern is None]
    if unknown:
        yield EstimateWarning(
            "parts_unknown",
            f"nothing is known about {', '.join(name.replace('_', ' ') for name in unknown)}: the "
            "interval covers every value that they may have",
        )
