"""Claims about accelerators and links."""

from __future__ import annotations

from service.core.claims.claim import Claim, Facts

_RTX_4070, _MI300X = "nvidia-rtx-4070-12gb", "amd-mi300x-192gb"
_A100 = "nvidia-a100-sxm-80gb"
_PCIE_4_BYTES_PER_S = 32e9


def _ridge(facts: Facts, accelerator: str, precision: str) -> float:
    """Peak over bandwidth [FLOP/B]."""
    device = facts.accelerators[accelerator]
    return float(device.peak_flops_per_s[precision] / device.memory_bandwidth_bytes_per_s)


def _bytes_per_flop(_: Facts) -> float:
    """The stated bandwidth over the stated peak, the right way up."""
    return 432e9 / 29e12


def _bandwidth_of_4070(facts: Facts) -> float:
    return float(facts.accelerators[_RTX_4070].memory_bandwidth_bytes_per_s) / 1e9


def _fp8_of_mi300x(facts: Facts) -> float:
    return float(facts.accelerators[_MI300X].peak_flops_per_s["fp8"]) / 1e12


def _fp8_ridge_of_mi300x(facts: Facts) -> float:
    return _ridge(facts, _MI300X, "fp8")


def _bandwidth_of_a100(facts: Facts) -> float:
    return float(facts.accelerators[_A100].memory_bandwidth_bytes_per_s) / 1e12


def _memory_over_pcie(facts: Facts) -> float:
    return float(facts.accelerators[_MI300X].memory_bandwidth_bytes_per_s) / _PCIE_4_BYTES_PER_S


def _least_compute_bound_batch(facts: Facts) -> float:
    """Sequences from which on a 16-bit decode step is bound by compute [-]."""
    return _ridge(facts, _A100, "bf16")


HARDWARE_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "rtx-4070-bytes-per-flop",
        ("002",),
        "Balance of an RTX 4070",
        "67 bytes of data per FLOP; 67 ns of memory latency tolerance",
        "B/FLOP",
        "wrong",
        "Upside down: about 67 operations a byte with the stated peak and bandwidth. A time does "
        "not follow; how much latency is hidden follows from bytes in flight (Little's law).",
        _bytes_per_flop,
    ),
    Claim(
        "rtx-4070-bandwidth",
        ("002",),
        "Memory bandwidth of an RTX 4070",
        "432 GB/s GDDR6",
        "GB/s",
        "wrong",
        "GDDR6X on 192 bit; a later variant with GDDR6 has 480 GB/s.",
        _bandwidth_of_4070,
    ),
    Claim(
        "mi300x-fp8",
        ("002",),
        "FP8 peak of an MI300X",
        "about 360 TFLOP/s",
        "TFLOP/s",
        "wrong",
        "Dense, by the datasheet.",
        _fp8_of_mi300x,
    ),
    Claim(
        "mi300x-ridge",
        ("002",),
        "Balance of an MI300X in FP8",
        "about 68 FLOP a byte",
        "FLOP/B",
        "wrong",
        "That the stated ratios of both cards agree comes from two errors.",
        _fp8_ridge_of_mi300x,
    ),
    Claim(
        "a100-bandwidth",
        ("001",),
        "Memory bandwidth of an A100",
        "40 or 80 GB of HBM2e, about 1.6 TB/s",
        "TB/s",
        "wrong",
        "40 GB are HBM2 at 1.555 TB/s; the figure is the 80 GB card's.",
        _bandwidth_of_a100,
    ),
    Claim(
        "pcie-4-paging",
        ("002",),
        "What is lost by paging over PCIe 4.0",
        "16 GB/s, 300 times slower",
        "-",
        "wrong",
        "16 lanes move 32 GB/s each way, so that an MI300X's memory is this many times faster.",
        _memory_over_pcie,
    ),
    Claim(
        "unified-memory-name",
        ("002",),
        "Unified memory",
        "Unified Memory Architecture (UVA)",
        None,
        "wrong",
        "UVA is unified virtual addressing. Paging is a feature of managed memory; it serves "
        "spikes well and steady overflow badly.",
    ),
    Claim(
        "memory-bound",
        ("001", "002"),
        "What bounds language models",
        "almost always the movement of memory",
        "sequences",
        "conditional",
        "True of decoding below this many sequences on an A100 80GB, and of elementwise work. "
        "Prompts and training are bound by compute.",
        _least_compute_bound_batch,
    ),
    Claim(
        "hbm-latency",
        ("001",),
        "Latency of HBM",
        "100 to 200 ns",
        None,
        "unsupported",
        "Probably of the memory device, not of a load on an accelerator; no source was found.",
    ),
    Claim(
        "hbm-cooling",
        ("000",),
        "HBM and power",
        "power-hungry, needs more aggressive cooling",
        None,
        "conditional",
        "Per bit HBM takes less than DDR5. What rises is heat per rack, which depends on what "
        "stands in it.",
    ),
)
