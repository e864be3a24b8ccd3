"""Terms of training speed: what is usual of each, and the levels that it may differ at."""

from __future__ import annotations

from collections.abc import Mapping

from service.calibration.hierarchy import Level, Term
from service.calibration.speed_terms import FLOPS_PER_JOULE, NARROW, UNLIMITED

_HARDWARE = (Level("vendor", 0.10), Level("family", 0.20))
_JOULES = (Level("vendor", 0.05), Level("family", 0.10))
#: Of a range of logarithms: what kernels of attention reach differs by factors, not by points.
_ATTENTION = (Level("family", 0.06), Level("kernels", 0.08))
_FRAMEWORKS = (Level("class", 0.15), Level("engine", 0.15), Level("generation", 0.12))
#: Releases differ most in which elementwise kernels they fuse.
_PASSES = (Level("class", 0.15), Level("engine", 0.15), Level("generation", 0.20))
_LINKS = (Level("link", 0.20),)

#: On an L20 the best product reaches 0.92 of dense peak (105 to 115 of 119.5 TFLOPS by cuBLAS,
#: CUDA-Learn-Notes, HGEMM, 2024), for rates of this generation and the next are
#: met before power limits them. On the A100 and H100 it is 0.83, and training reaches 0.70.
#: Programs that are compiled as a whole lose little between the products of TPUs, whose clocks no
#: power limit lowers: training is taken to reach 0.90 of the best product, which is 0.90 of peak on
#: TPU7x and 0.79 on v6e by traces of the device (yangwhale/gpu-tpu-pedia, tpu/v7_perf, 2026).
_BEST_OF_TPUS, _OF_BEST = 0.90, 0.90
_MATRIX_RATIO = {
    **dict.fromkeys(("nvidia-ada", "nvidia-blackwell-gb20x"), 0.70 * 0.92 / 0.83),
    "google": _OF_BEST * _BEST_OF_TPUS,
    "google-tpu-v6e": _OF_BEST * 0.79,
}
#: Where sums in 32 bit halve the rate of matrix units, as on GeForce, the best products of bf16
#: reach 0.99 to 1.13 of the halved rate of the datasheet, at clocks above it: 47.0 of 47.4 TFLOPS
#: on an RTX 5060 Ti (QuantumDrizzy/BLACKWALL, 2026), 165 of 165 on an RTX 4090 and 237 of 209.5 on
#: an RTX 5090 (zzc0721/torch-performance-test-data, issues 78 and 124, 2025); training reaches some
#: 0.95 of the best product there is.
_HALVED_RATIO = 0.99
#: Limits of what narrow products reach of their peak over what 16-bit ones reach of theirs.
_NARROWER = (0.4, 1.2)
#: Classes of frameworks differ in what is usual: programs as a whole fuse what they can and wait
#: for no interpreter, while eager models issue kernel after kernel from Python.
_USUAL_PASSES = {
    "ahead-of-time": 2.0,
    "fsdp-like": 3.0,
    "trainer-like": 5.0,
    # Kernels of its own for norms, rotations and gated activations, and adapters that are added
    # within products (unsloth/kernels/fast_lora.py, 2025).
    "unsloth": 3.0,
    "megatron-lm@before-sequence-parallelism": 5.0,
    "megatron-deepspeed@before-sequence-parallelism": 5.0,
}
#: An operand with one scale for all of it is read for its largest value, read again, and written
#: as it is and transposed, 6 B an element (NVIDIA, Transformer Engine user guide, Low precision
#: training, 2026). Compiled and hand-written kernels find the largest value of what they have just
#: computed, and need not read it for that (llm.q, rmsnorm.cu, 2025).
_CAST_BYTES = 6.0
_USUAL_CAST_BYTES = {"ahead-of-time": 4.0}
_USUAL_LAYER_S = {"ahead-of-time": 3e-5, "trainer-like": 7e-4}
#: Hooks in Python around each of some fifteen modules of a layer, 0.1 to 0.2 ms each (DeepSpeed,
#: runtime/zero/parameter_offload.py, 2023), gather weights where frameworks do not plan ahead.
_USUAL_SHARDED_LAYER_S = {"ahead-of-time": 1e-5, "trainer-like": 3e-3}
#: Compiled programs multiply all experts by one kernel (jax-ml/jax, megablox/gmm.py, 2025), as
#: torchtitan does (torch._grouped_mm, 2025).
_USUAL_EXPERT_KERNEL_S = {"ahead-of-time": 1e-6, "fsdp-like": 1e-6}
#: Messages of tensor parallelism did not overlap before they went by parts of a sequence. On TPUs
#: XLA sends them in parts, each beside a part of the product that needs or makes them, which made
#: large models 1.14 to 1.38 times as fast (Wang et al., Overlap Communication with Dependent
#: Computation via Decomposition in Large Deep Learning Models, 2023, abstract).
_USUAL_TENSOR_OVERLAP = {
    "maxtext": 0.70,
    "megatron-lm@before-sequence-parallelism": 0.02,
    "megatron-deepspeed@before-sequence-parallelism": 0.02,
}


