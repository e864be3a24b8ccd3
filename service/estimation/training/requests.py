"""The vocabulary of training: what callers may ask about a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from service.core.architecture.prediction import MOST_PREDICTION_LAYERS
from service.core.memory.training.settings import (
    ALL_LINEAR,
    Adapter,
    AttentionKernel,
    Checkpointing,
    CrossEntropy,
    ExpertDispatch,
    Fp8Recipe,
    Optimizer,
    Schedule,
)
from service.estimation.compliance.requests import RuleFacts
from service.estimation.detail import FieldPaths, including
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    Degree,
    FacilityRequest,
    FrameworkReference,
    ModelReference,
    PlatformReference,
    PowerLimit,
    RegionReference,
    ReleaseText,
    Request,
    separated,
)
from service.estimation.requests import (
    CostRequest,
    LengthsRequest,
    ParallelismRequest,
    PrecisionRequest,
    TierReference,
)

#: The training run that examples and documentation use throughout.
EXAMPLE_TRAINING: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "training": {"zero_stage": 3, "activation_checkpointing": "full", "sequence_length": 8192},
}
EXAMPLE_ADAPTERS: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "training": {
        "method": "qlora",
        "optimizer": "paged-adamw-8bit",
        "activation_checkpointing": "full",
        "cross_entropy": "fused",
        "sequence_length": 2048,
    },
}
EXAMPLE_TOO_LARGE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "parallelism": {"tensor": 8},
    "training": {"micro_batch_size": 2, "sequence_length": 4096},
}
#: A run of published length.
EXAMPLE_RUN: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-405B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8192,
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 64},
    "training": {
        "framework": "megatron-lm",
        "sequence_length": 8192,
        "gradient_accumulation_steps": 32,
        "pipeline_schedule": "1f1b",
        "zero_stage": 2,
        "expandable_segments": True,
        "tokens": 15.6e12,
    },
}


TensorName = Annotated[str, Field(min_length=1, max_length=100)]
#: One name, several separated by commas, or a list of names.
TensorNames = Annotated[
    tuple[TensorName, ...],
    Field(max_length=64),
    BeforeValidator(
        separated, json_schema_input_type=Annotated[str, Field(max_length=1_000)] | list[TensorName]
    ),
]
Dtype = Literal["fp32", "bf16", "fp16"]


class TrainingOffloadRequest(Request):
    """What is offloaded from the accelerator."""

    optimizer: Literal["none", "cpu", "nvme", "tier"] = "none"
    """Where optimizer states are kept, with gradients in host memory if zero_stage is 2 or 3; none
    keeps them on the accelerator, tier in memory_tier."""
    parameters: Literal["none", "cpu", "nvme", "tier"] = "none"
    """Where weights are kept; none keeps them on the accelerator. DeepSpeed offloads them only with
    zero_stage 3."""
    activations: Literal["none", "cpu", "tier"] | None = None
    """Where activations saved for the backward pass are kept; none keeps them on the accelerator.
    If null, as the framework does: cpu for Unsloth where whole layers are recomputed, none for
    others."""
    memory_tier: TierReference | None = Field(None, examples=["cxl-2.0-ddr5-direct"])
    """What tier means: a memory tier of the catalog, such as memory behind CXL, by id or with how
    many units there are and how many accelerators share them. If memory is short, plans use it,
    too."""
    host_memory_bytes: float | None = Field(None, ge=0.0, le=1e15)
    """Host memory available for each accelerator; a run that keeps more there does not fit. If
    null, any amount is there, and plans may use 256 GB, an eighth of a typical server's."""


class FailuresRequest(Request):
    """How often failures stop a run, and what that costs."""

    per_accelerator_day: float | None = Field(None, ge=0.0, le=1e3)
    """Failures that stop the run, per accelerator and day; if null, the rate reported for a run on
    16,384 accelerators."""
    checkpoint_interval_s: float | None = Field(None, ge=1.0, le=1e9)
    """Useful time between two checkpoints; if null, the optimal one."""
    checkpoint_write_s: float | None = Field(None, ge=0.0, le=1e6)
    """How long training pauses to write a checkpoint."""
    restart_s: float | None = Field(None, ge=0.0, le=1e6)
    """From a failure to the next step."""
    other_losses_ratio: float | None = Field(None, ge=0.0, le=0.95)
    """Share of the time between failures that is not spent on steps: evaluations, waiting for data,
    checks, accelerators that are slow or missing; if null, what published runs lost to that."""


