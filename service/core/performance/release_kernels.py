"""What kernels of engines' releases do on hardware families, and who says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.core.backends import interface_of
from service.core.engines import engine_of_release
from service.core.number_formats import NumberFormat


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


#: Families with matrix units for 16 bit.
TENSOR_CORES = tuple(
    f"nvidia-{name}" for name in ("volta", "turing", "ampere", "ada", "hopper", "blackwell")
)
#: Where weights in few bits are widened whole.
WHOLE_DEQUANTISATIONS = (
    WholeDequantisation(
        frozenset({"llama.cpp@2024"}),
        TENSOR_CORES,
        33.0,
        "llama.cpp until June 2024: MMQ_MAX_BATCH_SIZE of 32 rows where there are tensor cores, "
        "above which cuBLAS multiplies",
        interface="cuda",
    ),
    WholeDequantisation(
        frozenset({"llama.cpp@2025", "llama.cpp@2026"}),
        ("nvidia-volta",),
        64.0,
        "llama.cpp, ggml_cuda_should_use_mmq, 2025: MMQ_DP4A_MAX_BATCH_SIZE of 64 rows where there "
        "are matrix units for 16 bit alone, from which cuBLAS multiplies",
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
        frozenset({"llama.cpp@2026"}),
        ("amd-cdna1", "amd-cdna2"),
        64.0,
        "llama.cpp, ggml_cuda_should_use_mmq, December 2025: many rows are left to hipBLAS on CDNA "
        "1 and 2",
        interface="hip",
    ),
    WholeDequantisation(
        frozenset({"llama.cpp@2024", "llama.cpp@2025", "llama.cpp@2026"}),
        ("intel-xe",),
        9.0,
        "llama.cpp, ggml-sycl.cpp, 2024-2026: MMVQ_MAX_BATCH_SIZE of 8 rows, above which "
        "ggml_sycl_supports_mmq leaves products to oneDNN in 16 bit",
        interface="sycl",
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

#: Releases that write matrices of AWQ in 16 bit before they multiply so many rows or more, which is
#: faster than kernels of AWQ by three fifths in prompts (issue 2551 of vLLM, January 2024), and who
#: says so. Experts are left to those.
MANY_ROWS: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "autoawq@0.2": (1024.0, "AutoAWQ, awq/modules/linear/gemm.py, 2024: 1,024 rows"),
        "transformers": (1024.0, "Transformers, AwqConfig, 2024: modules of AutoAWQ"),
    }
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
class HeadReads:
    """Releases whose attention to a cache reads keys and values once for each head of queries.

    Grouped heads share them elsewhere. It is so on hardware of ``families`` (beginnings of their
    ids; any if there are none). ``releases`` are keys of releases, or ids of engines. What reaches
    memory grows with the heads of a group to the power of ``exponent_ratio``: 1 where they run one
    after the other, less where they run at once and find in caches what others read. Kernels with
    a block of threads ``by_sequence`` and head have few blocks with one sequence, which read one
    after the other what they have in common; with more sequences they do so while others read, and
    find it in caches.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    source: str
    exponent_ratio: float = 1.0
    by_sequence: bool = False


#: Where grouped heads are read again, the first that holds.
HEAD_READS = (
    HeadReads(
        frozenset({"autoawq"}),
        ("",),
        "AutoAWQ, fused attention, 2023: single_query_attention of FasterTransformer, a block of "
        "threads for each head of queries and sequence",
        by_sequence=True,
    ),
    HeadReads(
        frozenset({"llama.cpp@2023", "llama.cpp@2024"}),
        ("apple-silicon",),
        "llama.cpp, ggml-metal, 2024: kernel_mul_mv over a grid of all heads of queries, each of "
        "which reads the keys and values of its group",
    ),
    HeadReads(
        frozenset({"llama.cpp"}),
        ("apple-silicon",),
        "llama.cpp, ggml-metal, 2025: kernel_flash_attn_ext_vec has threads for each head of "
        "queries, as MLX's sdpa_vector has; those of a group run at once, so that between once and "
        "once for each head reaches memory: assumed to be the geometric mean of both",
        exponent_ratio=0.5,
    ),
)


