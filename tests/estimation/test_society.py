from __future__ import annotations

import datetime
from typing import Any

import pytest

from service.estimation.rejection import Rejected
from service.estimation.society.estimate import social_licence_answer
from service.estimation.society.requests import SocialLicenceRequest

NOISE = {
    "sound_sources": [{"count": 400, "sound_power_db": 91}],
    "receptor_distance_m": 200,
    "noise_limit_db": 40,
}


def parts(answer: Any) -> dict[str, Any]:
    return {part["name"]: part for part in answer["parts"]}


@pytest.fixture(scope="module")
def asked(packaged_snapshot):
    def ask(**fields: Any) -> Any:
        return social_licence_answer(
            SocialLicenceRequest.model_validate({"region": "aws/us-east-1"} | fields),
            packaged_snapshot,
        )

    return ask


def test_a_cloud_region_has_the_record_of_its_state(asked):
    found = parts(asked())
    assert found["moratoria"]["source"] == "moratorium-nation"
    assert found["moratoria"]["indicator_value"]["value"] == 1.0
    assert found["grid_connection"]["indicator_value"]["high"] == 7.0
    assert found["noise"]["concern_ratio"] is None
    assert sum(part["weight_ratio"] for part in found.values()) == pytest.approx(1.0)


def test_what_is_known_of_a_site_moves_the_index_and_narrows_it(asked):
    plain = asked()["index"]
    fields = {"local_benefit_ratio": 0.0, "disputes_count": 20, "published_ratio": 0.0}
    told = asked(site=NOISE, **fields)
    assert told["known_weight_ratio"] == pytest.approx(1.0)
    assert told["index"]["value"] > plain["value"]
    assert told["index"]["high"] - told["index"]["low"] < plain["high"] - plain["low"]
    quiet = asked(homes_distance_m=1000.0)
    assert parts(quiet)["noise"]["concern_ratio"]["value"] == 0.0


def test_weights_are_the_askers(asked):
    none = dict.fromkeys(parts(asked()), 0.0)
    water = asked(weights=none | {"water": 2.0})
    concern = parts(water)["water"]["concern_ratio"]["value"]
    assert water["index"]["value"] == pytest.approx(100.0 * concern)
    with pytest.raises(Rejected):
        asked(weights=none)


def test_without_a_known_part_there_is_no_index(asked):
    answer = asked(region={"figures": {}})
    assert answer["index"] is None
    assert {part["concern_ratio"] for part in answer["parts"]} == {None}


def test_rules_that_fail_are_listed_beside_the_index(asked):
    facts = {
        "on": datetime.date(2026, 11, 21),
        "locality": "Fairfax County",
        "new_site": True,
        "building_setback_m": 50.0,
    }
    assert "us-va-fairfax-building" in asked(compliance=facts)["failed_rules"]
    assert asked()["failed_rules"] is None
