"""What is aimed at, quantity by quantity."""

from __future__ import annotations

from dataclasses import dataclass

from service.estimation.measurements.quantities import Kind
from service.validation.report.statistics import Compared


@dataclass(frozen=True, slots=True)
class Target:
    """Quantities that belong together, and the accuracy that they are meant to have.

    ``kinds`` are what they are measured of, as serving and training share names.
    ``median_error_ratio`` and ``p90_error_ratio`` are upper bounds of relative errors,
    ``coverage_ratio`` the least share of measurements inside the 90 % interval, and
    ``width_ratio`` the most that the interval's upper end may be over its lower one in the median
    [-]. None where nothing is aimed at.
    """

    name: str
    kinds: tuple[Kind, ...]
    quantities: tuple[str, ...]
    median_error_ratio: float | None
    p90_error_ratio: float | None
    coverage_ratio: float | None
    width_ratio: float | None

    def covers(self, entry: Compared) -> bool:
        """Whether a comparison counts here."""
        return entry.kind in self.kinds and entry.quantity in self.quantities


_HELD = ("process_bytes", "process_total_bytes", "reserved_bytes", "reserved_total_bytes")
_TOTALS = (*_HELD, "allocated_bytes", "allocated_total_bytes")
_NONE = (None, None, None, None)

TARGETS = (
    Target(
        "Size of weights",
        ("inference",),
        ("weights_bytes", "checkpoint_bytes"),
        *(0.005, 0.02, None, None),
    ),
    Target(
        "Inference memory and room for caches",
        ("inference",),
        (*_TOTALS, "kv_cache_bytes", "kv_cache_budget_bytes", "kv_cache_capacity_tokens"),
        *(0.03, 0.10, 0.85, 1.15),
    ),
    Target(
        "Parts of inference memory",
        ("inference",),
        ("activations_bytes", "libraries_bytes", "graphs_bytes", "host_bytes"),
        *_NONE,
    ),
    Target(
        "Training memory: what tensors take",
        ("training",),
        ("allocated_bytes", "allocated_total_bytes"),
        *(0.08, 0.20, 0.85, 1.15),
    ),
    # What an allocator holds beside tensors is its own affair, and no source states its settings.
    Target(
        "Training memory: what allocator and driver take",
        ("training",),
        _HELD,
        *(0.08, 0.20, 0.85, 1.35),
    ),
    Target(
        "Decode: time per token, tokens/s of a stream",
        ("inference",),
        (
            *("tpot_s", "tpot_p50_s", "tpot_p95_s", "tpot_p99_s", "itl_p50_s"),
            *("decode_tokens_per_s", "request_tokens_per_s"),
        ),
        *(0.12, 0.30, 0.85, 1.6),
    ),
    Target(
        "Prefill: prompt tokens/s, time to the first token",
        ("inference",),
        ("prefill_tokens_per_s", "ttft_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s"),
        *(0.15, 0.35, 0.85, 1.6),
    ),
    Target(
        "Serving throughput",
        ("inference",),
        ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s"),
        *(0.15, 0.35, 0.85, 1.6),
    ),
    Target(
        "Goodput: highest rate that keeps the limits",
        ("inference",),
        ("goodput_requests_per_s",),
        *_NONE,
    ),
    Target(
        "Training speed",
        ("training",),
        (
            *("step_s", "tokens_per_s", "tokens_per_s_per_accelerator", "samples_per_s"),
            *("mfu_ratio", "hfu_ratio", "run_s"),
            *("model_tflops_per_accelerator", "hardware_tflops_per_accelerator"),
        ),
        *(0.10, 0.25, 0.85, 1.6),
    ),
    Target(
        "Energy per token and request",
        ("inference",),
        (
            *("accelerator_energy_per_output_token_j", "accelerator_energy_per_request_j"),
            *("it_energy_per_output_token_j", "it_energy_per_request_j"),
        ),
        *(0.20, 0.50, 0.85, 2.5),
    ),
    Target("Power of accelerators", ("inference", "training"), ("accelerator_power_w",), *_NONE),
    Target(
        "Power of whole machines",
        ("inference", "training"),
        ("it_power_w", "wall_power_w"),
        *_NONE,
    ),
    Target(
        "Energy of training for each token",
        ("training",),
        ("it_energy_per_token_j",),
        *(0.10, 0.25, 0.85, None),
    ),
    Target(
        "Energy and carbon of training runs",
        ("impacts", "training"),
        ("it_energy_j", "facility_energy_j", "operational_gco2e", "total_gco2e", "water_l"),
        *(0.10, 0.25, 0.85, None),
    ),
)
