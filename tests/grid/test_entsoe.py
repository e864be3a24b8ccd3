from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.grid.entsoe import Entsoe, newest_intensity
from service.grid.providers import Place
from service.grid.series import ProviderFailed

FRANCE = Place("country/FR", "FR", None, None)


def series(kind: str, *quantities: float | None, consumed: bool = False) -> str:
    side = "out" if consumed else "in"
    points = "".join(
        f"<Point><position>{at}</position><quantity>{quantity}</quantity></Point>"
        for at, quantity in enumerate(quantities, 1)
        if quantity is not None
    )
    return (
        f"<TimeSeries><{side}BiddingZone_Domain.mRID>10YFR-RTE------C</{side}BiddingZone_Domain.mRID>"
        f"<MktPSRType><psrType>{kind}</psrType></MktPSRType>"
        "<Period><timeInterval><start>2026-11-21T00:00Z</start>"
        f"<end>2026-11-21T0{len(quantities)}:00Z</end></timeInterval>"
        f"<resolution>PT60M</resolution>{points}</Period></TimeSeries>"
    )


def document(*parts: str) -> bytes:
    name = "urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0"
    inside = "".join(parts)
    return f'<GL_MarketDocument xmlns="{name}">{inside}</GL_MarketDocument>'.encode()


def test_generation_is_weighed_with_published_medians():
    content = document(
        series("B14", 40_000, 40_000),
        series("B04", 5_000, 10_000),
        series("B10", 500, 900),
        series("B10", 700, 100, consumed=True),
    )
    at, value = newest_intensity(content)
    assert at == datetime(2026, 11, 21, 1, tzinfo=UTC)
    assert value == pytest.approx((40_000 * 12 + 10_000 * 490) / 50_000)


def test_positions_left_out_repeat_and_the_slowest_kind_sets_the_time():
    content = document(series("B14", 40_000, None, None), series("B04", 10_000, 20_000))
    at, value = newest_intensity(content)
    assert at == datetime(2026, 11, 21, 1, tzinfo=UTC)
    assert value == pytest.approx((40_000 * 12 + 20_000 * 490) / 60_000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"<a/>",
        document(),
        document(series("B07", 900), series("B16", 100)),
        document(series("B14", 0.0)),
        document(series("B14", 1.0)).replace(b"PT60M", b"P1Y"),
        document(series("B14", 1.0)).replace(b"PT60M", b"PT0M"),
        document(series("B14", 1.0)).replace(b"<quantity>1.0", b"<quantity>much"),
        document(series("B14", 1.0)).replace(b"2026-11-21T01", b"9999-11-21T01"),
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>',
    ],
)
def test_what_cannot_be_weighed_is_a_failure_of_the_provider(content):
    with pytest.raises(ProviderFailed):
        newest_intensity(content)


@given(st.binary(max_size=300) | st.text("<>/TimeSrsPodnt!&;", max_size=200).map(str.encode))
def test_hostile_documents_fail_and_no_more(content):
    with pytest.raises(ProviderFailed):
        newest_intensity(content)


def test_a_bomb_in_utf_16_is_not_overlooked():
    bomb = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "lol">]><a>&b;</a>'
    with pytest.raises(ProviderFailed, match="declarations"):
        newest_intensity(bomb.encode("utf-16"))


async def test_it_is_asked_with_the_token_and_the_area():
    def answer(request: httpx.Request) -> httpx.Response:
        asked = request.url.params
        assert (asked["securityToken"], asked["in_Domain"]) == ("secret", "10YFR-RTE------C")
        return httpx.Response(200, content=document(series("B14", 40_000)))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        found = await Entsoe("secret").fetch(client, FRANCE)
    assert (found.provider, found.now_gco2e_per_kwh, found.forecast) == ("entsoe", 12.0, ())
    assert not Entsoe("secret").covers(Place("country/US", "US", 40.0, -80.0))
