"""The deployment as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.core.deployment import InferenceWorkload
from service.core.performance.inference.speculation import expected_tokens
from service.core.performance.inference.tasks import prefill_tokens
from service.estimation.answers import Answer, Parallelism
from service.estimation.inference.deployment import ResolvedDeployment
from service.estimation.inference.speculation import ResolvedSpeculation
from service.estimation.writing import written


class Precision(Answer):
    """Number formats by id."""

    weights: str
    kv_cache: str
    activations: str


class AskedWorkload(Answer):
    """The workload with every default filled in."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    requests_per_s: float | None
    prefix_cached_ratio: float
    calls_per_task: int
    tool_s: float
    context_growth_tokens: int
    context_kept_cached: bool


class Workload(AskedWorkload):
    """The workload as it was understood."""

    task_prefill_tokens: Annotated[
        float, Field(description="Prompt tokens computed over all calls.")
    ]


class Offload(Answer):
    """What is moved out of the accelerator regardless."""

    weights_ratio: float
    kv_cache_ratio: float
    parked_sequences: int
    overlap_ratio: float


class Disaggregated(Answer):
    """Pools for prompts and for decoding as they were understood."""

    prefill_replicas: Annotated[
        int | None, Field(description="Null: as many as balance both pools.")
    ]
    link_bytes_per_s: float


class Speculative(Answer):
    """Speculative decoding as it was understood."""

    draft_model: str | None
    draft_weights: str | None
    draft_tokens: int
    acceptance_ratio: float
    tokens_per_check: Annotated[float, Field(description="Expected: 1 + a + a² + … + a^k.")]


class EngineSettings(Answer):
    """The engine with its own settings."""

    engine: str
    memory_utilization_ratio: float
    kv_block_tokens: int
    max_model_len: int | None
    chunked_prefill_tokens: int
    max_running_sequences: int | None
    reserved_bytes: float


class Serving(EngineSettings):
    """The engine settings as they were understood."""

    speculative: Speculative | None
    disaggregated: Disaggregated | None
    memory_tiers: list[str]
    offload: Offload | None


class Deployment(Answer):
    """The deployment as it was understood, every default filled in."""

    model: str
    total_parameters: int
    active_parameters: Annotated[int, Field(description="Parameters that one token uses.")]
    accelerator: str
    accelerator_count: int
    precision: Precision
    parallelism: Parallelism
    workload: Workload
    serving: Serving


class PlacedDeployment(Deployment):
    """A deployment with its region."""

    region: str


def echo(resolved: ResolvedDeployment) -> Deployment:
    """The deployment as it was understood, with every default filled in."""
    deployment = resolved.deployment
    return {
        "model": resolved.model.id,
        "total_parameters": deployment.architecture.total_parameters,
        "active_parameters": deployment.architecture.active_parameters,
        "accelerator": resolved.accelerator.id,
        "accelerator_count": deployment.parallelism.accelerator_count,
        "precision": {
            "weights": deployment.precision.weights.id,
            "kv_cache": deployment.precision.kv_cache.id,
            "activations": deployment.precision.activations.id,
        },
        "parallelism": written(deployment.parallelism, Parallelism),
        "workload": _workload(resolved.workload),
        "serving": _serving(resolved),
    }


def _workload(workload: InferenceWorkload) -> Workload:
    return {
        **written(workload, AskedWorkload),
        "task_prefill_tokens": prefill_tokens(workload),
    }


def _serving(resolved: ResolvedDeployment) -> Serving:
    serving = resolved.serving
    tiers = None if resolved.tiers is None else resolved.tiers.value
    pools = serving.disaggregation
    return {
        **written(serving, EngineSettings),
        "speculative": _speculative(resolved.speculation),
        "disaggregated": None
        if pools is None
        else {
            "prefill_replicas": pools.prefill_replicas,
            "link_bytes_per_s": float(pools.link.bandwidth_bytes_per_s),
        },
        "memory_tiers": [] if tiers is None else [tier.id for tier in tiers.shared],
        "offload": None if tiers is None else written(tiers.offload, Offload),
    }


def _speculative(resolved: ResolvedSpeculation | None) -> Speculative | None:
    if resolved is None:
        return None
    value = resolved.value
    return {
        "draft_model": None if resolved.draft is None else resolved.draft.id,
        "draft_weights": None if value.precision is None else value.precision.weights.id,
        "draft_tokens": value.draft_tokens,
        "acceptance_ratio": float(value.acceptance_ratio),
        "tokens_per_check": float(expected_tokens(value.acceptance_ratio, value.draft_tokens)),
    }