#: Engines that make keys and values of each head of latents before prompts attend to them, and who
#: says so: fewer operations for a pair, where decoding attends to latents as they are kept. Others
#: are taken to do that in prompts, too, as llama.cpp does.
EXPANDED_LATENTS: Mapping[str, str] = MappingProxyType(
    {
        "vllm": "vLLM, v1/attention/backends/mla/common.py, 2025: multi-head attention for "
        "prefill (compute friendly), multi-query attention for decode",
        "sglang": "SGLang, deepseek_v2.py, 2025: MHA and MHA_CHUNKED_KV for extend, MLA for decode",
        "tensorrt-llm": "TensorRT-LLM, _torch/modules/attention.py, 2025: MLA has mha for context "
        "requests and mqa for those in generation",
    }
)


def expands_latents(release: str) -> bool:
    """Whether prompts of a release attend to keys and values that are made of latents."""
    return engine_of_release(release) in EXPANDED_LATENTS


@dataclass(frozen=True, slots=True)
class LoadedReads:
    """Releases whose products with a vector wait for loads where memory is fast.

    A multiprocessor has only so many loads under way, which bring so many bytes in a cycle. It is
    so on hardware of ``families``, whose multiprocessors have so many ``lanes`` for 32-bit floats,
    with weights of ``bits`` or fewer. ``releases`` are keys of releases.
    """

    releases: frozenset[str]
    lanes: Mapping[str, int]
    bits: float
    source: str


