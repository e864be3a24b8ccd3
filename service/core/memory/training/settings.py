"""How a model is trained: the settings that memory depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from service.core.architecture.model import DropoutSite
from service.core.deployment import Deployment, Parallelism
from service.core.elementwise import Number
from service.core.engines import release_key
from service.core.lightweight import computed_once, lightweight
from service.core.memory.tiers import UNKNOWN_WORTH, TierWorth
from service.core.number_formats import NumberFormat
from service.core.recipes import AdapterKernels

#: What is trained; with "forward" nothing is: a teacher or a reference only computes its results.
Method: TypeAlias = Literal["full", "lora", "qlora", "forward"]
#: flash-fp8 multiplies in 8 bit, forward and backward; flash-1 are kernels of before
#: FlashAttention-2, its port to Triton among them.
AttentionKernel: TypeAlias = Literal["flash", "flash-1", "flash-fp8", "eager"]
Optimizer: TypeAlias = Literal[
    "adamw",
    "adamw-8bit",
    "paged-adamw",
    "paged-adamw-8bit",
    "adafactor",
    "lion",
    "muon",
    "sgd-momentum",
    "sgd",
    "galore-adamw",
    "galore-adamw-8bit",
    "apollo",
    "apollo-mini",
]
#: What is trained beside frozen weights. rslora differs from lora in a factor alone.
Adapter: TypeAlias = Literal[
    "lora",
    "rslora",
    "dora",
    "lora-fa",
    "adalora",
    "vera",
    "ia3",
    "boft",
    "prompt",
    "prefix",
    "norms",
]
Checkpointing: TypeAlias = Literal[
    "none", "selective", "selective-modules", "selective-operators", "full"
]
ExpertDispatch: TypeAlias = Literal["all-to-all", "per-machine"]
#: With dualpipe micro-batches enter at both ends, and each rank has two stages, mirrored.
Schedule: TypeAlias = Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "dualpipe"]
Place: TypeAlias = Literal["none", "cpu", "nvme", "tier"]
#: How tensors are scaled where products run in 8 bit: by one factor from earlier steps, by one of
#: the tensor as it is, by one a row, by one a block, or by powers of two a block of 32 elements.
Fp8Recipe: TypeAlias = Literal["delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"]
CrossEntropy: TypeAlias = Literal["plain", "half-precision", "compiled", "chunked", "fused"]

#: What optimizers are whose states are not paged out.
_NEVER_PAGED: Mapping[str, Optimizer] = {
    "paged-adamw": "adamw",
    "paged-adamw-8bit": "adamw-8bit",
}
#: Optimizers that change weights and states where they lie: kernels of bitsandbytes, and sums of
#: PyTorch. Source: bitsandbytes csrc/kernels.cu; torch/optim/sgd.py of PyTorch 2.6, 2025.
_IN_PLACE = frozenset({"adamw-8bit", "paged-adamw", "paged-adamw-8bit", "sgd", "sgd-momentum"})
#: Optimizers that go through tensors one by one. Source: transformers/optimization.py (Adafactor),
#: galore_torch/adamw.py, apollo_torch/apollo.py, lion_pytorch/lion_pytorch.py, muon.py, 2025.
_ONE_BY_ONE = frozenset(
    {
        *("adafactor", "lion", "muon", "galore-adamw", "galore-adamw-8bit"),
        *("apollo", "apollo-mini"),
    }
)
_HALF_BITS = 16.0
#: Stands for every matrix product inside the layers, as in PEFT.
ALL_LINEAR = "all-linear"


@dataclass(frozen=True, slots=True)
class OffloadTier:
    """An accelerator's share of a memory tier: capacity [B], and bandwidth of one direction [B/s].

    ``link_bytes_per_s`` is what the accelerator reaches it through, None for its link to the host,
    of which ``link_efficiency_ratio`` is reached. ``is_storage`` tells that a processor reads it by
    way of host memory, ``beside_machine`` that it comes on top of the machine, ``worth`` what it
    costs.
    """

    id: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    link_bytes_per_s: float | None = None
    link_efficiency_ratio: float = 1.0
    is_storage: bool = False
    beside_machine: bool = False
    worth: TierWorth = UNKNOWN_WORTH


@dataclass(frozen=True, slots=True)
class Offload:
    """What is kept outside the accelerator: nowhere, in host memory, on NVMe or in a memory tier.

    ``host_memory_bytes`` is the host memory that there is for each accelerator, None where nobody
    says [B]; ``tier`` is what "tier" means.
    """

    optimizer: Place = "none"
    parameters: Place = "none"
    activations: Literal["none", "cpu", "tier"] = "none"
    host_memory_bytes: float | None = None
    tier: OffloadTier | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything is kept elsewhere."""
        return (self.optimizer, self.parameters, self.activations) != ("none",) * 3


