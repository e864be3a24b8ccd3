"""Shapes of engines and frameworks in the catalog, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias

from service.api.catalog.stated import CatalogEntry, Stated
from service.core.backends import Backend
from service.core.memory.training.settings import (
    Adapter,
    AttentionKernel,
    Checkpointing,
    CrossEntropy,
    Optimizer,
    Schedule,
)
from service.core.recipes import ExpertCapacity, InterleavedRounds, Recomputation

#: Kinds of parallelism.
Degree: TypeAlias = Literal["data", "tensor", "pipeline", "expert", "context"]


class EngineClasses(Stated):
    """Kinds of an engine, by what it runs: whose figures stand in where it has none."""

    inference: NotRequired[Literal["compiled", "fixed-shapes", "eager", "llama.cpp-like"]]
    """Class whose figures of serving stand in."""
    training: NotRequired[Literal["megatron-like", "fsdp-like", "ahead-of-time", "trainer-like"]]
    """Class whose figures of training stand in."""


class EngineDefaults(Stated):
    """What an engine starts with where settings say nothing, under the conditions beside it."""

    max_running_sequences: NotRequired[float]
    """Sequences that a replica runs at once."""
    chunked_prefill_tokens: NotRequired[float]
    """Tokens that a step computes at most."""
    memory_utilization_ratio: NotRequired[float]
    kept_bytes: NotRequired[float]
    """What it leaves free of the memory, whose rest is its share."""
    whole_prompts: NotRequired[bool]
    """Whether a step has room for the longest sequence."""
    prompts_apart: NotRequired[bool]
    """Whether a step that computes prompts decodes nothing."""
    usage: NotRequired[Literal["server", "offline"]]
    hardware: NotRequired[list[str]]
    but_not: NotRequired[list[str]]
    least_memory_bytes: NotRequired[float]
    most_sequence_tokens: NotRequired[float]
    source: str
    note: NotRequired[str]


class EngineGeneration(Stated):
    """Releases of an engine between two changes that speed or memory show."""

    id: str
    since: str
    version: NotRequired[str]
    aliases: NotRequired[list[str]]
    names: NotRequired[list[str]]
    preempting: NotRequired[bool]
    fuses_attention: NotRequired[bool]
    """Whether it fuses attention in training unless told otherwise; true if left out."""
    constants_of: NotRequired[str]
    """The earlier generation whose fitted constants hold for it."""
    launch_bound: NotRequired[bool]
    formats: NotRequired[list[str]]
    defaults: NotRequired[list[EngineDefaults]]
    differs: str
    source: str


class EngineHardware(Stated):
    """Accelerators by their ids, families, or the beginnings of families (nvidia-*)."""

    hardware: list[str]
    """What it runs on."""
    usual: NotRequired[list[str]]
    """Where it is the default engine."""
    source: str


class EngineFormats(Stated):
    """What weights an engine reads."""

    formats: NotRequired[list[str]]
    """Any if left out."""
    usual: NotRequired[dict[str, str]]
    """What they are where nobody says, by formats of checkpoints, and where a width alone is said,
    by int4 or int8; as the checkpoint, or as engines of servers pack a width, for others."""
    usual_source: NotRequired[str]
    source: str


class EngineLack(Stated):
    """What an engine cannot run: formats of weights on hardware, or types of models."""

    formats: NotRequired[list[str]]
    hardware: NotRequired[list[str]]
    """Accelerators or families; all if left out."""
    models: NotRequired[list[str]]
    instead: NotRequired[str]
    """An engine that serves them."""
    source: str


class EngineCaches(Stated):
    """What an engine holds its KV cache in."""

    caches: list[str]
    usual: NotRequired[dict[str, str]]
    """What it is where nobody says, by formats of weights; bf16 for others."""
    source: str


class EngineBeamSearch(Stated):
    """How an engine decodes by beam search."""

    caches: Literal["shared", "copied"]
    """Whether beams hold the cache of their prompt once, in pages, or each computes and holds it
    and caches are put in the new order after each token."""
    source: str


class EngineLayout(Stated):
    """How an engine divides a model where nobody says."""

    divides: NotRequired[Literal["layers"]]
    experts: NotRequired[Literal["host"]]
    """By layers, a few of them on each accelerator; others divide each layer."""
    offloaded: NotRequired[Literal["host", "in-turn", "whole"]]
    """In steps of few tokens, processors of the host compute what lies in its memory; each layer is
    copied when it is due; or all weights lie outside and are fetched ahead."""
    spills_from: NotRequired[str]
    """The generation from which on it does so untold with what has no room."""
    spills: NotRequired[Literal["layers"]]
    """What that is: whole layers; others leave experts to the host first."""
    shares_experts: NotRequired[bool]
    """Whether copies of a model may hold each of its experts once among them."""
    source: str


class EngineBackend(Stated):
    """An interface by which an engine drives some hardware."""

    id: Backend
    build: NotRequired[str]
    """How it is built, and what is set when it runs."""
    hardware: list[str]
    """Accelerators, families or beginnings of families on which it exists."""
    usual: NotRequired[list[str]]
    """Those on which most people run it; elsewhere that is the first that exists."""
    also_usual: NotRequired[list[str]]
    """Those on which many run it where most run another: ranges of requests that name none reach
    over it."""


class EngineBackends(Stated):
    """The interfaces that an engine can be built for or told to use."""

    options: list[EngineBackend]
    source: str
    note: NotRequired[str]


class UnlessTold(Stated):
    """Settings of training that a framework sets otherwise than most do where nobody says."""

    activation_checkpointing: NotRequired[Checkpointing]
    """Which activations it computes again."""
    fused_kernels: NotRequired[bool]
    """Whether norms and gated activations are fused."""
    sequence_parallel: NotRequired[bool]
    """Whether norms and residuals are divided over tensor-parallel ranks; true if left out."""
    cross_entropy: NotRequired[CrossEntropy]
    """How it computes the loss."""
    lora_targets: NotRequired[list[str]]
    """Matrices that get an adapter: of these those that the model has."""
    adapter_dropout: NotRequired[bool]
    """Whether what goes into adapters is dropped at random."""
    capped_attention: NotRequired[Literal["eager", "flash"]]
    """How it computes attention whose scores are capped (Gemma 2); flash if left out."""
    recomputed_inputs: NotRequired[Literal["none", "cpu"]]
    """Where inputs of layers that are recomputed whole are kept: on the accelerator, or in host
    memory."""
    weights: NotRequired[Literal["fp32", "bf16"]]
    """Format that weights are held in where all are trained; as shipped if left out."""
    dropout: NotRequired[bool]
    """Whether it trains with dropout; as the model's configuration says if left out."""
    master_weights: NotRequired[bool]
    """Whether it keeps a 32-bit copy of weights of 16 bits."""
    optimizer_state_dtype: NotRequired[Literal["fp32", "bf16", "fp16", "as-trained"]]
    """Format of optimizer states; as-trained where they are like what is trained, and 32 bit beside
    a copy in that."""
    adapter_dtype: NotRequired[Literal["fp32", "bf16", "fp16"]]
    """Format of adapters; that of activations if left out."""
    gradient_sum_dtype: NotRequired[Literal["none", "fp32"]]
    """Format of a second copy of gradients of weights in bf16, in which they are summed."""
    expandable_segments: NotRequired[bool]
    """Whether it has PyTorch's allocator grow its segments."""
    zero_stage: NotRequired[Literal[0, 1, 2, 3]]
    """What data-parallel ranks divide, where there are several; at most 2 in a pipeline."""
    data_parallel_shard_degree: NotRequired[Literal["machine"]]
    """Which ranks divide it: those of a machine; all if left out, or if it does not fit so."""
    pipeline_schedule: NotRequired[Schedule]
    """Interleaved where layers fill the stages, or nearly, and micro-batches come in whole
    rounds."""
    expert_overlap_ratio: NotRequired[float]
    """Share of messages to experts beyond fast links that hides, beside a pipeline that recomputes
    no whole layers."""
    micro_batch_size: NotRequired[int]
    """Sequences of a micro-batch, where they fit and there is no pipeline."""
    micro_batch_tokens: NotRequired[int]
    """Tokens that decide how many sequences a micro-batch has, where it states no sequences."""
    micro_batch_tokens_per_gb: NotRequired[float]
    """The same for each GB of the accelerator's memory."""
    methods: NotRequired[list[Literal["full", "lora", "qlora"]]]
    """Methods with which it does; any if left out."""
    zero_stages: NotRequired[list[Literal[0, 1, 2, 3]]]
    """Values of zero_stage with which it does; any if left out."""
    since: NotRequired[str]
    """Day, month or year from which releases do."""
    routed: NotRequired[bool]
    """Whether it does with models only that route tokens to experts."""
    source: str
    note: NotRequired[str]


