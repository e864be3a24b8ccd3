"""Weights, gradients and optimizer states of a training run on one rank.

References
----------
Rajbhandari et al., ZeRO, 2019, section 3, https://arxiv.org/abs/1910.02054;
Hu et al., LoRA, 2021, https://arxiv.org/abs/2106.09685;
Dettmers et al., QLoRA, 2023, https://arxiv.org/abs/2305.14314;
Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021,
https://arxiv.org/abs/2110.02861; Shazeer and Stern, Adafactor, 2018,
https://arxiv.org/abs/1804.04235; Chen et al., Lion, 2023, https://arxiv.org/abs/2302.06675;
Jordan et al., Muon, 2024, https://kellerjordan.github.io/posts/muon;
Wang et al., ZeRO++, 2023, section 4.2 (second copies of divided weights),
https://arxiv.org/abs/2306.10209; Zhao et al., GaLore, 2024, https://arxiv.org/abs/2403.03507;
Zhu et al., APOLLO, 2024, https://arxiv.org/abs/2412.05270
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_shape, stage_layers
from service.core.architecture.tensors import Tensor, TensorClass
from service.core.deployment import Parallelism, Precision
from service.core.memory.training.adapters import (
    adapter_parameters,
    adapter_shape,
    input_adapters,
    is_adapted,
    is_trained_whole,
    layer_adapters,
    shared_elements,
)
from service.core.memory.training.settings import Optimizer, TrainingSettings
from service.core.memory.weights import end_tensors, stored_bits

#: Elements that share one 32-bit scale in 8-bit optimizer states, and the size below which a
#: tensor's states stay in 32 bit. Source: bitsandbytes, optim/optimizer.py and functional.py, 2025.
STATE_BLOCK = 256.0
SMALLEST_8_BIT_TENSOR = 4096
_NARROW_STATE_BYTES = 1.0 + 4.0 / STATE_BLOCK

_HALF_BITS = 16.0
_WIDE = 4.0  # bytes of an element in 32 bit
#: Tensors by which AdaLoRA ranks the parameters of its adapters, whole on each rank. Source:
#: huggingface/peft src/peft/tuners/adalora/layer.py (RankAllocator.update_ipt), 2025.
_IMPORTANCES = 3.0

#: Embeddings keep Adam under Muon and under optimizers whose moments have low rank.
_TABLES = frozenset({TensorClass.EMBEDDING, TensorClass.HEAD})


@dataclass(frozen=True, slots=True)
class StageState:
    """What one rank of a pipeline stage keeps through a step, divided as ZeRO asks [B].

    ``gradients_bytes`` are all gradients, with a second copy where they are summed in one.
    ``layer_bytes``, ``end_bytes`` and ``whole_bytes`` are the largest layer, everything outside the
    layers (the largest tensor of which has ``largest_end_bytes``) and all of both on the rank,
    before data-parallel division, as they are gathered for computing; ``layer_elements`` and
    ``end_elements`` count their parameters. ``largest_quantised_elements`` are those of the rank's
    largest matrix of fewer than 16 bits, ``largest_trained_elements`` those of its largest trained
    tensor, ``head_elements`` those of what makes logits, if it is trained. ``fixed_bytes`` are
    weights that stay where they are and whole, whatever is divided or offloaded;
    ``projection_bytes`` is what it takes to find the subspace of a matrix that optimizers of low
    rank project on. ``elements`` and ``trainable_elements`` are counted on the rank, undivided, and
    of them those of experts are ``expert_elements`` and ``trainable_expert_elements``;
    ``updated_elements`` are those whose states the rank holds, and ``gradient_elements`` those
    whose gradients it keeps.
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
    layer_bytes: float
    end_elements: float
    end_bytes: float
    largest_end_bytes: float
    whole_bytes: float
    largest_quantised_elements: float
    largest_trained_elements: float
    head_elements: float
    expert_elements: float
    trainable_expert_elements: float
    fixed_bytes: float = 0.0
    projection_bytes: float = 0.0

    @property
    def weights_bytes(self) -> float:
        """Weights on the rank [B]."""
        return sum(self.weights_by_class_bytes.values())

    @property
    def optimizer_bytes(self) -> float:
        """Optimizer states on the rank [B]."""
        return sum(self.optimizer_by_class_bytes.values())


