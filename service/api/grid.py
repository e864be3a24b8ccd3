"""The grid at this hour: what it emits, and when a job that can wait had best run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from typing_extensions import TypedDict

from service.api.http.contract import ITEM_PROBLEMS, Operations, path_parameter, query_parameters
from service.api.http.problems import invalid, not_found
from service.api.http.queries import plain_query
from service.api.http.state import current_snapshot, shared
from service.catalog.entries.entry import Entry
from service.catalog.entries.references import UnknownReference
from service.core.deployment import Region
from service.core.impacts.scheduling import best_window
from service.core.interval import Interval as Figure
from service.estimation.answers import Answer, Interval, Remark, figure
from service.estimation.rejection import FieldError
from service.grid.live import Look
from service.grid.providers import Place
from service.grid.series import Signal

router = Operations(prefix="/v1", tags=["grid"])

#: What a year's average is taken to miss an hour by, where nothing better is known [-].
_HOURLY_SPREAD_RATIO = 0.2
_USUAL_HOURS = 4.0
_MOST_HOURS = 72.0
_SECONDS_PER_HOUR = 3_600.0
_HOURS: Mapping[str, Mapping[str, Any]] = {
    "hours": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": _MOST_HOURS,
        "default": _USUAL_HOURS,
        "description": "Length of a job that can wait [h]; best_hours says when it would emit "
        "least.",
    }
}


_From = TypedDict(
    "_From",
    {
        "from": Annotated[
            Literal["live", "catalog"],
            Field(description="Whether a provider tells it now, or the catalog for a year."),
        ]
    },
)


class GridFigure(Answer, _From):
    """What the grid emits, and how that is known."""

    gco2e_per_kwh: Interval
    provider: str | None
    """Who tells it; null for a yearly average of the catalog."""
    zone: str | None
    """The provider's name of the place."""
    at: str | None
    """Time to which the figure applies; null for a yearly average."""
    age_s: float | None
    """Time since the figure was fetched."""
    stale: bool
    """Whether a yearly average or an old figure is used instead."""


class BestHours(Answer):
    """When a job of constant power that can wait emits least, by a forecast."""

    signal: Literal["average", "marginal"]
    """Intensity that was looked at: marginal where it is forecast, else average."""
    begins_at: str
    """Start of the best time, by ISO 8601."""
    ends_at: str
    """Its end, by ISO 8601."""
    gco2e_per_kwh: float
    """Mean emissions over that time."""
    at_once_gco2e_per_kwh: float
    """Mean emissions of a job that starts now."""
    saving_ratio: float
    """Share of the emissions that waiting saves."""


class GridAnswer(Answer):
    """The grid of a place at this hour."""

    region: str
    catalog_revision: int
    average: GridFigure | None
    marginal: GridFigure | None
    """For decisions only; not part of any total."""
    best_hours: BestHours | None
    """Null unless a long enough forecast is known."""
    warnings: list[Remark]


@router.get(
    "/grid/{id:path}",
    operation_id="getGrid",
    summary="Grid intensity of a region now, and the best hours to run a job",
    responses={200: {"model": GridAnswer}, **ITEM_PROBLEMS},
    openapi_extra={
        "parameters": [
            *query_parameters(_HOURS),
            path_parameter("id", "Id or alias of a region; ids may hold slashes."),
        ]
    },
)
async def grid(http: HttpRequest) -> Response:
    """Live figures if they are available, else those of the catalog.

    With a forecast, best_hours is when a job of so many hours emits least; estimates use none of
    these figures.
    """
    duration_s = _hours(plain_query(http.query_params, _HOURS)) * _SECONDS_PER_HOUR
    found = shared(http)
    snapshot = await current_snapshot(http)
    try:
        region = snapshot.find("regions", http.path_params["id"])
    except UnknownReference as unknown:
        raise not_found("region", "/v1/grid", unknown) from None
    place = Place(
        region.id,
        region.value.country,
        region.document.get("latitude"),
        region.document.get("longitude"),
    )
    looks = {signal: found.grid.look(place, signal) for signal in ("average", "marginal")}
    body = {
        "region": region.id,
        "catalog_revision": snapshot.revision,
        "average": _figure(looks["average"], region.value.grid_gco2e_per_kwh),
        "marginal": _figure(looks["marginal"], region.value.marginal_gco2e_per_kwh),
        "best_hours": _best(looks, duration_s),
        "warnings": _warnings(region, looks),
    }
    return Response(
        orjson.dumps(body), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _hours(given: Mapping[str, str]) -> float:
    text = given.get("hours")
    if text is None:
        return _USUAL_HOURS
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0.0 < hours <= _MOST_HOURS:
        raise invalid(
            [FieldError("/hours", f"must be a number above 0 and at most {_MOST_HOURS:g}")]
        )
    return hours


def _figure(look: Look | None, average: Figure | None) -> dict[str, Any] | None:
    if look is not None and look.reading is not None:
        series = look.reading.series
        value = series.now_gco2e_per_kwh
        return {
            "gco2e_per_kwh": {"value": value, "low": value, "high": value},
            "from": "live",
            "provider": series.provider,
            "zone": series.zone,
            "at": _iso(series.at.timestamp()),
            "age_s": look.reading.age_s,
            "stale": look.reading.stale,
        }
    if average is None:
        return None
    wider = Figure(
        average.value,
        min(average.low, average.value * (1.0 - _HOURLY_SPREAD_RATIO)),
        max(average.high, average.value * (1.0 + _HOURLY_SPREAD_RATIO)),
    )
    return {
        "gco2e_per_kwh": figure(wider),
        "from": "catalog",
        "provider": None,
        "zone": None,
        "at": None,
        "age_s": None,
        "stale": True,
    }


def _best(looks: Mapping[str, Look | None], duration_s: float) -> dict[str, Any] | None:
    """By the marginal signal, which says what waiting changes; else by the average."""
    signals: tuple[Signal, ...] = ("marginal", "average")
    for signal in signals:
        look = looks[signal]
        if look is None or look.reading is None:
            continue
        now_s = datetime.now(UTC).timestamp()
        ahead = [period for period in look.reading.series.forecast if period.end_s > now_s]
        window = best_window(ahead, duration_s)
        if window is not None:
            return {
                "signal": signal,
                "begins_at": _iso(window.start_s),
                "ends_at": _iso(window.end_s),
                "gco2e_per_kwh": window.gco2e_per_kwh,
                "at_once_gco2e_per_kwh": window.at_once_gco2e_per_kwh,
                "saving_ratio": window.saving_ratio,
            }
    return None


def _warnings(region: Entry[Region], looks: Mapping[str, Look | None]) -> list[dict[str, str]]:
    found = []
    average = looks["average"]
    if average is None:
        message = (
            f"no live source is configured for {region.id}; the yearly average is used, with an "
            "interval of at least ±20 %"
        )
        found.append({"code": "no_live_source", "pointer": "/average", "message": message})
    for signal, look in looks.items():
        if look is not None and look.problem is not None:
            code = f"live_{signal}_unavailable"
            found.append({"code": code, "pointer": f"/{signal}", "message": look.problem})
    return found


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
