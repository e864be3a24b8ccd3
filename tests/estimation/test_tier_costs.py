"""What memory beside an accelerator costs: money, making and power in the totals of estimates."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.memory.tiers import TierWorth
from service.estimation.detail import WHOLE
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.inference.tiers import worth_warnings
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest

HOURS_PER_YEAR = 8766
#: 1,024 GB in four modules.
MODULES = {"tier": "cxl-2.0-ddr5-direct", "units": 4}
STATED = MODULES | {"price_usd_per_gb": 20.0, "energy_pj_per_bit": 15.0}


@pytest.fixture(scope="module")
def served(packaged_snapshot):
    def asked(tier: Any = None, count: int = 1) -> Any:
        body: dict[str, Any] = {
            "model": "meta-llama/Llama-2-70b-hf",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": count,
            "precision": {"weights": "int8"},
            "region": "country/DE",
            "workload": {"input_tokens": 512, "output_tokens": 64},
            "serving": {"memory_tiers": [tier], "offload": {"weights_ratio": 0.1}},
            "cost": {"purchase_usd_per_accelerator": 30_000, "amortisation_years": 5},
        }
        request = InferenceRequest.model_validate(body)
        return inference_estimate(request, packaged_snapshot, WHOLE.without("remedies"))

    return asked


@pytest.fixture(scope="module")
def in_host(served):
    return served("ddr5-8ch")


def embodied(answer: Any) -> float:
    return float(answer["impacts"]["per_year"]["carbon"]["embodied_gco2e"]["value"])


def codes(answer: Any) -> set[str]:
    return {warning["code"] for warning in answer["warnings"]}


def test_memory_beside_the_machine_is_bought_whole(served, in_host):
    answer = served(STATED)
    owned = answer["cost"]["owned"]
    # 1,024 GB at 20 USD, written off in five years.
    assert owned["memory_tiers_usd_per_hour"]["value"] == pytest.approx(
        1024 * 20 / 5 / HOURS_PER_YEAR
    )
    parts = ("hardware_usd_per_hour", "electricity_usd_per_hour", "memory_tiers_usd_per_hour")
    assert owned["usd_per_hour"]["value"] == pytest.approx(
        sum(owned[part]["value"] for part in parts)
    )
    assert answer["cost"]["total"]["usd_per_hour"] == owned["usd_per_hour"]
    assert in_host["cost"]["owned"]["memory_tiers_usd_per_hour"]["value"] == 0.0
    tiers = [answer["memory"]["placement"]["tiers"] for answer in (answer, in_host)]
    assert [one["beside_machine"] for one in tiers[0]] == [False, True]
    assert tiers[0][1]["price_usd"]["value"] == pytest.approx(20_480.0)
    # The machine has its host's memory, 2,048 GB at 14.5 USD.
    assert tiers[1][1]["beside_machine"] is False
    assert tiers[1][1]["price_usd"]["value"] == pytest.approx(2048 * 14.5)


def test_its_making_is_part_of_what_is_embodied(served, in_host):
    # 1.01 kg for each of 1,024 GB over five years.
    added = embodied(served(MODULES)) - embodied(in_host)
    assert added == pytest.approx(1024 * 1.01e3 / 5, rel=1e-6)


def test_what_moves_takes_power(served):
    silent, stated = served(STATED | {"energy_pj_per_bit": 0.0}), served(STATED)
    tier = stated["memory"]["placement"]["tiers"][1]
    power_w = stated["energy"]["memory_tiers_power_per_accelerator_w"]["value"]
    added = stated["energy"]["it_power_w"]["value"] - silent["energy"]["it_power_w"]["value"]
    assert added == pytest.approx(power_w)
    # While it decodes, a step's bytes outside at 15 pJ for each bit.
    decoding_w = tier["touched_bytes_per_step"] * 8 * 15e-12 / stated["latency"]["tpot_s"]["value"]
    assert power_w == pytest.approx(decoding_w, rel=0.2)
    assert served(STATED | {"energy_pj_per_bit": 30.0})["energy"][
        "memory_tiers_power_per_accelerator_w"
    ]["value"] == pytest.approx(2 * power_w)


def test_what_nobody_states_is_left_out_and_told(served, in_host):
    unknown = served(MODULES)
    assert "tier_price_unknown" in codes(unknown)
    own = TierWorth(None, None, None)
    told = {one.code for one in worth_warnings("ours", beside_machine=False, worth=own)}
    assert told == {"tier_energy_unknown"}
    assert unknown["cost"]["owned"]["memory_tiers_usd_per_hour"]["value"] == 0.0
    assert unknown["memory"]["placement"]["tiers"][1]["price_usd"] is None
    assert not {"tier_price_unknown", "tier_energy_unknown"} & codes(served(STATED))
    # What the machine has is paid for with it.
    assert "tier_price_unknown" not in codes(in_host)


def test_a_run_of_training_counts_its_tier(packaged_snapshot):
    def asked(tier: Any) -> Any:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "region": "country/DE",
            "training": {"offload": {"optimizer": "tier", "memory_tier": tier}},
            "cost": {"purchase_usd_per_accelerator": 30_000, "amortisation_years": 5},
        }
        request = EstimateTrainingRequest.model_validate(body)
        return training_estimate(request, packaged_snapshot, WHOLE.without("remedies"))

    silent, stated = asked(STATED | {"energy_pj_per_bit": 0.0}), asked(STATED)
    assert stated["cost"]["owned"]["memory_tiers_usd_per_hour"]["value"] == pytest.approx(
        1024 * 20 / 5 / HOURS_PER_YEAR
    )
    added = stated["energy"]["it_power_w"]["value"] - silent["energy"]["it_power_w"]["value"]
    # Twelve bytes of each weight, read and written once in a step.
    moved = 2 * 12 * 8.03e9 / stated["latency"]["step_s"]["value"]
    assert added == pytest.approx(moved * 8 * 15e-12, rel=0.01)
    days = [
        one["impacts"]["per_day"]["carbon"]["embodied_gco2e"]["value"]
        for one in (asked("ddr5-8ch"), stated)
    ]
    assert days[1] - days[0] == pytest.approx(1024 * 1.01e3 / 5 / 365.25, rel=1e-6)
    assert "tier_price_unknown" in codes(asked(MODULES))
