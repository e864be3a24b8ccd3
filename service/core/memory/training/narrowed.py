"""Operands of 8 or fewer bits that a framework keeps: of inputs, and of weights beside others.

References
----------
NVIDIA, Transformer Engine user guide, Low precision training, 2026 (rowwise and columnwise usages,
transposes on Hopper and none on Blackwell for scales of tensors, MXFP8 and NVFP4 narrowed by rows
and by columns), https://docs.nvidia.com/deeplearning/transformer-engine/features/
low_precision_training/index.html; TransformerEngine, transformer_engine/pytorch/module/linear.py
and common/recipe, 2025 (inputs are kept by columns alone, weights narrowed once a step, 1,024
largest values of each operand where scaling is delayed)
"""

from __future__ import annotations

from functools import lru_cache

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import kv_heads, rank_elements
from service.core.deployment import Accelerator, Deployment, Parallelism
from service.core.memory.training.settings import Fp8Recipe, TrainingSettings
from service.core.number_formats import NumberFormat

_NARROW_BITS = 9.0  # with scales
#: Bytes of scales for each element, of inputs and of weights: 32-bit ones of 128 elements or of
#: 128 by 128, 8-bit ones of 32.
_INPUT_SCALES = {"blockwise": 4.0 / 128.0, "mxfp8": 1.0 / 32.0}
_WEIGHT_SCALES = {"blockwise": 4.0 / 128.0**2, "mxfp8": 1.0 / 32.0}
_BY_BOTH = frozenset({"mxfp8"})  # a scale along rows is none along columns
_HISTORY_BYTES = 1024 * 4.0  # largest values of an operand in earlier steps, in 32 bit
_OPERANDS = 3  # input, weight and gradient


def narrow_bytes(deployment: Deployment, settings: TrainingSettings) -> float | None:
    """Size of an operand of products without its scales [B]; None where these have 16 or more."""
    precision = deployment.precision
    formats: tuple[NumberFormat, ...] = (precision.activations,)
    if settings.method == "full":
        formats = (*formats, precision.weights)
    bits = min(each.bits_per_element for each in formats)
    return bits // 1 / 8.0 if bits < _NARROW_BITS else None


def input_bytes(narrow: float, recipe: Fp8Recipe | None) -> float:
    """What stays of an element of a product's input for the gradient of its weights [B]."""
    return narrow + _INPUT_SCALES.get(str(recipe), 0.0)


def narrowed_weights_bytes(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    deployment: Deployment,
    layer_share: float,
) -> float:
    """What narrowed weights take beside those that the rank holds [B].

    Products read weights by rows forward and by columns backward. Matrix units that read either
    need no second copy, unless scales belong to one. Where weights are gathered for every layer,
    narrowed ones go with them.

    Parameters
    ----------
    architecture, parallelism, settings, deployment
        What is trained, on what, and how.
    layer_share
        Share of the model's layers that the rank holds [-].
    """
    narrow = narrow_bytes(deployment, settings)
    if narrow is None or settings.zero_stage == 3 or not settings.trains:
        return 0.0
    recipe = str(settings.scaling)
    copies = 1.0 if _reads_either(deployment.accelerator) and recipe not in _BY_BOTH else 2.0
    held = deployment.precision.weights.bits_per_element < _NARROW_BITS
    elements, matrices = _matrices(architecture, parallelism)
    each = narrow + _WEIGHT_SCALES.get(recipe, 0.0)
    history = matrices * _OPERANDS * _HISTORY_BYTES if recipe == "delayed" else 0.0
    return layer_share * (elements * each * (copies - held) + history)


@lru_cache(maxsize=512)
def _matrices(architecture: ModelArchitecture, parallelism: Parallelism) -> tuple[float, float]:
    """Elements of the matrices of all layers on a rank, and how many matrices there are [-]."""
    elements = matrices = 0.0
    for group in architecture.groups:
        for tensor in group.tensors:
            if tensor.is_matrix:
                elements += group.count * rank_elements(tensor, parallelism, kv_heads(group))
                matrices += group.count
    return elements, matrices


def _reads_either(accelerator: Accelerator) -> bool:
    """Whether matrix units take narrow operands by rows or columns: those that take 4 bits do."""
    return "fp4" in accelerator.peak_flops_per_s
