"""Shapes of deployments as they were understood, every default filled in."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Base of everything the service answers."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class AskedAs(BaseModel):
    """What was asked, as it was sent: its fields are those of the request."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class Interval(Answer):
    """An estimated figure with its central 90 % interval, all in the unit of the field's name."""

    value: float
    low: float
    high: float


class Precision(Answer):
    """Number formats by id."""

    weights: str
    kv_cache: str
    activations: str


class Parallelism(Answer):
    """Degrees of parallelism."""

    tensor: int
    pipeline: int
    expert: int
    data: int
    context: int


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
    task_prefill_tokens: float = Field(description="Prompt tokens that all calls compute.")


class Offload(Answer):
    """What is moved out of the accelerator regardless."""

    weights_ratio: float
    kv_cache_ratio: float
    parked_sequences: int
    overlap_ratio: float


class Disaggregated(Answer):
    """Pools for prompts and for decoding as they were understood."""

    prefill_replicas: int | None = Field(description="Null: as many as balance.")
    link_bytes_per_s: float


class Speculative(Answer):
    """Speculative decoding as it was understood."""

    draft_model: str | None
    draft_weights: str | None
    draft_tokens: int
    acceptance_ratio: float
    tokens_per_check: float = Field(description="Expected: 1 + a + a² + … + a^k.")


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
    active_parameters: int = Field(description="Parameters that one token uses.")
    accelerator: str
    accelerator_count: int
    precision: Precision
    parallelism: Parallelism
    workload: Workload
    serving: Serving


class PlacedDeployment(Deployment):
    """A deployment with its region."""

    region: str