class TrainingSettingsRequest(Request):
    """How the model is trained."""

    method: Literal["full", "lora", "qlora"] = "full"
    """All weights, adapters, or adapters on a quantised base."""
    lora_rank: int = Field(16, ge=1, le=8192)
    """Rank of adapters that have one."""
    lora_targets: TensorNames | None = Field(None, examples=[ALL_LINEAR])
    """all-linear, or names of the matrices that get an adapter, such as q_proj,v_proj (or a list of
    them). If null, those that people who use the framework adapt: queries and values for LitGPT,
    all linear ones for most others."""
    trained_tensors: TensorNames = ()
    """Names of tensors that are trained in full beside the adapters, such as lm_head."""
    adapter: Adapter = "lora"
    """What is trained beside frozen weights with methods lora and qlora. dora, adalora, vera, ia3
    and boft hang on lora_targets, too; lora-fa trains only the second matrix of each adapter,
    prompt and prefix train virtual_tokens, norms the weights of norms."""
    adapter_dtype: Dtype | None = None
    """Format that adapters are held in; if null, as the framework does: fp32 with zero_stage 0 in
    Transformers since May 2024, with a quantised base in any release, and in what is built on it;
    elsewhere that of activations, in at least 16 bit."""
    adapter_dropout: bool | None = None
    """Whether the input of adapters of low rank has dropout, which keeps a copy of it for each
    matrix, and masks. If null, as the framework does: it has for LitGPT, none for others."""
    virtual_tokens: int = Field(20, ge=1, le=1_000_000)
    """Tokens that prompt tuning puts in front of each sequence, or keys and values that prefix
    tuning puts in front of those of each layer."""
    boft_block_size: int = Field(4, ge=2, le=65_536)
    """Inputs that a block of BOFT rotates together; divides the inputs of every target."""
    boft_factors: int = Field(1, ge=1, le=32)
    """Factors of the rotation of BOFT."""
    optimizer: Optimizer = "adamw"
    """Decides how many bytes of state each trained weight has. 8bit keeps states in 8 bits, paged
    moves those that do not fit to host memory; galore and apollo keep moments of rank
    optimizer_rank for matrices inside the layers."""
    optimizer_rank: int = Field(128, ge=1, le=65_536)
    """Rank of the moments of galore and apollo; apollo-mini has rank 1."""
    optimizer_in_backward: bool = False
    """Update each weight as soon as its gradient is there, so that gradients are never all held;
    needs gradient_accumulation_steps 1 and optimizer states on the accelerator."""
    optimizer_state_dtype: Dtype | None = None
    """Format of the states of optimizers that are not 8-bit; if null, as the framework does: fp32,
    but where optimizers of PyTorch keep no 32-bit copy of what they train, the format of that."""
    master_weights: bool | None = None
    """Keep a 32-bit copy of trained weights that have fewer bits; if null, as the framework does:
    torchtune and LitGPT keep none, nor do Transformers and what is built on it of adapters with
    zero_stage 0. Others do, except with galore and apollo, which are made to train weights of 16
    bit as they are."""
    gradient_dtype: Dtype | None = None
    """Format in which gradients are kept and exchanged; if null, that of the framework: fp32 for
    Megatron-LM, Megatron Bridge, NeMo and torchtitan; elsewhere that of adapters, fp32 for weights
    in fp32, and bf16 for others."""
    gradient_sum_dtype: Literal["none", "fp32"] | None = None
    """Format of a second copy of gradients in which those of micro-batches are summed; none sums
    them in gradient_dtype. If null, as the framework does: fp32 in Megatron-DeepSpeed with weights
    in bf16 and zero_stage 0 or 1, none elsewhere."""
    prediction_layers: int | None = Field(None, ge=0, le=MOST_PREDICTION_LAYERS)
    """Layers trained to predict tokens further ahead than the next (multi-token prediction), with
    method full: each is a projection, a layer like the model's last, and one more pass of the
    output matrix with its loss. If null, those that the model states where the framework trains
    them unless told otherwise (Megatron Bridge, NeMo), else none."""
    micro_batch_size: int = Field(1, ge=1, le=65_536)
    """Sequences that a data-parallel rank computes at once."""
    gradient_accumulation_steps: int = Field(1, ge=1, le=1_000_000)
    """Micro-batches of one optimizer step; with a pipeline, those that pass through it."""
    sequence_length: int = Field(4096, ge=1, le=100_000_000)
    """Tokens per sequence."""
    sequence_lengths: LengthsRequest | None = None
    """How lengths differ of sequences that are not packed but filled up to the longest of their
    micro-batch, and cut to sequence_length, for which memory is provided. training.tokens then are
    those without filling. If null, all sequences are full."""
    packed_document_tokens: float | None = Field(None, ge=1.0, le=1e8)
    """Length of the documents packed into a sequence, of which each attends only within itself:
    the mean over tokens, to which long documents count by their length. If null, tokens attend
    within the whole sequence."""
    activation_checkpointing: Checkpointing | None = None
    """none, selective, which recomputes attention scores, selective-operators, which recomputes
    also every other matrix product, or full for whole layers. If null, as the framework does:
    selective-operators for torchtitan, full for MaxText, LLaMA-Factory, Unsloth, PEFT and TRL, and
    for Transformers with method qlora, none for others."""
    checkpoint_every: int = Field(1, ge=1, le=10_000)
    """Layers of a recomputed block, with full checkpointing."""
    attention: AttentionKernel | None = None
    """Attention kernel: eager stores the attention scores, flash does not; flash-fp8 multiplies in
    8 bit, forward and backward, as Transformer Engine does with fp8_dpa; flash-1 is FlashAttention
    of before version 2 (July 2023), or Triton's port of it. If null, as the framework does: eager
    in Megatron of before sequence parallelism, and for models that cap scores (Gemma 2) in LitGPT,
    Transformers and what is built on it; flash elsewhere."""
    fused_kernels: bool | None = None
    """Whether norms and gated activations are fused, by a compiler or by hand; if null, as the
    framework does unless told otherwise: not in Transformers, PEFT, Axolotl, LLaMA-Factory, LitGPT,
    torchtune and torchtitan."""
    dropout: bool | None = None
    """Whether there is dropout, which stores its masks: where the model's configuration has it, or
    of attention's weights and of both results of a layer if it has none. If null, as the framework
    does: what the configuration says, but none in torchtitan, torchtune, LitGPT, MaxText, FMS-FSDP,
    llm.c and LLM.Q."""
    cross_entropy: CrossEntropy | None = None
    """plain keeps logits in 32 bit, half-precision computes the whole loss in 16 bit, compiled
    keeps logits and their gradients in 16 bit, chunked logits in 16 bit and a part of them in
    32 bit, fused only such a part. If null, as the framework does: chunked for torchtune and LLM.Q,
    fused for Unsloth, plain for others."""
    cross_entropy_chunk_tokens: int = Field(1024, ge=1, le=100_000_000)
    """Tokens of such a part."""
    sequence_parallel: bool = True
    """Divide norms and residuals among tensor-parallel ranks, which tensor parallelism alone
    repeats."""
    fp8_recipe: Fp8Recipe | None = None
    """How operands are scaled where products run in 8 bit: delayed by the largest values of earlier
    steps, tensorwise by those of the tensor, rowwise by those of each row, blockwise by those of
    each block (DeepSeek-V3), mxfp8 by powers of two for each 32 elements. If null, what is typical
    of the framework."""
    expert_dispatch: ExpertDispatch = "all-to-all"
    """How tokens reach experts on other accelerators: all-to-all sends a copy to each of a token's
    experts, per-machine one to each machine (DeepEP, flex dispatcher of Megatron)."""
    expert_machines: int | None = Field(None, ge=1, le=100_000)
    """Machines that the experts of a token are on at most (node-limited routing, 4 for
    DeepSeek-V3), with expert_dispatch per-machine; if null, there is no limit."""
    expert_overlap_ratio: float | None = Field(None, ge=0.0, le=1.0)
    """Share of messages to and from experts that hides behind computation; if null, 1 with
    pipeline_schedule dualpipe, else as measured of the framework's other messages within a model
    copy."""
    pipeline_schedule: Schedule | None = None
    """Order of micro-batches in the pipeline: gpipe keeps the activations of all micro-batches,
    1f1b of at most as many as there are stages, interleaved of somewhat more with a shorter bubble
    (see virtual_stages), zero-bubble of as many as 1f1b with a third of its bubble, which it fills
    with gradients of weights. With dualpipe (DeepSeek-V3) micro-batches enter at both ends: each
    rank holds two stages, the first with the last, and activations of one more micro-batch than
    there are stages; an even number of stages takes twice as many micro-batches or more. If null,
    interleaved with virtual_stages above 1, and as people run Megatron-LM, Megatron Bridge and NeMo
    where layers fill the stages alike and micro-batches come in whole rounds; 1f1b elsewhere."""
    virtual_stages: int | None = Field(None, ge=1, le=1_000)
    """Stages per rank in the interleaved schedule; if null, of two layers each or, where layers do
    not fill these alike, of more."""
    zero_stage: int | None = Field(None, ge=0, le=3)
    """What data-parallel ranks divide: 1 optimizer states, 2 also gradients, 3 also weights (FSDP
    full sharding). If null, as the framework does unless told otherwise: 3, or 2 beside a pipeline,
    for torchtitan, torchtune, MaxText, Levanter, FMS FSDP, LLM Foundry and NeMo AutoModel, 0 for
    others."""
    persistent_elements: int = Field(0, ge=0, le=1_000_000_000_000)
    """Tensors of up to so many elements are whole on every rank with zero_stage 3, as DeepSpeed's
    stage3_param_persistence_threshold has it (100,000 there by default)."""
    expandable_segments: bool | None = None
    """Whether PyTorch's allocator grows its segments (PYTORCH_CUDA_ALLOC_CONF
    expandable_segments), which leaves little of them unused. If null, as the framework does: true
    for Unsloth and Axolotl, which ask for it themselves, false for others."""
    memory_reserve_ratio: float = Field(0.0, ge=0.0, le=0.95)
    """Share of the accelerator's memory that is to stay free: a run that needs it does not fit."""
    offload: TrainingOffloadRequest = TrainingOffloadRequest()
    framework: FrameworkReference = "default"
    """Framework whose measured overheads apply: id or alias of one in /v1/engines that runs
    training."""
    framework_version: ReleaseText | None = Field(None, examples=["25.11"])
    """Release of the framework: a version, a date, or a generation of it in /v1/engines; if null,
    the newest generation."""
    tokens: float | None = Field(None, ge=1.0, le=1e18)
    """Tokens of the whole run; memory does not depend on it."""
    mfu_ratio: float | None = Field(None, ge=1e-4, le=1.0)
    """Utilisation that is known, without recomputation over dense peak: the step takes what it
    says, whatever its parts are estimated to take. If null, utilisation is estimated."""
    failures: FailuresRequest = FailuresRequest()


