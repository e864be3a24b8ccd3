"""What callers may ask about the choice of where and how to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from service.core.memory.training.settings import ExpertDispatch, Optimizer, Schedule
from service.estimation.detail import FieldPaths, including
from service.estimation.recommendations.place_requests import RulesLimit, SiteLimits, listed
from service.estimation.recommendations.requests import (
    ChoiceRequest,
    FormatNames,
    Limit,
    PlacesRequest,
    WeightsRequest,
)
from service.estimation.references import (
    FrameworkReference,
    Ratio,
    ReleaseText,
    RenamedField,
    Request,
)
from service.estimation.requests import MemoryTierRequest, TierReference
from service.estimation.training.called import Method, MethodName
from service.estimation.training.requests import (
    FailuresRequest,
    PlacedTrainingRequest,
    TrainingOffloadRequest,
    TrainingSettingsRequest,
)

#: Accelerators of one run at most.
MOST_ACCELERATORS = 100_000

_Methods = Annotated[
    list[MethodName],
    Field(min_length=1, max_length=3),
    BeforeValidator(
        listed, json_schema_input_type=Annotated[str, Field(max_length=100)] | list[Method]
    ),
]
_Optimizers = Annotated[
    list[Optimizer],
    Field(min_length=1, max_length=len(get_args(Optimizer))),
    BeforeValidator(
        listed, json_schema_input_type=Annotated[str, Field(max_length=200)] | list[Optimizer]
    ),
]
_Counts = Annotated[
    list[Annotated[int, Field(ge=1, le=MOST_ACCELERATORS)]], Field(min_length=1, max_length=64)
]


class RunRequest(Request):
    """The training run."""

    tokens: float = Field(ge=1.0, le=1e18)
    """Tokens of the whole run."""
    sequence_length: int = Field(4096, ge=1, le=100_000_000)
    """Tokens per sequence. If not given, 4,096, or as many as all models have positions for if that
    is fewer."""
    global_batch_size: int | None = Field(None, ge=1, le=10_000_000)
    """Sequences per optimizer step, which layouts must divide. If null, the largest power of two
    with at least 1,000 steps in the run and no more tokens per step than were found to learn most
    with its operations (Bi et al., 2024): 17 million for 8B parameters and 15e12 tokens."""
    methods: _Methods = Field(["full"])
    """What may be trained: all weights, or adapters."""
    optimizers: _Optimizers = Field(["adamw"])
    """Optimizers to choose from, as a list or separated by commas."""
    lora_rank: int = Field(16, ge=1, le=8192)
    """Rank of adapters."""
    offload: bool | None = None
    """Also try optimizer states in host memory (ZeRO-Offload), on drives and in memory_tier. If
    null, they are tried where nothing fits without."""
    memory_tier: TierReference | None = Field(None, examples=["cxl-2.0-ddr5-direct"])
    """A memory tier for optimizer states, such as memory behind CXL: by id, or with how much of it
    there is and how many accelerators share it, eight if nothing says."""
    framework: FrameworkReference = "default"
    """Framework that trains the model: id or alias of an engine in /v1/engines that runs
    training."""
    framework_version: ReleaseText | None = Field(None, examples=["25.11"])
    """Release of the framework: a version, a date, or a generation of it in /v1/engines; if null,
    the newest generation."""
    host_memory_bytes: float | None = Field(None, ge=0.0, le=1e15)
    """Host memory available for each accelerator; if null, 256 GB."""
    expert_dispatch: ExpertDispatch = "all-to-all"
    """How tokens reach experts on other accelerators: all-to-all sends one copy to each of a
    token's experts, per-machine only one to each machine (DeepEP, Megatron's flex dispatcher)."""
    expert_machines: int | None = Field(None, ge=1, le=100_000)
    """Most machines that the experts of one token may be on (node-limited routing; 4 for
    DeepSeek-V3), with expert_dispatch per-machine. If null, there is no limit."""
    expert_overlap_ratio: float | None = Field(None, ge=0.0, le=1.0)
    """Share of messages to and from experts that hides behind computation, 1 with DualPipe; if
    null, as measured of the framework's other messages within a model copy."""
    expert_capacity_factor: float | None = Field(None, gt=0.0, le=64.0, examples=[1.25])
    """Tokens that an expert takes at most, over its even share: others are dropped (capacity factor
    of Switch Transformers; Megatron's moe_expert_capacity_factor, DeepSpeed's and MaxText's
    capacity_factor). If null, every token goes to the experts that it chose."""
    expert_padding: bool | None = None
    """Whether experts are filled up to their capacity, so that each takes as much (Megatron's
    moe_pad_expert_input_to_capacity). If null, as in the framework: true for DeepSpeed and MaxText,
    false for Megatron-LM and frameworks like it."""
    pipeline_schedule: Schedule | None = None
    """Order of micro-batches in pipelines: gpipe, 1f1b, interleaved, or zero-bubble, which DualPipe
    comes close to. If null, 1f1b is tried, and interleaved where the framework interleaves."""
    data_parallel_shard_degree: int | None = Field(None, ge=1, le=1_000_000, examples=[8])
    """Number of data-parallel ranks that divide states among themselves, each group of so many
    holding all of them (hybrid sharding, HSDP). Layouts whose ranks do not make such groups are not
    tried. If null, all ranks are one group."""
    secondary_shard_degree: int | None = Field(None, ge=1, le=1_000_000, examples=[8])
    """Number of data-parallel ranks that hold a second copy of fully sharded weights together, of
    which backward passes gather (ZeRO++). Layouts whose ranks do not make such groups are not
    tried. If null, there is no second copy."""
    weight_gather_dtype: Literal["fp8", "int8"] | None = None
    """Format in which weights that data-parallel ranks divide travel to those that compute with
    them: int8 (ZeRO++, DeepSpeed's zero_quantized_weights) or fp8 (torchtitan's
    enable_fsdp_float8_all_gather, Megatron's fp8_param_gather). If null, that of the weights, with
    at most 16 bits."""
    gradient_scatter_dtype: Literal["int4"] | None = None
    """Format in which gradients travel to the ranks that keep them: int4 (ZeRO++, DeepSpeed's
    zero_quantized_gradients). If null, gradient_dtype."""
    failures: FailuresRequest = FailuresRequest()


