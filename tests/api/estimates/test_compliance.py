from __future__ import annotations

import pytest

from service.estimation.compliance.requests import FACTS
from tests.api.conftest import MAIN
from tests.api.http.test_errors import pointers, problem

PATH = "/v1/compliance"
SITE = {
    "region": "country/DE",
    "on": "2026-11-21",
    "it_power_kw": 2000,
    "connected_load_kw": 2600,
    "commissioned_on": "2027-03-01",
    "pue_ratio": 1.25,
    "energy_reuse_ratio": 0.12,
}


async def asked(client, body):
    response = await client.post(PATH, json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    return answer, {rule["id"]: rule for rule in answer["rules"]}


async def test_a_german_site_of_2027(client):
    answer, rules = await asked(client, SITE)
    # EnEfG § 11(2): 1.2 for data centres that start from July 2026, 10 % reused before July 2027.
    assert rules["de-enefg-new-pue"]["verdict"] == "fail"
    failed = rules["de-enefg-new-pue"]["failed"]
    assert failed == [{"fact": "pue_ratio", "comparison": "at_most", "limit": 1.2, "value": 1.25}]
    assert rules["de-enefg-reuse-10"]["verdict"] == "pass"
    assert rules["de-enefg-reuse-15"]["verdict"] == "not_applicable"
    assert rules["de-enefg-existing-pue-2027"]["verdict"] == "not_applicable"
    assert rules["eu-eed-report"]["due_on"] == "2027-05-15"
    assert rules["de-enefg-amendment-new-pue"]["status"] == "draft"
    assert "renewable_ratio" in answer["missing"]
    assert "not_legal_advice" in {warning["code"] for warning in answer["warnings"]}
    assert sum(answer["verdicts"].values()) == len(rules)
    assert answer["rules"][0]["verdict"] == "fail"
    entries = {(used["collection"], used["id"]) for used in answer["provenance"]["entries"]}
    assert ("rules", "de-enefg-new-pue") in entries


async def test_a_cloud_region_has_the_rules_of_its_country_and_union(client):
    answer, rules = await asked(client, {"region": "aws/eu-west-1", "on": "2026-11-21"})
    assert {"aws/eu-west-1", "country/IE", "eu"} <= set(answer["places"])
    assert rules["ie-cru-renewable"]["verdict"] == "unknown"
    assert rules["ie-cru-renewable"]["missing"] == ["new_capacity", "connection_kva"]
    assert "de-enefg-new-pue" not in rules


async def test_the_same_site_on_another_day(client):
    existing = SITE | {"commissioned_on": "2020-01-01", "pue_ratio": 1.4}
    for on, verdict in (("2026-11-21", "due"), ("2028-01-01", "pass"), ("2031-01-01", None)):
        _, rules = await asked(client, existing | {"on": on})
        found = rules["de-enefg-existing-pue-2027"]["verdict"]
        assert found == (verdict or "not_applicable")
    assert rules["de-enefg-existing-pue-2030"]["verdict"] == "fail"


async def test_only_what_is_asked_about(client):
    answer, rules = await asked(
        client,
        {
            "region": "country/US",
            "on": "2026-11-21",
            "subject": "model",
            "eu_model_provider": True,
            "training_flop": 3e25,
        },
    )
    assert set(rules) == {"eu-ai-act-energy", "eu-ai-act-systemic"}
    assert answer["verdicts"]["due"] == 2


async def test_explained_comparisons_decide(client):
    answer, _ = await asked(client, SITE | {"explain": True})
    steps = {step["name"]: step for step in answer["explanation"]}
    decided = steps["de-enefg-new-pue: pue_ratio"]
    assert decided["inputs"] == {"fact": 1.25, "limit": 1.2}
    assert decided["value"] == 0.0
    assert steps["de-enefg-new-pue: connected_load_kw"]["value"] == 1.0


async def test_an_estimate_is_held_against_the_rules_of_its_place(client):
    facts = {name: value for name, value in SITE.items() if name not in ("region", "pue_ratio")}
    body = MAIN | {"region": "country/DE", "compliance": facts, "explain": True}
    response = await client.post("/v1/estimates/inference", json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    rules = {rule["id"]: rule for rule in answer["compliance"]["rules"]}
    # The catalog knows PUE in Germany as a range, which is on both sides of 1.2 or above it.
    assert rules["de-enefg-new-pue"]["verdict"] in ("unknown", "fail")
    assert rules["de-enefg-reuse-10"]["verdict"] == "pass"
    assert "not_legal_advice" in {warning["code"] for warning in answer["warnings"]}
    assert ("rules", "de-enefg-reuse-10") in {
        (used["collection"], used["id"]) for used in answer["provenance"]["entries"]
    }
    plain = (await client.post("/v1/estimates/inference", json=MAIN)).json()
    assert "compliance" not in plain


async def test_a_training_run_knows_its_computation(client):
    body = {
        "model": "meta-llama/Llama-3.1-405B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 16384,
        "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
        "training": {"tokens": 15.6e12, "gradient_accumulation_steps": 16},
        "region": "country/US",
        "compliance": {"on": "2026-11-21", "eu_model_provider": True, "subject": "model"},
    }
    response = await client.post("/v1/estimates/training", json=body)
    assert response.status_code == 200, response.text
    rules = {rule["id"]: rule for rule in response.json()["compliance"]["rules"]}
    # 6 · 405e9 · 15.6e12 = 3.8e25 FLOP, above the presumption's 1e25.
    assert rules["eu-ai-act-systemic"]["verdict"] == "due"
    body["training"]["tokens"] = 1e12
    response = await client.post("/v1/estimates/training", json=body)
    rules = {rule["id"]: rule for rule in response.json()["compliance"]["rules"]}
    assert rules["eu-ai-act-systemic"]["verdict"] == "not_applicable"


async def test_as_a_link(client):
    response = await client.get(
        PATH, params={"region": "country/SG", "on": "2026-01-01", "new_capacity": "true"}
    )
    assert response.status_code == 200, response.text
    rules = {rule["id"]: rule for rule in response.json()["rules"]}
    assert rules["sg-dc-cfa2-green"]["missing"] == ["renewable_ratio"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"region": "atlantis"}, "/region"),
        ({"on": "yesterday"}, "/on"),
        ({"on": "2026-02-30"}, "/on"),
        ({"pue_ratio": 0.9}, "/pue_ratio"),
        ({"energy_reuse_ratio": 1.5}, "/energy_reuse_ratio"),
        ({"receptor_zone": "forest"}, "/receptor_zone"),
        ({"it_power_kw": -1}, "/it_power_kw"),
        ({"innocent": True}, "/innocent"),
    ],
)
async def test_what_is_wrong_is_said(client, change, pointer):
    body = problem(await client.post(PATH, json=SITE | change), 422)
    assert pointer in pointers(body)


async def test_rules_turn_on_facts_that_can_be_given(client):
    response = await client.get("/v1/rules", params={"limit": 200})
    listed = response.json()["items"]
    assert len(listed) >= 40
    used = {
        condition["fact"] for rule in listed for condition in (*rule["applies"], *rule["requires"])
    }
    assert used - FACTS == {"noise_receptor"}
