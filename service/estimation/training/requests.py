"""The vocabulary of training: what callers may ask about a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from service.core.architecture.prediction import MOST_PREDICTION_LAYERS
from service.core.memory.training.settings import (
    ALL_LINEAR,
    AttentionKernel,
    Checkpointing,
    CrossEntropy,
    ExpertDispatch,
    Fp8Recipe,
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
from service.estimation.release_behind import release_apart
from service.estimation.requests import (
    CostRequest,
    LengthsRequest,
    ParallelismRequest,
    PrecisionRequest,
    RanksOfGroup,
    TierReference,
)
from service.estimation.training.called import (
    AdapterName,
    MethodName,
    OptimizerName,
    settings_of_method,
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
    """Where optimizer states are kept: none means on the accelerator, tier means in memory_tier.
    With zero_stage 2 or 3, gradients are then kept in host memory as well."""
    parameters: Literal["none", "cpu", "nvme", "tier"] = "none"
    """Where weights are kept; none keeps them on the accelerator. DeepSpeed offloads them only with
    zero_stage 3."""
    activations: Literal["none", "cpu", "tier"] | None = None
    """Where activations saved for the backward pass are kept; none keeps them on the accelerator.
    If null, as the framework does: cpu for Unsloth where whole layers are recomputed, none for
    others."""
    memory_tier: TierReference | None = Field(None, examples=["cxl-2.0-ddr5-direct"])
    """The memory that tier refers to, such as memory behind CXL: the id of a memory tier in the
    catalog, or an object with its number of units and how many accelerators share them. Plans also
    use it if memory is short."""
    host_memory_bytes: float | None = Field(None, ge=0.0, le=1e15)
    """Host memory available per accelerator; a run that needs more does not fit. If null, it is
    unlimited, but plans use at most 256 GB, an eighth of a typical server's."""


class FailuresRequest(Request):
    """How often failures stop a run, and what that costs."""

    per_accelerator_day: float | None = Field(None, ge=0.0, le=1e3)
    """Failures that stop the run, per accelerator and day; if null, the rate reported for a run on
    16,384 accelerators."""
    checkpoint_interval_s: float | None = Field(None, ge=1.0, le=1e9)
    """Useful time between two checkpoints; if null, the optimal one."""
    checkpoint_write_s: float | None = Field(None, ge=0.0, le=1e6)
    """Time for which training pauses to write a checkpoint."""
    restart_s: float | None = Field(None, ge=0.0, le=1e6)
    """Time from a failure to the next step."""
    other_losses_ratio: float | None = Field(None, ge=0.0, le=0.95)
    """Share of the time between failures that is not spent on steps: evaluations, waiting for data,
    checks, slow or missing accelerators. If null, what published runs lost."""