class AlsoUsual(Stated):
    """Settings of training that people who use a framework make otherwise than it does by itself.

    Those that name the same settings exclude each other.
    """

    activation_checkpointing: NotRequired[Checkpointing]
    """Which activations are computed again."""
    fused_kernels: NotRequired[bool]
    """Whether norms and gated activations are fused."""
    cross_entropy: NotRequired[CrossEntropy]
    """How the loss is computed."""
    lora_targets: NotRequired[list[str]]
    """Matrices that get an adapter: of these those that the model has."""
    master_weights: NotRequired[bool]
    """Whether a 32-bit copy of weights of 16 bits is kept."""
    optimizer_state_dtype: NotRequired[Literal["fp32", "bf16", "fp16"]]
    """Format of optimizer states."""
    adapter_dtype: NotRequired[Literal["fp32", "bf16", "fp16"]]
    """Format of adapters."""
    gradient_dtype: NotRequired[Literal["fp32", "bf16", "fp16"]]
    """Format of gradients."""
    gradient_sum_dtype: NotRequired[Literal["none", "fp32"]]
    """Format of a second copy of gradients, in which micro-batches are summed."""
    attention: NotRequired[AttentionKernel]
    """How attention is computed."""
    framework_generation: NotRequired[str]
    """Generation of the framework that is used."""
    encoders: NotRequired[bool]
    """Whether they do with models only that embed rather than generate."""
    routed: NotRequired[bool]
    """Whether they do with models only that route tokens to experts."""
    methods: NotRequired[list[Literal["full", "lora", "qlora"]]]
    """Methods with which they do; any if left out."""
    zero_stages: NotRequired[list[Literal[0, 1, 2, 3]]]
    """Values of zero_stage with which they do; any if left out."""
    since: NotRequired[str]
    """Day, month or year from which releases can."""
    source: str
    note: NotRequired[str]


