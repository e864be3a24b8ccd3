"""Pages that plan say what the API's plans do."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from service.estimation.plans.answers import SiteLimit
from service.portal.plan_questions import FleetPageRequest, SitePageRequest, TrafficPageRequest
from service.portal.plans import LIMITED_BY


async def test_a_fleet_is_that_of_the_api_year_by_year(client):
    text = (await client.get("/fleet?years=3&growth_percent=100")).text
    request = FleetPageRequest(years=3, growth_percent=100.0).plan
    body = request.model_dump(mode="json", exclude_defaults=True)
    answer = (await client.post("/v1/plans/fleet", json=body)).json()
    counts = [year["accelerators"] for year in answer["years"]]
    assert f"{counts[0]:,} accelerators in the first year, {counts[-1]:,} in year 3." in text
    rows = re.findall(
        r'<th scope="row"[^>]*>\d</th><td data-label="Accelerators">([\d,]+)</td>', text
    )
    assert rows == [f"{count:,}" for count in counts]
    table = (await client.get("/fleet.csv?years=3&growth_percent=100")).text
    assert len(table.splitlines()) == 1 + 2 * 3


async def test_a_day_follows_its_traffic(client):
    text = (await client.get("/traffic?rates=2,40,2")).text
    body = TrafficPageRequest(rates="2,40,2").plan.model_dump(mode="json", exclude_defaults=True)
    answer = (await client.post("/v1/plans/traffic", json=body)).json()
    assert f"At most {answer['copies']:,} copies at once." in text
    assert "of the accelerator hours" in " ".join(text.split())
    assert [one["copies"] for one in answer["intervals"]] == [
        int(found) for found in re.findall(r'data-label="Copies">(\d+)<', text)
    ]


async def test_waiting_for_a_cleaner_grid_is_told(client):
    question = "/traffic?region=aws/us-west-1&wait_percent=50&wait_hours=12&scaling=fixed"
    text = " ".join((await client.get(question)).text.split())
    assert re.search(r"[\d.]+% of requests wait for a cleaner grid, which emits [\d.]+% less", text)
    assert "wait for a cleaner grid" not in (await client.get("/traffic")).text


async def test_electricity_under_contract_is_counted_hour_by_hour(client):
    asked = TrafficPageRequest(rates="2,40,2", generation="0,5,1", contracted_percent=80.0)
    body = asked.plan.model_dump(mode="json", exclude_defaults=True)
    contract = (await client.post("/v1/plans/traffic", json=body)).json()["contract"]
    question = "/traffic?rates=2,40,2&generation=0,5,1&contracted_percent=80"
    text = " ".join((await client.get(question)).text.split())
    assert f"they cover {100.0 * contract['hourly_matched_ratio']:.3g}% of the electricity" in text
    assert "and 80% if generation at any time" in text
    refused = await client.get("/traffic?rates=2,40,2&generation=0,5")
    assert "must be 3 numbers, as many as there are rates" in refused.text


async def test_a_site_holds_what_the_api_says(client):
    text = (await client.get("/site?accelerator_3=l40s")).text
    body = SitePageRequest(accelerator_3="l40s").plan.model_dump(mode="json", exclude_defaults=True)
    answer = (await client.post("/v1/plans/site", json=body)).json()
    for option in answer["options"]:
        assert f'data-label="Accelerators">{option["accelerators"]:,}<' in text


@pytest.mark.parametrize(
    ("question", "field"),
    [("/fleet?years=0", "years"), ("/traffic?rates=a,b", "rates"), ("/site?site_kw=x", "site_kw")],
)
async def test_what_is_wrong_stands_beside_its_field(client, question, field):
    answer = await client.get(question)
    assert answer.status_code == 422
    assert f'id="{field}-wrong"' in answer.text
    assert answer.text.count('class="wrong"') == 1


def test_every_limit_of_a_site_has_words():
    assert set(LIMITED_BY) == set(get_args(SiteLimit))
