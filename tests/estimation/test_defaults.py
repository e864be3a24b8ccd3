"""Stand-ins are told of where a figure depends on them, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.entries.specs import FIGURES
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import (
    inference_estimate,
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.inference.requests import InferenceRequest
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
from service.estimation.training.estimate import training_estimate, training_memory_answer
from service.estimation.training.requests import EstimateTrainingRequest, MemoryTrainingRequest
from service.estimation.wording import in_words

#: Neither its making nor its mass is published, and its link is that of a usual slot.
CARD = "nvidia-rtx-4090-24gb"
MODEL = "meta-llama/Llama-3.1-8B"


def told(answer: dict[str, Any]) -> set[str]:
    """Figures that the answer says were assumed."""
    said = [one["message"] for one in answer["warnings"] if one["code"] == "assumed_figure"]
    return {
        name
        for name in FIGURES["accelerators"]
        if any(f"the {in_words(name)}" in one.lower() and "4090" in one for one in said)
    }


@pytest.mark.parametrize(
    ("answered", "kind"),
    [
        (inference_memory_answer, MemoryInferenceRequest),
        (inference_latency_answer, LatencyInferenceRequest),
        (training_memory_answer, MemoryTrainingRequest),
    ],
)
def test_memory_and_speed_depend_on_links_alone(
    packaged_snapshot: CatalogSnapshot, answered: Any, kind: Any
) -> None:
    stood_in = set(packaged_snapshot.accelerators[CARD].stood_in)
    assert {"embodied_kgco2e", "mass_kg"} <= stood_in
    answer = answered(kind(model=MODEL, accelerator=CARD), packaged_snapshot)
    assert told(answer) == stood_in - {"embodied_kgco2e", "mass_kg"}


def test_footprints_depend_on_the_making_too(packaged_snapshot: CatalogSnapshot) -> None:
    stood_in = set(packaged_snapshot.accelerators[CARD].stood_in)
    place = {"model": MODEL, "accelerator": CARD, "region": "country/SE"}
    serving = inference_estimate(InferenceRequest(**place), packaged_snapshot)
    training = training_estimate(EstimateTrainingRequest(**place), packaged_snapshot)
    assert told(serving) == told(training) == stood_in