class EngineRecipes(Stated):
    """What a framework can train with; anything where nothing is said."""

    methods: NotRequired[list[Literal["full", "lora", "qlora"]]]
    degrees: NotRequired[list[Degree]]
    """Kinds of parallelism that it has."""
    adapter_degrees: NotRequired[list[Degree]]
    """Those by which people train adapters with it, which recommendations try; the same if left
    out."""
    usual_on: NotRequired[list[str]]
    """Accelerators, families or beginnings of families on which most people train with it."""
    divided_by: NotRequired[str]
    """Framework built on it that divides models by tensors and layers; itself if left out."""
    most_zero_stage_in_pipeline: NotRequired[int]
    """Highest zero_stage that goes with a pipeline."""
    zero_stages: NotRequired[list[int]]
    """Values of zero_stage that it has switches for: others are refused."""
    shard_groups: NotRequired[bool]
    """Whether groups of data-parallel ranks can each hold all states; true if left out, if false
    data_parallel_shard_degree is refused."""
    overlaps_zero: NotRequired[bool]
    """Whether what ranks send hides behind computation where they divide states; true if left out,
    as DeepSpeed's overlap_comm."""
    adapter_kernels: NotRequired[Literal["each", "joint", "within-products"]]
    """How operators of adapters run: for each matrix (if left out), for matrices that read the same
    input and are one, or within products that add to results where they are."""
    secondary_shards: NotRequired[bool]
    """Whether groups of ranks can hold a second copy of divided weights."""
    gathers_in: NotRequired[list[Literal["fp8", "int8"]]]
    """Values of weight_gather_dtype that it has: others are refused."""
    scatters_in: NotRequired[list[Literal["int4"]]]
    """Values of gradient_scatter_dtype that it has: others are refused."""
    expert_capacity: NotRequired[ExpertCapacity]
    """What it does with experts that have a capacity: fills them up to it, or drops what is beyond;
    if left out, expert_capacity_factor is refused."""
    fp8_recipes: NotRequired[list[str]]
    """Values of fp8_recipe that it has, the usual one first that the hardware has: others are
    refused."""
    adapters: NotRequired[list[Adapter]]
    """Values of adapter that it has: others are refused."""
    optimizers: NotRequired[list[Optimizer]]
    """Values of optimizer that it has: others are refused."""
    bases: NotRequired[list[str]]
    """Formats of few bits that frozen weights may have: others are refused."""
    usual_base: NotRequired[str]
    """That of them which is taken where nobody says; bnb-nf4 if left out."""
    products: NotRequired[list[Literal["fp8", "int8", "nvfp4"]]]
    """Formats of 8 or fewer bits that it multiplies in: others are refused; any if left out."""
    also_products: NotRequired[list[Literal["fp8", "int8"]]]
    """Formats of 8 bits that products commonly run in: where a request gives none, ranges of speed
    reach over the first that the accelerator multiplies in."""
    offload_places: NotRequired[list[Literal["cpu", "nvme"]]]
    """Where it keeps what the accelerator does not; elsewhere is refused."""
    fp8_attention: NotRequired[bool]
    """Whether it trains attention in 8 bit (attention flash-fp8)."""
    divides_models: NotRequired[bool]
    """Whether people divide models that do not fit by tensors and layers with it, beside states."""
    predicts: NotRequired[bool]
    """Whether it trains a model's layers of multi-token prediction unless told otherwise; false:
    not at all; left out: where asked."""
    gradient_dtype: NotRequired[Literal["fp32", "bf16", "fp16"]]
    """Format of gradients unless told otherwise; bf16 if left out."""
    unless_told: NotRequired[list[UnlessTold]]
    """What it does about other settings that are null in a request."""
    also_usual: NotRequired[list[AlsoUsual]]
    """What else is in use: ranges of memory reach over it where a request says nothing."""
    interleaved_rounds: NotRequired[InterleavedRounds]
    """Rounds that its interleaved schedule takes micro-batches in: whole ones of as many as there
    are stages, or equal ones; any if left out."""
    recomputes_in_part: NotRequired[list[Recomputation]]
    """Ways to recompute by which people make a run fit that keeps too much, the least first:
    activation_checkpointing selective-modules or selective-operators, or layers, which are as few
    whole layers of each stage as suffice. Whole layers of all if left out, or where none
    suffices."""
    recomputes_last_product: NotRequired[bool]
    """Whether it recomputes the product that ends a block, whose result no gradient needs; true if
    left out."""
    source: str