def makes_shard_groups(parallelism: Parallelism, degree: int) -> bool:
    """Whether groups of so many data-parallel ranks have something to divide, and all experts."""
    group = degree * parallelism.context
    shared = parallelism.expert * parallelism.expert_tensor
    return parallelism.data % degree == 0 and group > 1 and group * parallelism.tensor % shared == 0


def can_hide_far_experts(
    checkpointing: Checkpointing | None, schedule: Schedule | None, stages: int
) -> bool:
    """Whether messages to experts beyond fast links may hide behind other micro-batches.

    A pipeline has others to compute; layers that are recomputed whole send them once more, and
    micro-batches from both ends hide them in any case.

    References
    ----------
    NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/combined_1f1b.py and
    megatron/training/arguments.py, 2025 (overlap_moe_expert_parallel_comm)
    """
    return stages > 1 and checkpointing != "full" and schedule != "dualpipe"


def method_beside(method: Method, weights: NumberFormat) -> Method:
    """What frameworks treat a run as: adapters of a quantised base are QLoRA by any name."""
    quantised = method == "lora" and weights.bits_per_element < _HALF_BITS
    return "qlora" if quantised else method


@lightweight
class MicroBatch:
    """``sequences`` of ``tokens`` each that a data-parallel rank computes at once."""

    sequences: Number = 1
    tokens: Number = 4096


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A choice that nobody has told, with what else people make of it.

    ``names`` are the settings of a request that would tell it; each of ``others`` holds values by
    fields of `TrainingSettings`. It is open where training goes by one of ``methods`` with one of
    ``zero_stages``, by any if there are none. With others products run in the format ``computed``;
    None: in that of the run. A choice that is made ``to_fit`` has no others in memory than those
    that fit, which is what decides it, and no choice has of a run that fits. Of runs that leave it
    open ``share_ratio`` make one of others of it; where nobody has counted, as is usual of memory
    and of speed (None) [-].
    """

    names: tuple[str, ...]
    others: tuple[tuple[tuple[str, Any], ...], ...]
    methods: frozenset[str] = frozenset()
    zero_stages: frozenset[int] = frozenset()
    computed: NumberFormat | None = None
    to_fit: bool = False
    share_ratio: float | None = None

    def deployed(self, deployment: Deployment) -> Deployment:
        """A run's deployment with others."""
        if self.computed is None:
            return deployment
        precision = replace(deployment.precision, activations=self.computed)
        return replace(deployment, precision=precision)

    def is_open(self, settings: TrainingSettings, weights: NumberFormat) -> bool:
        """Whether a run with weights of a format leaves it open.

        Weights of 32 bits have no copy in 32 bits, and states of their format.
        """
        weight_bits = weights.bits_per_element
        method = settings.method_beside(weights)
        return (
            settings.trains
            and (not self.methods or method in self.methods)
            and (not self.zero_stages or settings.zero_stage in self.zero_stages)
            and ("master_weights" not in self.names or weight_bits <= _HALF_BITS)
        )