#: FlashAttention-2, which general trainers run and PyTorch has of its own (the flash backend of
#: scaled_dot_product_attention), has no kernels of Hopper: it reaches 0.35 of peak on an H100,
#: where newer kernels reach 0.75, and 0.73 on an A100 (Dao, FlashAttention-2, 2023,
#: https://arxiv.org/abs/2307.08691; Shah et al., FlashAttention-3, 2024,
#: https://arxiv.org/abs/2407.08608; abstracts).
_ATTENTION_RATIO = dict.fromkeys(
    ("trainer-like/nvidia-hopper", "fsdp-like/nvidia-hopper"), 0.50 * 0.35 / 0.73
)

#: An exponential for each score takes as long as the products of so many features: a quarter of the
#: operations on halves that matrix units do meanwhile, of which 128 on an A100, 267 on an H100 and
#: 513 on a B200 (16 exponentials a clock and multiprocessor; Zadouri et al., FlashAttention-4,
#: 2026), and an eighth before Hopper, whose narrow heads lose less: heads of 64 reach 0.85 of what
#: heads of 128 do on an A100 and 0.75 on an H100 (Dao, FlashAttention-2, 2023, figures 4 to 6; Shah
#: et al., FlashAttention-3, 2024, figures 5 and 6).
_SCORE_FEATURES = {
    "nvidia-ampere": 16.0,
    "nvidia-hopper": 64.0,
    "nvidia-blackwell": 128.0,
    **dict.fromkeys(("nvidia-ada", "nvidia-blackwell-gb20x"), 8.0),
}

#: A ring that passes a machine takes seven steps inside it and one to the next: 17 us in lines of
#: 128 bytes, 38 us in whole messages, as NCCL reckons (src/graph/tuning.cc, 2024).
_RING_HOP_S = 2.5e-5

#: Limits of a share of a link are those of any share, so that what is usual and the rows decide.
_SHARE = (0.02, 1.0)
#: AWS prints 40.7 GB/s of bus bandwidth for all-reduces of 32 MB on Trainium (nccom-test, user
#: guide, 2025), of 206 GB/s that a chip's links have in one direction.
_USUAL_LINK = {"ring": 0.20}


def _logarithmic(
    name: str,
    usual: float,
    limits: tuple[float, float],
    spread: float,
    levels: tuple[Level, ...],
    usual_of: Mapping[str, float] | None = None,
) -> Term:
    low, high = limits
    return Term(name, usual, low, high, spread, levels, True, usual_of or {})


