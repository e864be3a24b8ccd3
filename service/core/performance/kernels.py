"""What kernels multiply: operands by the format of the weights, the hardware and the engine.

A format says in which operands its kernels would multiply (``NumberFormat.matrix_precision``).
Where hardware has no matrix units for these, other kernels take their place, which widen the
weights first; an engine of its own kernels widens all it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from service.core.backends import interface_of
from service.core.deployment import Accelerator, Precision
from service.core.elementwise import Number
from service.core.engines import engine_of_release
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


@dataclass(frozen=True, slots=True)
class WholeDequantisation:
    """Releases that write a matrix in 16 bit before they multiply it by so many rows or more.

    They do so with formats that are ``widened_whole``. Below, and on other hardware than
    ``families`` (beginnings of their ids), kernels widen weights by tiles on their way into
    products. ``releases`` are keys of releases, or ids of engines for all of theirs. The buffer for
    the largest matrix is taken when weights are loaded where it is ``held``; others take it from a
    pool for as long as a product runs. Engines with several backends do so with some ``interface``
    (any if there is none).
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    rows: float
    source: str
    held: bool = False
    interface: str = ""

    def by(self, release: str) -> bool:
        """Whether a release does so."""
        return release in self.releases or engine_of_release(release) in self.releases


_TENSOR_CORES = tuple(
    f"nvidia-{name}" for name in ("volta", "turing", "ampere", "ada", "hopper", "blackwell")
)
#: Where weights in few bits are widened whole.
WHOLE_DEQUANTISATIONS = (
    WholeDequantisation(
        frozenset({"llama.cpp@2024"}),
        _TENSOR_CORES,
        33.0,
        "llama.cpp until June 2024: MMQ_MAX_BATCH_SIZE of 32 rows where there are tensor cores, "
        "above which cuBLAS multiplies",
        interface="cuda",
    ),
    WholeDequantisation(
        frozenset({"llama.cpp@2024", "llama.cpp@2025"}),
        ("amd-cdna", "amd-rdna3", "amd-rdna4"),
        64.0,
        "llama.cpp, ggml_cuda_should_use_mmq, 2024-2025: MMQ_DP4A_MAX_BATCH_SIZE of 64 rows on "
        "RDNA 3 and 4 and CDNA, from which hipBLAS multiplies",
        interface="hip",
    ),
    WholeDequantisation(
        frozenset({"exllama@v1", "transformers"}),
        ("nvidia-", "amd-"),
        8.0,
        "ExLlama, 2023: matmul_recons_thd of 8 rows, from which matrices are reconstructed; "
        "Transformers multiply GPTQ matrices by its kernels (GPTQConfig, use_exllama), and need as "
        "much more memory than with AWQ as the largest has in 16 bit (Qwen2.5 benchmark, 2024)",
        held=True,
    ),
    WholeDequantisation(
        frozenset({"exllama@v2", "exllama@v3"}),
        ("nvidia-", "amd-"),
        33.0,
        "ExLlamaV2, 2023: MAX_Q_GEMM_ROWS of 32, above which matrices are reconstructed",
        held=True,
    ),
)

#: Engines whose kernels widen weights of any width for 16-bit activations, and who says so.
WEIGHT_ONLY: Mapping[str, str] = MappingProxyType(
    {
        "gpt-fast": "gpt-fast, quantize.py, 2023: weight-only int8 and int4",
        "mlx": "MLX, quantized_matmul, 2024: activations in 16 bit",
        "mlc-llm": "MLC-LLM, group quantisation, 2023: weights of 3, 4 or 8 bit, activations in 16",
    }
)


@dataclass(frozen=True, slots=True)
class DrivenKernels:
    """Releases of which something holds on hardware of families, driven by some backends.

    ``families`` are beginnings of their ids. ``releases`` are keys of releases, or ids of engines;
    where nothing is said of a backend, it is the first.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    backends: tuple[str, ...]
    source: str

    def holds(self, release: str, family: str, backend: str | None) -> bool:
        """Whether it holds of a release on a hardware family, driven by a backend."""
        return (
            bool({release, engine_of_release(release)} & self.releases)
            and family.startswith(self.families)
            and (backend or self.backends[0]) in self.backends
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
)

#: Where fused attention computes on vectors, although there are matrix units.
VECTOR_ATTENTION = (
    DrivenKernels(
        frozenset({"llama.cpp@2024", "llama.cpp@2025"}),
        ("amd-",),
        ("hip", "hip-rocblas"),
        "llama.cpp, docs/build.md, 2025: fused attention of HIP has matrix units only where it is "
        "built with rocWMMA (GGML_HIP_ROCWMMA_FATTN)",
    ),
)


def loops_experts(release: str, family: str, backend: str | None = None) -> bool:
    """Whether a release multiplies experts of prompts one after the other."""
    return any(one.holds(release, family, backend) for one in LOOPED_EXPERTS)


def attends_on_vectors(release: str, family: str, backend: str | None = None) -> bool:
    """Whether fused attention of a release leaves matrix units alone."""
    return any(one.holds(release, family, backend) for one in VECTOR_ATTENTION)


@dataclass(frozen=True, slots=True)
class HeadReads:
    """Releases whose attention to a cache reads keys and values once for each head of queries.

    Grouped heads share them elsewhere. It is so on hardware of ``families`` (beginnings of their
    ids; any if there are none). ``releases`` are keys of releases, or ids of engines.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    source: str


