"""Weights, gradients and optimizer states of a training run on one rank.

References
----------
Rajbhandari et al., ZeRO, 2019, section 3, https://arxiv.org/abs/1910.02054;
Hu et al., LoRA, 2021, https://arxiv.org/abs/2106.09685;
Dettmers et al., QLoRA, 2023, https://arxiv.org/abs/2305.14314;
Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021,
https://arxiv.org/abs/2110.02861; Shazeer and Stern, Adafactor, 2018,
https://arxiv.org/abs/1804.04235; Chen et al., Lion, 2023, https://arxiv.org/abs/2302.06675;
Jordan et al., Muon, 2024, https://kellerjordan.github.io/posts/muon
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_shape, stage_layer_counts
from service.core.architecture.tensors import Tensor, TensorClass
from service.core.deployment import Parallelism, Precision
from service.core.memory.training.settings import ALL_LINEAR, Optimizer, TrainingSettings
from service.core.memory.weights import end_tensors, stored_bits

#: Elements that share one 32-bit scale in 8-bit optimizer states, and the size below which a
#: tensor's states stay in 32 bit. Source: bitsandbytes, optim/optimizer.py and functional.py, 2025.
STATE_BLOCK = 256.0
SMALLEST_8_BIT_TENSOR = 4096

_ADAPTED_CLASSES = frozenset(
    {
        TensorClass.ATTENTION,
        TensorClass.STATE,
        TensorClass.DENSE_FFN,
        TensorClass.EXPERT,
        TensorClass.SHARED_EXPERT,
    }
)
#: Embeddings keep 32-bit states under 8-bit optimizers and Adam under Muon.
_TABLES = frozenset({TensorClass.EMBEDDING, TensorClass.HEAD})


@dataclass(frozen=True, slots=True)
class StageState:
    """What one rank of a pipeline stage keeps through a step, divided as ZeRO asks [B].

    ``layer_elements`` and ``end_elements`` are parameters of the largest layer and of everything
    outside the layers on the rank, before data-parallel division; ``largest_matrix_elements``
    those of its largest single matrix. ``elements`` and ``trainable_elements`` are counted on the
    rank, undivided; ``updated_elements`` are those whose states the rank holds, and
    ``gradient_elements`` those whose gradients it keeps, in ``gradients_bytes``.
    """

    stage: int
    layers: int
    weights_by_class_bytes: Mapping[TensorClass, float]
    gradients_bytes: float
    optimizer_by_class_bytes: Mapping[TensorClass, float]
    elements: float
    gradient_elements: float
    trainable_elements: float
    updated_elements: float
    layer_elements: float
    end_elements: float
    largest_matrix_elements: float

    @property
    def weights_bytes(self) -> float:
        """Weights on the rank [B]."""
        return sum(self.weights_by_class_bytes.values())

    @property
    def optimizer_bytes(self) -> float:
        """Optimizer states on the rank [B]."""
        return sum(self.optimizer_by_class_bytes.values())


@lru_cache(maxsize=2048)
def stage_state(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    settings: TrainingSettings,
    stage: int,
) -> StageState:
    """State of a training run on a rank of one pipeline stage [B]."""
    layers = stage_layer_counts(architecture.layer_count, parallelism.pipeline)[stage]
    weights: dict[TensorClass, float] = defaultdict(float)
    optimizer: dict[TensorClass, float] = defaultdict(float)
    reduced = held = trainable = updated = largest = ends = 0.0
    for tensor, times, in_layer, heads in _held(architecture, parallelism, stage, layers):
        copies, rows, columns = rank_shape(tensor, parallelism, heads)
        elements = times * copies * rows * columns
        ranks = _replicas(tensor, parallelism)
        bits = stored_bits(architecture, precision.weights, tensor)
        kind, sharing = tensor.tensor_class, ranks if settings.zero_stage >= 3 else 1
        weights[kind] += elements * bits / 8.0 / sharing
        held += elements
        largest = max(largest, rows * columns)
        ends += 0.0 if in_layer else elements
        if settings.method == "full" or tensor.name in settings.trained_tensors:
            parts = [(elements, rows, columns, bits)]
            if settings.method != "full":
                # Adapters leave the frozen original beside the copy that is trained.
                weights[kind] += elements * bits / 8.0 / sharing
        elif in_layer and is_adapted(tensor, settings):
            rank = settings.lora_rank
            # Adapters stay in 16 bit where products run in fewer.
            width = max(precision.activations.bits_per_element, 16.0)
            down, up = (times * copies * rank * side for side in (rows, columns))
            parts = [(down, rows, rank, width), (up, rank, columns, width)]
            weights[kind] += (down + up) * width / 8.0 / sharing
        else:
            continue
        for count, inputs, outputs, width in parts:
            trainable += count
            reduced += count / (ranks if settings.zero_stage >= 2 else 1)
            states = optimizer_bytes_per_element(settings, tensor, inputs, outputs)
            if settings.master_weights and width < 32.0:
                states += 4.0
            divided = count / (ranks if settings.zero_stage >= 1 else 1)
            optimizer[kind] += divided * states
            updated += divided
    return StageState(
        stage=stage,
        layers=layers,
        weights_by_class_bytes=MappingProxyType(weights),
        gradients_bytes=reduced * settings.gradient_bytes,
        optimizer_by_class_bytes=MappingProxyType(optimizer),
        elements=held,
        gradient_elements=reduced,
        trainable_elements=trainable,
        updated_elements=updated,
        layer_elements=_largest_layer(architecture, parallelism),
        end_elements=ends,
        largest_matrix_elements=largest,
    )


def optimizer_bytes_per_element(
    settings: TrainingSettings, tensor: Tensor, inputs: float, outputs: float
) -> float:
    """Optimizer states per trained element of a tensor, without a master copy [B].

    Parameters
    ----------
    settings
        Optimizer and the size of its states.
    tensor
        Tensor that is trained.
    inputs, outputs
        Shape of the trained matrix, which for an adapter is not the tensor's [-].
    """
    size = settings.optimizer_state_bytes
    name: Optimizer = settings.optimizer
    matrix = inputs > 1 and outputs > 1
    match name:
        case "adamw" | "paged-adamw":
            return 2.0 * size
        case "adamw-8bit" | "paged-adamw-8bit":
            small = inputs * outputs < SMALLEST_8_BIT_TENSOR
            if small or tensor.tensor_class is TensorClass.EMBEDDING:
                return 8.0
            return 2.0 * (1.0 + 4.0 / STATE_BLOCK)
        case "adafactor":
            # One row and one column of second moments; a vector keeps them in full.
            return 4.0 * (inputs + outputs) / (inputs * outputs) if matrix else 4.0
        case "lion" | "sgd-momentum":
            return size
        case "muon":
            return size if matrix and tensor.tensor_class not in _TABLES else 2.0 * size
        case "sgd":
            return 0.0


def is_adapted(tensor: Tensor, settings: TrainingSettings) -> bool:
    """Whether a LoRA adapter is attached to a tensor of a layer."""
    if settings.method == "full" or not tensor.is_matrix:
        return False
    if ALL_LINEAR in settings.lora_targets:
        return tensor.tensor_class in _ADAPTED_CLASSES
    return tensor.name in settings.lora_targets or tensor.name.split(".")[-1] in (
        settings.lora_targets
    )


def lora_parameters(architecture: ModelArchitecture, settings: TrainingSettings) -> int:
    """Adapter parameters of the whole model: rank × (inputs + outputs) of every target [-]."""
    return sum(
        group.count
        * tensor.copies
        * settings.lora_rank
        * (tensor.input_features + tensor.output_features)
        for group in architecture.groups
        for tensor in group.tensors
        if is_adapted(tensor, settings)
    )


def trained_parameters(architecture: ModelArchitecture, settings: TrainingSettings) -> int:
    """Parameters of the whole model that the optimizer updates [-]."""
    if settings.method == "full":
        return architecture.total_parameters
    ends = architecture.embedding + architecture.head + architecture.other
    counted = [(1, tensor) for tensor in ends]
    counted += [(group.count, tensor) for group in architecture.groups for tensor in group.tensors]
    whole = sum(
        count * tensor.elements
        for count, tensor in counted
        if tensor.name in settings.trained_tensors
    )
    return whole + lora_parameters(architecture, settings)


def _held(
    architecture: ModelArchitecture, parallelism: Parallelism, stage: int, layers: int
) -> Iterator[tuple[Tensor, float, bool, int]]:
    """Tensors of a stage: how many times each, whether in a layer, and KV heads of the layer."""
    share = layers / architecture.layer_count
    for group in architecture.groups:
        heads = kv_heads(group)
        for tensor in group.tensors:
            yield tensor, group.count * share, True, heads
    for tensor in end_tensors(architecture, parallelism.pipeline, stage):
        yield tensor, 1.0, False, 1


def _replicas(tensor: Tensor, parallelism: Parallelism) -> float:
    """Ranks that hold the same part of a tensor, among which ZeRO divides it."""
    if tensor.tensor_class is TensorClass.EXPERT:
        ranks = parallelism.tensor * parallelism.data * parallelism.context
        return max(1.0, ranks / (parallelism.expert * parallelism.expert_tensor))
    return float(parallelism.data * parallelism.context)


def _largest_layer(architecture: ModelArchitecture, parallelism: Parallelism) -> float:
    def size(tensor: Tensor, heads: int) -> float:
        copies, rows, columns = rank_shape(tensor, parallelism, heads)
        return copies * rows * columns

    return max(
        sum(size(tensor, kv_heads(group)) for tensor in group.tensors)
        for group in architecture.groups
    )
