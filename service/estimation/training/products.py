"""Whether hardware multiplies what a run asks for: what it only stores is not trained in."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from service.core.deployment import Accelerator, Precision
from service.core.explanation import EstimateWarning
from service.core.memory.training.settings import TrainingSettings
from service.core.performance.kernels import OPERAND_BITS, multiplied_precision
from service.core.performance.training.scaling import scales_blocks
from service.core.performance.training.work import product_format
from service.estimation.resolution import Problems

_HALF_BITS, _BYTE_BITS = 16, 8
#: How much faster vector units are with two operands of 16 bit in place of one of 32.
_PACKED_RATIO = 2.0


def check_products(
    settings: TrainingSettings, precision: Precision, accelerator: Accelerator, problems: Problems
) -> None:
    """Note products of 8 or fewer bits that the hardware has none of, and scales without any.

    Kernels that widen such operands would serve a model in that format; training gains nothing by
    them, and frameworks refuse.

    References
    ----------
    NVIDIA, Transformer Engine, Datatype and hardware support matrix, 2026
    """
    computed = product_format(precision, settings)
    wanted = OPERAND_BITS[computed.matrix_precision]
    used = multiplied_precision(accelerator, computed.matrix_precision)
    asked = "activations" if computed is precision.activations else "weights"
    if wanted < _HALF_BITS and OPERAND_BITS[used] > wanted:
        problems.add(
            f"/precision/{asked}",
            f"{accelerator.id} cannot multiply {computed.id} operands, but "
            f"{', '.join(sorted(accelerator.peak_flops_per_s))}; use bf16, or another accelerator",
        )
        return
    attention = multiplied_precision(accelerator, "fp8")
    if settings.attention == "flash-fp8" and OPERAND_BITS[attention] > _BYTE_BITS:
        problems.add(
            "/training/attention",
            f"{accelerator.id} cannot multiply fp8 operands; use flash, or another accelerator",
        )
    recipe = settings.fp8_recipe
    if recipe is None:
        return
    if wanted != _BYTE_BITS or computed.id != "fp8":
        problems.add(
            "/training/fp8_recipe",
            f"products run in {computed.id}, so no recipe for 8-bit floats applies; use "
            "precision.activations fp8, or leave fp8_recipe out",
        )
    elif recipe == "mxfp8" and not scales_blocks(accelerator):
        problems.add(
            "/training/fp8_recipe",
            f"{accelerator.id} has no matrix units for blocks of 32 elements; use delayed, "
            "tensorwise or blockwise, or another accelerator",
        )


def products_warnings(
    settings: TrainingSettings, precision: Precision, accelerator: Accelerator
) -> Iterator[EstimateWarning]:
    """What to say of 16-bit products that the hardware has of another kind alone."""
    computed = product_format(precision, settings).matrix_precision
    used, peaks = multiplied_precision(accelerator, computed), accelerator.peak_flops_per_s
    alike = OPERAND_BITS[used] == OPERAND_BITS[computed] == _HALF_BITS
    if used != computed and alike and peaks[used] > _PACKED_RATIO * peaks.get("fp32", inf):
        yield EstimateWarning(
            "products_in_another_format",
            f"the matrix units of {accelerator.id} cannot multiply {computed}: products are taken "
            f"to run in {used} with loss scaling; those left in {computed} take several times as "
            "long",
        )
