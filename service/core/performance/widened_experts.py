"""Experts whose weights in four bits are widened by 32-bit lanes, once for each tile of rows."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator
from service.core.elementwise import Number
from service.core.engines import engine_of_release
from service.core.performance.calibration import EngineOverhead
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.work import MatrixProduct

#: What MXFP4 asks for (``NumberFormat.matrix_precision``).
_MXFP4 = "mxfp8"
#: Bits of the widest weights, scales of blocks included, that count as four.
_NARROW_BITS = 5.0


@dataclass(frozen=True, slots=True)
class WidenedTiles:
    """Kernels that widen weights of experts anew for each tile of up to so many ``rows``.

    A weight takes ``operations`` of the lanes beside matrix units, which wait for it, and multiply
    at ``matrix_ratio`` of the rate of other products. They are of
    releases or engines on families of hardware, where no units multiply such weights; of MXFP4, or
    of ``all_formats`` in four bits.
    """

    releases: frozenset[str]
    families: frozenset[str]
    rows: float
    operations: float
    source: str
    matrix_ratio: float = 1.0
    all_formats: bool = False


#: Operations that widen a weight in MXFP4 to 16 bits on Hopper: matrix units are busy for 49 % of
#: the time with such weights and large matrices in tiles of 128 rows (Triton, pull requests 6833
#: and 6812, 2025), and for 77 % with others. They may be half as many or half as many again.
_HOPPER_OPERATIONS = 6.4
#: The first that holds counts. Operations are of as many lanes as half of the peak of 32-bit floats
#: says, in which one that multiplies and adds counts twice.
WIDENED_TILES = (
    WidenedTiles(
        frozenset({"vllm@v1-0.8", "vllm@v1"}),
        frozenset({"nvidia-hopper"}),
        64.0,
        _HOPPER_OPERATIONS,
        "vLLM, mxfp4.py, until 0.11: Marlin on Hopper, with tiles of up to 64 rows and "
        "instructions of single warps. 256 experts of 4096 by 2048 take it 270.4 ms for 65,536 "
        "tokens at 6 each on an H20, which is 73 TFLOPS of 148, and 88 beside widening (SGLang, "
        "pull request 34682, 2026), of which other products reach 114; 512 of 4096 by 1024 in int4 "
        "take 31.8 ms for 8,192 at 10 each, 78 of full tiles (FlagGems, pull request 3375, 2026)",
        matrix_ratio=0.77,
        all_formats=True,
    ),
    WidenedTiles(
        frozenset({"vllm", "sglang", "tensorrt-llm"}),
        frozenset({"nvidia-hopper"}),
        128.0,
        _HOPPER_OPERATIONS,
        "OpenAI's Triton kernels (matmul_ogs), taken by TensorRT-LLM, SGLang and vLLM from 0.12 on "
        "(pull requests 28788 and 29339, 2025): tiles of up to 128 rows",
    ),
    WidenedTiles(
        frozenset({"vllm", "sglang"}),
        frozenset({"amd-cdna3"}),
        128.0,
        14.0,
        "Triton, UpcastMXFPToLLVM.cpp, 2025, without instructions of CDNA 4: 20 operations look "
        "eight weights up byte by byte, and each takes some 4.5 to be widened to 32 bits, scaled, "
        "rounded to 16 and put in place; lanes do so at half the rate of packed floats, by which "
        "their peak is stated. A shorter sequence for CDNA 3 alone has half as many. Weights are "
        "widened again for each tile (MSLK, pull request 379, 2026)",
    ),
)


def widened_tiles(release: str, family: str) -> WidenedTiles | None:
    """How a release widens experts in four bits on a hardware family; None if nobody knows."""
    names = {release, engine_of_release(release)}
    found = (one for one in WIDENED_TILES if names & one.releases and family in one.families)
    return next(found, None)


def widens_tiles(item: MatrixProduct, bits: int, engine: EngineOverhead) -> bool:
    """Whether lanes widen experts that meet operands of so many bits, tile by tile."""
    if not (item.experts and engine.widened_tile_rows) or bits < 16:
        return False
    of_format = engine.widens_all_formats or item.matrix_precision == _MXFP4
    return of_format and item.weight_bits <= _NARROW_BITS


def widening_tile_s(
    item: MatrixProduct, weights_bytes: float, accelerator: Accelerator, engine: EngineOverhead
) -> Number:
    """Time in which lanes widen ``weights_bytes`` of an expert for a tile; 0 if they do not [s]."""
    _, bits = peak_flops_per_s(accelerator, engine_precision(item.matrix_precision, engine))
    peak = accelerator.peak_flops_per_s.get("fp32")
    if peak is None or not widens_tiles(item, bits, engine):
        return 0.0
    weights = weights_bytes * 8.0 / item.weight_bits
    # A multiplication with an addition is one operation of a lane.
    return weights * engine.widened_tile_operations / (peak / 2.0)
