"""The total cost of ownership of a training run."""

from __future__ import annotations

import pytest

from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

RUN = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "training": {"zero_stage": 3, "activation_checkpointing": "full", "tokens": 1e9},
    "region": "aws/us-east-1",
}
OWNED = {"purchase_usd_per_accelerator": 3e4, "electricity_usd_per_kwh": 0.1}


def cost(snapshot, **prices):
    request = EstimateTrainingRequest.model_validate(RUN | {"cost": prices})
    return training_estimate(request, snapshot)["cost"]


def test_owning_and_emissions_make_the_total(packaged_snapshot):
    told = cost(packaged_snapshot, **OWNED, usd_per_tco2e=100.0)
    total = told["total"]
    assert (total["basis"], total["includes_emissions"]) == ("owned", True)
    for name in ("usd_per_hour", "usd_per_million_tokens", "usd_run"):
        parts = told["owned"][name]["value"] + told["emissions"][name]["value"]
        assert total[name]["value"] == pytest.approx(parts)
    hours = total["usd_run"]["value"] / total["usd_per_hour"]["value"]
    assert total["usd_per_million_tokens"]["value"] == pytest.approx(
        total["usd_run"]["value"] / 1e3, rel=0.2
    )
    assert hours > 0.0


def test_rent_is_the_total_where_nothing_is_bought(packaged_snapshot):
    told = cost(packaged_snapshot, usd_per_accelerator_hour=2.0)
    if told["owned"] is None:
        assert told["total"]["basis"] == "rented"
        assert told["total"]["usd_run"] == told["rented"]["usd_run"]
        assert not told["total"]["includes_emissions"]
    else:
        assert told["total"]["usd_run"] == told["owned"]["usd_run"]
