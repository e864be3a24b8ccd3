"""Figures that users see of a deployment: times behind a network, and the total cost."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest

BODY = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "region": "aws/us-east-1",
    "workload": {"calls_per_task": 10},
}


@pytest.fixture(scope="module")
def asked(packaged_snapshot):
    def ask(**fields: Any) -> Any:
        request = InferenceRequest.model_validate(BODY | fields)
        return inference_estimate(request, packaged_snapshot)

    return ask


def test_users_wait_for_the_network_too(asked):
    latency = asked(network_round_trip_s=0.08)["latency"]
    seen = latency["over_network"]
    for name, trips in (("ttft_s", 1), ("e2e_s", 1), ("task_s", 10)):
        for end in ("value", "low", "high"):
            assert seen[name][end] == pytest.approx(latency[name][end] + 0.08 * trips)
    plain = asked()["latency"]
    assert "over_network" not in plain
    assert plain["ttft_s"] == latency["ttft_s"]


def test_the_total_is_what_is_paid_with_what_is_emitted(asked):
    rented = asked()["cost"]
    assert rented["total"]["basis"] == "rented"
    assert not rented["total"]["includes_emissions"]
    assert rented["total"]["usd_per_hour"] == rented["rented"]["usd_per_hour"]
    prices = {"purchase_usd_per_accelerator": 30_000.0, "usd_per_tco2e": 190.0}
    owned = asked(cost=prices)["cost"]
    total = owned["total"]
    assert (total["basis"], total["includes_emissions"]) == ("owned", True)
    for name in ("usd_per_hour", "usd_per_year", "usd_per_million_output_tokens"):
        parts = owned["owned"][name]["value"] + owned["emissions"][name]["value"]
        assert total[name]["value"] == pytest.approx(parts)