class TrainingRequest(CatalogRequest):
    """A training run: what is trained where, and how."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-8B"])
    """Catalog id or alias; hf:organisation/name for a model on the Hugging Face Hub; or {'config':
    …} with a config.json."""
    precision: PrecisionRequest = PrecisionRequest()
    """If weights is null: bnb-nf4 for qlora; fp32, computed in bf16, where the framework holds all
    that it trains so (torchtitan, MaxText, LLM Foundry); else the checkpoint's own format if it can
    be trained, bf16 if not. There is no KV cache: a format of it is warned about."""
    accelerator: AcceleratorReference = Field(examples=["nvidia-h100-sxm-80gb"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that the accelerators stand in, which decides power and manufacturing of the host,
    links and the usual site: id or alias of one in /v1/platforms, or an inline platform; if null,
    the one that the accelerator usually stands in."""
    power_limit_w: PowerLimit | None = None
    """Limit of power of each accelerator, above its idle and up to its thermal design power; clocks
    fall with it. If null, its thermal design power."""
    accelerator_count: Degree | None = None
    """Accelerators of all ranks."""
    parallelism: ParallelismRequest | None = None
    """If null, data parallelism over all accelerators."""
    training: TrainingSettingsRequest = TrainingSettingsRequest()
    explain: bool = False
    """Add a step-by-step explanation."""