class TrainingSettingsRequest(Request):
    """How the model is trained."""

    method: MethodName = "full"
    """What is trained: all weights (full), adapters (lora), or adapters on a quantised base model
    (qlora). Other names are understood: SFT and pretraining as full, DoRA and other adapters as
    lora with that adapter, QDoRA as qlora with it, GaLore and APOLLO as full with that
    optimizer."""
    lora_rank: int = Field(16, ge=1, le=8192)
    """Rank of LoRA adapters and others that have one."""
    lora_targets: TensorNames | None = Field(None, examples=[ALL_LINEAR])
    """Matrices that get an adapter: all-linear, or names such as q_proj,v_proj (or a list of them).
    If null, the framework's usual choice: queries and values for LitGPT and Llama Cookbook, all
    linear layers for most others."""
    trained_tensors: TensorNames = ()
    """Names of tensors that are fully trained in addition to the adapters, such as lm_head."""
    adapter: AdapterName = "lora"
    """Kind of adapter for methods lora and qlora. dora, adalora, vera, ia3 and boft also apply to
    lora_targets. lora-fa trains only the second matrix of each adapter. prompt and prefix train
    virtual_tokens. norms trains the weights of normalisation layers."""
    adapter_dtype: Dtype | None = None
    """Format of the adapters. If null, as in the framework: fp32 with zero_stage 0 in Transformers
    since May 2024 (with a quantised base in any release) and in frameworks built on it; otherwise
    the format of activations, with at least 16 bits."""
    adapter_dropout: bool | None = None
    """Whether low-rank adapters have dropout on their input. It keeps a copy of the input and a
    mask for each matrix. If null, as in the framework: true for LitGPT, false for others."""
    virtual_tokens: int = Field(20, ge=1, le=1_000_000)
    """Number of trained tokens that prompt tuning puts in front of each sequence, or of trained
    keys and values that prefix tuning puts in front of those of each layer."""
    boft_block_size: int = Field(4, ge=2, le=65_536)
    """Number of inputs that a block of BOFT rotates together. Must divide the inputs of every
    target."""
    boft_factors: int = Field(1, ge=1, le=32)
    """Number of butterfly factors of BOFT."""
    optimizer: OptimizerName = "adamw"
    """Optimizer, which decides the bytes of state per trained weight. 8bit keeps states in 8 bits.
    paged moves states that do not fit to host memory. galore and apollo keep moments of rank
    optimizer_rank for the matrices of layers."""
    optimizer_rank: int = Field(128, ge=1, le=65_536)
    """Rank of the moments of galore and apollo; apollo-mini has rank 1."""
    optimizer_in_backward: bool = False
    """Update each weight as soon as its gradient is computed, so that not all gradients are held at
    once. Needs gradient_accumulation_steps 1 and optimizer states on the accelerator."""
    optimizer_state_dtype: Dtype | None = None
    """Format of optimizer states, except for 8-bit optimizers. If null, as in the framework:
    usually fp32; optimizers of PyTorch without a 32-bit copy of the weights use the format of the
    weights."""
    master_weights: bool | None = None
    """Whether a 32-bit copy of trained weights is kept if they have fewer bits. If null, as in the
    framework: torchtune, LitGPT, Llama Cookbook, MLX LM and LLM.Q keep none; PyTorch and FSDP keep
    none of adapters, nor do Transformers and frameworks built on it with zero_stage 0, ms-swift
    none of weights either; with galore and apollo there is none; all others keep one."""
    gradient_dtype: Dtype | None = None
    """Format in which gradients are kept and exchanged. If null, as in the framework: fp32 for
    Megatron-LM and frameworks like it, torchtitan, FSDP, PyTorch and verl; otherwise the adapters'
    format, fp32 for weights in fp32, and bf16 for other weights."""
    gradient_sum_dtype: Literal["none", "fp32"] | None = None
    """Format of a second copy of the gradients, in which micro-batches are summed; with none, they
    are summed in gradient_dtype. If null, as in the framework: fp32 in Megatron-DeepSpeed with
    weights in bf16 and zero_stage 0 or 1, none elsewhere."""
    prediction_layers: int | None = Field(None, ge=0, le=MOST_PREDICTION_LAYERS)
    """Number of layers for multi-token prediction that are trained, with method full. Each is a
    projection, a layer like the model's last one, and one more pass through the output matrix with
    its loss. If null, the model's own number in frameworks that train them by default (Megatron
    Bridge, NeMo), otherwise none."""
    micro_batch_size: int | None = Field(None, ge=1, le=65_536)
    """Number of sequences that a data-parallel rank computes at once. If null, as many as make
    4,096 tokens in a pipeline, at least one; otherwise what people usually take with the framework:
    8 for Transformers and PEFT, 12 for MaxText, 4 for Llama Cookbook, GPT-NeoX and MLX LM, 2 for
    torchtune, LLaMA-Factory, Unsloth, OpenRLHF, Colossal-AI and FMS FSDP, 1 for ms-swift, as many
    as make 8,192 tokens for Axolotl and verl and, on 80 GB, for Megatron-LM and frameworks built on
    it (more where memory has room), and 16,384 tokens for most others. If that does not fit, the
    largest power of two that does. The answer repeats what was taken."""
    gradient_accumulation_steps: int | None = Field(None, ge=1, le=1_000_000)
    """Number of micro-batches per optimizer step. With a pipeline, these are the micro-batches that
    pass through it. Each step takes micro_batch_size sequences per micro-batch and data-parallel
    rank. If null, as many as the global batch takes. If that is null, too, 1 or, in a pipeline and
    with Megatron-LM and frameworks like it, as many as make about 4 million tokens, but 4 to 16 for
    each stage."""
    global_batch_size: int | None = Field(None, ge=1, le=100_000_000)
    """Number of sequences that all data-parallel ranks together take per optimizer step. It must be
    a multiple of micro_batch_size × gradient_accumulation_steps × data-parallel ranks, and decides
    what is null of the first two. If null, it follows from them."""
    global_batch_tokens: float | None = Field(None, ge=1.0, le=1e12)
    """The same in tokens, for sequences of sequence_length: the nearest number of sequences that
    divides among the ranks, or fills a pipeline, is taken. Give this or global_batch_size."""
    sequence_length: int = Field(4096, ge=1, le=100_000_000)
    """Tokens per sequence. If not given, 4,096, or as many as the model has positions for if that
    is fewer."""
    sequence_lengths: LengthsRequest | None = None
    """Distribution of lengths, for sequences that are padded to the longest of their micro-batch
    instead of being packed. Longer ones are cut to sequence_length, for which memory is needed.
    training.tokens then does not count padding. If null, all sequences are full."""
    packed_document_tokens: float | None = Field(None, ge=1.0, le=1e8)
    """Length of the documents that are packed into a sequence and attend only within themselves:
    the mean over tokens, so that long documents count by their length. If null, tokens attend to
    the whole sequence."""
    activation_checkpointing: Checkpointing | None = None
    """What is recomputed in the backward pass: none; selective (attention scores);
    selective-modules (norms, activations of feed-forward parts and up-projections of latents, as in
    DeepSeek-V3 and with Megatron's recompute_modules); selective-operators (every second matrix
    product and all elementwise work); or full (whole layers). If null, as in the framework:
    selective-operators for torchtitan; full for MaxText, LLaMA-Factory, Axolotl, ms-swift, Unsloth,
    PEFT and TRL, verl, OpenRLHF and GPT-NeoX, for adapters where no framework is named, for
    torchtune except with method lora on several accelerators, for LitGPT and Llama Cookbook on
    several, for Transformers with a quantised base, and for Megatron before it had sequence
    parallelism; none for others. If the run does not fit by that, the least of what people have the
    framework recompute."""
    checkpoint_every: int = Field(1, ge=1, le=10_000)
    """Number of layers that are recomputed together, with activation_checkpointing full."""
    recomputed_layers: int | None = Field(None, ge=1, le=10_000)
    """Number of layers of each pipeline stage that are recomputed, with activation_checkpointing
    full (Megatron's recompute_num_layers with recompute_method block, times virtual_stages). If
    null, all, or, where nobody says what is recomputed, as few as make the run fit."""
    attention: AttentionKernel | None = None
    """Attention kernel: eager stores the attention scores, flash does not, flash-fp8 also
    multiplies in 8 bits, as Transformer Engine does with fp8_dpa, and flash-1 is FlashAttention
    before version 2 (July 2023), or Triton's port of it. If null, as in the framework: eager in
    Megatron before it had sequence parallelism, and for models that cap scores (Gemma 2) in LitGPT,
    Transformers and frameworks built on it; flash elsewhere."""
    fused_kernels: bool | None = None
    """Whether normalisation and gated activations are fused, by a compiler or by hand. If null, as
    in the framework by default: false in Transformers and frameworks built on it, LitGPT,
    torchtune, torchtitan, FSDP and PyTorch, true in others."""
    dropout: bool | None = None
    """Whether there is dropout, which stores its masks. It is where the model's configuration has
    it; if that has none, on attention weights and on both outputs of a layer. If null, as in the
    framework: what the configuration says, but none in torchtitan, torchtune, LitGPT, MaxText,
    FMS-FSDP, nanotron, GPT-NeoX, MLX LM, llm.c and LLM.Q."""
    cross_entropy: CrossEntropy | None = None
    """How the loss is computed: plain keeps logits in 32 bits; half-precision computes the whole
    loss in 16 bits; compiled keeps logits and their gradients in 16 bits; chunked keeps logits in
    16 bits and one chunk in 32; fused keeps only one chunk. If null, as in the framework: chunked
    for torchtune, LLM.Q and Megatron Bridge, fused for Unsloth, compiled for LLM Foundry, verl and
    MLX LM, plain for others."""
    cross_entropy_chunk_tokens: int = Field(1024, ge=1, le=100_000_000)
    """Number of tokens in a chunk, with cross_entropy chunked or fused."""
    sequence_parallel: bool | None = None
    """Whether norms and residuals are divided over tensor-parallel ranks. Tensor parallelism alone
    repeats them on each. If null, true where the framework's release can."""
    fp8_recipe: Fp8Recipe | None = None
    """How operands are scaled if products run in 8 bits: delayed (by the largest values of earlier
    steps), tensorwise (of the tensor), rowwise (of each row), blockwise (of each block, as in
    DeepSeek-V3), or mxfp8 (by a power of two for every 32 elements). If null, the framework's usual
    recipe on that hardware: mxfp8 for Megatron-LM, NeMo and Megatron Bridge where matrix units
    scale blocks (Blackwell), else delayed, or tensorwise for Megatron Bridge and torchtitan."""
    expert_dispatch: ExpertDispatch = "all-to-all"
    """How tokens reach experts on other accelerators: all-to-all sends one copy to each of a
    token's experts, per-machine only one to each machine (DeepEP, Megatron's flex dispatcher)."""
    expert_machines: int | None = Field(None, ge=1, le=100_000)
    """Most machines that the experts of one token may be on (node-limited routing; 4 for
    DeepSeek-V3), with expert_dispatch per-machine. If null, there is no limit."""
    expert_overlap_ratio: float | None = Field(None, ge=0.0, le=1.0)
    """Share of the messages to and from experts that is hidden behind computation. If null, 1 with
    pipeline_schedule dualpipe and, to experts on other machines beside a pipeline that recomputes
    no whole layers, in Megatron-LM since 2025 and Megatron Bridge since 25.11; otherwise as
    measured for the framework's other messages within a copy of the model."""
    expert_capacity_factor: float | None = Field(None, gt=0.0, le=64.0, examples=[1.25])
    """Tokens that an expert takes at most, over its even share: others are dropped (capacity factor
    of Switch Transformers; Megatron's moe_expert_capacity_factor, DeepSpeed's and MaxText's
    capacity_factor). If null, every token goes to the experts that it chose."""
    expert_padding: bool | None = None
    """Whether experts are filled up to their capacity, so that each takes as much (Megatron's
    moe_pad_expert_input_to_capacity). If null, as in the framework: true for DeepSpeed and MaxText,
    false for Megatron-LM and frameworks like it."""
    pipeline_schedule: Schedule | None = None
    """Order of micro-batches in the pipeline: gpipe keeps the activations of all micro-batches,
    1f1b of at most as many as there are stages, interleaved of somewhat more with a shorter bubble
    (see virtual_stages), zero-bubble of as many as 1f1b with a third of its bubble, which it fills
    with gradients of weights. With dualpipe (DeepSeek-V3) micro-batches enter at both ends: each
    rank holds two stages, the first with the last, and activations of one more micro-batch than
    there are stages; an even number of stages takes twice as many micro-batches or more. If null,
    interleaved with virtual_stages above 1, and as people run Megatron-LM, Megatron Bridge and NeMo
    where layers fill the stages, or nearly, and micro-batches come in whole rounds; 1f1b
    elsewhere."""
    virtual_stages: int | None = Field(None, ge=1, le=1_000)
    """Number of stages per rank in the interleaved schedule. If null, as many as have two layers
    each, or more layers if these do not divide evenly; if none do, as many as nearly fill."""
    zero_stage: int | None = Field(None, ge=0, le=3)
    """What is divided over data-parallel ranks: 1 optimizer states, 2 also gradients, 3 also
    weights (FSDP full sharding). If null, as in the framework by default: 3 (2 with a pipeline) for
    FSDP, torchtitan, torchtune, LitGPT, Llama Cookbook, MaxText, Levanter, FMS FSDP, LLM Foundry,
    NeMo AutoModel, verl and Colossal-AI, 2 for OpenRLHF, 1 for NeMo, Megatron Bridge and GPT-NeoX,
    0 for others; if the run does not fit by that, the lowest stage with which it does."""
    data_parallel_shard_degree: RanksOfGroup | None = Field(None, examples=[8])
    """Number of data-parallel ranks that share what zero_stage divides, each group of so many
    holding all of it (hybrid sharding, HSDP). It is torchtitan's
    data_parallel_shard_degree, DeepSpeed's mics_shard_size, and data-parallel ranks over Megatron's
    num_distributed_optimizer_instances; machine means as many as a machine has (HYBRID_SHARD of
    FSDP). It must divide the data-parallel ranks; ranks of context parallelism come on top. If
    null, all ranks are one group, but machine with FMS FSDP and LitGPT where that fits."""
    secondary_shard_degree: RanksOfGroup | None = Field(None, examples=[8])
    """With zero_stage 3, number of data-parallel ranks that hold a second copy of the weights in 16
    bit together, of which backward passes gather (ZeRO++, DeepSpeed's zero_hpz_partition_size);
    machine means as many as a machine has. It must divide the data-parallel ranks. If null, there
    is no second copy."""
    weight_gather_dtype: Literal["fp8", "int8"] | None = None
    """Format in which weights that data-parallel ranks divide travel to those that compute with
    them: int8 (ZeRO++, DeepSpeed's zero_quantized_weights) or fp8 (torchtitan's
    enable_fsdp_float8_all_gather, Megatron's fp8_param_gather). If null, that of the weights, with
    at most 16 bits."""
    gradient_scatter_dtype: Literal["int4"] | None = None
    """Format in which gradients travel to the ranks that keep them: int4 (ZeRO++, DeepSpeed's
    zero_quantized_gradients). If null, gradient_dtype."""
    persistent_elements: int = Field(0, ge=0, le=1_000_000_000_000)
    """With zero_stage 3, tensors of up to this many elements are kept whole on every rank. This is
    DeepSpeed's stage3_param_persistence_threshold (100,000 by default there)."""
    expandable_segments: bool | None = None
    """Whether PyTorch's allocator can grow its segments (PYTORCH_CUDA_ALLOC_CONF
    expandable_segments), which wastes less memory. If null, as in the framework: true for Unsloth
    and Axolotl, false for others."""
    memory_reserve_ratio: float = Field(0.0, ge=0.0, le=0.95)
    """Share of the accelerator's memory that must stay free. A run that needs it does not fit."""
    offload: TrainingOffloadRequest = TrainingOffloadRequest()
    framework: FrameworkReference | None = None
    """Framework that trains the model: id or alias of an engine in /v1/engines that runs training.
    If null, the one that most people use on the accelerator, if there is one: MaxText on TPUs,
    Neuron on Trainium, Optimum Habana or Megatron-DeepSpeed on Gaudi. Otherwise, and where that one
    cannot train as asked, it is default: figures between those of all measured frameworks."""
    framework_version: ReleaseText | None = Field(None, examples=["25.11"])
    """Release of the framework: a version, a date, or a generation of it in /v1/engines; if null,
    the newest generation."""
    tokens: float | None = Field(None, ge=1.0, le=1e18)
    """Number of tokens of the whole run. Memory does not depend on it."""
    mfu_ratio: float | None = Field(None, ge=1e-4, le=1.0)
    """Known model FLOPs utilisation (without recomputation, relative to the dense peak). The time
    of a step then follows from it instead of the estimate. If null, utilisation is estimated."""
    failures: FailuresRequest = FailuresRequest()

    @model_validator(mode="before")
    @classmethod
    def _called_by_its_adapter(cls, given: object) -> object:
        apart = release_apart(given, "framework", "framework_version")
        return settings_of_method(apart)


