"""What llama.cpp's own kernels do, by the backend that drives them and the hardware family."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from service.core.backends import is_of_maker
from service.core.engines import engine_of_release
from service.core.performance.release_kernels import TENSOR_CORES

#: Releases of which the same holds but where a table says otherwise.
_SINCE_2025 = frozenset({"llama.cpp@2025", "llama.cpp@2026"})
#: Where drivers give Vulkan no matrix units, or none that pay.
_WITHOUT_COOPERATIVE_MATRICES = (
    *("nvidia-maxwell", "nvidia-pascal", "nvidia-volta"),
    *("amd-gcn", "amd-cdna", "amd-rdna1", "amd-rdna2", "intel-xe-"),
)
#: Where graphs are issued: Ampere and later.
_GRAPHS = tuple(f"nvidia-{name}" for name in ("ampere", "ada", "hopper", "blackwell"))


@dataclass(frozen=True, slots=True)
class DrivenKernels:
    """Releases of which something holds on hardware of families, driven by some backends.

    ``families`` are beginnings of their ids. ``releases`` are keys of releases, or ids of engines;
    where nothing is said of a backend, it is the maker's own.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    backends: tuple[str, ...]
    source: str

    def holds(self, release: str, family: str, backend: str | None) -> bool:
        """Whether it holds of a release on a hardware family, driven by a backend."""
        own = any(is_of_maker(one, family) for one in self.backends)
        return (
            bool({release, engine_of_release(release)} & self.releases)
            and family.startswith(self.families)
            and (own if backend is None else backend in self.backends)
        )


#: Where prompts' experts are multiplied one after the other; elsewhere all of them in one kernel.
LOOPED_EXPERTS = (
    DrivenKernels(
        frozenset({"llama.cpp@2023", "llama.cpp@2024"}),
        ("nvidia-", "amd-"),
        ("cuda", "hip", "hip-rocblas", "hip-rocwmma"),
        "llama.cpp, ggml_cuda_mul_mat_id until April 2025: rows of an expert are gathered, "
        "multiplied and scattered one expert after the other",
    ),
    DrivenKernels(
        frozenset({"llama.cpp@2025"}),
        ("amd-cdna", "amd-rdna3", "amd-rdna4"),
        ("hip", "hip-rocblas", "hip-rocwmma"),
        "llama.cpp, ggml_cuda_mul_mat_id, 2025: as before where ggml_cuda_should_use_mmq leaves "
        "products to hipBLAS",
    ),
    DrivenKernels(
        frozenset({"llama.cpp@2024", "llama.cpp@2025", "llama.cpp@2026"}),
        ("intel-xe",),
        ("sycl",),
        "llama.cpp, ggml_sycl_mul_mat_id, 2024-2026: rows of an expert are gathered, multiplied "
        "and scattered one expert after the other",
    ),
)

#: Where fused attention computes on vectors, although there are matrix units. It is then left alone
#: unless it is asked for: native engines began to fuse by themselves at the end of August 2025
#: (llama.cpp, pull request 15434), two weeks before the kernel for one query was replaced.
VECTOR_ATTENTION = (
    DrivenKernels(
        frozenset({"llama.cpp@2024", "llama.cpp@2025"}),
        ("amd-",),
        ("hip", "hip-rocblas"),
        "llama.cpp, docs/build.md, 2025: fused attention of HIP has matrix units only where it is "
        "built with rocWMMA (GGML_HIP_ROCWMMA_FATTN); until September the kernel for one query "
        "stands in (pull request 15927), and matrix units come with fattn-mma-f16.cuh for AMD",
    ),
)

