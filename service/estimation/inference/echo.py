"""The deployment as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.estimation.answers import Answer, Parallelism


class Precision(Answer):
    """Number formats by id."""

    weights: str
    kv_cache: str
    activations: str


class Workload(Answer):
    """The workload as it was understood."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    requests_per_s: float | None
    prefix_cached_ratio: float
    calls_per_task: int
    tool_s: float
    context_growth_tokens: int
    context_kept_cached: bool
    task_prefill_tokens: Annotated[
        float, Field(description="Prompt tokens that all calls compute.")
    ]


class Offload(Answer):
    """What is moved out of the accelerator regardless."""

    weights_ratio: float
    kv_cache_ratio: float
    parked_sequences: int
    overlap_ratio: float


class Disaggregated(Answer):
    """Pools for prompts and for decoding as they were understood."""

    prefill_replicas: Annotated[int | None, Field(description="Null: as many as balance.")]
    link_bytes_per_s: float


class Speculative(Answer):
    """Speculative decoding as it was understood."""

    draft_model: str | None
    draft_weights: str | None
    draft_tokens: int
    acceptance_ratio: float
    tokens_per_check: Annotated[float, Field(description="Expected: 1 + a + a² + … + a^k.")]


class Serving(Answer):
    """The engine settings as they were understood."""

    engine: str
    memory_utilization_ratio: float
    kv_block_tokens: int
    max_model_len: int | None
    chunked_prefill_tokens: int
    max_running_sequences: int | None
    reserved_bytes: float
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
