"""Terms of engines in native code: what their backends reach, and how they unpack weights."""

from __future__ import annotations

from service.calibration.hierarchy import Level, Term

#: Makers' own interfaces are what all others are held against, so that their ratio is one.
_FIXED = 1e-4
_LEVELS = (Level("interface", 0.08), Level("backend", 0.06), Level("built", 0.08))

#: Vulkan on RDNA 4 computes prompts of a model of 8e9 parameters at 0.68 times the rate of HIP, and
#: needs some 60 us less for each layer of the smallest, of which HIP takes about twice as many
#: (issue 26663 of llama.cpp, 2026), on hosts whose cores take 0.6 of the time of a server's. Where
#: what is recorded runs later, kernels begin and end as those of a graph do, in 0.4 to 0.5 of the
#: time of issuing them. rocBLAS alone reaches 5.9 TFLOPS in 16 bit on RDNA 3.5, where hipBLASLt
#: reaches 37 (issue 4748 of ROCm, 2025).
_MATRIX_RATIO = {"vulkan/amd": 0.7}
_BLAS_RATIO = {"hip-rocblas/amd-rdna3.5": 0.16}
_LAYER_RATIO = {"vulkan/amd": 0.3, "vulkan/nvidia": 0.45, "vulkan/intel": 0.45}

BACKEND_TERMS: tuple[Term, ...] = (
    Term(
        *("backend_matrix_ratio", 1.0, 0.05, 2.0, _FIXED, _LEVELS),
        logarithmic=True,
        usual_of=_MATRIX_RATIO,
    ),
    Term(
        *("backend_blas_ratio", 1.0, 0.05, 2.0, _FIXED, _LEVELS),
        logarithmic=True,
        usual_of=_BLAS_RATIO,
    ),
    Term(*("backend_memory_ratio", 1.0, 0.5, 1.3, _FIXED, _LEVELS), logarithmic=True),
    Term(
        *("backend_layer_ratio", 1.0, 0.1, 4.0, _FIXED, _LEVELS),
        logarithmic=True,
        usual_of=_LAYER_RATIO,
    ),
)

#: Operations that unpack a weight of a super-block and add its product: Metal masks each, widens
#: it to a float, which takes four cycles (Turner, metal-benchmarks, 2023), multiplies, and shares
#: scales and minima of two levels with others (ggml-metal, kernel_mul_mv_q4_K); the rest multiply
#: four integers at once (dp4a in ggml-cuda, integer dot products in Vulkan).
_UNPACKING_OPERATIONS = {"llama.cpp-like/apple-silicon": 6.0}

UNPACKING = Term(
    "unpacking_operations",
    *(4.0, 1.0, 64.0, 0.10, (Level("class", 0.10), Level("kernels", 0.10))),
    logarithmic=True,
    usual_of=_UNPACKING_OPERATIONS,
)

#: What a multiprocessor reads in a cycle by the loads that it has under way: up to 32 blocks of 32
#: threads with two values of 16 bit each (llama.cpp, ``dequantize_mul_mat_vec``, 2024), 4 KiB, of
#: which each takes 600 to 700 cycles to come from stacked memory (Luo et al., Benchmarking and
#: Dissecting the Nvidia Hopper GPU Architecture, 2024).
READS = Term(
    "cycle_read_bytes",
    *(6.3, 1.0, 64.0, 0.05, (Level("class", 0.05), Level("kernels", 0.03))),
    logarithmic=True,
)
