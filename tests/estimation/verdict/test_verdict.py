"""A verdict says in words what the estimate says in figures, and nothing that it does not."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest

from service.core.years import HOURS_PER_MONTH
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.requests import DecisionLimitsRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from service.estimation.verdict.figures import cost_per_month
from service.estimation.verdict.memory import memory_parts
from service.estimation.verdict.verdict import inference_verdict, training_verdict
from service.estimation.wording import place_name

ASKED = {
    "model": "meta-llama/Llama-3.1-70B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "region": "aws/eu-north-1",
    "workload": {"concurrency": 32},
}


def answer(snapshot, **changes):
    return inference_estimate(InferenceRequest.model_validate(ASKED | changes), snapshot)


@pytest.fixture(scope="module")
def estimate(packaged_snapshot):
    return answer(packaged_snapshot)


@pytest.fixture(scope="module")
def short(packaged_snapshot):
    return answer(packaged_snapshot, accelerator_count=1)


@pytest.mark.parametrize("limits", [None, DecisionLimitsRequest(ttft_s=2.0)])
def test_more_than_can_be_answered_is_too_slow_whatever_the_limits(limits, packaged_snapshot):
    overloaded = answer(packaged_snapshot, workload={"requests_per_s": 1000})
    said = inference_verdict(overloaded, packaged_snapshot, limits)
    assert said.status == "missed"
    assert said.headline == "It fits, but cannot keep up with 1,000 requests a second."
    most = overloaded["latency"]["saturation_requests_per_s"]["value"]
    assert f"it answers {most:.2g} a second at most" in said.text
    assert "too slow for 1,000 requests a second" in said.brief


def at(seconds_ttft, **limits):
    return DecisionLimitsRequest(ttft_s=seconds_ttft, **limits)


def test_sentences_say_the_figures_of_the_estimate(estimate, packaged_snapshot):
    said = inference_verdict(estimate, packaged_snapshot)
    assert said.headline == "It fits."
    free, rate = (
        estimate["memory"]["headroom_bytes"]["value"] / 1e9,
        1 / estimate["latency"]["tpot_s"]["value"],
    )
    assert f"on 8 × H100 SXM5 80 GB with {free:.2g} GB to spare each" in said.text
    assert f"at {rate:.2g} tokens a second" in said.text
    assert "fast enough" not in said.text
    by_id = {one.id: one for one in said.figures}
    hour = estimate["cost"]["rented"]["usd_per_hour"]["value"]
    assert by_id["cost"].value == pytest.approx(hour * HOURS_PER_MONTH)
    year = estimate["impacts"]["per_year"]["carbon"]["total_gco2e"]["value"]
    assert by_id["carbon"].value == pytest.approx(year / 12)
    km = float(re.search(r"driving ([\d,]+) km", by_id["carbon"].note)[1].replace(",", ""))
    assert 0.1 < year / 12 / km / 250 < 10


@pytest.mark.parametrize(
    ("limits", "status", "headline"),
    [
        (at(2.0), "good", "It fits, and is fast enough."),
        (at(0.15), "missed", "It fits, but misses your 150 ms."),
        (
            at(0.15, usd_per_month=7300.0),
            "missed",
            "It fits, but misses your 150 ms and your 7,300 USD a month.",
        ),
        # A limit is told as it was given.
        (at(2.0, usd_per_hour=10.0), "missed", "It fits, but misses your 10 USD an hour."),
        (DecisionLimitsRequest(kgco2e_per_year=1e6), "good", "It fits, and keeps your limits."),
    ],
)
def test_limits_are_those_that_were_asked_for(
    limits, status, headline, estimate, packaged_snapshot
):
    said = inference_verdict(estimate, packaged_snapshot, limits)
    assert (said.status, said.headline) == (status, headline)
    assert len(said.limits) == len(limits.model_fields_set)


def test_what_is_cheaper_is_told_against_the_plan(estimate, packaged_snapshot):
    def choice(ratio, plan="baseline", usd_per_month=None):
        against = {"plan": plan, "ratios": {"cost": ratio}}
        return [
            {
                "priorities": ["balanced", "cheapest"],
                "candidate": {
                    "model": "m/x",
                    "accelerator": "nvidia-h200-sxm-141gb",
                    "accelerator_count": 2,
                    "region": "country/SE",
                    "precision": {"weights": "fp8-checkpoint"},
                    "usd_per_month": usd_per_month,
                },
                "against": against,
            }
        ]

    said = inference_verdict(estimate, packaged_snapshot, choices=choice(0.32))
    assert said.headline == "It fits. The same work could cost a third."
    cheaper = "Cheaper: 2 × H200 SXM 141 GB in FP8, Sweden: 68% less for the same work."
    assert said.sentences[-1] == cheaper
    # What does more for each dollar may still be the larger bill.
    month = cost_per_month(estimate)["value"]
    offered = choice(0.5, usd_per_month=3 * month)
    dearer = inference_verdict(estimate, packaged_snapshot, None, offered)
    assert dearer.headline == "It fits."
    assert "Cheaper per token" in dearer.text
    assert "50% less, but 3 times as much a month" in dearer.text
    offered = choice(0.5, usd_per_month=month / 2)
    lower = inference_verdict(estimate, packaged_snapshot, None, offered)
    assert lower.headline == "It fits. The same work could cost half."
    for other in (choice(1.2), choice(0.3, "cheapest"), ()):
        assert "heaper" not in inference_verdict(estimate, packaged_snapshot, None, other).text


def test_what_does_not_fit_is_said_first_and_not_praised(short, packaged_snapshot):
    said = inference_verdict(short, packaged_snapshot, at(100.0))
    assert said.status == "short"
    missing = short["memory"]["shortfall_bytes"]["value"] / 1e9
    assert said.headline == f"It does not fit: each accelerator is {missing:.2g} GB short."
    assert "fast enough" not in said.text
    assert said.brief.startswith("does not fit")


def test_what_is_not_known_is_said_to_be_so(estimate, packaged_snapshot):
    unknown = deepcopy(estimate) | {"cost": None, "impacts": None}
    said = inference_verdict(unknown, packaged_snapshot, DecisionLimitsRequest(usd_per_hour=1.0))
    assert "No price of this hardware" in said.text
    assert {one.text for one in said.figures if one.id in ("cost", "carbon")} == {"not known"}
    assert said.limits[0].kept is None
    assert said.status != "missed"


def test_memory_adds_up(estimate, short, packaged_snapshot):
    parts = memory_parts(estimate["memory"])
    assert sum(part.size_bytes for part in parts) == pytest.approx(
        estimate["memory"]["capacity_bytes"]
    )
    assert {part.id for part in parts} >= {"weights", "cache", "free", "kept"}
    too_much = {part.id: part.size_bytes for part in memory_parts(short["memory"])}
    assert "free" not in too_much
    assert sum(too_much.values()) > short["memory"]["capacity_bytes"]
    run = training(packaged_snapshot)["memory"]
    assert sum(part.size_bytes for part in memory_parts(run)) == pytest.approx(
        run["capacity_bytes"]
    )


def training(snapshot):
    asked = {
        "model": "llama-3.1-8b",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "region": "aws/eu-north-1",
        "training": {"zero_stage": 3, "activation_checkpointing": "full", "tokens": 1e10},
    }
    return training_estimate(EstimateTrainingRequest.model_validate(asked), snapshot)


def test_a_run_is_held_against_its_deadline(packaged_snapshot):
    run = training(packaged_snapshot)
    days = run["latency"]["run"]["days"]["value"]
    kept = training_verdict(run, packaged_snapshot, most_days=days * 2)
    late = training_verdict(run, packaged_snapshot, most_days=days / 2)
    assert (kept.status, late.status) == ("good", "missed")
    assert late.headline.startswith("It fits, but misses your ")
    assert "The run takes about" in kept.text


def test_places_are_called_by_their_town(packaged_snapshot):
    assert place_name("aws/eu-north-1", packaged_snapshot) == "Stockholm (AWS)"
    assert place_name("country/SE", packaged_snapshot) == "Sweden"
    assert place_name("nowhere/else", packaged_snapshot) == "nowhere/else"