#: Where grouped heads are read again.
HEAD_READS = (
    HeadReads(
        frozenset({"autoawq"}),
        ("",),
        "AutoAWQ, fused attention, 2023: single_query_attention of FasterTransformer, a block of "
        "threads for each head of queries and sequence",
    ),
    HeadReads(
        frozenset({"llama.cpp"}),
        ("apple-silicon",),
        "llama.cpp, ggml-metal, 2024: kernel_mul_mv over a grid of all heads of queries, each of "
        "which reads the keys and values of its group",
    ),
)


@dataclass(frozen=True, slots=True)
class Unrouted:
    """Engines whose routed experts each multiply all tokens where weights are so narrow.

    Every expert that an accelerator holds is then read, and what routing leaves out is taken away
    after it was computed.
    """

    engine: str
    below_bits: float
    source: str


#: Where routing saves nothing.
UNROUTED = (
    Unrouted(
        "optimum-habana",
        16.0,
        "Optimum Habana, modeling_mixtral.py, 2024-2026: quantised experts are looped over with "
        "all tokens, until the accelerator's operator for experts takes 8 bit",
    ),
)

#: Launches that wait for a stream at most before the host waits, too: about a thousand, for each
#: stream (NVIDIA developer forums, CUDA stream are blocked when launch lots of kernels, 2018).
PENDING_LAUNCHES = 1000.0
#: Parts of a prompt that are under way in llama.cpp at most: it holds so many copies of what parts
#: are made of (ggml, ``GGML_SCHED_MAX_COPIES``, 2024).
PARTS_UNDER_WAY = 4.0


@dataclass(frozen=True, slots=True)
class PromptKernels:
    """Kernels that a release issues one by one for a layer of a prompt, on hardware of families.

    Those that widen matrices whole come on top. ``families`` are beginnings of their ids, which are
    driven by an ``interface``.
    """

    release: str
    families: tuple[str, ...]
    kernel_count: float
    source: str
    interface: str = "cuda"


#: Where somebody counted them.
PROMPT_KERNELS = (
    PromptKernels(
        "llama.cpp@2024",
        ("nvidia-",),
        43.0,
        "llama.cpp, llm_build_llama and ggml-cuda, May 2024: seven products with operands and "
        "results converted, two more of attention, norms, rotations, caches, softmax, activation",
    ),
    PromptKernels(
        "llama.cpp@2025",
        ("nvidia-",),
        33.0,
        "llama.cpp, ggml-cuda, 2025: seven products with operands quantised and sums completed, "
        "fused attention, norms and activation, rotations, caches",
    ),
)

#: Kernels of an eager layer with products of 16 bit: seven products, and norms, rotations, caches,
#: attention, activation and residuals one by one.
_LAYER_KERNELS, _LAYER_PRODUCTS = 30, 7
#: What each product of a layer issues besides, where Python issues kernel after kernel. LLM.int8()
#: narrows and reorders rows, looks for outliers, waits for their number, multiplies, widens,
#: gathers outliers with their weights, multiplies these apart, and adds (Dettmers et al., 2022,
#: section 3); NF4 widens the scales of its scales, shifts them, and multiplies (QLoRA, 2023,
#: section 3).
_KERNELS_BESIDE = {"bnb-int8": 12, "bnb-nf4": 3, "bnb-nf4-single-quant": 1}


def launches_ratio(weights: NumberFormat) -> float:
    """Kernels that a layer issues one by one, beside those of a layer of 16-bit products [-]."""
    beside = _LAYER_PRODUCTS * _KERNELS_BESIDE.get(weights.id, 0)
    return (_LAYER_KERNELS + beside) / _LAYER_KERNELS


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


def widened_from_rows(release: str, family: str, backend: str | None = None) -> float:
    """Rows from which a release widens matrices whole on a hardware family; zero if never."""
    rows = (
        one.rows
        for one in WHOLE_DEQUANTISATIONS
        if one.by(release) and family.startswith(one.families) and _drives(one.interface, backend)
    )
    return next(rows, 0.0)


def is_weight_only(release: str) -> bool:
    """Whether a release multiplies 16-bit activations whatever the width of weights."""
    return engine_of_release(release) in WEIGHT_ONLY


def rereads_heads(release: str, family: str) -> bool:
    """Whether a release on a hardware family reads keys and values for each head of queries."""
    names = {release, engine_of_release(release)}
    return any(names & one.releases and family.startswith(one.families) for one in HEAD_READS)


def prompt_layer_kernel_count(release: str, family: str, backend: str | None = None) -> float:
    """Kernels that a release issues for a layer of a prompt; zero where nobody counted them."""
    counted = (
        one.kernel_count
        for one in PROMPT_KERNELS
        if one.release == release
        and family.startswith(one.families)
        and _drives(one.interface, backend)
    )
    return next(counted, 0.0)


def _drives(interface: str, backend: str | None) -> bool:
    """Whether what is known of an interface holds for a backend; None is any."""
    return not interface or backend is None or interface_of(backend) == interface


def holds_widened(release: str) -> bool:
    """Whether a release holds a buffer for the largest matrix that it widens whole."""
    return any(one.held and one.by(release) for one in WHOLE_DEQUANTISATIONS)


def unrouted_below_bits(engine: str) -> float:
    """Width of weights below which experts of an engine multiply all tokens [bit]; zero if none."""
    return next((one.below_bits for one in UNROUTED if one.engine == engine), 0.0)


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
