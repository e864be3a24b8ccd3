"""Use case: what fills the memory of an accelerator, in inference beside training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict

from service.catalog.snapshot import CatalogSnapshot
from service.charts.bars import memory_breakdown, part_in_words
from service.core.interval import exact
from service.estimation.charts.answers import ChartFindings
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import DEPLOYED, StyleRequest, same_training
from service.estimation.charts.series import axis, chart, limit, point, series
from service.estimation.formatting import gigabytes
from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.requests import EXAMPLE_WORKLOAD, DeploymentRequest
from service.estimation.training.estimate import training_memory_answer
from service.estimation.training.requests import MemoryTrainingRequest, TrainingSettingsRequest
from service.estimation.verdict.names import deployment_name

#: Parts of memory, in the order in which they are stacked.
PARTS = ("weights", "gradients", "optimizer", "kv_cache", "activations", "logits", "runtime")


class MemoryChartRequest(DeploymentRequest):
    """What fills the memory of an accelerator, in inference, in training, or in both."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                DEPLOYED,
                {
                    "model": "meta-llama/Llama-3.1-8B",
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "workload": EXAMPLE_WORKLOAD,
                    "phases": "both",
                    "training": {"sequence_length": 4096, "activation_checkpointing": "full"},
                    "style": {"theme": "dark"},
                },
            ]
        }
    )

    phases: Literal["inference", "training", "both"] = "inference"
    """What is shown; both puts the two bars side by side."""
    training: TrainingSettingsRequest = TrainingSettingsRequest()
    """Used if training is shown."""
    style: StyleRequest = StyleRequest()


def memory_chart(request: MemoryChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """Parts of the memory of an accelerator, with its capacity."""
    memories: dict[str, Mapping[str, Any]] = {}
    answers: list[Mapping[str, Any]] = []
    if request.phases != "training":
        answers.append(inference_memory_answer(request, snapshot))
        memories["inference"] = answers[-1]
    if request.phases != "inference":
        answers.append(
            training_memory_answer(same_training(MemoryTrainingRequest, request), snapshot)
        )
        memories["training"] = answers[-1]
    parts = [
        series(
            part,
            [
                point(phase, memory[f"{part}_bytes"])
                for phase, memory in memories.items()
                if memory.get(f"{part}_bytes", {"value": 0.0})["value"] > 0.0
            ],
        )
        for part in PARTS
    ]
    total = series(
        "total", [point(phase, memory["total_bytes"]) for phase, memory in memories.items()]
    )
    some = answers[0]
    limits = [limit("capacity", "y", exact(some["capacity_bytes"]), "B")]
    if "inference" in memories:
        # What lies outside an accelerator leaves it full.
        room = min(
            some["total_bytes"]["value"] + some["headroom_bytes"]["value"], some["capacity_bytes"]
        )
        name = "usable" if len(memories) == 1 else "usable in inference"
        limits.append(limit(name, "y", exact(room), "B"))
    return chart(
        f"{_finding(memories)}: {deployment_name(some['deployment'], snapshot)}",
        " ".join(_told(phase, memory) for phase, memory in memories.items()),
        (None, axis("memory per accelerator", "B")),
        [*(one for one in parts if one["points"]), total],
        answers,
        limits,
    )


def _finding(memories: Mapping[str, Mapping[str, Any]]) -> str:
    found = []
    for phase, memory in memories.items():
        if memory["fits"]:
            narrowly = "" if memory["fits_certainty"] == "yes" else " narrowly"
            room = gigabytes(memory["headroom_bytes"]["value"])
            found.append(f"{phase} fits{narrowly} with {room} to spare")
        else:
            found.append(f"{phase} lacks {gigabytes(memory['shortfall_bytes']['value'])}")
    finding = ", ".join(found)
    return f"{finding[0].upper()}{finding[1:]} per accelerator"


def _told(phase: str, memory: Mapping[str, Any]) -> str:
    parts = {
        part: memory[f"{part}_bytes"]["value"]
        for part in PARTS
        if memory.get(f"{part}_bytes", {"value": 0.0})["value"] > 0.0
    }
    largest = max(parts, key=lambda part: parts[part])
    total = memory["total_bytes"]
    listed = ", ".join(f"{part_in_words(part)} {gigabytes(n)}" for part, n in parts.items())
    return (
        f"{phase.capitalize()} takes {gigabytes(total['value'])} "
        f"({gigabytes(total['low'])} to {gigabytes(total['high'])}) of "
        f"{gigabytes(memory['capacity_bytes'])} and {'fits' if memory['fits'] else 'does not fit'}:"
        f" {listed}. The largest part is {part_in_words(largest)}."
    )


KINDS = (
    ChartKind(
        "memory-breakdown",
        "MemoryChart",
        "Chart: what fills the memory of an accelerator, training beside inference",
        "Parts of the memory of the fullest accelerator, stacked, with its capacity as a line.",
        MemoryChartRequest,
        memory_chart,
        memory_breakdown,
    ),
)
