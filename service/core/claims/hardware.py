"""Claims about accelerators and links."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.claims.facts import Facts, Recompute

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


HARDWARE_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "rtx-4070-bytes-per-flop": _bytes_per_flop,
        "rtx-4070-bandwidth": _bandwidth_of_4070,
        "mi300x-fp8": _fp8_of_mi300x,
        "mi300x-ridge": _fp8_ridge_of_mi300x,
        "a100-bandwidth": _bandwidth_of_a100,
        "pcie-4-paging": _memory_over_pcie,
        "memory-bound": _least_compute_bound_batch,
    }
)
