"""Tiles of experts' products: where blocks of weights have a scale each, and where nobody tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.core.deployment import Accelerator
from service.core.elementwise import Number, expm1, is_nothing, maximum, minimum
from service.core.engines import engine_of_release
from service.core.performance.calibration import EngineOverhead
from service.core.performance.work import MatrixProduct

#: Stands in for no rows at all in divisions.
_FEWEST_ROWS = 1e-9
#: Bits of an element of which a scale for each tensor or channel is a negligible share.
_WITHOUT_BLOCKS = 8.0


@dataclass(frozen=True, slots=True)
class ScaledTiles:
    """Engines whose experts in blocks of 8-bit floats fill tiles of so many rows.

    Kernels scale the sum of each block in 32 bit before they add it, and take tiles of the same
    rows for few tokens as for many. A format has a scale for each block with models of types that
    are ``released_in_blocks``, or where a checkpoint says so.
    """

    engines: frozenset[str]
    rows: float
    released_in_blocks: frozenset[str]
    source: str

    def scales(self, item: MatrixProduct) -> bool:
        """Whether experts are in blocks with a scale each, rather than in whole channels."""
        return item.model_type in self.released_in_blocks and item.weight_bits > _WITHOUT_BLOCKS


#: Where tiles are the same for any number of tokens.
SCALED_TILES = ScaledTiles(
    frozenset({"vllm", "sglang"}),
    64.0,
    frozenset(
        {
            *("deepseek_v3", "deepseek_v32", "deepseek_v4", "kimi_k2", "mistral4"),
            *("glm_moe_dsa", "mimo_v2", "mimo_v2_flash", "minimax_m2"),
            *("qwen3_moe", "qwen3_next", "qwen3_vl_moe_text", "qwen3_5_moe_text"),
        }
    ),
    "vLLM and SGLang, fused_moe.py, get_default_config, 2025: BLOCK_SIZE_M of 64 for fp8_w8a8 "
    "with a block_shape, whatever the tokens, where no file was tuned for the number of experts, "
    "their width and the device. Types: weight_block_size in the quantization_config of releases "
    "by their makers, 2024-2026; others were released with a scale for each tensor or channel, or "
    "are quantised so while they are loaded (vLLM, --quantization fp8)",
)


@dataclass(frozen=True, slots=True)
class GroupedTiles:
    """Releases that leave experts in blocks of 8-bit floats to a library of grouped products.

    Its tiles have so many ``rows``, and sums of blocks are scaled beside the next products, so that
    units of 32 bit do not set the pace. It multiplies on hardware of ``families``; of those that
    are ``whole_experts`` only on ranks that hold whole experts.
    """

    releases: frozenset[str]
    families: frozenset[str]
    whole_experts: frozenset[str]
    rows: float
    source: str

    def multiply(self, item: MatrixProduct, family: str) -> bool:
        """Whether the library multiplies experts on a hardware family."""
        held_whole = item.copies < item.experts
        return family in self.families and (held_whole or family not in self.whole_experts)


#: Where DeepGEMM takes the place of tiles that wait for their scales.
GROUPED_TILES = GroupedTiles(
    frozenset({"vllm@0.12", "vllm@0.14", "vllm@0.17", "vllm@0.21"}),
    frozenset({"nvidia-hopper", "nvidia-blackwell"}),
    frozenset({"nvidia-hopper"}),
    128.0,
    "vLLM, pull requests 24462 (September 2025: DeepGEMM by default where it is installed, as in "
    "the project's images) and 29346 (November 2025: not for experts divided in width by eight), "
    "and fused_moe/oracle/fp8.py, 2026 (on Hopper after Triton, unless ranks hold whole experts); "
    "rows of each expert are filled up to 128 (pull request 39331). 128 tokens at 256 experts of "
    "DeepSeek-V3 take 6.4 ms on an H100, and 12.5 by Triton's tiles (pull request 13932)",
)


def has_grouped_tiles(release: str, family: str) -> bool:
    """Whether a release leaves experts in blocks to grouped products on a hardware family."""
    return release in GROUPED_TILES.releases and family in GROUPED_TILES.families


#: What is left of the kernels that narrow activations where one call multiplies all experts, over
#: those where each product of theirs is a kernel: what comes in is narrowed by a kernel of its own,
#: what passes from product to product is not (vLLM, moe_kernel_quantize_input before TRTLLM
#: kernels, and before either product of Triton's, 2026).
FUSED_NARROWING_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class OtherKernels:
    """Model types whose experts of 8-bit floats have other kernels, on some hardware families.

    They are all types where none is named. Where these kernels are ``fused``, one call routes,
    multiplies and narrows between products.
    """

    models: frozenset[str]
    families: frozenset[str]
    source: str
    fused: bool = False

    def multiply(self, model_type: str, family: str) -> bool:
        """Whether they multiply experts of a model type on a hardware family."""
        return (not self.models or model_type in self.models) and family in self.families


#: Where tiles go by the number of tokens, whatever the engine.
OTHER_KERNELS = (
    OtherKernels(
        frozenset({"deepseek_v3", "deepseek_v32", "kimi_k2"}),
        frozenset({"nvidia-blackwell"}),
        "vLLM, pull request 27492, and SGLang, pull request 11816, 2025: FlashInfer has kernels "
        "of TensorRT-LLM for experts that are routed as those of DeepSeek-V3 are",
        fused=True,
    ),
    OtherKernels(
        frozenset({"deepseek_v3", "deepseek_v32", "kimi_k2"}),
        frozenset({"nvidia-hopper"}),
        "vLLM, fused_moe/configs, pull requests 13919 and 16753, and SGLang, pull request 6885, "
        "2025: files tuned for their experts on H20 and H200, whose tiles go by the number of "
        "tokens",
    ),
    OtherKernels(
        frozenset(),
        frozenset({"amd-cdna3", "amd-cdna4"}),
        "vLLM, fused_moe/oracle/fp8.py, 2026 (AITER before all others where it is on, as in "
        "AMD's images), and SGLang's images for ROCm, 2025: AITER's kernels for experts, whose "
        "blocks of rows go by the number of tokens (AITER, fused_moe.py, get_block_size_M)",
    ),
)


@dataclass(frozen=True, slots=True)
class FusedExperts:
    """Releases that multiply narrow experts of any model in one call, on some hardware families."""

    releases: frozenset[str]
    families: frozenset[str]
    source: str


#: Where one call routes, multiplies and narrows between products, whatever the model.
FUSED_EXPERTS = FusedExperts(
    frozenset({"vllm@0.17", "vllm@0.21", "sglang@0.5.3", "sglang@0.5.10"}),
    frozenset({"nvidia-blackwell"}),
    "vLLM, fused_moe/oracle/fp8.py and nvfp4.py, 2026: FLASHINFER_TRTLLM is the first that is "
    "tried; SGLang, server_args.py, 2025-2026: flashinfer_trtllm on sm100 for experts in fp8 and "
    "modelopt_fp4 of DeepSeek, Qwen3, Llama 4 and others",
)


def fuses_experts(release: str, family: str) -> bool:
    """Whether a release multiplies narrow experts in one call on a hardware family."""
    return release in FUSED_EXPERTS.releases and family in FUSED_EXPERTS.families


def narrowing_ratio(item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead) -> float:
    """Kernels that narrow activations of experts, over those where each product is a kernel [-]."""
    fused = engine.fuses_experts or any(
        one.fused and one.multiply(item.model_type, accelerator.family) for one in OTHER_KERNELS
    )
    return FUSED_NARROWING_RATIO if fused else 1.0


@dataclass(frozen=True, slots=True)
class DefaultTiles:
    """Releases whose experts of 16 bit fill tiles of so many rows where nobody tuned them.

    They do so on hardware of ``families`` for more tokens than an accelerator holds experts. Such
    tiles are too small to keep matrix units busy: they reach ``lanes_ratio`` times the peak of
    32-bit lanes [-], whatever their operands. Files were tuned for accelerators that hold a part
    of each expert: of any ``tuned_widths``, or of those of a family.
    """

    releases: frozenset[str]
    families: frozenset[str]
    rows: float
    lanes_ratio: float
    tuned_widths: Mapping[str, frozenset[int]]
    source: str


#: Tiles of kernels in Triton that no file was tuned for.
DEFAULT_TILES = DefaultTiles(
    frozenset(
        {
            *("vllm@v0", "vllm@v0-0.6.6", "vllm@v1-0.8", "vllm@v1", "vllm@0.12", "vllm@0.14"),
            "sglang",
        }
    ),
    frozenset({"nvidia-hopper", "nvidia-blackwell"}),
    64.0,
    3.2,
    {"nvidia-blackwell": frozenset({192, 384, 1024})},
    "vLLM and SGLang, fused_moe.py, get_default_config: tiles of 64 by 64 by 32 for more tokens "
    "than experts, until vLLM's pull request 34846, 2026. 128 experts take 355, 392, 536, 912 and "
    "1648 us for 256, 512, 1024, 2048 and 4096 tokens on an H100 (pull request 24700, 2025), which "
    "is 211 to 218 TFLOPS of such tiles, of 67 of its lanes, and eight on an H20 134 to 142 of 44 "
    "(pull request 44152, 2026), within 10 %. fused_moe/configs, 2025: files for 16 bit are of "
    "experts divided in width, on Blackwell in three widths, and few for ranks of whole experts",
)


def has_default_tiles(release: str, family: str) -> bool:
    """Whether experts of a release on a hardware family have default tiles if nobody tuned them."""
    names = {release, engine_of_release(release)}
    return bool(names & DEFAULT_TILES.releases) and family in DEFAULT_TILES.families


def untuned_row_s(
    row_flops: float,
    flops_per_s: Number,
    item: MatrixProduct,
    accelerator: Accelerator,
    engine: EngineOverhead,
) -> Number | None:
    """Time of a row of default tiles [s]; None where products have others.

    Parameters
    ----------
    row_flops
        What a row of the products takes [FLOP].
    flops_per_s
        What tuned tiles reach [FLOP/s].
    item, accelerator, engine
        Product, what computes it, and with what.
    """
    peak = accelerator.peak_flops_per_s.get("fp32")
    if not engine.default_expert_tiles or item.weight_bits < 16.0 or peak is None:
        return None
    width = min(item.input_features, item.output_features)
    tuned = DEFAULT_TILES.tuned_widths.get(accelerator.family)
    if item.copies >= item.experts and (tuned is None or width in tuned):
        return None
    return row_flops / minimum(flops_per_s, peak * DEFAULT_TILES.lanes_ratio)


def scaled_tile_rows(release: str) -> float:
    """Rows of tiles of a release's experts in blocks of 8-bit floats; zero where they are few."""
    return SCALED_TILES.rows if engine_of_release(release) in SCALED_TILES.engines else 0.0