_NEVER = 4
#: What a rank with two stages holds of both, by the least ZeRO stage that divides it.
_HELD_OF_BOTH = {
    "optimizer_by_class_bytes": 1,
    "updated_elements": 1,
    "gradients_bytes": 2,
    "gradient_elements": 2,
    "weights_by_class_bytes": 3,
    **dict.fromkeys(
        (
            *("elements", "trainable_elements", "expert_elements", "trainable_expert_elements"),
            *("end_elements", "end_bytes", "whole_bytes", "fixed_bytes"),
        ),
        _NEVER,
    ),
}
#: What it has of the stage that has more.
_LARGEST_OF_BOTH = (
    *("layers", "layer_elements", "layer_bytes", "largest_end_bytes", "largest_quantised_elements"),
    *("largest_trained_elements", "head_elements", "projection_bytes"),
)


@dataclass(slots=True)
class _Counts:
    """What is counted while the tensors of a stage are gone through."""

    settings: TrainingSettings
    wide_tables: bool
    weights_bytes: dict[TensorClass, float] = field(default_factory=lambda: defaultdict(float))
    optimizer_bytes: dict[TensorClass, float] = field(default_factory=lambda: defaultdict(float))
    reduced_elements: float = 0.0
    trainable_elements: float = 0.0
    trainable_expert_elements: float = 0.0
    updated_elements: float = 0.0
    largest_trained_elements: float = 0.0
    projection_bytes: float = 0.0

    def train(
        self, tensor: Tensor, count: float, shape: tuple[float, float], bits: float, ranks: float
    ) -> None:
        """Count what is trained: elements of matrices of a shape, divided among ranks as asked."""
        settings, kind = self.settings, tensor.tensor_class
        inputs, outputs = shape
        self.trainable_elements += count
        if kind is TensorClass.EXPERT:
            self.trainable_expert_elements += count
        self.reduced_elements += count / (ranks if settings.zero_stage >= 2 else 1)
        states = optimizer_bytes_per_element(
            settings, tensor, inputs, outputs, wide_tables=self.wide_tables
        )
        if settings.master_weights and bits < 32.0:
            states += 4.0
        if settings.adapter == "adalora" and settings.method != "full":
            # How much each parameter matters, and the means of that and of what is unsure of it.
            self.optimizer_bytes[kind] += count * _IMPORTANCES * bits / 8.0
        divided = count / (ranks if settings.zero_stage >= 1 else 1)
        self.optimizer_bytes[kind] += divided * states
        self.updated_elements += divided
        self.largest_trained_elements = max(self.largest_trained_elements, inputs * outputs)
        if settings.optimizer.startswith("galore") and min(shape) > 1 and kind not in _TABLES:
            self.projection_bytes = max(self.projection_bytes, _decomposing_bytes(*shape))


def _decomposing_bytes(inputs: float, outputs: float) -> float:
    """What the singular values of a gradient take: it and its copy in 32 bit, and vectors [B].

    References
    ----------
    jiaweizzhao/GaLore galore_torch/galore_projector.py (get_orthogonal_matrix), 2024
    """
    return _WIDE * (2.0 * inputs * outputs + min(inputs, outputs) * (inputs + outputs))


@lru_cache(maxsize=2048)
def stage_state(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    settings: TrainingSettings,
    stage: int,
    wide_tables: bool = False,
    whole_scales: bool = False,
) -> StageState:
    """State of a training run on a rank of one pipeline stage, and of its mirror if it has two [B].

    ``wide_tables`` says whether embeddings keep states in 32 bit under optimizers of 8 bits,
    ``whole_scales`` whether scales of a quantised base that lie apart are divided among no ranks.
    """
    told = (architecture, precision, parallelism, settings)
    held = (wide_tables, whole_scales)
    own = _one_stage(*told, stage, *held)
    if not settings.from_both_ends or parallelism.pipeline == 1:
        return own
    return _both_stages(
        own,
        _one_stage(*told, parallelism.pipeline - 1 - stage, *held),
        settings.zero_stage,
    )


def _both_stages(own: StageState, mirror: StageState, zero_stage: int) -> StageState:
    """State of two stages that two ranks hold alike, and divide as ZeRO divides.

    References
    ----------
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.2.1, https://arxiv.org/abs/2412.19437
    """
    found: dict[str, Any] = {}
    for name, least_zero_stage in _HELD_OF_BOTH.items():
        ranks = 2.0 if zero_stage >= least_zero_stage else 1.0
        one, other = getattr(own, name), getattr(mirror, name)
        if isinstance(one, Mapping):
            kinds = dict.fromkeys((*one, *other))
            found[name] = MappingProxyType(
                {kind: (one.get(kind, 0.0) + other.get(kind, 0.0)) / ranks for kind in kinds}
            )
        else:
            found[name] = (one + other) / ranks
    largest = {name: max(getattr(own, name), getattr(mirror, name)) for name in _LARGEST_OF_BOTH}
    return replace(own, **found, **largest)


