"""Sweeps of training against single estimates, and their division into chunks."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from service.estimation.recommendations.training.search import search_training_candidates
from service.estimation.recommendations.training.space import resolve_training_search
from service.estimation.rejection import Rejected
from service.estimation.sweeps import training
from service.estimation.sweeps.chunks import ENDS
from service.estimation.sweeps.kinds import asked_sweep, evaluated_chunk, resolved_sweep
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.sweeps.training import TEXTS, TrainingStudy, resolve_training_study
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from tests.estimation.sweeps.test_sweeps import lines

BODY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "training": {"tokens": 2e9, "sequence_length": 4096, "methods": ["full", "lora"]},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb"],
        "accelerator_counts": [1, 8, 16],
        "regions": ["aws/eu-north-1", "country/SE"],
    },
    "limits": {"days": 30},
    "keep": "candidates",
}


def asked(**changes: Any) -> TrainingSweepRequest:
    return TrainingSweepRequest.model_validate(BODY | changes)


def everything(study: TrainingStudy) -> list[dict[str, Any]]:
    return [
        row for at in range(len(study.chunks)) for row in lines(evaluated_chunk(study, at), TEXTS)
    ]


#: Where a single estimate says what a row says.
PLACES = {
    "total_bytes": ("memory", "total_bytes"),
    "headroom_bytes": ("memory", "headroom_bytes"),
    "step_s": ("latency", "step_s"),
    "tokens_per_s": ("latency", "tokens_per_s"),
    "mfu_ratio": ("latency", "mfu_ratio"),
    "days": ("latency", "run", "days"),
    "accelerator_hours": ("impacts", "run", "accelerator_hours"),
    "it_energy_kwh": ("impacts", "run", "it_energy_kwh"),
    "facility_energy_kwh": ("impacts", "run", "facility_energy_kwh"),
    "operational_gco2e": ("impacts", "run", "carbon", "operational_location_gco2e"),
    "total_gco2e": ("impacts", "run", "carbon", "total_gco2e"),
    "total_l": ("impacts", "run", "water", "total_l"),
}
SETTINGS = (
    *("method", "optimizer", "zero_stage", "activation_checkpointing", "micro_batch_size"),
    *("gradient_accumulation_steps", "pipeline_schedule", "virtual_stages"),
)


def test_rows_are_what_single_estimates_say(packaged_snapshot):
    rows = everything(resolve_training_study(asked(), packaged_snapshot))
    fitting = [row for row in rows if row["fits"]]
    assert {row["region"] for row in rows} == set(BODY["search"]["regions"])
    priced = 0
    for row in fitting[:: len(fitting) // 25]:
        degrees = ("tensor", "pipeline", "context", "expert", "data")
        request = EstimateTrainingRequest.model_validate(
            {
                "model": row["model"],
                "accelerator": row["accelerator"],
                "accelerator_count": row["accelerator_count"],
                "precision": {"weights": row["weights"]},
                "parallelism": {name: row[name] for name in degrees},
                "region": row["region"],
                "training": {"tokens": 2e9, "sequence_length": 4096, "lora_rank": 16}
                | {name: row[name] for name in SETTINGS},
            }
        )
        estimate = training_estimate(request, packaged_snapshot)
        cost = estimate["cost"]["rented" if row["region"].startswith("aws") else "owned"]
        for name, path in PLACES.items():
            found: Any = estimate
            for part in path:
                found = found[part]
            for end, suffix in ENDS:
                assert row[f"{name}{suffix}"] == pytest.approx(found[end], rel=1e-9), name
        if cost is not None and not np.isnan(row["usd"]):
            priced += 1
            assert row["usd"] == pytest.approx(cost["usd_run"]["value"], rel=1e-9)
    assert priced


def test_it_evaluates_what_recommendations_search(packaged_snapshot):
    """As many rows as the search has runs, in each of the places; the same within its limits."""
    request = asked()
    search = resolve_training_search(request.as_search(), packaged_snapshot)
    found = search_training_candidates(search)
    rows = everything(resolve_training_study(request, packaged_snapshot))
    assert len(rows) == found.searched * len(BODY["search"]["regions"])
    kept = sum(row["fits"] and row["days"] <= 30.0 for row in rows)
    assert kept == found.placed.configurations * len(BODY["search"]["regions"])


def test_every_configuration_is_a_row_or_counted_under_one_reason(packaged_snapshot, monkeypatch):
    monkeypatch.setattr(training, "CHUNK_CONFIGURATIONS", 1000)
    limits = {"days": 3, "usd": 1200, "kgco2e": 1e5}
    study = resolve_training_study(asked(keep="survivors", limits=limits), packaged_snapshot)
    assert len(study.chunks) > 1
    found = [evaluated_chunk(study, at) for at in range(len(study.chunks))]
    kept = sum(len(rows) for rows in found)
    excluded = sum(sum(rows.excluded.values()) for rows in found)
    assert 0 < kept < study.configurations
    assert kept + excluded == study.configurations
    assert {"fits", "weights_do_not_fit", "days", "usd"} <= {
        reason for rows in found for reason in rows.excluded
    }
    candidates = everything(
        resolve_training_study(asked(keep="candidates", limits=limits), packaged_snapshot)
    )
    assert sum(row["meets_limits"] for row in candidates) == kept


def test_what_was_asked_tells_training_from_serving(packaged_snapshot):
    request = asked()
    again = asked_sweep(request.model_dump_json(exclude_defaults=True))
    assert again == request
    assert isinstance(resolved_sweep(again, packaged_snapshot), TrainingStudy)
    assert isinstance(asked_sweep('{"models": ["llama-3.1-8b"]}'), SweepRequest)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": None},
        {"models": ["llama-3.1-8b"]},
        {"search": {"accelerator_counts": [64], "max_accelerators": 8}},
    ],
)
def test_contradictions_are_refused(changes):
    with pytest.raises(ValidationError):
        asked(**changes)


def test_unknown_places_are_refused(packaged_snapshot):
    request = asked(search={"regions": ["aws/eu-nrth-1"]})
    with pytest.raises(Rejected) as refused:
        resolve_training_study(request, packaged_snapshot)
    assert refused.value.errors[0].suggestions == ("aws/eu-north-1",)