def tiled_rows(
    item: MatrixProduct, bits: int, accelerator: Accelerator, engine: EngineOverhead
) -> float:
    """Rows of tiles that products of experts in operands of so many bits fill; zero if smooth."""
    narrow = item.experts > 0 and item.matrix_precision == "fp8" and bits == 8
    if not (narrow and SCALED_TILES.scales(item)) or engine.fuses_experts:
        return 0.0
    if any(one.multiply(item.model_type, accelerator.family) for one in OTHER_KERNELS):
        return 0.0
    return GROUPED_TILES.rows if _is_grouped(item, accelerator, engine) else engine.scaled_tile_rows


def _is_grouped(item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead) -> bool:
    """Whether experts in blocks are left to grouped products."""
    return engine.grouped_expert_tiles and GROUPED_TILES.multiply(item, accelerator.family)


def filled_rows(item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead) -> float:
    """Rows that fill tiles of experts' and that kernels around grouped products pass over.

    Buffers have room for a tile beyond the rows of each expert, whether it is chosen or not
    (vLLM, deep_gemm_utils.py, 2025: ``compute_aligned_M``).
    """
    bits = 8 if item.weight_bits < 16.0 else 16
    if not tiled_rows(item, bits, accelerator, engine):
        return 0.0
    return GROUPED_TILES.rows * item.copies * _is_grouped(item, accelerator, engine)


