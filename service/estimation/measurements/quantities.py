"""What can be measured: the one table of quantities, each with how an estimate gives it.

Files, requests, reports and calibration read a figure through this table, so that a name means the
same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from service.core.estimate.inference import goodput_of
from service.core.interval import Interval, scale
from service.core.performance.inference.goodput import time_limit
from service.estimation.measurements import readings
from service.estimation.measurements.measurable import (
    Kind,
    NotEstimated,
    Quantity,
    Served,
    Spent,
    Trained,
)
from service.estimation.nearest import hint, nearest

__all__ = [
    "OUT_OF_MEMORY",
    "QUANTITIES",
    "Kind",
    "NotEstimated",
    "Quantity",
    "Served",
    "Spent",
    "Trained",
    "canonical",
    "names_of",
    "quantity_of",
]

#: The name of "it did not fit", which has no number.
OUT_OF_MEMORY = "out_of_memory"
#: What is sometimes given with measurements but follows from a request: that an estimate repeats it
#: says nothing about how good it is.
_GIVEN_OF_TRAINING = frozenset(
    {"global_batch_sequences", "global_batch_size", "global_batch_tokens", "tokens_per_step"}
)


def quantity_of(name: str, kind: Kind) -> Quantity:
    """The quantity of a name or alias.

    Raises
    ------
    NotEstimated
        If no estimate of the kind gives it, with names that are near.
    """
    known = QUANTITIES.get(canonical(name))
    if known is not None and kind in known.kinds:
        return known
    if kind == "training" and name in _GIVEN_OF_TRAINING:
        raise NotEstimated(f"{name} follows from the request: it is no measured figure")
    near = nearest(name, names_of(kind))
    raise NotEstimated(f"no estimate of {kind} gives {name[:80]!r}{hint(near)}")


def canonical(name: str) -> str:
    """The name of the quantity that an alias means; what is not known stays as it is."""
    return _BY_ALIAS.get(name, name)


def names_of(kind: Kind) -> tuple[str, ...]:
    """Names of all quantities of a kind."""
    return tuple(name for name, known in QUANTITIES.items() if kind in known.kinds)


def _goodput(served: Served) -> Interval:
    """The highest rate of requests that keeps the limits."""
    if not served.limits:
        raise NotEstimated("goodput needs limits, e.g. {'ttft_p99_s': 2.0}")
    try:
        limits = [time_limit(canonical(name), most) for name, most in served.limits.items()]
    except KeyError as unknown:
        raise NotEstimated(f"no rate of requests follows from a limit of {unknown}") from None
    found = goodput_of(served.estimate, limits).requests_per_s
    if found.value == 0.0:
        raise NotEstimated("by the estimate no rate of requests keeps the limits")
    return found


def _times() -> Iterator[Quantity]:
    """Latencies: mean, median and high percentiles over requests."""
    meant: Mapping[Literal["ttft_s", "tpot_s", "e2e_s"], tuple[str, Callable[[Served], Interval]]]
    meant = {
        "ttft_s": (
            "time to the first token, waiting included",
            lambda served: readings.ended(served.estimate.latency.ttft_s),
        ),
        "tpot_s": (
            "time per output token of a request: (E2E − TTFT) / (output tokens − 1)",
            lambda served: served.estimate.latency.tpot_s,
        ),
        "e2e_s": (
            "time from arrival to the last token",
            lambda served: readings.ended(served.estimate.latency.e2e_s),
        ),
    }
    for name, (text, read) in meant.items():
        stem = name.removesuffix("_s")
        yield Quantity(name, "s", f"Mean {text}.", read, aliases=(f"mean_{stem}_s",))
        yield Quantity(
            f"{stem}_p50_s",
            "s",
            f"Median {text}.",
            readings.percentile("p50", name),
            aliases=(f"median_{stem}_s",),
        )
        yield Quantity(
            f"{stem}_p95_s",
            "s",
            f"95th percentile of the {text}.",
            readings.percentile("p95", name),
            aliases=(f"p95_{stem}_s",),
        )
        yield Quantity(
            f"{stem}_p99_s",
            "s",
            f"99th percentile of the {text}.",
            readings.percentile("p99", name),
            aliases=(f"p99_{stem}_s",),
        )


_TABLE = (
    Quantity(
        "weights_bytes",
        "B",
        "Weights on the accelerator that holds most.",
        lambda served: served.estimate.memory.weights_bytes,
        lambda trained: readings.held(trained.memory.weights_bytes),
    ),
    Quantity(
        "checkpoint_bytes",
        "B",
        "Tensors of the whole model in the files of its checkpoint.",
        lambda served: readings.stated(served.estimate.memory.checkpoint_bytes),
    ),
    Quantity(
        "allocated_bytes",
        "B",
        "Peak of what tensors take on one accelerator (torch.cuda.max_memory_allocated).",
        lambda served: served.estimate.room.allocated_bytes,
        readings.trained_allocated,
        aliases=("peak_allocated_bytes",),
    ),
    Quantity(
        "allocated_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        readings.allocated_total,
        readings.trained_total(readings.trained_allocated),
        aliases=("peak_allocated_total_bytes",),
    ),
    Quantity(
        "reserved_bytes",
        "B",
        "Peak of what the allocator took on one accelerator (torch.cuda.max_memory_reserved).",
        lambda served: served.estimate.room.reserved_bytes,
        readings.trained_reserved,
        aliases=("peak_reserved_bytes",),
    ),
    Quantity(
        "reserved_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        readings.reserved_total,
        readings.trained_total(readings.trained_reserved),
        aliases=("peak_reserved_total_bytes",),
    ),
    Quantity(
        "process_bytes",
        "B",
        "All memory that the process takes on one accelerator, as nvidia-smi shows it. Engines "
        "that allocate ahead take memory_utilization_ratio × capacity, and are compared with that.",
        lambda served: served.estimate.room.process_bytes,
        lambda trained: trained.memory.total_bytes,
    ),
    Quantity(
        "process_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        readings.process_total,
        readings.trained_total(lambda trained: trained.memory.total_bytes),
    ),
    Quantity(
        "activations_bytes",
        "B",
        "Temporary tensors of a step on one accelerator; of training, those of the backward pass.",
        lambda served: served.estimate.memory.activations_bytes,
        lambda trained: trained.memory.activations_bytes,
    ),
    Quantity(
        "libraries_bytes",
        "B",
        "Buffers of libraries on one accelerator, outside the allocator; of training, with the "
        "driver's context.",
        lambda served: served.estimate.memory.libraries_bytes,
        lambda trained: trained.memory.libraries_bytes,
    ),
    Quantity(
        "graphs_bytes",
        "B",
        "Captured graphs, on one accelerator.",
        lambda served: served.estimate.memory.graphs_bytes,
    ),
    Quantity(
        "host_bytes",
        "B",
        "Weights and pools that the engine keeps in the host's memory for one accelerator.",
        lambda served: served.estimate.memory.host_bytes,
    ),
    Quantity(
        "kv_cache_bytes",
        "B",
        "KV caches of the requests in flight, on one accelerator.",
        lambda served: served.estimate.memory.kv_cache_bytes,
    ),
    Quantity(
        "kv_cache_budget_bytes",
        "B",
        "Room for the KV cache on one accelerator.",
        lambda served: served.estimate.memory.kv_cache_budget_bytes,
    ),
    Quantity(
        "kv_cache_capacity_tokens",
        "tokens",
        "Tokens for which the KV cache of a replica has room, as servers print it: of windows and "
        "states in sequences of the longest that is admitted.",
        lambda served: served.estimate.memory.kv_cache_capacity_tokens,
    ),
    *_times(),
    Quantity(
        "itl_p50_s",
        "s",
        "Median gap between two tokens of a request, prompts of other requests in between or not.",
        readings.gap,
        aliases=("median_itl_s",),
    ),
    Quantity(
        "prefill_tokens_per_s",
        "tokens/s",
        "Prompt tokens of a request, or of a batch that a script hands over whole, over its time "
        "to the first token.",
        readings.prefill_rate,
    ),
    Quantity(
        "decode_tokens_per_s",
        "tokens/s",
        "Output tokens of one request over the time after its first: 1 / TPOT.",
        lambda served: readings.rate(1.0, served.estimate.latency.tpot_s),
        aliases=("output_tokens_per_s_per_user",),
    ),
    Quantity(
        "request_tokens_per_s",
        "tokens/s",
        "Output tokens of one request over its whole time, the prompt's included.",
        readings.request_rate,
    ),
    Quantity(
        "output_tokens_per_s",
        "tokens/s",
        "Output tokens of all requests of the whole deployment.",
        lambda served: served.estimate.latency.output_tokens_per_s,
        aliases=("output_throughput",),
    ),
    Quantity(
        "total_tokens_per_s",
        "tokens/s",
        "Prompt and output tokens of all requests of the whole deployment.",
        readings.total_rate,
    ),
    Quantity(
        "requests_per_s",
        "requests/s",
        "Requests answered by the whole deployment.",
        lambda served: served.estimate.latency.requests_per_s,
        aliases=("request_throughput",),
    ),
    Quantity(
        "goodput_requests_per_s",
        "requests/s",
        "Highest rate of requests at which the limits are kept.",
        _goodput,
    ),
    Quantity(
        "step_s",
        "s",
        "An optimizer step, with all its micro-batches.",
        trained=lambda trained: trained.speed.step_s,
        aliases=("step_time_s", "seconds_per_iteration"),
        of_batch=True,
    ),
    Quantity(
        "tokens_per_s",
        "tokens/s",
        "Tokens trained on by all accelerators.",
        trained=lambda trained: trained.speed.tokens_per_s,
        aliases=("training_tokens_per_s",),
    ),
    Quantity(
        "tokens_per_s_per_accelerator",
        "tokens/s",
        "Tokens trained on by one accelerator.",
        trained=lambda trained: trained.speed.tokens_per_s_per_accelerator,
        aliases=("tokens_per_s_per_gpu",),
    ),
    Quantity(
        "samples_per_s",
        "sequences/s",
        "Sequences trained on by all accelerators.",
        trained=readings.samples,
    ),
    Quantity(
        "mfu_ratio",
        "1",
        "Model FLOP/s over dense peak, recomputation left out.",
        trained=lambda trained: trained.speed.mfu_ratio,
        aliases=("mfu",),
    ),
    Quantity(
        "hfu_ratio",
        "1",
        "Computed FLOP/s over dense peak, recomputation included.",
        trained=lambda trained: trained.speed.hfu_ratio,
        aliases=("hfu",),
    ),
    Quantity(
        "model_tflops_per_accelerator",
        "TFLOP/s",
        "Model FLOP/s of one accelerator, recomputation and masked pairs of tokens left out.",
        trained=lambda trained: trained.speed.model_tflops_per_accelerator,
        aliases=("model_tflops_per_gpu",),
    ),
    Quantity(
        "hardware_tflops_per_accelerator",
        "TFLOP/s",
        "Computed FLOP/s of one accelerator, recomputation included.",
        trained=lambda trained: trained.speed.hardware_tflops_per_accelerator,
        aliases=("hardware_tflops_per_gpu",),
    ),
    Quantity(
        "run_s",
        "s",
        "Length of a whole training run, failures included; needs training.tokens.",
        trained=readings.run_s,
    ),
    Quantity(
        "accelerator_power_w",
        "W",
        "Mean power of one accelerator while the workload runs.",
        lambda served: readings.energy(served).power.accelerator_mean_power_w,
        lambda trained: readings.training_energy(trained).power.accelerator_mean_power_w,
        aliases=("accelerator_mean_power_w",),
    ),
    Quantity(
        "it_power_w",
        "W",
        "Mean power of all accelerators with their hosts, before the building's share.",
        lambda served: readings.energy(served).power.it_power_w,
        lambda trained: readings.training_energy(trained).power.it_power_w,
    ),
    Quantity(
        "wall_power_w",
        "W",
        "Power of the machines at the socket, under load; the same as IT power by the estimate.",
        lambda served: readings.energy(served).power.it_power_w,
        lambda trained: readings.training_energy(trained).power.it_power_w,
    ),
    Quantity(
        "accelerator_energy_per_output_token_j",
        "J",
        "Energy of all accelerators for each output token.",
        lambda served: readings.joules(
            readings.energy(served).request.accelerators_wh, served, of_token=True
        ),
        aliases=("energy_per_output_token_j",),
    ),
    Quantity(
        "accelerator_energy_per_request_j",
        "J",
        "Energy of all accelerators for each request.",
        lambda served: readings.joules(
            readings.energy(served).request.accelerators_wh, served, of_token=False
        ),
        aliases=("energy_per_request_j",),
    ),
    Quantity(
        "it_energy_per_output_token_j",
        "J",
        "Energy of accelerators and hosts for each output token.",
        lambda served: readings.joules(
            readings.energy(served).request.it_wh, served, of_token=True
        ),
    ),
    Quantity(
        "it_energy_per_request_j",
        "J",
        "Energy of accelerators and hosts for each request.",
        lambda served: readings.joules(
            readings.energy(served).request.it_wh, served, of_token=False
        ),
    ),
    Quantity(
        "it_energy_per_token_j",
        "J",
        "Energy of accelerators and hosts for each token trained on.",
        trained=readings.joules_per_token,
    ),
    Quantity(
        "it_energy_j",
        "J",
        "Energy of a run or a period, before the building's share.",
        trained=lambda trained: scale(readings.run_kwh(trained), readings.JOULES_PER_KWH),
        spent=lambda spent: scale(readings.period("it_energy_kwh")(spent), readings.JOULES_PER_KWH),
    ),
    Quantity(
        "facility_energy_j",
        "J",
        "Energy of a run or a period, the building's share included.",
        spent=lambda spent: scale(
            readings.period("facility_energy_kwh")(spent), readings.JOULES_PER_KWH
        ),
    ),
    Quantity(
        "operational_gco2e",
        "gCO2e",
        "Emissions of the electricity, by the average of the grid.",
        spent=readings.period("carbon", "operational_location_gco2e"),
        aliases=("operational_location_gco2e",),
    ),
    Quantity(
        "total_gco2e",
        "gCO2e",
        "Emissions of the electricity and the hardware's share of its manufacturing.",
        spent=readings.period("carbon", "total_gco2e"),
    ),
    Quantity(
        "water_l",
        "l",
        "Water consumed on site and where the electricity is made.",
        spent=readings.period("water", "total_l"),
    ),
)

#: Every quantity that an estimate can be compared with, by its name.
QUANTITIES: Mapping[str, Quantity] = MappingProxyType({one.name: one for one in _TABLE})
_BY_ALIAS: Mapping[str, str] = MappingProxyType(
    {alias: one.name for one in _TABLE for alias in one.aliases}
)