def _one_stage(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    settings: TrainingSettings,
    stage: int,
    wide_tables: bool,
    whole_scales: bool,
) -> StageState:
    layers = stage_layers(architecture, parallelism)[stage]
    counts = _Counts(settings, wide_tables)
    weights = counts.weights_bytes
    # Adapters stay in 16 bit where products run in fewer.
    own_bits = max(precision.activations.bits_per_element, 16.0)
    if settings.adapter_bytes is not None:
        own_bits = 8.0 * settings.adapter_bytes
    sharded = settings.zero_stage >= 3
    apart = precision.weights.scale_bits if whole_scales else 0.0
    held = experts = whole = quantised = ends = end_bytes = end = head = fixed = 0.0
    for tensor, times, in_layer, heads in _held(architecture, parallelism, stage, layers):
        copies, rows, columns = rank_shape(tensor, parallelism, heads)
        elements = times * copies * rows * columns
        ranks = _dividing(tensor, parallelism, settings)
        bits = stored_bits(architecture, precision.weights, tensor)
        persistent = rows * columns <= settings.persistent_elements
        kind, sharing = tensor.tensor_class, ranks if sharded and not persistent else 1.0
        scales = elements * apart / 8.0 if bits < _HALF_BITS else 0.0
        weights[kind] += (elements * bits / 8.0 - scales) / sharing + scales
        fixed += scales
        held += elements
        if kind is TensorClass.EXPERT:
            experts += elements
        gathered = elements * _gathered_bits(bits, precision) / 8.0 - scales
        whole += gathered
        if settings.secondary_ranks and settings.trains and ranks > 1:
            weights[kind] += gathered / min(settings.secondary_ranks, ranks)
        if bits < _HALF_BITS:
            quantised = max(quantised, rows * columns)
        if not in_layer:
            ends += elements
            end_bytes += gathered
            end = max(end, gathered)
        if is_trained_whole(tensor, settings):
            if settings.method != "full":
                # Adapters leave the frozen original beside the copy that is trained.
                weights[kind] += elements * bits / 8.0 / sharing
            counts.train(tensor, elements, (rows, columns), bits, ranks)
            if kind in _TABLES and _makes_logits(tensor, architecture, parallelism, stage):
                head = max(head, rows * columns)
        elif in_layer and is_adapted(tensor, settings):
            shape = adapter_shape(tensor, settings, rows, columns)
            frozen = times * copies * shape.frozen_elements
            weights[kind] += frozen * own_bits / 8.0 / sharing
            permuting = times * copies * shape.permuting_elements * _WIDE
            weights[kind] += permuting
            fixed += permuting
            for inputs, outputs in shape.trained_features:
                count = times * copies * inputs * outputs
                weights[kind] += count * own_bits / 8.0 / sharing
                counts.train(tensor, count, (inputs, outputs), own_bits, ranks)
    _count_inputs(architecture, parallelism, counts, stage, own_bits)
    gradient = settings.gradient_bytes + settings.gradient_sum_bytes
    largest, largest_bytes = _largest_layer(architecture, precision, parallelism, apart)
    return StageState(
        stage=stage,
        layers=layers,
        weights_by_class_bytes=MappingProxyType(weights),
        gradients_bytes=counts.reduced_elements * gradient,
        optimizer_by_class_bytes=MappingProxyType(counts.optimizer_bytes),
        elements=held,
        gradient_elements=counts.reduced_elements,
        trainable_elements=counts.trainable_elements,
        updated_elements=counts.updated_elements,
        layer_elements=largest,
        layer_bytes=largest_bytes,
        end_elements=ends,
        end_bytes=end_bytes,
        largest_end_bytes=end,
        whole_bytes=whole,
        largest_quantised_elements=quantised,
        largest_trained_elements=counts.largest_trained_elements,
        head_elements=head,
        expert_elements=experts,
        trainable_expert_elements=counts.trainable_expert_elements,
        fixed_bytes=fixed,
        projection_bytes=counts.projection_bytes,
    )


def _count_inputs(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    counts: _Counts,
    stage: int,
    bits: float,
) -> None:
    """Count what is trained beside no matrix: virtual tokens, and what adapters share."""
    layers = stage_layers(architecture, parallelism)[stage]
    share = layers / architecture.layer_count
    table = architecture.embedding[0]
    ranks = _dividing(table, parallelism, counts.settings)
    found = [
        (group.count * share, layer_adapters(group, counts.settings))
        for group in architecture.groups
    ]
    if stage == 0:
        found.append((1.0, input_adapters(architecture, counts.settings)))
    for times, elements in found:
        if elements:
            counts.weights_bytes[TensorClass.OTHER] += times * elements * bits / 8.0
            counts.train(table, times * elements, (1.0, elements), bits, ranks)
    shared = shared_elements(architecture, counts.settings)
    counts.weights_bytes[TensorClass.OTHER] += shared * bits / 8.0


