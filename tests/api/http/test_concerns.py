"""Answers about a part of an estimate rest on, and warn of, that part alone."""

from __future__ import annotations

import pytest

#: A card of which neither speed nor power is published with vLLM.
CARD = {
    "model": "llama-3.1-8b",
    "accelerator": "intel-arc-pro-b60-24gb",
    "serving": {"engine": "vllm"},
    "region": "SE",
}
OF_SPEED, OF_POWER = "efficiency_not_measured", "power_not_measured"


async def answered(client, part, **changes):
    fields = {**CARD, "include": ["provenance"], **changes}
    if part != "estimates":
        fields.pop("region")
    response = await client.post(f"/v1/{part}/inference", json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def codes(answer):
    return {one["code"] for one in answer["warnings"]}


def calibrations(answer):
    entries = answer["provenance"]["entries"]
    return {one["id"].partition("/")[0] for one in entries if one["collection"] == "calibrations"}


def figures(answer, collection):
    (entry,) = [one for one in answer["provenance"]["entries"] if one["collection"] == collection]
    return {one["name"] for one in entry["figures"]}


async def test_each_part_has_its_own_grounds(client):
    whole = await answered(client, "estimates")
    times = await answered(client, "latency")
    memory = await answered(client, "memory")
    assert {OF_SPEED, OF_POWER} <= codes(whole)
    assert codes(times) & {OF_SPEED, OF_POWER} == {OF_SPEED}
    assert not codes(memory) & {OF_SPEED, OF_POWER}
    assert {"power", "speed", "memory"} <= calibrations(whole)
    assert calibrations(times) == calibrations(whole) - {"power", "infrastructure"}
    assert calibrations(memory) == calibrations(times) - {"speed"}
    assert figures(memory, "accelerators") <= {"memory_bytes", "memory_usable_bytes"}
    assert "embodied_kgco2e" not in figures(times, "accelerators")
    sources = [set(one["provenance"]["sources"]) for one in (memory, times, whole)]
    assert sources[0] < sources[1] < sources[2]


@pytest.mark.parametrize(("remedies", "rests_on_speed"), [(True, True), (False, False)])
async def test_remedies_are_told_with_what_they_do_to_times(client, remedies, rests_on_speed):
    include = ["provenance", *(["remedies"] if remedies else [])]
    answer = await answered(client, "memory", model="llama-3.1-70b", include=include)
    assert not answer["fits"]
    assert ("speed" in calibrations(answer)) == rests_on_speed
    assert (OF_SPEED in codes(answer)) == rests_on_speed