#: Where products of many rows have integers of 8 bit for weights in few bits: activations are
#: quantised for them, by blocks of 32, and each block's sum is scaled in 32 bit.
INTEGER_PRODUCTS = (
    DrivenKernels(
        _SINCE_2025,
        ("nvidia-pascal", *(name for name in TENSOR_CORES if name != "nvidia-volta")),
        ("cuda",),
        "llama.cpp, ggml_cuda_should_use_mmq, 2025: all quantised types, on tensor cores from "
        "Turing on, by __dp4a on Pascal; Volta leaves 64 rows and more to cuBLAS",
    ),
    DrivenKernels(
        _SINCE_2025,
        ("amd-gcn", "amd-rdna2"),
        ("hip", "hip-rocblas", "hip-rocwmma"),
        "llama.cpp, ggml_cuda_should_use_mmq, 2025: dot products of four bytes where there are no "
        "matrix units",
    ),
    DrivenKernels(
        frozenset({"llama.cpp@2026"}),
        ("amd-rdna3", "amd-rdna4"),
        ("hip", "hip-rocblas", "hip-rocwmma"),
        "llama.cpp, pull requests 17156 and 17576, November and December 2025: matrix units of "
        "RDNA 4 and 3 multiply quantised types as integers",
    ),
    DrivenKernels(
        frozenset({"llama.cpp@2026"}),
        ("amd-cdna3", "amd-cdna4"),
        ("hip", "hip-rocblas", "hip-rocwmma"),
        "llama.cpp, pull request 14624, July 2025: matrix units of CDNA 3 multiply quantised types "
        "as integers, whatever the rows",
    ),
    DrivenKernels(
        _SINCE_2025,
        _WITHOUT_COOPERATIVE_MATRICES,
        ("vulkan", "vulkan-amdvlk"),
        "llama.cpp, pull request 12135, 2025: dot products of four bytes where the driver has them "
        "and no cooperative matrices",
    ),
    DrivenKernels(
        _SINCE_2025,
        ("cpu-",),
        ("cpu",),
        "llama.cpp, ggml-cpu/repack.cpp and amx/mmq.cpp, 2025: weights are interleaved by rows as "
        "they are loaded, and multiplied by dot products of four bytes or, on Xeons, by AMX; sums "
        "of blocks are converted and scaled by vectors",
    ),
)

#: Where matrix units cannot be reached, so that products and attention are those of vectors.
VECTOR_UNITS = (
    DrivenKernels(
        frozenset({"llama.cpp@2023", "llama.cpp@2024"}),
        ("",),
        ("vulkan", "vulkan-amdvlk"),
        "llama.cpp, pull requests 10206 and 10597, December 2024: until then Vulkan had no "
        "cooperative matrices",
    ),
    DrivenKernels(
        _SINCE_2025,
        _WITHOUT_COOPERATIVE_MATRICES,
        ("vulkan", "vulkan-amdvlk"),
        "llama.cpp, pull requests 10597 and 14001, 2024-2025: drivers have cooperative matrices on "
        "NVIDIA from Turing on, on AMD from RDNA 3 on but not on Instinct, and they pay on Intel "
        "from Xe2 on",
    ),
)
#: Where kernels widen weights in few bits on their way into matrix units, one by one for each tile.
TILED_WIDENING = (
    DrivenKernels(
        _SINCE_2025,
        tuple(name for name in TENSOR_CORES if name != "nvidia-volta"),
        ("vulkan",),
        "llama.cpp, dequant_funcs_cm2.comp and ggml_vk_load_shaders, 2025: a function decodes each "
        "element of a tile, which 256 rows share",
    ),
)
#: Operations of 32-bit lanes for such an element: two loads, index and shift, mask, conversion,
#: offset and scale.
_WIDENING_OPERATIONS = 12.0
#: Rows that share it.
_WIDENING_ROWS = 256.0
#: Where weights in few bits are multiplied by instructions of one warp, although others are faster.
WARP_PRODUCTS = (
    DrivenKernels(
        _SINCE_2025,
        ("nvidia-hopper",),
        ("cuda", "vulkan"),
        "llama.cpp, ggml-cuda/mma.cuh, 2025: mma.sync; Vulkan has no others",
    ),
)
#: What these reach of the peak that those of four warps have (Luo et al., Benchmarking and
#: Dissecting the Nvidia Hopper GPU Architecture, 2024: 63 % on average).
_WARP_RATIO = 0.63
#: Where a multiprocessor converts as many integers to floats in a cycle as it has 32-bit lanes;
#: elsewhere half as many (NVIDIA, CUDA C++ Programming Guide, 2025, arithmetic throughput: 64 of
#: 64 lanes, and of 128).
_CONVERTING = ("nvidia-volta", "nvidia-turing", "nvidia-ampere")
_CONVERTING_AT_HALF = ("nvidia-ampere-ga10x",)