@lightweight
class TrainingSettings:
    """A training run's settings.

    ``gradient_accumulation_steps`` micro-batches make one optimizer step; with pipeline
    parallelism they are the micro-batches in the pipeline; may be an array. ``lora_targets`` are
    tensor names ("q_proj"), or "all-linear"; ``trained_tensors`` are trained whole beside the
    adapters. ``adapter`` is what hangs on targets, or is trained otherwise: ``virtual_tokens`` of
    prompt and prefix tuning, blocks of BOFT (``boft_block_size`` squared, ``boft_factors`` times
    over), or norms. Adapters are held in ``adapter_bytes`` an element, those of activations but at
    least 16 bit if None, may have dropout of their own, and run by the framework's
    ``adapter_kernels``.
    ``prediction_layers`` predict tokens further ahead, beside those of the model.
    ``gradient_bytes`` and ``optimizer_state_bytes`` are the size of one element [B];
    ``gradient_sum_bytes`` that of a second copy in which micro-batches are summed, 0 without.
    With ``optimizer_in_backward`` each tensor is updated as soon as its gradient is there.
    ``optimizer_rank`` is that of optimizers whose moments have low rank.

    ``activation_checkpointing``: "selective" recomputes attention scores only,
    "selective-modules" norms, activations of feed-forward parts and what raises latents,
    "selective-operators" every other matrix product and all elementwise work, "full" whole blocks
    of ``checkpoint_every`` layers, and, if it ``recomputes_last_product``, the product that ends a
    block, too, whose result no gradient needs. These are the first ``recomputed_layers_ratio`` of
    a stage's layers; the others keep all. ``fused_kernels`` says whether norms and gated
    activations are fused (by a compiler or by hand) rather than run operator by operator;
    ``dropout`` is where masks are kept. ``cross_entropy``: "plain" keeps logits in 32 bit,
    "half-precision" computes all of the loss in 16, "compiled" keeps logits and their gradients in
    16 bit, "chunked" logits in 16 bit and parts of ``cross_entropy_chunk_tokens`` in 32, "fused"
    such parts only. Of documents packed into a sequence a token attends to its own alone, which is
    ``packed_document_tokens`` long on average over tokens (None: to the whole sequence).

    ``expert_dispatch``: "all-to-all" sends a token to each of its experts, "per-machine" once to
    each machine that has any, of which routing chooses ``expert_machines`` at most (None: no
    limit). ``expert_overlap_ratio`` of that hides behind computation; if None, as much as of other
    messages within a model copy, and of what goes beyond fast links the ``far_experts_hide_ratio``
    that people hide with the framework where it can.

    Experts take ``expert_capacity_factor`` of their even share of tokens at most (None: all that
    chose them), and are filled up to it where the framework ``pads_experts``.

    ``fp8_recipe`` is how operands of 8 bits are scaled; where nobody says, as
    ``usual_fp8_recipe`` of the framework, which None does not know.

    ``zero_stage`` 1 to 3 divides optimizer, gradients and weights among data-parallel ranks (3 is
    fully sharded data parallelism). Groups of ``data_parallel_shard_degree`` of them each hold all
    of it (None: all are one group). Where weights are divided, groups of
    ``secondary_shard_degree`` may hold a second copy, of which backward passes gather (ZeRO++). On
    their way elements take ``gathered_weight_bytes`` and ``scattered_gradient_bytes``, what they
    have otherwise if None [B]. What they send hides behind computation where the framework
    ``overlaps_zero``. ``bucket_elements`` go into one message,
    ``prefetch_layers`` are gathered ahead, and tensors of up to ``persistent_elements`` are not
    divided. With ``expandable_segments`` the allocator grows what it has instead of adding to it;
    ``memory_reserve_ratio`` of the accelerator's memory is to stay free.

    The loss asks for the probability of ``loss_ratio`` of a sequence's tokens, those of completions
    in reinforcement learning.

    What is ``left_open`` has the value that most people mean, and widens ranges by others.
    """

    method: Method = "full"
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = (ALL_LINEAR,)
    trained_tensors: tuple[str, ...] = ()
    adapter: Adapter = "lora"
    adapter_bytes: float | None = None
    adapter_kernels: AdapterKernels = "each"
    adapter_dropout: bool = False
    virtual_tokens: int = 20
    boft_block_size: int = 4
    boft_factors: int = 1
    prediction_layers: int = 0
    optimizer: Optimizer = "adamw"
    optimizer_state_bytes: float = 4.0
    optimizer_rank: int = 128
    optimizer_in_backward: bool = False
    master_weights: bool = True
    gradient_bytes: float = 2.0
    gradient_sum_bytes: float = 0.0
    gradient_accumulation_steps: Number = 1
    activation_checkpointing: Checkpointing = "none"
    checkpoint_every: int = 1
    recomputed_layers_ratio: float = 1.0
    recomputes_last_product: bool = True
    attention: AttentionKernel = "flash"
    fused_kernels: bool = True
    dropout: frozenset[DropoutSite] = frozenset()
    cross_entropy: CrossEntropy = "plain"
    cross_entropy_chunk_tokens: int = 1024
    sequence_parallel: bool = True
    fp8_recipe: Fp8Recipe | None = None
    usual_fp8_recipe: Fp8Recipe | None = None
    expert_dispatch: ExpertDispatch = "all-to-all"
    expert_machines: int | None = None
    expert_overlap_ratio: float | None = None
    far_experts_hide_ratio: float | None = None
    expert_capacity_factor: float | None = None
    pads_experts: bool = False
    packed_document_tokens: float | None = None
    pipeline_schedule: Schedule = "1f1b"
    virtual_stages: int = 1
    zero_stage: int = 0
    data_parallel_shard_degree: int | None = None
    secondary_shard_degree: int | None = None
    gathered_weight_bytes: float | None = None
    scattered_gradient_bytes: float | None = None
    overlaps_zero: bool = True
    bucket_elements: float = 5e8
    prefetch_layers: int = 1
    persistent_elements: int = 0
    expandable_segments: bool = False
    memory_reserve_ratio: float = 0.0
    loss_ratio: float = 1.0
    offload: Offload = Offload()
    framework: str = "default"
    framework_version: str | None = None
    framework_generation: str | None = None
    left_open: tuple[LeftOpen, ...] = ()

    def otherwise(self, choice: LeftOpen) -> tuple[TrainingSettings, ...]:
        """The same run under each other outcome of a choice, with nothing left open."""
        return tuple(replace(self, left_open=(), **dict(other)) for other in choice.others)

    @property
    def release(self) -> str:
        """What figures of the framework's generation are found by."""
        return release_key(self.framework, self.framework_generation)

    @property
    def scaling(self) -> Fp8Recipe | None:
        """How operands of 8 bits are scaled; None if neither request nor framework says."""
        return self.fp8_recipe or self.usual_fp8_recipe

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass and an update, rather than a forward pass alone."""
        return self.method != "forward"

    @property
    def forward(self) -> TrainingSettings:
        """The same run's forward pass of a model of which nothing is trained."""
        return replace(
            self,
            method="forward",
            lora_targets=(),
            trained_tensors=(),
            adapter="lora",
            optimizer="sgd",
            optimizer_in_backward=False,
            activation_checkpointing="none",
            offload=Offload(),
            left_open=(),
        )

    @property
    def kept_whole(self) -> TrainingSettings:
        """The same run with optimizer states that are paged nowhere."""
        optimizer = _NEVER_PAGED.get(self.optimizer)
        return self if optimizer is None else replace(self, optimizer=optimizer)

    @property
    def from_both_ends(self) -> bool:
        """Whether micro-batches enter the pipeline at both ends, so that ranks have two stages."""
        return self.pipeline_schedule == "dualpipe"

    def shard_groups(self, data_ranks: int) -> int:
        """How many groups of data-parallel ranks each hold all that such ranks divide [-].

        References
        ----------
        Zhao et al., PyTorch FSDP, 2023, section 3.2.2 (hybrid sharding),
        https://arxiv.org/abs/2304.11277; Zhang et al., MiCS, 2022,
        https://arxiv.org/abs/2205.00119
        """
        degree = self.data_parallel_shard_degree
        return 1 if degree is None or not self.zero_stage else max(data_ranks // degree, 1)

    @property
    def taken_copies_ratio(self) -> float:
        """What experts take of the tokens that chose them, with what fills them up [-].

        Without filling, experts that are chosen alike drop what is beyond their capacity.
        """
        factor = 1.0 if self.expert_capacity_factor is None else self.expert_capacity_factor
        return factor if self.pads_experts else min(factor, 1.0)

    @property
    def secondary_ranks(self) -> int:
        """Ranks of a group that hold a second copy of weights together; 0 where there is none."""
        return (self.secondary_shard_degree or 0) if self.zero_stage == 3 else 0

    def freezes_few_bits(self, weights: NumberFormat) -> bool:
        """Whether adapters are trained beside frozen weights of fewer than 16 bits."""
        adapts = self.method in ("lora", "qlora")
        return adapts and weights.bits_per_element < _HALF_BITS

    def method_beside(self, weights: NumberFormat) -> Method:
        """What frameworks treat the run as: adapters of a quantised base are QLoRA by any name."""
        return method_beside(self.method, weights)

    @property
    def updates_in_place(self) -> bool:
        """Whether the optimizer's step makes no temporary tensors of its own."""
        return self.optimizer in _IN_PLACE

    @property
    def updates_one_by_one(self) -> bool:
        """Whether the optimizer's step goes through tensors one by one."""
        return self.optimizer_in_backward or self.optimizer in _ONE_BY_ONE

    @property
    def paged(self) -> bool:
        """Whether optimizer states that find no room are paged out to host memory."""
        return self.optimizer.startswith("paged-")

    @computed_once
    def structural(self) -> TrainingSettings:
        """What decides which tensors there are: all but how many micro-batches make a step."""
        return replace(self, gradient_accumulation_steps=1, left_open=())
