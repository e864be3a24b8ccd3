from __future__ import annotations

import pytest

from tests.api.estimates.test_inference import answer

PATH = "/v1/projections/memory-choice"
ASKED = {
    "size_gb": 80.0,
    "lifetime_tokens": 1e12,
    "extra_s_per_token": 1e-6,
    "power_w": 1000.0,
}


async def test_the_break_even_of_memory_three_times_as_costly_to_make(client):
    body = await answer(client, PATH, ASKED | {"fast_over_slow_making": 3.0, "explain": True})
    # 80 GB · 1.01 kg/GB · 2 over 1e12 tokens, against 1 kW for a microsecond.
    expected = (80 * 1010 * 2 / 1e12) / (1e-6 * 1000 / 3.6e6)
    assert body["break_even_gco2e_per_kwh"]["value"] == pytest.approx(expected)
    assert body["better"] is None
    assert body["explanation"][0]["value"] == body["break_even_gco2e_per_kwh"]["value"]


@pytest.mark.parametrize(
    ("extra_s", "better"), [(1e-8, "slower"), (1e-3, "faster"), (1.6e-5, "undecided")]
)
async def test_the_verdict_for_a_place(client, extra_s, better):
    asked = ASKED | {
        "fast_over_slow_making": 3.0,
        "extra_s_per_token": extra_s,
        "region": "country/SE",
    }
    assert (await answer(client, PATH, asked))["better"] == better


async def test_disputed_making_leaves_it_undecided_with_a_warning(client):
    asked = ASKED | {"extra_s_per_token": 1e-7, "region": "country/SE"}
    body = await answer(client, PATH, asked)
    assert body["better"] == "undecided"
    assert body["break_even_gco2e_per_kwh"]["low"] == 0.0
    assert [warning["code"] for warning in body["warnings"]] == ["making_disputed"]


async def test_memory_that_takes_less_to_make_is_always_better_if_it_is_faster(client):
    body = await answer(client, PATH, ASKED | {"fast_over_slow_making": 0.5})
    assert body["break_even_gco2e_per_kwh"] is None
    assert body["better"] == "faster"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"slow_memory": "hbm4"}, "/slow_memory"),
        ({"slow_memory": "ddr55"}, "/slow_memory"),
        ({"power_w": 0.0}, "/power_w"),
        ({"lifetime_tokens": -1.0}, "/lifetime_tokens"),
        ({"region": "country/XX"}, "/region"),
    ],
)
async def test_impossible_choices_are_refused(client, change, pointer):
    response = await client.post(PATH, json=ASKED | change)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