class TrainingRequest(CatalogRequest):
    """A training run: what is trained where, and how."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-8B"])
    """Catalog id or alias; the name of a quantised release or file of such a model;
    hf:organisation/name for a model on the Hugging Face Hub; or {'config': …} with a
    config.json."""
    precision: PrecisionRequest = PrecisionRequest()
    """Number formats. Adapters on int4 or int8 weights have the framework's usual base of that
    width, such as bnb-nf4 and bnb-int8. If weights is null: bnb-nf4 for qlora (mlx-4bit with MLX
    LM); fp32, computed in bf16, for frameworks that keep trained weights so (torchtitan, FSDP,
    PyTorch, verl, MaxText, LLM Foundry); otherwise the checkpoint's own format if it can be
    trained, and bf16 if not. kv_cache has no effect in training."""
    accelerator: AcceleratorReference = Field(examples=["nvidia-h100-sxm-80gb"])
    """Catalog id or alias, or an inline accelerator."""
    platform: PlatformReference | None = Field(None, examples=["nvidia-dgx-h100"])
    """Machine that holds the accelerators: id or alias in /v1/platforms, or an inline platform. It
    decides the host's power and manufacturing, the links, and the kind of site. If null, the
    machine that the accelerator is usually in."""
    power_limit_w: PowerLimit | None = None
    """Power limit of each accelerator, between its idle power and its thermal design power. Clocks
    fall with it. If null, its thermal design power."""
    accelerator_count: Degree | None = None
    """Accelerators of all ranks."""
    parallelism: ParallelismRequest | None = None
    """If null, data parallelism over all accelerators or, with Megatron-LM and frameworks like it
    where copies do not fit or would recompute all layers, the fastest layout that fits: tensors
    within fast links, layers where the micro-batches of a step fill a pipeline, and experts."""
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
    """Year of the run. The latest factors of that year or earlier are used; if null, the latest of
    all."""
    facility: FacilityRequest = FacilityRequest()
    cost: CostRequest = CostRequest()
    compliance: RuleFacts | None = None
    """Facts about the site, which are checked against the rules of the place."""


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
