"""What a model is asked to do: generate, embed or rank, and what follows for the request."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import for_task, usual_task
from service.core.deployment import InferenceWorkload
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems


def resolve_task(
    request: DeploymentRequest | ImpactsRequest, model: ModelArchitecture, problems: Problems
) -> ModelArchitecture:
    """The model as engines hold it for the task; tasks that it cannot do are noted."""
    task = request.workload.task or usual_task(model)
    if task == "generate":
        if not model.generates:
            problems.add(
                "/workload/task",
                f"{model.model_type} is an encoder: it can embed and rerank, not generate",
            )
        return model
    for name in ("speculative", "disaggregated"):
        if getattr(request.serving, name) is not None:
            problems.add(f"/serving/{name}", f"nothing is decoded to {task}")
    return for_task(model, task)


def task_workload(workload: InferenceWorkload) -> InferenceWorkload:
    """The workload with one result instead of output where nothing is generated."""
    return workload if workload.task == "generate" else replace(workload, output_tokens=1.0)


def step_budget(chunk_tokens: int, workload: InferenceWorkload) -> int:
    """Token budget of a step: a sequence that is embedded or ranked goes through in one [token]."""
    if workload.task == "generate":
        return chunk_tokens
    return max(chunk_tokens, ceil(float(workload.input_tokens)))
