"""What adapters compute and move beside the matrices that they hang on.

Products with a rank of 16 or 64 take as long as it takes to read and write what goes through them,
and so does all else that an adapter does to activations.

References
----------
huggingface/peft, src/peft/tuners/lora/layer.py, bnb.py and dora.py, ia3/layer.py, vera/layer.py,
boft/layer.py, 2025; NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/utils.py
(ParallelLinearAdapter, get_adapter_attributes_from_linear), 2025; unslothai/unsloth,
unsloth/kernels/fast_lora.py and utils.py (matmul_lora), 2025; Zhu et al., LoRAFusion, 2025, section
3.1 (operators of adapters are bound by memory), https://arxiv.org/abs/2510.00206
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from service.core.architecture.model import LayerGroup, MixtureOfExperts, ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.memory.training.adapters import LOW_RANK, is_adapted
from service.core.memory.training.settings import TrainingSettings

_MASK = 1.0  # bytes of an element of a dropout mask
_WRITING = frozenset({Shard.ROW, Shard.EXPERT_ROW})
_UNDIVIDED = frozenset({Shard.ROW, Shard.REPLICATED})
_EXPERTS = frozenset({Shard.EXPERT_COLUMN, Shard.EXPERT_ROW})

#: Kernels of a layer of a plain framework that has no adapters.
#: Source: counted for Llama layers of Transformers, 2024.
_LAYER_KERNELS = 30.0
#: Those of an adapter, forward and backward: two products, scaling and the sum; four products,
#: scaling and the sum of gradients of the input. Products that add in place need no others, and
#: make the one in between again. Dropout is one more each way, and casts of inputs are two.
#: Source: Hugging Face PEFT, lora/layer.py, 2024; unsloth/kernels/utils.py, matmul_lora, 2025.
_KERNELS, _KERNELS_WITHIN = (4.0, 6.0), (2.0, 5.0)
#: Time that a kernel of an adapter takes beside what it reads and writes [s]: short kernels follow
#: each other by 3.8 us where launches are ahead, of which some 3 us are no traffic; products over
#: all features of a matrix, two thirds of those of low rank, go through them in some 64 steps, one
#: after the other, in 8 us or so. Judged, 3 to 8 us.
#: Source: Gray, Getting Started with CUDA Graphs, NVIDIA Technical Blog, 2019; NVIDIA, Matrix
#: Multiplication Background User's Guide, 2023, section 3 (loops over the inner dimension).
SHORT_KERNEL_S = 5e-6


@dataclass(frozen=True, slots=True)
class AdapterWork:
    """Work of adapters on a rank, over full depth.

    ``flops_per_token`` are those of products of low rank in a forward pass, ``rotation_flops``
    those of BOFT, which turns whole matrices, and ``normed_elements`` are in matrices whose norms
    DoRA takes, both on every use. ``forward_bytes_per_token`` and ``backward_bytes_per_token`` are
    what operators of adapters read and write of activations and of their gradients.
    They have ``forward_kernel_count`` and ``backward_kernel_count`` kernels, and forward
    ``kernels_ratio`` of an average layer over those of one without adapters; all experts of a kind
    count as one.
    """

    flops_per_token: float
    rotation_flops: float
    normed_elements: float
    forward_bytes_per_token: float
    backward_bytes_per_token: float
    forward_kernel_count: float
    backward_kernel_count: float
    kernels_ratio: float


class _Moved(NamedTuple):
    """How often an element goes to or from memory, in bytes: of inputs, and of outputs."""

    input_bytes: float
    output_bytes: float


@dataclass(frozen=True, slots=True)
class _Hanging:
    """An adapter on a rank: how many layers have it, its features and how often a token passes it.

    Of ``read_features`` of its inputs activations are read, 0 where another matrix with the same
    adapter reads them, and ``written_features`` of its outputs are written. ``held_copies`` of the
    matrix are on the rank.
    """

    tensor: Tensor
    layers: int
    input_features: float
    output_features: float
    held_copies: float
    passes: float
    read_features: float
    written_features: float


def adapter_work(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    width: float,
    *,
    quantised: bool = False,
) -> AdapterWork:
    """Work of all adapters in a pass.

    Parameters
    ----------
    architecture, parallelism, settings
        What is trained, and how.
    width
        Bytes of an element of activations [B].
    quantised
        Whether the base is: products beside it leave casts of their operands to autocast.
    """
    flops = rotation = normed = forward = backward = hanging = 0.0
    within = is_within_products(settings)
    wide = width if quantised else _wide(settings, width)
    moved = _moved(settings, width, wide)
    for each in _adapters(architecture, parallelism, settings):
        if settings.adapter == "boft":
            rotation += (
                each.layers * each.held_copies * 2.0 * each.input_features**2 * each.output_features
            )
        elif settings.adapter in LOW_RANK:
            elements = settings.lora_rank * (each.input_features + each.output_features)
            flops += 2.0 * each.layers * each.passes * elements
        if settings.adapter == "dora":
            normed += each.layers * each.held_copies * each.input_features * each.output_features
        passed = each.layers * each.passes
        there, back = _vector(each.tensor, width) if settings.adapter == "ia3" else moved
        forward += passed * (
            there.input_bytes * each.read_features + there.output_bytes * each.written_features
        )
        backward += passed * (
            back.input_bytes * each.read_features + back.output_bytes * each.written_features
        )
        hanging += each.layers * (1.0 if each.read_features else 0.0)
    there_kernels, back_kernels = _KERNELS_WITHIN if within else _KERNELS
    made = 0.0 if within else settings.adapter_dropout + 2.0 * (wide > width)
    forward_kernel_count = hanging * (there_kernels + made)
    return AdapterWork(
        flops_per_token=flops,
        rotation_flops=rotation,
        normed_elements=normed,
        forward_bytes_per_token=forward,
        backward_bytes_per_token=backward,
        forward_kernel_count=forward_kernel_count,
        backward_kernel_count=hanging * (back_kernels + made),
        kernels_ratio=forward_kernel_count / architecture.layer_count / _LAYER_KERNELS,
    )


def is_within_products(settings: TrainingSettings) -> bool:
    """Whether products of adapters add to results in place: kernels by hand have no dropout.

    References
    ----------
    unslothai/unsloth, unsloth/models/llama.py, 2025 (patches layers where lora_dropout is 0)
    """
    return settings.adapter_kernels == "within-products" and not settings.adapter_dropout


def _moved(settings: TrainingSettings, width: float, wide: float) -> tuple[_Moved, _Moved]:
    """Bytes for each element of an adapter's inputs and outputs, forward and backward [B].

    Forward the input is read by the first product, and before that, where there is such, widened
    to the adapter's format, dropped out of and narrowed again for the product; the result of the
    second product is written, read and written to be scaled, and read with what it is added to.
    Backward the same happens to gradients, products read inputs and gradients for those of the
    adapter's matrices, and the gradient of the input is added to the frozen matrix's.
    """
    kind, a = settings.adapter, width
    if kind == "boft":
        return _Moved(0.0, 0.0), _Moved(0.0, 0.0)
    first, second = kind not in ("lora-fa", "vera"), kind != "vera"
    if is_within_products(settings):
        # Results and gradients are added to where they are; the product in between is made again.
        return _Moved(a, 2.0 * a), _Moved((2.0 + first + second) * a, (1.0 + second) * a)
    made = 2.0 * (a + wide) if wide > a else 0.0
    if settings.adapter_dropout:
        made += 2.0 * wide + _MASK
    outputs_back = (2.0 + 1.0 + second) * a
    outputs = 6.0 * a
    if kind == "vera":
        outputs_back += 4.0 * a  # the gradient of the vector that scales
    if kind == "dora":
        # Base and update are scaled by a vector and added: gradients of both, and of the vector.
        outputs += 7.0 * a
        outputs_back += 15.0 * a
    return _Moved(a + made, outputs), _Moved((4.0 + first) * a + made, outputs_back)


def _vector(tensor: Tensor, a: float) -> tuple[_Moved, _Moved]:
    """The same of a vector that scales inputs of what writes a part's output, outputs of others."""
    there, back = 2.0 * a, 6.0 * a
    if tensor.shard in _WRITING and tensor.tensor_class is not TensorClass.ATTENTION:
        return _Moved(there, 0.0), _Moved(back, 0.0)
    return _Moved(0.0, there), _Moved(0.0, back)


