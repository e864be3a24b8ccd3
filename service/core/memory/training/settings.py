"""How a model is trained: the settings that memory depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from service.core.elementwise import Number
from service.core.engines import release_key

Method: TypeAlias = Literal["full", "lora", "qlora"]
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
Checkpointing: TypeAlias = Literal["none", "selective", "selective-operators", "full"]
Schedule: TypeAlias = Literal["1f1b", "gpipe", "interleaved", "zero-bubble"]
Place: TypeAlias = Literal["none", "cpu", "nvme"]
CrossEntropy: TypeAlias = Literal["plain", "half-precision", "compiled", "chunked", "fused"]

#: Stands for every matrix product inside the layers, as in PEFT.
ALL_LINEAR = "all-linear"


@dataclass(frozen=True, slots=True)
class Offload:
    """What is kept outside the accelerator: nowhere, in host memory or on NVMe.

    ``host_memory_bytes`` is the host memory that there is for each accelerator, None where nobody
    says [B].
    """

    optimizer: Place = "none"
    parameters: Place = "none"
    activations: Literal["none", "cpu"] = "none"
    host_memory_bytes: float | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything is kept elsewhere."""
        return (self.optimizer, self.parameters, self.activations) != ("none",) * 3


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """``sequences`` of ``tokens`` each that a data-parallel rank computes at once."""

    sequences: Number = 1
    tokens: Number = 4096


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """A training run's settings.

    ``gradient_accumulation_steps`` micro-batches make one optimizer step; with pipeline
    parallelism they are the micro-batches in the pipeline; may be an array. ``lora_targets`` are
    tensor names ("q_proj"), or "all-linear"; ``trained_tensors`` are trained whole beside the
    adapters. ``adapter`` is what hangs on targets, or is trained otherwise: ``virtual_tokens`` of
    prompt and prefix tuning, blocks of BOFT (``boft_block_size`` squared, ``boft_factors`` times
    over), or norms. Adapters are held in ``adapter_bytes`` an element, those of activations but at
    least 16 bit if None, and may have dropout of their own.
    ``gradient_bytes`` and ``optimizer_state_bytes`` are the size of one element [B];
    ``gradient_sum_bytes`` that of a second copy in which micro-batches are summed, 0 without.
    With ``optimizer_in_backward`` each tensor is updated as soon as its gradient is there.
    ``optimizer_rank`` is that of optimizers whose moments have low rank.

    ``activation_checkpointing``: "selective" recomputes attention scores only,
    "selective-operators" every other matrix product and all elementwise work, "full" whole blocks
    of ``checkpoint_every`` layers. ``fused_kernels`` says whether norms and gated activations are
    fused (by a compiler or by hand) rather than run operator by operator; ``dropout`` whether
    dropout masks are kept. ``cross_entropy``: "plain" keeps logits in 32 bit, "half-precision"
    computes all of the loss in 16, "compiled" keeps logits and their gradients in 16 bit, "chunked"
    logits in 16 bit and parts of ``cross_entropy_chunk_tokens`` in 32, "fused" such parts only. Of
    documents packed into a sequence a token attends to its own alone, which is
    ``packed_document_tokens`` long on average over tokens (None: to the whole sequence).

    ``zero_stage`` 1 to 3 divides optimizer, gradients and weights among data-parallel ranks (3 is
    fully sharded data parallelism); ``bucket_elements`` go into one message,
    ``prefetch_layers`` are gathered ahead, and tensors of up to ``persistent_elements`` are not
    divided. With ``expandable_segments`` the allocator grows what it has instead of adding to it.
    """

    method: Method = "full"
    lora_rank: int = 16
    lora_targets: tuple[str, ...] = (ALL_LINEAR,)
    trained_tensors: tuple[str, ...] = ()
    adapter: Adapter = "lora"
    adapter_bytes: float | None = None
    adapter_dropout: bool = False
    virtual_tokens: int = 20
    boft_block_size: int = 4
    boft_factors: int = 1
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
    attention: Literal["flash", "eager"] = "flash"
    fused_kernels: bool = True
    dropout: bool = False
    cross_entropy: CrossEntropy = "plain"
    cross_entropy_chunk_tokens: int = 1024
    sequence_parallel: bool = True
    packed_document_tokens: float | None = None
    pipeline_schedule: Schedule = "1f1b"
    virtual_stages: int = 1
    zero_stage: int = 0
    bucket_elements: float = 5e8
    prefetch_layers: int = 1
    persistent_elements: int = 0
    expandable_segments: bool = False
    offload: Offload = Offload()
    framework: str = "default"
    framework_version: str | None = None
    framework_generation: str | None = None

    @property
    def release(self) -> str:
        """What figures of the framework's generation are found by."""
        return release_key(self.framework, self.framework_generation)

    @property
    def paged(self) -> bool:
        """Whether optimizer states that find no room are paged out to host memory."""
        return self.optimizer.startswith("paged-")

    @property
    def structural(self) -> TrainingSettings:
        """What decides which tensors there are: all but how many micro-batches make a step."""
        return replace(self, gradient_accumulation_steps=1)