#: 32-bit lanes of multiprocessors beside memory in stacks (NVIDIA, CUDA C++ Programming Guide,
#: 2025, table of arithmetic throughput).
_STACKED = MappingProxyType(
    {"nvidia-volta": 64, "nvidia-ampere": 64, "nvidia-hopper": 128, "nvidia-blackwell": 128}
)
#: Where loads are waited for.
LOADED_READS = (
    LoadedReads(
        frozenset({"llama.cpp@2023", "llama.cpp@2024"}),
        _STACKED,
        16.0,
        "llama.cpp, issue 9817 and pull request 9816, 2024: kernels of a matrix and a vector load "
        "single values, which is near the bandwidth of GDDR memory and far below that of HBM",
    ),
    LoadedReads(
        frozenset({"llama.cpp@2025", "llama.cpp@2026"}),
        _STACKED,
        15.0,
        "llama.cpp, pull request 10318, November 2024: wide loads for 16-bit weights alone",
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


@dataclass(frozen=True, slots=True)
class ReferenceCode:
    """Model types of which an engine runs what Transformers' own code does, for want of kernels.

    Experts of 16 bit that are one batch of matrices multiply all tokens, whatever was chosen
    (``batched_experts``). States are carried on operation by operation (``stepwise_states``).
    """

    engine: str
    batched_experts: frozenset[str]
    stepwise_states: frozenset[str]
    source: str


#: Where an engine has no kernels for a model that it serves.
REFERENCE_CODE = (
    ReferenceCode(
        "optimum-habana",
        frozenset({"gpt_oss"}),
        frozenset({"falcon_mamba"}),
        "Optimum Habana, modeling_gpt_oss.py, 2025: GaudiGptOssExperts repeats tokens for all "
        "experts; modeling_falcon_mamba.py, 2025: the mixer is Transformers', a graph a layer",
    ),
)
#: Kernels of a layer of states that is computed step by step, with one token: 3 products, 9 of the
#: convolution over the last tokens, 21 of norms, 3 of steps' sizes, 12 that make states discrete, 7
#: that carry them on and read them, 8 of norm and sum around the layer (Transformers, 2024,
#: FalconMambaMixer.slow_forward).
_STEPWISE_KERNELS = 63
#: Those of a layer of attention with fused norms and rotations: 7 products, 4 norms and rotations,
#: 2 that write caches, 5 of attention, 2 of the activation, and 2 sums (Optimum Habana, 2025).
_FUSED_LAYER_KERNELS = 22
#: Time between kernels of a layer of stepwise states over that of a layer of fused kernels [-].
STEPWISE_RATIO = _STEPWISE_KERNELS / _FUSED_LAYER_KERNELS

_NONE: frozenset[str] = frozenset()

#: Launches that wait for a stream at most before the host waits, too: about a thousand, for each
#: stream (NVIDIA developer forums, CUDA stream are blocked when launch lots of kernels, 2018).
PENDING_LAUNCHES = 1000.0
#: Parts of a prompt that are under way in llama.cpp at most: it holds so many copies of what parts
#: are made of (ggml, ``GGML_SCHED_MAX_COPIES``, 2024).
PARTS_UNDER_WAY = 4.0


@dataclass(frozen=True, slots=True)
class PromptKernels:
    """Kernels that releases issue one by one for a layer of a prompt, on hardware of families.

    Those that widen matrices whole come on top. ``families`` are beginnings of their ids, which are
    driven by an ``interface``.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    kernel_count: float
    source: str
    interface: str = "cuda"


#: Where somebody counted them.
PROMPT_KERNELS = (
    PromptKernels(
        frozenset({"llama.cpp@2024"}),
        ("nvidia-",),
        43.0,
        "llama.cpp, llm_build_llama and ggml-cuda, May 2024: seven products with operands and "
        "results converted, two more of attention, norms, rotations, caches, softmax, activation",
    ),
    PromptKernels(
        frozenset({"llama.cpp@2025", "llama.cpp@2026"}),
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


def widened_from_rows(release: str, family: str, backend: str | None = None) -> float:
    """Rows from which a release widens matrices whole on a hardware family; zero if never."""
    rows = (
        one.rows
        for one in WHOLE_DEQUANTISATIONS
        if one.by(release) and family.startswith(one.families) and _drives(one.interface, backend)
    )
    return next(rows, 0.0)


def many_widened_from_rows(release: str, family: str) -> float:
    """Rows from which a release widens whole what kernels of AWQ multiply; zero if never."""
    if not family.startswith(("nvidia-", "amd-")):
        return 0.0
    found = MANY_ROWS.get(release) or MANY_ROWS.get(engine_of_release(release))
    return 0.0 if found is None else found[0]


def is_weight_only(release: str) -> bool:
    """Whether a release multiplies 16-bit activations whatever the width of weights."""
    return engine_of_release(release) in WEIGHT_ONLY


def head_reads(release: str, family: str) -> tuple[float, bool]:
    """The power of a group's heads by which a release reads keys and values; 0 if once.

    And whether it does so the less, the more sequences there are.
    """
    names = {release, engine_of_release(release)}
    for one in HEAD_READS:
        if names & one.releases and family.startswith(one.families):
            return one.exponent_ratio, one.by_sequence
    return 0.0, False


def loaded_reads(release: str, family: str) -> tuple[float, float]:
    """Bits of the widest weights whose reading waits for loads, and lanes of a multiprocessor [-].

    Zero where reading does not. CUDA was looked at; no other backend is known to have more loads.
    """
    for one in LOADED_READS:
        if release in one.releases and family in one.lanes:
            return one.bits, float(one.lanes[family])
    return 0.0, 0.0


def prompt_layer_kernel_count(release: str, family: str, backend: str | None = None) -> float:
    """Kernels that a release issues for a layer of a prompt; zero where nobody counted them."""
    counted = (
        one.kernel_count
        for one in PROMPT_KERNELS
        if release in one.releases
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


def batched_experts(engine: str) -> frozenset[str]:
    """Model types whose experts of 16 bit all multiply all tokens with an engine."""
    return next((one.batched_experts for one in REFERENCE_CODE if one.engine == engine), _NONE)


def stepwise_states(engine: str) -> frozenset[str]:
    """Model types whose states an engine carries on operation by operation."""
    return next((one.stepwise_states for one in REFERENCE_CODE if one.engine == engine), _NONE)


def unrouted_below_bits(engine: str) -> float:
    """Width of weights below which experts of an engine multiply all tokens [bit]; zero if none."""
    return next((one.below_bits for one in UNROUTED if one.engine == engine), 0.0)