def _makes_logits(
    tensor: Tensor, architecture: ModelArchitecture, parallelism: Parallelism, stage: int
) -> bool:
    if stage != parallelism.pipeline - 1:
        return False
    return tensor.tensor_class is TensorClass.HEAD or architecture.tied_embeddings


def _gathered_bits(bits: float, precision: Precision) -> float:
    """Bits of an element as fully sharded data parallelism gathers it [bit]."""
    return min(bits, precision.activations.bits_per_element)


def optimizer_bytes_per_element(
    settings: TrainingSettings,
    tensor: Tensor,
    inputs: float,
    outputs: float,
    *,
    wide_tables: bool = False,
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
    wide_tables
        Whether embeddings keep states in 32 bit under optimizers of 8 bits.
    """
    size = settings.optimizer_state_bytes
    name: Optimizer = settings.optimizer
    matrix = inputs > 1 and outputs > 1
    match name:
        case "adamw" | "paged-adamw":
            return 2.0 * size
        case "adamw-8bit" | "paged-adamw-8bit":
            small = inputs * outputs < SMALLEST_8_BIT_TENSOR
            if small or (wide_tables and tensor.tensor_class is TensorClass.EMBEDDING):
                return 8.0
            return 2.0 * _NARROW_STATE_BYTES
        case "galore-adamw" | "galore-adamw-8bit" | "apollo" | "apollo-mini":
            each = _NARROW_STATE_BYTES if name == "galore-adamw-8bit" else size
            if not matrix or tensor.tensor_class in _TABLES:
                narrow = name == "galore-adamw-8bit" and inputs * outputs >= SMALLEST_8_BIT_TENSOR
                return 2.0 * (_NARROW_STATE_BYTES if narrow else size)
            short, long = min(inputs, outputs), max(inputs, outputs)
            rank = min(1.0 if name == "apollo-mini" else float(settings.optimizer_rank), short)
            # Two moments of rank × the longer side; GaLore keeps the projection, APOLLO its seed.
            projected = 2.0 * rank / short * each
            kept = rank / long * size if name.startswith("galore") else 0.0
            return projected + kept
        case "adafactor":
            # One row and one column of second moments; a vector keeps them in full.
            return 4.0 * (inputs + outputs) / (inputs * outputs) if matrix else 4.0
        case "lion" | "sgd-momentum":
            return size
        case "muon":
            return size if matrix and tensor.tensor_class not in _TABLES else 2.0 * size
        case "sgd":
            return 0.0


def trained_parameters(architecture: ModelArchitecture, settings: TrainingSettings) -> int:
    """Parameters of the whole model that the optimizer updates [-]."""
    if settings.method == "full":
        return architecture.total_parameters
    ends = architecture.embedding + architecture.head + architecture.other
    counted = [(1, tensor) for tensor in ends]
    counted += [(group.count, tensor) for group in architecture.groups for tensor in group.tensors]
    whole = sum(
        count * tensor.elements for count, tensor in counted if is_trained_whole(tensor, settings)
    )
    return whole + adapter_parameters(architecture, settings)


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


def _dividing(tensor: Tensor, parallelism: Parallelism, settings: TrainingSettings) -> float:
    """Ranks of a group that hold the same part of a tensor, among which ZeRO divides it."""
    ranks = parallelism.data * parallelism.context / settings.shard_groups(parallelism.data)
    if tensor.tensor_class is TensorClass.EXPERT:
        ranks *= parallelism.tensor / (parallelism.expert * parallelism.expert_tensor)
        return max(1.0, ranks)
    return ranks


def _largest_layer(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism, apart: float
) -> tuple[float, float]:
    """Parameters of a rank's largest layer, and what they take when they are gathered [B].

    Of quantised elements ``apart`` bits are not.
    """
    sizes = []
    for group in architecture.groups:
        elements = gathered = 0.0
        for tensor in group.tensors:
            copies, rows, columns = rank_shape(tensor, parallelism, kv_heads(group))
            bits = stored_bits(architecture, precision.weights, tensor)
            elements += copies * rows * columns
            moved = _gathered_bits(bits, precision) - (apart if bits < _HALF_BITS else 0.0)
            gathered += copies * rows * columns * moved / 8.0
        sizes.append((elements, gathered))
    return max(elements for elements, _ in sizes), max(gathered for _, gathered in sizes)