#: Where a step with one token is a graph that the host issues at once, if all that works on it is
#: one accelerator.
REPLAYED_ALONE = (
    DrivenKernels(
        frozenset({"llama.cpp@2024"}),
        _GRAPHS,
        ("cuda",),
        "llama.cpp, pull request 6766, May 2024: graphs of batches of one, on Ampere and later, "
        "where there is one accelerator, and none of experts",
    ),
    DrivenKernels(
        _SINCE_2025,
        _GRAPHS,
        ("cuda",),
        "llama.cpp, ggml_backend_cuda_graph_compute, 2025: graphs of batches of one, on Ampere and "
        "later",
    ),
)
#: Of these, where it may be several accelerators with some layers each.
REPLAYED_DIVIDED = _SINCE_2025
#: Where kernels are recorded into buffers of commands while the accelerator works on those before,
#: so that a layer takes the time in which they begin and end there, whatever the host.
RECORDED_AHEAD = (
    DrivenKernels(
        _SINCE_2025,
        ("",),
        ("vulkan", "vulkan-amdvlk"),
        "llama.cpp, ggml_backend_vk_graph_compute, 2025: what is recorded is submitted after 100 "
        "kernels or 100 MB of weights, so that recording the next ones overlaps with it",
    ),
    DrivenKernels(
        frozenset({"llama.cpp"}),
        ("apple-",),
        ("metal",),
        "llama.cpp, pull requests 1860 and 9698, 2023-2024: several threads encode buffers of "
        "commands that are enqueued at the start",
    ),
)
#: Operations of 32-bit lanes that scale a block's sum in such a product, beside its conversion: a
#: multiplication by one scale, and one that adds (llama.cpp, mmq.cuh, vec_dot_q8_0_q8_1_mma, 2025).
SCALING_OPERATIONS = 2.0
#: The same where blocks of weights have a smallest value, too (vec_dot_q8_1_q8_1_mma).
SUPER_SCALING_OPERATIONS = 4.0
#: Operations of matrix units for an element of a block's sum: a multiplication and an addition for
#: each of 32 (ggml, ``QK8_1``) [FLOP].
SCALED_BLOCK_FLOPS = 64.0


def loops_experts(release: str, family: str, backend: str | None = None) -> bool:
    """Whether a release multiplies experts of prompts one after the other."""
    return any(one.holds(release, family, backend) for one in LOOPED_EXPERTS)


def replayed_accelerators(release: str, family: str, backend: str | None = None) -> float:
    """Accelerators that may work on a step with one token, and have graphs for it: 0 for none."""
    if not any(one.holds(release, family, backend) for one in REPLAYED_ALONE):
        return 0.0
    return inf if release in REPLAYED_DIVIDED else 1.0


def records_ahead(release: str, family: str, backend: str | None = None) -> bool:
    """Whether a release records kernels while the accelerator works on those before."""
    return any(one.holds(release, family, backend) for one in RECORDED_AHEAD)


def attends_on_vectors(release: str, family: str, backend: str | None = None) -> bool:
    """Whether fused attention of a release leaves matrix units alone."""
    return any(one.holds(release, family, backend) for one in VECTOR_ATTENTION)


def multiplies_integers(release: str, family: str, backend: str | None = None) -> bool:
    """Whether a release multiplies weights in few bits as integers of 8 bit."""
    return any(one.holds(release, family, backend) for one in INTEGER_PRODUCTS)


def reaches_matrix_units(release: str, family: str, backend: str | None = None) -> bool:
    """Whether a release multiplies by the matrix units of a family, if that has any."""
    return not any(one.holds(release, family, backend) for one in VECTOR_UNITS)


def widening_operations(release: str, family: str, backend: str | None = None) -> float:
    """Operations of lanes that widen a weight, for each row that it multiplies; 0 if unknown."""
    tiled = any(one.holds(release, family, backend) for one in TILED_WIDENING)
    return _WIDENING_OPERATIONS / _WIDENING_ROWS if tiled else 0.0


def warp_ratio(release: str, family: str, backend: str | None = None) -> float:
    """Share of peak that instructions reach by which weights in few bits are multiplied [-]."""
    warps = any(one.holds(release, family, backend) for one in WARP_PRODUCTS)
    return _WARP_RATIO if warps else 1.0


def converting_operations(family: str) -> float:
    """Operations of a 32-bit lane that take as long as the conversion of an integer [-]."""
    at_once = family.startswith(_CONVERTING) and not family.startswith(_CONVERTING_AT_HALF)
    return 1.0 if at_once else 2.0
