"""What is aimed at, quantity by quantity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A quantity, the metrics that measure it, and the accuracy it is meant to have.

    ``median_error_ratio`` and ``p90_error_ratio`` are upper bounds of relative errors,
    ``coverage_ratio`` the least share of measurements inside the 90 % interval, and
    ``width_ratio`` the most that the interval's upper end may be over its lower one in the median
    [-]. None where nothing is aimed at.
    """

    quantity: str
    table: str
    metrics: tuple[str, ...]
    median_error_ratio: float | None
    p90_error_ratio: float | None
    coverage_ratio: float | None
    width_ratio: float | None


TARGETS = (
    Target(
        "Size of weights",
        "memory_inference",
        ("weights_file_size", "weights_per_gpu"),
        *(0.005, 0.02, None, None),
    ),
    Target(
        "Inference memory and room for caches",
        "memory_inference",
        (
            *("gpu_memory_total", "nvidia_smi_used_after_load", "kv_cache_per_gpu"),
            *("k_cache_per_gpu", "v_cache_per_gpu", "kv_cache_tokens", "kv_blocks"),
        ),
        *(0.03, 0.10, 0.85, 1.15),
    ),
    Target(
        "Parts of inference memory",
        "memory_inference",
        ("activation_peak_per_gpu", "non_torch_per_gpu"),
        *(None, None, None, None),
    ),
    Target(
        "Training memory",
        "memory_training",
        ("peak_memory_per_gpu", "peak_memory_total", "gpu_memory", "nvidia_smi_used"),
        *(0.08, 0.20, 0.85, 1.15),
    ),
    Target(
        "Decode: time per token, tokens/s of a stream",
        "latency_inference",
        ("decode_tokens_per_s", "median_itl", "mean_tpot"),
        *(0.12, 0.30, 0.85, 1.6),
    ),
    Target(
        "Prefill: prompt tokens/s",
        "latency_inference",
        ("prefill_tokens_per_s",),
        *(0.15, 0.35, 0.85, 1.6),
    ),
    Target(
        "Serving throughput at a concurrency",
        "latency_inference",
        ("output_tokens_per_s_total",),
        *(0.15, 0.35, 0.85, 1.6),
    ),
    Target(
        "Training speed",
        "training_speed",
        (
            *("tokens_per_s_per_gpu", "seconds_per_iteration", "total_runtime", "samples_per_s"),
            *("mfu", "hfu"),
        ),
        *(0.10, 0.25, 0.85, 1.6),
    ),
    Target(
        "Energy per token and request",
        "energy_inference",
        ("energy_per_output_token", "energy_per_request"),
        *(0.20, 0.50, 0.85, 2.5),
    ),
    Target("Power of accelerators", "energy_inference", ("avg_power",), *(None, None, None, None)),
    Target(
        "Energy and carbon of training runs",
        "training_emissions",
        (
            *("energy_training_mwh", "energy_dynamic_mwh", "co2_training_t", "co2_dynamic_t"),
            "co2_total_with_embodied_t",
        ),
        *(0.10, 0.25, 0.85, None),
    ),
)
