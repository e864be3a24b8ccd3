"""What attention takes on a rank, by pair of tokens and by token that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from service.core.deployment import Accelerator
from service.core.elementwise import Number
from service.core.performance.attended import AttentionWork
from service.core.performance.beams import beams_pair_s
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.kernels import engine_precision, peak_flops_per_s

#: What a score costs at least where attention has vectors alone: as much as one of a head of 128
#: features, because sums over lanes take longest, however many features each lane has (llama.cpp,
#: fattn-vec-f16.cuh, 2025: a warp for each key) [FLOP].
_VECTOR_SCORE_FLOPS = 512.0
#: What a score takes of matrix units in heads of 128 features, of which rates of attention are
#: [FLOP].
_USUAL_SCORE_FLOPS = 512.0
#: 32-bit lanes of multiprocessors of families of hardware, each of which has 16 units for
#: exponentials (NVIDIA, CUDA C++ Programming Guide, 2025, table of arithmetic throughput).
_EXPONENTIAL_UNITS = 16.0
_LANES: Mapping[str, float] = MappingProxyType(
    {"nvidia-ampere": 64.0, "nvidia-hopper": 128.0, "nvidia-blackwell": 128.0}
)


class AttentionCost(NamedTuple):
    """Attention of layers alike: time by pair of tokens, and by token that is read.

    Such a token moves ``token_bytes``. Scores that are not fused take ``scores_s`` and
    ``scores_bytes`` for a pair besides. A pair of a prompt takes ``pair_flops``; where beams share
    tokens, and where latents are expanded in prompts alone, pairs of decoding take
    ``decoded_pair_s`` and the FLOPs of the layer.
    """

    layer: AttentionWork
    pair_flops: float
    pair_s: Number
    decoded_pair_s: Number
    token_s: Number
    token_bytes: float
    scores_s: Number
    scores_bytes: float


def attention_costs(
    layers: Sequence[AttentionWork],
    accelerator: Accelerator,
    calibration: PerformanceCalibration,
    moved_per_score: float,
    streamed_per_s: Number,
) -> tuple[AttentionCost, ...]:
    """What attention of each kind of layer takes.

    Scores that are not fused move ``moved_per_score`` each [B], with ``streamed_per_s`` [B/s]; zero
    where they are fused.
    """
    if not layers:
        return ()
    hardware, engine = calibration.hardware, calibration.engine
    on_vectors = is_on_vectors(accelerator, calibration, moved_per_score)
    reached = engine.vector_attention_ratio if on_vectors else hardware.attention_matrix_ratio
    rates = {
        one: reached
        * peak_flops_per_s(accelerator, "fp32" if on_vectors else engine_precision(one, engine))[0]
        for one in {layer.operands for layer in layers}
    }
    least_flops = _VECTOR_SCORE_FLOPS if on_vectors else 0.0
    exponential_s: Number = 0.0
    if engine.waits_for_exponentials and not on_vectors:
        exponential_s = _exponential_s(accelerator)
    bytes_per_s = accelerator.memory_bandwidth_bytes_per_s * calibration.reached_ratio(
        hardware.attention_memory_ratio
    )
    again = engine.regrows_cache, engine.repeats_heads, engine.head_reads_exponent_ratio
    moved = [one.moved_bytes_per_token(*again) for one in layers]
    return tuple(
        AttentionCost(
            layer,
            pair_flops := layer.of_prompts(engine.expands_latents),
            pair_s := max(pair_flops, layer.scores_per_pair * least_flops) / rates[layer.operands]
            + _beside_products_s(layer, pair_flops, exponential_s),
            beams_pair_s(layer, pair_s, accelerator)
            if pair_flops == layer.flops_per_pair
            else layer.flops_per_pair / rates[layer.operands],
            moved_bytes / bytes_per_s,
            moved_bytes,
            layer.scores_per_pair * moved_per_score / streamed_per_s,
            layer.scores_per_pair * moved_per_score,
        )
        for layer, moved_bytes in zip(layers, moved, strict=True)
    )


def _exponential_s(accelerator: Accelerator) -> Number:
    """Time of the exponential of a score, of which a multiprocessor makes few at once [s]."""
    lanes, peak = _LANES.get(accelerator.family), accelerator.peak_flops_per_s.get("fp32")
    if lanes is None or peak is None:
        return 0.0
    # A multiplication with an addition is one operation of a lane.
    return 2.0 * lanes / (_EXPONENTIAL_UNITS * peak)


def _beside_products_s(layer: AttentionWork, pair_flops: float, exponential_s: Number) -> Number:
    """What exponentials of a pair's scores take beyond those of heads of 128 features [s].

    Products of narrow heads are done sooner, and their exponentials are not: attention in heads of
    64 reaches 514 TFLOPS of an H100 (FlashAttention, issue 1438, 2025), and 621 in heads of 128
    (PyTorch benchmark, pull request 2391, 2024), which is this time. On Blackwell matrix units are
    twice as fast, and units for exponentials are the same (Zadouri et al., FlashAttention-4, 2026).
    """
    if layer.compared:
        return 0.0
    usual = pair_flops / _USUAL_SCORE_FLOPS
    return max(layer.scores_per_pair - usual, 0.0) * exponential_s


def is_on_vectors(
    accelerator: Accelerator, calibration: PerformanceCalibration, moved_per_score: float
) -> bool:
    """Whether vector units compute attention.

    Where nobody states what they reach, it counts as though matrix units did.
    """
    fused = moved_per_score == 0.0
    stated = "fp32" in accelerator.peak_flops_per_s
    return calibration.engine.vector_attention and fused and stated
