"""What kernels multiply: operands by the format of the weights, the hardware and the engine.

A format says in which operands its kernels would multiply (``NumberFormat.matrix_precision``).
Where hardware has no matrix units for these, other kernels take their place, which widen the
weights first; an engine of its own kernels widens all it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

from service.core.deployment import Accelerator, Precision
from service.core.elementwise import Number, minimum
from service.core.number_formats import NUMBER_FORMATS, NumberFormat
from service.core.performance.calibration import EngineOverhead

#: Width of the operands of a matrix precision [bit].
OPERAND_BITS: Mapping[str, int] = MappingProxyType(
    {
        "fp4": 4,
        "fp8": 8,
        "mxfp8": 8,
        "int8": 8,
        "bf16": 16,
        "fp16": 16,
        "fp16_accumulate": 16,
        "tf32": 32,
        "fp32": 32,
    }
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Operands that kernels multiply, the peaks that hardware must have for them, and who says so.

    ``needs`` are names of peaks beside that of the operands themselves.
    """

    operands: str
    source: str
    needs: tuple[str, ...] = ()


_OWN = "The hardware's own matrix units"
_HALVES = (Kernel("bf16", _OWN), Kernel("fp16", _OWN), Kernel("fp32", _OWN))
_WEIGHT_ONLY = "vLLM, Marlin kernels: weights of 4 or 8 bit times 16-bit activations, 2024-2026"
_WIDENED = (
    Kernel("bf16", _WEIGHT_ONLY),
    Kernel("fp16", _WEIGHT_ONLY),
    Kernel("fp32", _WEIGHT_ONLY),
)

#: Kernels by the precision that a format asks for, the first that runs being the one used.
KERNELS: Mapping[str, tuple[Kernel, ...]] = MappingProxyType(
    {
        "fp4": (
            Kernel("fp4", "NVIDIA, Introducing NVFP4, 2025: weights and activations of 4 bit"),
            *_WIDENED,
        ),
        # Weights in MXFP4 meet activations in MXFP8 where units scale blocks, else 16-bit ones.
        "mxfp8": (
            Kernel("mxfp8", _OWN),
            Kernel(
                "fp8",
                "NVIDIA TensorRT-LLM, GPT-OSS deployment guide, 2025: W4A8 with MXFP8 activations "
                "on Blackwell, 16-bit activations on Hopper",
                needs=("fp4",),
            ),
            *_WIDENED,
        ),
        "fp8": (Kernel("fp8", _OWN), *_WIDENED),
        "int8": (Kernel("int8", _OWN), *_WIDENED),
        "bf16": _HALVES,
        "fp16": (_HALVES[1], _HALVES[0], _HALVES[2]),
        "fp16_accumulate": (
            Kernel("fp16_accumulate", _OWN),
            _HALVES[1],
            _HALVES[0],
            _HALVES[2],
        ),
        "tf32": (Kernel("tf32", _OWN), _HALVES[2]),
        "fp32": (_HALVES[2],),
    }
)
#: A rate of sums in 16 bit over that of sums in 32 from which these are the halved ones.
_HALVED_RATIO = 1.5
_WIDE = frozenset({"tf32", "fp32"})


def peak_flops_per_s(accelerator: Accelerator, matrix_precision: str) -> tuple[Number, int]:
    """Dense peak of the operands that are multiplied for a precision, and their width [bit].

    Raises
    ------
    ValueError
        When the accelerator has no known peak in that or any wider precision.
    """
    used = multiplied_precision(accelerator, matrix_precision)
    return accelerator.peak_flops_per_s[used], OPERAND_BITS[used]


def multiplied_precision(accelerator: Accelerator, matrix_precision: str) -> str:
    """The operands that an accelerator multiplies for a precision.

    Raises
    ------
    ValueError
        When the accelerator has no known peak in that or any wider precision.
    """
    peaks = accelerator.peak_flops_per_s
    for kernel in KERNELS[matrix_precision]:
        if kernel.operands in peaks and (
            not kernel.needs or all(needed in peaks for needed in kernel.needs)
        ):
            return kernel.operands
    raise ValueError(f"no peak known for {matrix_precision} or wider on {accelerator.id}")


#: What vectors multiply in a lane of 32 bit at once, where hardware has instructions for it.
_PACKED = {"fp16": 2.0, "int8": 4.0, "fp32": 1.0}


def driven(accelerator: Accelerator, engine: EngineOverhead) -> Accelerator:
    """An accelerator as an engine drives it: without matrix units where these are not reached.

    Vectors then multiply halves in pairs and bytes in fours, as far as the accelerator does.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, 2025, arithmetic throughput; AMD, Vega 7nm ISA, 2020 (dot
    products of bytes).
    """
    peaks = accelerator.peak_flops_per_s
    if engine.reaches_matrix_units or "fp32" not in peaks:
        return accelerator
    known = {
        name: minimum(peaks[name], ratio * peaks["fp32"])
        for name, ratio in _PACKED.items()
        if name in peaks
    }
    return replace(accelerator, peak_flops_per_s=known)


def sums_at_half_rate(accelerator: Accelerator) -> bool:
    """Whether matrix units multiply floats half as fast where sums have 32 bit, as GeForce do.

    References
    ----------
    NVIDIA, Ada GPU architecture, 2023, appendix A; NVIDIA RTX Blackwell GPU architecture, 2025
    """
    peaks = accelerator.peak_flops_per_s
    halved = peaks.get("fp16_accumulate", 0.0), peaks.get("fp16", inf)
    return bool(halved[0] > _HALVED_RATIO * halved[1])


def meets(matrix_precision: str, weight_bits: float, operands: str) -> bool:
    """Whether kernels multiply weights of fewer than 16 bits by activations of given operands.

    Parameters
    ----------
    matrix_precision, weight_bits
        What the format of the weights asks for, and its bits an element.
    operands
        Matrix precision of the activations.
    """
    bits = OPERAND_BITS[operands]
    if bits >= 16:
        return True
    # Operands of the weights' own width are of their own kind; wider ones hold any of them.
    return operands == matrix_precision or weight_bits < bits


def met_activations(precision: Precision, accelerator: Accelerator, engine: EngineOverhead) -> str:
    """Id of the format of activations that weights meet in products.

    It is what chooses the same kernel in a request.

    Raises
    ------
    ValueError
        When the accelerator has no known peak for them.
    """
    weights = precision.weights
    if weights.bits_per_element >= 16.0:
        return precision.activations.id
    used = multiplied_precision(accelerator, engine_precision(weights.matrix_precision, engine))
    return _FORMATS.get(used, used)


#: Formats of operands that are called otherwise.
_FORMATS = {"fp4": "nvfp4", "mxfp8": "fp8", "fp16_accumulate": "fp16"}


def met_by(weights: NumberFormat) -> tuple[str, ...]:
    """The activations that kernels for weights take, the widest first."""
    return tuple(
        name
        for name in ("bf16", "fp8", "int8", "nvfp4")
        if meets(
            weights.matrix_precision,
            weights.bits_per_element,
            NUMBER_FORMATS[name].matrix_precision,
        )
    )


def engine_precision(matrix_precision: str, engine: EngineOverhead) -> str:
    """The precision that an engine asks the hardware for.

    Engines with kernels of their own read any format, widen it to 16 bit, and may add the products
    up in 16 bit; those that are weight-only widen what is narrower.
    """
    if engine.half_accumulation and matrix_precision not in _WIDE:
        return "fp16_accumulate"
    if engine.weight_only and OPERAND_BITS[matrix_precision] < 16:
        return "bf16"
    return matrix_precision