#: Terms by what they are a property of, with the levels of ``TRAINING``. Usual values: what large
#: products, streaming kernels and collectives reach in vendors' and users' published
#: microbenchmarks of data-centre accelerators.
TERMS: Mapping[str, tuple[Term, ...]] = {
    "training-speed/hardware": (
        Term("matrix_16bit_ratio", 0.70, 0.10, 0.98, 0.08, _HARDWARE, usual_of=_MATRIX_RATIO),
        _logarithmic("narrow_8bit_ratio", 0.95, _NARROWER, 0.10, NARROW),
        _logarithmic("narrow_4bit_ratio", 0.57, _NARROWER, 0.10, NARROW),
        Term("memory_ratio", 0.80, 0.30, 0.95, 0.10, _HARDWARE),
        _logarithmic(
            "matrix_flops_per_joule",
            8e11,
            (5e10, 3e13),
            0.15,
            _JOULES,
            {**FLOPS_PER_JOULE, "aws": UNLIMITED},
        ),
        Term("tile_rows", 64.0, 0.0, 512.0, 0.10, _HARDWARE),
        Term("scaled_sums_ratio", 0.75, 0.20, 1.0, 0.20, _HARDWARE),
        Term("halved_ratio", _HALVED_RATIO, 0.50, 1.20, 0.10, _HARDWARE),
        _logarithmic("score_features", 16.0, (1.0, 500.0), 0.10, _JOULES, _SCORE_FEATURES),
    ),
    "training-speed/attention": (
        _logarithmic(
            "attention_matrix_ratio", 0.50, (0.05, 0.90), 0.10, _ATTENTION, _ATTENTION_RATIO
        ),
    ),
    "training-speed/kernels": (
        _logarithmic("elementwise_passes", 4.0, (1.0, 16.0), 0.20, _PASSES, _USUAL_PASSES),
        _logarithmic("cast_bytes", _CAST_BYTES, (1.0, 60.0), 0.12, _FRAMEWORKS, _USUAL_CAST_BYTES),
        # Products of experts are as little known beforehand as in serving.
        Term("expert_ratio", 0.75, 0.10, 1.0, 0.20, _FRAMEWORKS),
        _logarithmic("expert_half_elements", 1e6, (1e3, 3e7), 0.20, _FRAMEWORKS),
        _logarithmic("routing_s", 2e-4, (1e-5, 3e-3), 0.30, _FRAMEWORKS),
        _logarithmic(
            "expert_kernel_s", 3e-5, (1e-7, 3e-4), 0.60, _FRAMEWORKS, _USUAL_EXPERT_KERNEL_S
        ),
        _logarithmic("dequantised_bytes", 5.0, (2.0, 60.0), 0.15, _FRAMEWORKS),
        _logarithmic("unpacked_bytes", 20.0, (3.0, 120.0), 0.20, _FRAMEWORKS),
    ),
    "training-speed/frameworks": (
        _logarithmic("step_s", 5e-3, (1e-4, 0.03), 0.20, _FRAMEWORKS),
        _logarithmic("layer_s", 3e-4, (1e-5, 5e-3), 0.20, _FRAMEWORKS, _USUAL_LAYER_S),
        _logarithmic(
            "sharded_layer_s", 2e-4, (1e-6, 2e-2), 0.30, _FRAMEWORKS, _USUAL_SHARDED_LAYER_S
        ),
        Term(
            "tensor_overlap_ratio", 0.30, 0.0, 0.95, 0.20, _FRAMEWORKS, False, _USUAL_TENSOR_OVERLAP
        ),
    ),
    "training-speed/links": (
        Term("link_ratio", 0.70, *_SHARE, 0.20, _LINKS, usual_of=_USUAL_LINK),
        Term("data_overlap_ratio", 0.80, 0.0, 1.0, 0.30, _LINKS),
        _logarithmic("collective_s", 2e-5, (1e-6, 1e-4), 0.20, _LINKS),
        _logarithmic("ring_hop_s", _RING_HOP_S, (1e-6, 1e-4), 0.15, _LINKS),
    ),
}
ALL_TERMS = tuple(term for terms in TERMS.values() for term in terms)