if TYPE_CHECKING:
    _OfMemory: TypeAlias = tuple[str, ...]
    _OfLatency: TypeAlias = tuple[str, ...]
    _OfEstimate: TypeAlias = tuple[str, ...]
else:
    _OfMemory = including(
        "provenance", "explanation", "deployment", "memory.by_class", "memory.stages", "remedies"
    )
    _OfLatency = including("provenance", "explanation", "deployment", "latency.breakdown")
    _OfEstimate = including(
        "provenance",
        "explanation",
        "deployment",
        "memory.by_class",
        "memory.stages",
        "remedies",
        "latency.breakdown",
        "energy.breakdown",
        "impacts.breakdown",
    )


class MemoryTrainingRequest(TrainingRequest):
    """Memory of a training run."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_TRAINING, EXAMPLE_ADAPTERS, EXAMPLE_TOO_LARGE]}
    )

    include: _OfMemory = ()
    fields: FieldPaths = ()


class LatencyTrainingRequest(TrainingRequest):
    """Time of a training run."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_RUN, EXAMPLE_TRAINING]})

    include: _OfLatency = ()
    fields: FieldPaths = ()


class PlacedTrainingRequest(TrainingRequest):
    """A training run in a place, with what it is to cost there."""

    region: RegionReference | None = Field(None, examples=["aws/eu-north-1"])
    """Cloud region, country, grid zone, or an inline region. Without a place, emissions of
    operation, water and rent are unknown, unless you state a price; the PUE is a usual one."""
    year: int | None = Field(None, ge=1990, le=2100)
    """Year of the run: the latest factors up to that year are used; if null, the latest of all."""
    facility: FacilityRequest = FacilityRequest()
    cost: CostRequest = CostRequest()
    compliance: RuleFacts | None = None
    """Facts about the site, to check them against the rules of the place."""


class EstimateTrainingRequest(PlacedTrainingRequest):
    """Everything about one training run in one answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_RUN | {"region": "country/US"},
                EXAMPLE_TRAINING | {"region": "aws/eu-north-1"},
            ]
        }
    )

    include: _OfEstimate = ()
    fields: FieldPaths = ()