def _wide(settings: TrainingSettings, width: float) -> float:
    """Bytes of an element of the format that adapters are held in, and inputs are turned into [B].

    Products run in the format of activations all the same, as autocast has it.
    """
    held = settings.adapter_bytes
    return width if held is None else max(width, held)


def _adapters(
    architecture: ModelArchitecture, parallelism: Parallelism, settings: TrainingSettings
) -> Iterator[_Hanging]:
    """Adapters of a rank.

    Ranks that divide outputs of a matrix all read its whole input, which sequence parallelism
    gathers; what ranks that divide inputs write whole, it divides. Experts of a rank meet tokens of
    other ranks. Parts of one matrix, which have one name, have one adapter.
    """
    ranks = parallelism.tensor
    meeting = max(1.0, parallelism.expert / ranks)
    spread = ranks if settings.sequence_parallel else 1
    for group in architecture.groups:
        known: set[tuple[TensorClass, str]] = set()
        for tensor in group.tensors:
            if not is_adapted(tensor, settings):
                continue
            copies, inputs, outputs = rank_shape(tensor, parallelism, kv_heads(group))
            read = inputs / (spread if tensor.shard is Shard.REPLICATED else 1)
            joint = settings.adapter_kernels == "joint" and tensor.shard not in _WRITING
            matrix = (tensor.tensor_class, "" if joint else tensor.name)
            read = 0.0 if matrix in known else read
            known.add(matrix)
            yield _Hanging(
                tensor,
                group.count,
                inputs,
                outputs,
                copies,
                copies * (_chosen(group) * meeting if tensor.shard in _EXPERTS else 1.0),
                read,
                outputs / (spread if tensor.shard in _UNDIVIDED else 1),
            )


def _chosen(group: LayerGroup) -> float:
    """How often a token passes each routed expert [-]."""
    part = group.feed_forward
    return part.copies_per_token / part.experts if isinstance(part, MixtureOfExperts) else 1.0
