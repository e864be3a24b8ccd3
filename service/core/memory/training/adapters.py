"""Adapters: what is trained beside a matrix that stays frozen, and what that keeps.

References
----------
Hu et al., LoRA, 2021, https://arxiv.org/abs/2106.09685; Kalajdzievski, rsLoRA, 2023,
https://arxiv.org/abs/2312.03732; Liu et al., DoRA, 2024, https://arxiv.org/abs/2402.09353;
Zhang et al., LoRA-FA, 2023, https://arxiv.org/abs/2308.03303; Zhang et al., AdaLoRA, 2023,
https://arxiv.org/abs/2303.10512; Kopiczko et al., VeRA, 2023, https://arxiv.org/abs/2310.11454;
Liu et al., IA3, 2022, https://arxiv.org/abs/2205.05638; Liu et al., BOFT, 2023,
https://arxiv.org/abs/2311.06243; Lester et al., prompt tuning, 2021,
https://arxiv.org/abs/2104.08691; Li and Liang, prefix tuning, 2021,
https://arxiv.org/abs/2101.00190; Zhao et al., tuning norms, 2023,
https://arxiv.org/abs/2312.11420; shapes as in huggingface/peft src/peft/tuners, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.architecture.model import Attention, LayerGroup, ModelArchitecture
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.memory.training.settings import ALL_LINEAR, TrainingSettings

#: Adapters that hang on matrices; the others train vectors of the layer or of the input.
ON_MATRICES = frozenset({"lora", "rslora", "dora", "lora-fa", "adalora", "vera", "ia3", "boft"})
#: Adapters that multiply by a first matrix of low rank.
LOW_RANK = frozenset({"lora", "rslora", "dora", "lora-fa", "adalora", "vera"})
#: Adapters whose gradients need the whole input of the matrix that they hang on.
_NEEDS_INPUT = frozenset({"lora", "rslora", "dora", "adalora", "boft"})

_ADAPTED_CLASSES = frozenset(
    {
        TensorClass.ATTENTION,
        TensorClass.STATE,
        TensorClass.DENSE_FFN,
        TensorClass.EXPERT,
        TensorClass.SHARED_EXPERT,
    }
)
_FEED_FORWARD = frozenset({TensorClass.DENSE_FFN, TensorClass.EXPERT, TensorClass.SHARED_EXPERT})
_INWARD = frozenset({Shard.ROW, Shard.EXPERT_ROW})
_MASK = 1.0  # bytes of an element of a dropout mask


@dataclass(frozen=True, slots=True)
class AdapterShape:
    """An adapter: inputs and outputs of each matrix that is trained, and frozen elements.

    ``permuting_elements`` are those of permutations, which are held in 32 bit and divided among no
    ranks.
    """

    trained_features: tuple[tuple[float, float], ...]
    frozen_elements: float = 0.0
    permuting_elements: float = 0.0

    @property
    def trained_elements(self) -> float:
        """Parameters that the optimizer updates [-]."""
        return sum(inputs * outputs for inputs, outputs in self.trained_features)


def is_adapted(tensor: Tensor, settings: TrainingSettings) -> bool:
    """Whether an adapter is attached to a tensor of a layer."""
    if settings.method == "full" or settings.adapter not in ON_MATRICES or not tensor.is_matrix:
        return False
    if ALL_LINEAR in settings.lora_targets:
        return tensor.tensor_class in _ADAPTED_CLASSES
    return tensor.name in settings.lora_targets or tensor.name.split(".")[-1] in (
        settings.lora_targets
    )


def is_trained_whole(tensor: Tensor, settings: TrainingSettings) -> bool:
    """Whether a tensor is trained itself, rather than an adapter of it."""
    if settings.method == "full" or tensor.name in settings.trained_tensors:
        return True
    return settings.adapter == "norms" and tensor.tensor_class is TensorClass.NORM


def adapter_shape(
    tensor: Tensor, settings: TrainingSettings, inputs: float, outputs: float
) -> AdapterShape:
    """What hangs on a matrix of so many inputs and outputs.

    Parameters
    ----------
    tensor
        The matrix, whose place in the layer decides what IA3 scales: the input of what writes a
        feed-forward part's output, the output of any other.
    settings
        Kind and size of adapters.
    inputs, outputs
        Shape of the part of it that is meant, such as a rank's [-].
    """
    rank = float(settings.lora_rank)
    down, up = (inputs, rank), (rank, outputs)
    match settings.adapter:
        case "dora":
            return AdapterShape((down, up, (1.0, outputs)))
        case "lora-fa":
            return AdapterShape((up,), inputs * rank)
        case "adalora":
            return AdapterShape((down, up, (1.0, rank)))
        case "vera":
            return AdapterShape(((1.0, rank), (1.0, outputs)))
        case "ia3":
            return AdapterShape(((1.0, inputs if _scales_input(tensor) else outputs),))
        case "boft":
            size = float(settings.boft_block_size)
            rotations = settings.boft_factors * inputs / size * size * size
            # PEFT holds the permutation of each factor as a matrix, of a single one too.
            permuting = settings.boft_factors * inputs**2
            return AdapterShape(
                ((size, rotations / size), (1.0, outputs)), permuting_elements=permuting
            )
        case _:
            return AdapterShape((down, up))


def _scales_input(tensor: Tensor) -> bool:
    return tensor.tensor_class in _FEED_FORWARD and tensor.shard in _INWARD


def layer_adapters(group: LayerGroup, settings: TrainingSettings) -> float:
    """Trained elements of one layer that hang on no matrix: keys and values of prefix tuning."""
    if settings.method == "full" or settings.adapter != "prefix":
        return 0.0
    if not isinstance(group.mixer, Attention):
        return 0.0
    mixer = group.mixer
    width = mixer.kv_heads * (mixer.head_dim + mixer.value_head_dim)
    return float(settings.virtual_tokens * width)


def input_adapters(architecture: ModelArchitecture, settings: TrainingSettings) -> float:
    """Trained elements in front of the first layer: tokens of prompt tuning."""
    if settings.method == "full" or settings.adapter != "prompt":
        return 0.0
    return float(settings.virtual_tokens * architecture.hidden_size)


def shared_elements(architecture: ModelArchitecture, settings: TrainingSettings) -> float:
    """Frozen elements that all adapters of a model share: the random matrices of VeRA."""
    if settings.method == "full" or settings.adapter != "vera":
        return 0.0
    adapted = [
        tensor
        for group in architecture.groups
        for tensor in group.tensors
        if is_adapted(tensor, settings)
    ]
    widest = max((tensor.input_features for tensor in adapted), default=0)
    longest = max((tensor.output_features for tensor in adapted), default=0)
    return float(settings.lora_rank * (widest + longest))


def virtual_tokens(settings: TrainingSettings) -> int:
    """Tokens that prompt tuning puts in front of each sequence [token]."""
    if settings.method == "full" or settings.adapter != "prompt":
        return 0
    return settings.virtual_tokens


def adapter_parameters(architecture: ModelArchitecture, settings: TrainingSettings) -> int:
    """Trained parameters of all adapters of the whole model [-]."""
    total = input_adapters(architecture, settings)
    for group in architecture.groups:
        total += group.count * layer_adapters(group, settings)
        for tensor in group.tensors:
            if is_adapted(tensor, settings):
                shape = adapter_shape(
                    tensor, settings, float(tensor.input_features), float(tensor.output_features)
                )
                total += group.count * tensor.copies * shape.trained_elements
    return round(total)


def kept_of_input(tensor: Tensor, settings: TrainingSettings) -> bool:
    """Whether a frozen matrix's adapter needs the matrix's whole input for its gradient."""
    if not is_adapted(tensor, settings):
        return False
    if settings.adapter == "ia3":
        return _scales_input(tensor)
    return settings.adapter in _NEEDS_INPUT


def kept_beside(
    tensor: Tensor, settings: TrainingSettings, inputs: float, outputs: float, width: float
) -> float:
    """Bytes per token that an adapter keeps beside the input that all matrices share.

    That are the product of low rank, what dropout makes of the input with its mask, and the
    results that trained vectors scale: one of IA3 and VeRA, and of DoRA that of the matrix and that
    of its update.

    Parameters
    ----------
    tensor, settings
        The matrix and how it is trained.
    inputs, outputs
        Its features on the rank [-].
    width
        Bytes of an element of an activation [B].
    """
    if not is_adapted(tensor, settings):
        return 0.0
    kept = width * settings.lora_rank if settings.adapter in LOW_RANK else 0.0
    if settings.adapter_dropout and settings.adapter in LOW_RANK:
        own = width if settings.adapter in _NEEDS_INPUT else 0.0
        kept += (own + _MASK) * inputs
    if settings.adapter == "dora":
        kept += 2.0 * width * outputs
    if settings.adapter == "vera" or (settings.adapter == "ia3" and not _scales_input(tensor)):
        kept += width * outputs
    return kept