def limited_by_scaling(
    flops_per_s: Number, item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead
) -> Number:
    """FLOP/s of tiles whose blocks' sums are scaled: units of 32 bit set the pace."""
    peak, ratio = accelerator.peak_flops_per_s.get("fp32"), engine.scaled_tiles_ratio
    if peak is None or is_nothing(ratio) or _is_grouped(item, accelerator, engine):
        return flops_per_s
    # Each waits for its sum before the next begins.
    return 1.0 / (1.0 / flops_per_s + 1.0 / (peak * ratio))


def whole_tiles(rows: Number, matrices: Number, tile_rows: float) -> Number:
    """Rows of the tiles that rows of some matrices fill, of which the last is full in part.

    Rows of a matrix are taken to have a geometric distribution, as they have where matrices are
    chosen as unevenly as an exponential one says: ``tile / (1 - exp(-tile / mean))`` on average.
    """
    each = maximum(rows, _FEWEST_ROWS) / maximum(matrices, _FEWEST_ROWS)
    padded: Number = matrices * tile_rows / -expm1(-tile_rows / each)
    return padded


def padded_rows(rows: Number, matrices: Number, tile_rows: Number) -> Number:
    """Rows of products with the padding of their tiles, where some matrices share the rows.

    Each matrix adds ``tile_rows`` where its rows are many, and its own rows once more where they
    are few: those are products of a matrix and some vectors.
    """
    tiles = tile_rows * matrices
    return rows + rows * tiles / maximum(rows + tiles, _FEWEST_ROWS)
