from __future__ import annotations

import datetime

import pytest

from service.estimation.compliance.check import compliance_answer
from service.estimation.compliance.localities import locality_of
from service.estimation.compliance.requests import ComplianceRequest

KNOWN = ("chandler-az", "fairfax-va", "het-hogeland-or-hollands-kroon", "the-dalles-or")
STATES = {"virginia": "va", "oregon": "or"}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("fairfax-va", "fairfax-va"),
        ("Fairfax County", "fairfax-va"),
        ("Fairfax County, Virginia", "fairfax-va"),
        ("City of The Dalles, Oregon", "the-dalles-or"),
        ("Hollands Kroon", "het-hogeland-or-hollands-kroon"),
        ("none", "none"),
    ],
)
def test_places_are_found_by_what_people_call_them(asked, meant):
    assert locality_of(asked, KNOWN, STATES).id == meant


def test_a_place_that_no_rule_names_is_not_taken_for_another():
    assert locality_of("Farfax", KNOWN, STATES).near == ("fairfax-va",)
    assert locality_of("Atlantis", KNOWN, STATES).id is None
    assert locality_of("the county of", KNOWN, STATES).id is None
    assert locality_of("Virginia", KNOWN, STATES).id is None
    assert locality_of("Fairfax, Oregon", KNOWN, STATES).id is None


@pytest.mark.parametrize(
    ("locality", "verdict"),
    [("Fairfax County", "fail"), ("Atlantis", "unknown"), ("none", "not_applicable")],
)
def test_rules_of_a_county_hold_for_it_by_any_of_its_names(packaged_snapshot, locality, verdict):
    asked = ComplianceRequest(
        region="state/US-VA",
        on=datetime.date(2026, 11, 21),
        locality=locality,
        new_site=True,
        building_setback_m=50.0,
    )
    answer = compliance_answer(asked, packaged_snapshot)
    found = {rule["id"]: rule["verdict"] for rule in answer["rules"]}
    assert found["us-va-fairfax-building"] == verdict
    warned = "locality_unknown" in {warning["code"] for warning in answer["warnings"]}
    assert warned == (locality == "Atlantis")