class RunLimits(Request):
    """Hard limits; null means no limit."""

    days: Limit = None
    """Longest time of the run, failures included; if null, the life of the hardware."""
    usd: Limit = None
    """Budget of the whole run."""
    usd_per_hour: Limit = None
    """Highest price of all accelerators per hour."""
    usd_per_month: Limit = None
    """Highest price of all accelerators per month of 730.5 hours."""
    kgco2e: Limit = None
    """Emissions of the whole run, manufacturing included."""
    litres: Limit = None
    """Water of the whole run, on site and off site."""
    it_power_w: Limit = None
    """Highest mean power of all accelerators with their hosts, without PUE."""
    weight_bits_at_least: float | None = Field(None, gt=0.0, le=32.0)
    """Fewest bits per weight that are acceptable: of what is trained, and of the base of
    adapters."""
    water_stress_ratio: Limit = None
    """Highest water stress of the place's basin: withdrawals divided by supply, where 0.4 and more
    is high. Places without a published figure are excluded."""
    compliance: RulesLimit | None = None
    """Rules of the place that must be met."""
    site: SiteLimits | None = None
    """What a site of your own can take."""
    headroom_ratio_at_least: Ratio = 0.0
    """Share of an accelerator's memory that must stay free."""
    implied: bool = True
    """Whether a run has to end within the life of the hardware where you give no days; false lets
    it take longer."""