class EngineSharing(Stated):
    """How copies are told to share the experts of a model."""

    always: NotRequired[bool]
    """Whether copies that one command starts always share them."""
    tensor_counts_copies: NotRequired[bool]
    """Whether the flag of tensor parallelism takes the accelerators of all these copies."""
    words: NotRequired[list[str]]
    note: NotRequired[str]
    """What has to be set otherwise."""


class EngineStart(Stated):
    """How an engine's server is started with the settings of an estimate."""

    command: list[str]
    """Words, of which {model} stands for the model's name, {file} for a file of its weights."""
    images: NotRequired[dict[str, str]]
    """Container images of their publishers, by the vendor of the accelerators."""
    entrypoint: NotRequired[bool]
    """Whether an image runs the first word of the command by itself."""
    sharing: NotRequired[EngineSharing]
    port: int
    flags: dict[str, Any]
    """How each setting is told to it: a flag, one that stands alone, or one for some values."""
    always: NotRequired[list[str]]
    """Degrees that are told even where they are one."""
    fixed: NotRequired[list[str]]
    source: str


class EngineConfigurationFile(Stated):
    """A configuration that a command reads."""

    name: str
    """What the command expects it to be called."""
    entries: dict[str, str]
    """Settings by where they stand: names with dots between them."""
    fixed: NotRequired[dict[str, Any]]


class EngineStartsAlone(Stated):
    """What is otherwise where a run has one accelerator."""

    command: list[str]
    """Words of the command."""
    flags: dict[str, Any]
    """In place of those of the same names."""


class EngineStartsTraining(Stated):
    """How a training run is started with the settings of an estimate."""

    command: list[str]
    """Words, of which {machines}, {ranks} and {accelerators} stand for numbers."""
    flags: dict[str, Any]
    """How each setting is told to it: a flag, or words for some values."""
    environment: NotRequired[dict[str, Any]]
    """What stands before the command, likewise."""
    sharded_by: NotRequired[str]
    """The engine that divides states among ranks for it, and has to run on the hardware, too."""
    alone: NotRequired[EngineStartsAlone]
    file: NotRequired[EngineConfigurationFile]
    fixed: NotRequired[list[str]]
    several: NotRequired[str]
    """What a run on several machines takes, of which {machines} stands for their number."""
    notes: NotRequired[list[str]]
    source: str


class EngineNewest(Stated):
    """The newest release that the catalog knows: estimates of newer ones carry a warning."""

    version: str
    seen: str
    """Month in which it was seen."""
    source: str


class EngineEntry(CatalogEntry):
    """An inference engine, a training framework, or both: what requests can name."""

    name: str
    aliases: list[str]
    workloads: list[Literal["inference", "training"]]
    classes: NotRequired[EngineClasses]
    like: NotRequired[str]
    generations: NotRequired[list[EngineGeneration]]
    runs_on: NotRequired[EngineHardware]
    reads: NotRequired[EngineFormats]
    lacks: NotRequired[list[EngineLack]]
    holds: NotRequired[EngineCaches]
    layout: NotRequired[EngineLayout]
    trains: NotRequired[EngineRecipes]
    preallocating: NotRequired[bool]
    pads_heads: NotRequired[bool]
    preempting: NotRequired[bool]
    beam_search: NotRequired[EngineBeamSearch]
    backends: NotRequired[EngineBackends]
    defaults: NotRequired[list[EngineDefaults]]
    """Later rules that hold outdo earlier ones."""
    newest: NotRequired[EngineNewest]
    ended: NotRequired[str]
    """Month of its last release, where none will follow."""
    unestimated: NotRequired[str]
    library: NotRequired[bool]
    """Whether others are built on it, so that software said to be it may be any of them."""
    start: NotRequired[EngineStart]
    starts_training: NotRequired[EngineStartsTraining]
    started_as: NotRequired[list[str]]
    """Frameworks as which runs are started of one that stands for any of them."""
    source: str
