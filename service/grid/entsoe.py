"""European grids by what their power stations generate, from ENTSO-E's Transparency Platform.

The platform tells megawatts by kind of generation and no emissions: they are weighed here with
life-cycle medians. What is imported is not seen.

References
----------
https://transparency.entsoe.eu (Actual Generation per Production Type, A75); IPCC, AR5 WG III,
2014, Annex III, table A.III.2; oil, which that table lacks, from IPCC SRREN, 2011, annex II.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from service.grid.providers import Place, content_of
from service.grid.series import ProviderFailed, Series, Signal, moment

if TYPE_CHECKING:
    import httpx

#: Bidding zones and control areas by country (energy identification codes).
_AREAS = {
    "AT": "10YAT-APG------L",
    "BE": "10YBE----------2",
    "BG": "10YCA-BULGARIA-R",
    "CH": "10YCH-SWISSGRIDZ",
    "CZ": "10YCZ-CEPS-----N",
    "DE": "10Y1001A1001A82H",
    "DK": "10Y1001A1001A65H",
    "EE": "10Y1001A1001A39I",
    "ES": "10YES-REE------0",
    "FI": "10YFI-1--------U",
    "FR": "10YFR-RTE------C",
    "GR": "10YGR-HTSO-----Y",
    "HR": "10YHR-HEP------M",
    "HU": "10YHU-MAVIR----U",
    "IE": "10YIE-1001A00010",
    "LT": "10YLT-1001A0008Q",
    "LV": "10YLV-1001A00074",
    "NL": "10YNL----------L",
    "PL": "10YPL-AREA-----S",
    "PT": "10YPT-REN------W",
    "RO": "10YRO-TEL------P",
    "SI": "10YSI-ELES-----O",
}
#: Life-cycle medians by kind of generation [gCO2e/kWh]. Kinds without a published one (waste, peat,
#: oil shale, other) are missing.
_GCO2E_PER_KWH = {
    "B01": 230.0,  # biomass
    "B02": 820.0,  # lignite, as coal: a lower bound
    "B04": 490.0,  # gas
    "B05": 820.0,  # hard coal
    "B06": 840.0,  # oil
    "B09": 38.0,  # geothermal
    "B11": 24.0,  # run of river
    "B12": 24.0,  # reservoirs
    "B13": 17.0,  # marine
    "B14": 12.0,  # nuclear
    "B16": 48.0,  # solar
    "B18": 12.0,  # wind offshore
    "B19": 11.0,  # wind onshore
}
#: Pumped storage gives back what was generated before.
_STORAGE = "B10"
#: Share of kinds without a factor above which no intensity can be told.
_MOST_UNKNOWN_RATIO = 0.05
_LOOK_BACK = timedelta(hours=12)
_RESOLUTION = re.compile(r"PT(\d{1,3})M")
_MOST_STEPS = 2_000


@dataclass(frozen=True, slots=True)
class Entsoe:
    """Most of Europe, quarter-hourly or hourly, some hours behind; no forecast."""

    token: str
    base_url: str = "https://web-api.tp.entsoe.eu"
    name: str = "entsoe"
    signal: Signal = "average"

    def covers(self, place: Place) -> bool:
        """Whether the place lies in a country whose area is known."""
        return place.country in _AREAS

    async def fetch(self, client: httpx.AsyncClient, place: Place) -> Series:
        """Ask what was generated in the last hours, and weigh the newest of it."""
        now = datetime.now(UTC)
        area = _AREAS[place.country]
        content = await content_of(
            client,
            f"{self.base_url}/api",
            {
                "securityToken": self.token,
                "documentType": "A75",
                "processType": "A16",
                "in_Domain": area,
                "periodStart": (now - _LOOK_BACK).strftime("%Y%m%d%H00"),
                "periodEnd": now.strftime("%Y%m%d%H00"),
            },
        )
        at, value = newest_intensity(content)
        return Series(self.name, self.signal, area, at, value, ())


def newest_intensity(content: bytes) -> tuple[datetime, float]:
    """The newest time that all kinds of generation are told of, and the intensity then [gCO2e/kWh].

    Raises
    ------
    ProviderFailed
        If the document is not what it should be, or too much of it has no factor.
    """
    generated = _generation(content)
    common = set.intersection(*(set(told) for told in generated.values())) if generated else set()
    if not common:
        raise ProviderFailed("has no time at which all kinds of generation are known")
    at = max(common)
    power = {kind: told[at] for kind, told in generated.items() if kind != _STORAGE}
    whole = sum(power.values())
    known = {kind: mw for kind, mw in power.items() if kind in _GCO2E_PER_KWH}
    if whole <= 0.0 or sum(known.values()) < (1.0 - _MOST_UNKNOWN_RATIO) * whole:
        raise ProviderFailed("has a kind of generation without published emissions")
    weighed = sum(mw * _GCO2E_PER_KWH[kind] for kind, mw in known.items())
    return at, weighed / sum(known.values())


def _generation(content: bytes) -> dict[str, dict[datetime, float]]:
    """Power by kind and time [MW]; consumption of pumps is left out."""
    if b"<!" in content or b"\0" in content:
        # No declaration is ever needed, and entities are how XML is made to explode. In UTF-16,
        # which has NUL bytes between its letters, they would be overlooked.
        raise ProviderFailed("answered XML with declarations, which are refused")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 - it has no declarations, and is bounded
    except ElementTree.ParseError:
        raise ProviderFailed("did not answer XML") from None
    found: dict[str, dict[datetime, float]] = {}
    for series in root.iterfind("{*}TimeSeries"):
        if series.find("{*}outBiddingZone_Domain.mRID") is not None:
            continue
        kind = _text(series, "{*}MktPSRType/{*}psrType")
        told = found.setdefault(kind, {})
        for period in series.iterfind("{*}Period"):
            for at, quantity in _steps(period):
                told[at] = told.get(at, 0.0) + quantity
    return found


def _steps(period: ElementTree.Element) -> list[tuple[datetime, float]]:
    """Quantities by time; positions that are left out repeat the one before."""
    start = moment(_text(period, "{*}timeInterval/{*}start"))
    end = moment(_text(period, "{*}timeInterval/{*}end"))
    minutes = _RESOLUTION.fullmatch(_text(period, "{*}resolution"))
    if minutes is None or int(minutes[1]) == 0:
        raise ProviderFailed("answered an unknown resolution")
    step = timedelta(minutes=int(minutes[1]))
    count = int((end - start) / step)
    if not 0 < count <= _MOST_STEPS:
        raise ProviderFailed("answered a period out of bounds")
    given: dict[int, float] = {}
    for point in period.iterfind("{*}Point"):
        position, quantity = _text(point, "{*}position"), _text(point, "{*}quantity")
        try:
            given[int(position)] = float(quantity)
        except ValueError:
            raise ProviderFailed("answered a quantity that is not a number") from None
    steps: list[tuple[datetime, float]] = []
    last: float | None = None
    for at in range(count):
        last = given.get(at + 1, last)
        if last is not None and 0.0 <= last < 1e9:
            steps.append((start + at * step, last))
    return steps


def _text(element: ElementTree.Element, path: str) -> str:
    found = element.find(path)
    if found is None or not found.text or len(found.text) > 100:
        raise ProviderFailed(f"the answer has no {path.rsplit('}', 1)[-1]}")
    return found.text