class TrainingSearchRequest(PlacesRequest):
    """What the search for training covers."""

    precisions: FormatNames | None = None
    """Formats of trained weights; if null, bf16, or the fp8 of checkpoints trained in that. fp8 is
    faster where accelerators compute in it, but few publish runs of it: name it to try it."""
    max_accelerators: int = Field(512, ge=1, le=MOST_ACCELERATORS)
    """Largest number of accelerators of the run. If you give neither this nor accelerator_counts
    and 64, about what is had on demand, meet the limits, no more are searched."""
    accelerator_counts: _Counts | None = None
    """Numbers of accelerators to try; if null, powers of two."""

    @property
    def tried_counts(self) -> list[int]:
        """Numbers of accelerators to try: those named, unless the caller allows fewer."""
        most = self.max_accelerators
        if self.accelerator_counts is None:
            return [2**power for power in range(most.bit_length())]
        counts = list(dict.fromkeys(self.accelerator_counts))
        sent = "max_accelerators" in self.model_fields_set
        return [count for count in counts if count <= most or not sent]


if TYPE_CHECKING:
    _Included: TypeAlias = tuple[str, ...]
else:
    _Included = including("provenance", "estimates", "front", "compared")


class TrainingRecommendationRequest(ChoiceRequest):
    """What to train on, where, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "meta-llama/Llama-3.1-8B",
                    "training": {"tokens": 2e9, "sequence_length": 8192},
                    "limits": {"days": 3.0, "usd": 5000.0},
                    "search": {"max_accelerators": 64},
                }
            ]
        }
    )

    training: RunRequest | None = None
    """What is trained on, and how it may be trained: its tokens, at least. Required."""
    run: Annotated[RunRequest | None, RenamedField("training", since="2026-11-23")] = None
    """Earlier name of training."""
    limits: RunLimits = RunLimits()
    search: TrainingSearchRequest = TrainingSearchRequest()
    weights: WeightsRequest | None = None
    """If null, those of the workload kind llm-training."""
    baseline: PlacedTrainingRequest | None = None
    """Your own plan, as a request of /v1/estimates/training: choices are told in ratios to it."""
    include: _Included = ()
    fields: FieldPaths = ()

    @property
    def trained(self) -> RunRequest:
        """The run, by whichever of its names it was given."""
        given = self.run if self.training is None else self.training
        assert given is not None  # noqa: S101 - one of them is given
        return given

    @model_validator(mode="after")
    def _one_run(self) -> TrainingRecommendationRequest:
        if self.training is None and self.run is None:
            raise ValueError("training is required (the run: its tokens, at least)")
        if self.training is not None and self.run is not None:
            raise ValueError("training and run are names of one thing; leave run out")
        return self

    @model_validator(mode="after")
    def _some_count_is_allowed(self) -> TrainingRecommendationRequest:
        if not self.search.tried_counts:
            least = min(self.search.accelerator_counts or ())
            raise ValueError(
                f"search.accelerator_counts contradict search.max_accelerators: {least} is more "
                f"than {self.search.max_accelerators}"
            )
        return self


#: Accelerators that share the memory of a usual server.
_SHARED_BY = 8


def tier_offload_of(run: RunRequest) -> TrainingOffloadRequest:
    """Optimizer states in the memory tier of a run that names one."""
    named = run.memory_tier
    tier = named if isinstance(named, MemoryTierRequest) else MemoryTierRequest(tier=str(named))
    shared = tier.shared_by or _SHARED_BY
    return TrainingOffloadRequest(
        optimizer="tier", memory_tier=tier.model_copy(update={"shared_by": shared})
    )


def settings_of(run: RunRequest) -> TrainingSettingsRequest:
    """What all candidates of a run have in common."""
    return TrainingSettingsRequest(
        sequence_length=run.sequence_length,
        lora_rank=run.lora_rank,
        framework=run.framework,
        framework_version=run.framework_version,
        tokens=run.tokens,
        expert_dispatch=run.expert_dispatch,
        expert_machines=run.expert_machines,
        expert_overlap_ratio=run.expert_overlap_ratio,
        expert_capacity_factor=run.expert_capacity_factor,
        secondary_shard_degree=run.secondary_shard_degree,
        weight_gather_dtype=run.weight_gather_dtype,
        gradient_scatter_dtype=run.gradient_scatter_dtype,
        expert_padding=run.expert_padding,
        data_parallel_shard_degree=run.data_parallel_shard_degree,
        failures=run.failures,
    )
