"""What the scaling of 8-bit operands costs: reading for scales, and products that apply them."""

from __future__ import annotations

from collections.abc import Mapping

from service.core.deployment import Accelerator
from service.core.elementwise import Number
from service.core.memory.training.settings import Fp8Recipe
from service.core.performance.kernels import OPERAND_BITS, multiplied_precision

#: Bytes that narrowing an element moves: it is read in 16 bit and written twice, as it is and
#: transposed for the backward pass. A scale of the whole tensor needs its largest value, read
#: before; scales of rows need it of the rows and of the columns, which are narrowed apart. Blocks
#: find theirs on the chip.
#: Source: NVIDIA, Transformer Engine user guide, Low precision training, 2026; torchao float8
#: training, 2025.
_NARROWING_BYTES: Mapping[Fp8Recipe, float] = {
    "delayed": 4.0,
    "tensorwise": 6.0,
    "rowwise": 8.0,
    "blockwise": 2.0 + 2.0 * (1.0 + 4.0 / 128.0),
    "mxfp8": 2.0 + 2.0 * (1.0 + 1.0 / 32.0),
}
#: Kernels that narrow an operand: one that scales and transposes it, before which scales of whole
#: tensors and of rows take one for the largest value and one for the scale.
#: Source: NVIDIA/TransformerEngine, pytorch/csrc/quantizer.cpp, 2025; torchao float8, 2025.
_NARROWING_KERNELS: Mapping[Fp8Recipe, float] = {
    "delayed": 1.0,
    "tensorwise": 3.0,
    "rowwise": 3.0,
    "blockwise": 1.0,
    "mxfp8": 1.0,
}
#: The recipe that constants of frameworks are about where nobody says: that of most measurements.
_USUAL: Fp8Recipe = "tensorwise"
#: Recipes whose scales differ within a product, so that sums are scaled on their way.
_SCALED_SUMS = frozenset({"rowwise", "blockwise"})
_BYTE_BITS = 8


def scaling_of(matrix_precision: str, recipe: Fp8Recipe | None) -> Fp8Recipe | None:
    """How operands are scaled: integers by rows and columns, floats as is asked.

    References
    ----------
    Dettmers et al., LLM.int8(), 2022, section 2.1 (vector-wise scales),
    https://arxiv.org/abs/2208.07339; google/aqt, 2024 (scales along the axes that remain)
    """
    return "rowwise" if matrix_precision == "int8" else recipe


def narrowing_ratio(recipe: Fp8Recipe | None, *, transposed: bool) -> float:
    """What narrowing operands moves over what is usual [-].

    Operands are ``transposed`` for gradients of weights; frozen ones have none.
    """
    usual = _NARROWING_BYTES[_USUAL]
    moved = usual if recipe is None else _NARROWING_BYTES[recipe]
    return (moved if transposed else moved - 1.0) / usual


def expert_kernels(recipe: Fp8Recipe | None, *, narrow: bool, trained: bool) -> tuple[float, float]:
    """Kernels that are issued for each expert by itself, forward and backward [-].

    Two products, into the expert and out of it. Forward each narrows what goes in, backward the
    gradient that comes; gradients of weights are one product more for each.

    Parameters
    ----------
    recipe
        How operands are scaled; the usual way if None.
    narrow
        Whether operands have 8 or fewer bits.
    trained
        Whether the experts' own weights are trained.

    References
    ----------
    NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py and cpp_extensions/gemm.py, 2025
    (operands are quantised and multiplied expert by expert, on several streams)
    """
    casts = _NARROWING_KERNELS[recipe or _USUAL] if narrow else 0.0
    return 2.0 * (1.0 + casts), 2.0 * (1.0 + trained + casts)


def scales_sums(recipe: Fp8Recipe | None, accelerator: Accelerator) -> bool:
    """Whether products scale their sums by what the matrix units do not know.

    Hardware that scales blocks by itself runs scales of blocks as those.
    """
    if recipe not in _SCALED_SUMS:
        return False
    return recipe == "rowwise" or not scales_blocks(accelerator)


def scales_blocks(accelerator: Accelerator) -> bool:
    """Whether matrix units scale blocks of operands by themselves, as MXFP8 asks."""
    return OPERAND_BITS[multiplied_precision(accelerator, "mxfp8")] <= _BYTE_BITS


def scaled_products_ratio(
    recipe: Fp8Recipe | None, narrow_ratio: float, scaled_ratio: Number, accelerator: Accelerator
) -> Number:
    """Time of products over that of products with one scale for each operand [-].

    Parameters
    ----------
    recipe, accelerator
        How operands are scaled, and what multiplies them.
    narrow_ratio
        Share of products with operands of 8 bits [-].
    scaled_ratio
        How fast products are that scale their sums beside those that need not [-].
    """
    if not scales_sums(recipe, accelerator):
        return 1.0
    return 1.0 + narrow_ratio * (1.0 / scaled_ratio - 1.0)
