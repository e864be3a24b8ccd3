"""Whose hardware serving engines have kernels for, by the format of the weights.

A format that an accelerator could multiply is of no use where no engine brings the kernels that
read it. By vLLM's table of supported hardware (vLLM documentation, Features, Quantization:
version 0.15.1; 0.11.2 for Gaudi and TPU, 0.9.2 for AWS Neuron; 2025-2026): AWQ and GPTQ run on
NVIDIA's and Intel's, INT8 (W8A8) also on TPU and Neuron, FP8 (W8A8) on NVIDIA's, AMD's (Quark),
Gaudi (by INC) and Neuron; TPU v7x is the first TPU to multiply it (Google Cloud documentation,
2025). NVFP4 is NVIDIA's own (NVIDIA Model Optimizer), MXFP4 is read by NVIDIA's and AMD's matrix
units (Quark). Formats that are not named run everywhere.

Some accelerators are made to infer only. AWS lists Inferentia2 for inference and Trainium for
training and inference (AWS Neuron SDK 2.29 documentation, Install, Instance comparison, 2026);
Groq builds its LPU for inference (Groq, Inside the LPU, 2025), and no widely used training
framework targets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.core.deployment import Accelerator
from service.core.number_formats import NumberFormat
from service.core.performance.calibration import EngineOverhead
from service.core.performance.kernels import OPERAND_BITS, multiplied_precision
from service.core.search.stack import used_precisions

_HAVE_KERNELS: Mapping[str, frozenset[str]] = {
    "awq-int4": frozenset({"NVIDIA", "Intel"}),
    "gptq-int4": frozenset({"NVIDIA", "Intel"}),
    "gptq-int8": frozenset({"NVIDIA", "Intel"}),
    "int8": frozenset({"NVIDIA", "Intel", "Google", "AWS"}),
    "fp8": frozenset({"NVIDIA", "AMD", "Intel", "AWS", "Google"}),
    "nvfp4": frozenset({"NVIDIA"}),
    "mxfp4": frozenset({"NVIDIA", "AMD"}),
    "bnb-nf4": frozenset({"NVIDIA"}),
}


def has_kernels(format_id: str, vendor: str) -> bool:
    """Whether widely used engines read weights of a format on a vendor's hardware."""
    known = _HAVE_KERNELS.get(format_id)
    return known is None or vendor in known


def widens(format_id: str, accelerator: Accelerator) -> bool:
    """Whether engines widen weights of a format as they read them, for want of units for it.

    References
    ----------
    vLLM, Recipes, GPT-OSS, 2025: weights in MXFP4 are served on H100, H200, MI300X, MI325X and
    Radeon AI PRO R9700, and on Ampere by kernels (Marlin) that widen them to BF16.
    """
    needed = _WIDENED.get((format_id, accelerator.vendor))
    return needed is not None and needed in accelerator.peak_flops_per_s


#: What units of a vendor's accelerators multiply of which engines serve a widened format.
_WIDENED: Mapping[tuple[str, str], str] = {("mxfp4", "NVIDIA"): "bf16", ("mxfp4", "AMD"): "fp8"}

_INFER_ONLY = frozenset({"groq-lpu-v1", "aws-inferentia2"})


def trains(accelerator: Accelerator, format_id: str) -> bool:
    """Whether models are trained on an accelerator with weights of a format."""
    return accelerator.id not in _INFER_ONLY and has_kernels(format_id, accelerator.vendor)


def holds_cache(accelerator: Accelerator, cache: NumberFormat) -> bool:
    """Whether an accelerator has units for what a cache holds, if that are floats of 8 bits."""
    return cache.matrix_precision != "fp8" or "fp8" in accelerator.peak_flops_per_s


def multiplies(
    accelerator: Accelerator,
    engine: EngineOverhead,
    precisions: Sequence[str],
    *,
    native_only: bool,
) -> bool:
    """Whether an accelerator multiplies each of the precisions, or a wider one if that will do.

    One whose power nobody knows does not.
    """
    if accelerator.thermal_design_power_w is None:
        return False
    for wanted in used_precisions(precisions, engine):
        try:
            used = multiplied_precision(accelerator, wanted)
        except ValueError:
            return False
        if native_only and OPERAND_BITS[used] > OPERAND_BITS[wanted]:
            return False
    return True
