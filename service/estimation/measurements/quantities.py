"""What can be measured: the one table of quantities, each with how an estimate gives it.

Files, requests, reports and calibration read a figure through this table, so that a name means the
same wherever it stands. Figures of the core may be arrays: a calibration computes with an element
for each set of constants and reads the very same definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from service.core.deployment import Parallelism
from service.core.elementwise import Number
from service.core.errors import InvalidInput
from service.core.estimate.inference import (
    InferenceEnergy,
    InferenceEstimate,
    estimate_inference,
    inference_energy,
)
from service.core.estimate.training import TrainingSpeed, run_energy
from service.core.impacts.infrastructure import Infrastructure
from service.core.impacts.training_energy import TrainingEnergy
from service.core.interval import Interval, exact, quotient, scale, shift, without
from service.core.memory.inference.memory import inference_memory
from service.core.memory.training.memory import TrainingMemory
from service.core.performance.inference.open_load import Percentiles

#: What a measurement is about: serving, training, or plain energy and accelerator time.
Kind: TypeAlias = Literal["inference", "training", "impacts"]

#: The name of "it did not fit", which has no number.
OUT_OF_MEMORY = "out_of_memory"

#: What sizes that follow from shapes miss of what engines hold, which pad vocabularies and experts,
#: and of what logs print in three digits: nine in ten published sizes lie within it [-].
_HELD_RATIO = 0.02
_JOULES_PER_WH = 3600.0
_JOULES_PER_KWH = 3.6e6
#: Halvings of the search for the highest rate: enough for one part in a million.
_HALVINGS = 20


class NotEstimated(InvalidInput):
    """A quantity that no estimate gives for what was run, and why."""


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment as the core computed it.

    ``preallocating`` engines take their share of the memory whatever they need of it; ``limits``
    are what the highest rate of requests has to keep, by name of a quantity.
    """

    estimate: InferenceEstimate
    infrastructure: Infrastructure
    preallocating: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training run as the core computed it."""

    memory: TrainingMemory
    speed: TrainingSpeed
    infrastructure: Infrastructure


#: ``impacts`` are read from the answer's period: they are figures of a place, not of the core.
Spent: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be measured.

    ``served``, ``trained`` and ``spent`` read it from what is computed about inference, training
    and impacts; where one is None, the quantity means nothing there. ``aliases`` are names that
    files use for the same. ``is_time`` quantities can be limits.
    """

    name: str
    unit: str
    meaning: str
    served: Callable[[Served], Interval] | None = None
    trained: Callable[[Trained], Interval] | None = None
    spent: Callable[[Spent], Interval] | None = None
    aliases: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it can be measured of."""
        readers: Mapping[Kind, object] = {
            "inference": self.served,
            "training": self.trained,
            "impacts": self.spent,
        }
        return tuple(kind for kind, reader in readers.items() if reader is not None)

    @property
    def is_time(self) -> bool:
        """Whether it is a time that users wait, which a limit can be set on."""
        return self.unit == "s" and self.served is not None

    def of_served(self, served: Served) -> Interval:
        """Its estimate for a deployment.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.served is None:
            raise NotEstimated(f"{self.name} is not a quantity of inference")
        return self.served(served)

    def of_trained(self, trained: Trained) -> Interval:
        """Its estimate for a training run.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.trained is None:
            raise NotEstimated(f"{self.name} is not a quantity of training")
        return self.trained(trained)

    def of_spent(self, spent: Spent) -> Interval:
        """Its estimate for plain energy or accelerator time.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.spent is None:
            raise NotEstimated(f"{self.name} is not a quantity of impacts")
        return self.spent(spent)


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
    near = get_close_matches(name[:80], names_of(kind), n=3, cutoff=0.6)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise NotEstimated(f"no estimate of {kind} gives {name[:80]!r}{hint}")


def canonical(name: str) -> str:
    """The name of the quantity that an alias means; what is not known stays as it is."""
    return _BY_ALIAS.get(name, name)


def names_of(kind: Kind) -> tuple[str, ...]:
    """Names of all quantities of a kind."""
    return tuple(name for name, known in QUANTITIES.items() if kind in known.kinds)


def _held(size: Interval) -> Interval:
    """A size that follows from shapes, as far as what is held can be off it."""
    less, more = 1.0 - _HELD_RATIO, 1.0 + _HELD_RATIO
    return Interval(size.value, size.low * less, size.high * more)


def _process(served: Served) -> Interval:
    memory = served.estimate.memory
    if not served.preallocating:
        return memory.total_bytes
    # What libraries take differs from machine to machine, and lies outside the engine's count.
    taken, held = memory.usable_bytes, memory.libraries_bytes
    return shift(held, taken - held.value)


def _sum_of(*parts: Interval) -> Interval:
    """A sum of parts whose ends go together."""
    return Interval(
        sum(part.value for part in parts),
        sum(part.low for part in parts),
        sum(part.high for part in parts),
    )


def _accelerators(served: Served) -> int:
    return served.estimate.setup.deployment.parallelism.accelerator_count


def _over_all(served: Served, each: Interval, around: Callable[[Served], Interval]) -> Interval:
    """Sum over all accelerators of what each takes.

    An estimate is about the fullest stage of a pipeline: the stages together hold one model and
    its caches, and what lies around them as often as there are accelerators.
    """
    count, setup = _accelerators(served), served.estimate.setup
    parallelism = setup.deployment.parallelism
    if parallelism.pipeline == 1:
        return scale(each, count)
    flat = Parallelism(tensor=parallelism.tensor, data=parallelism.data)
    whole = inference_memory(
        replace(setup.deployment, parallelism=flat), setup.workload, setup.serving, setup.runtime
    )
    held = count // parallelism.pipeline
    return _sum_of(
        scale(whole.weights_bytes, held),
        scale(whole.kv_cache_bytes, held),
        scale(around(served), count),
    )


def _process_total(served: Served) -> Interval:
    if served.preallocating:
        return scale(_process(served), _accelerators(served))

    def around(one: Served) -> Interval:
        memory = one.estimate.memory
        return _sum_of(memory.activations_bytes, memory.runtime_bytes)

    return _over_all(served, _process(served), around)


def _reserved(served: Served) -> Interval:
    memory = served.estimate.memory
    return without(memory.total_bytes, memory.libraries_bytes)


def _reserved_total(served: Served) -> Interval:
    def around(one: Served) -> Interval:
        memory = one.estimate.memory
        rest = without(memory.runtime_bytes, memory.libraries_bytes)
        return _sum_of(memory.activations_bytes, rest)

    return _over_all(served, _reserved(served), around)


def _allocated(served: Served) -> Interval:
    memory = served.estimate.memory
    return without(memory.total_bytes, memory.runtime_bytes)


def _allocated_total(served: Served) -> Interval:
    return _over_all(served, _allocated(served), lambda one: one.estimate.memory.activations_bytes)


def _trained_reserved(trained: Trained) -> Interval:
    held, total = trained.memory.libraries_bytes.value, trained.memory.total_bytes
    return Interval(total.value - held, total.low - held, total.high - held)


def _trained_allocated(trained: Trained) -> Interval:
    return without(trained.memory.total_bytes, trained.memory.unallocated_bytes)


def _trained_total(each: Callable[[Trained], Interval]) -> Callable[[Trained], Interval]:
    def read(trained: Trained) -> Interval:
        count = trained.memory.deployment.parallelism.accelerator_count
        return scale(each(trained), count)

    return read


def _rate(amount: Number, time_s: Interval) -> Interval:
    return quotient(exact(amount), time_s)


def _prefill_rate(served: Served) -> Interval:
    return _rate(served.estimate.setup.workload.input_tokens, served.estimate.latency.ttft_s)


def _request_rate(served: Served) -> Interval:
    return _rate(served.estimate.setup.workload.output_tokens, served.estimate.latency.e2e_s)


def _total_rate(served: Served) -> Interval:
    workload = served.estimate.setup.workload
    tokens = workload.input_tokens + workload.output_tokens
    return scale(served.estimate.latency.requests_per_s, tokens)


def _gap(served: Served) -> Interval:
    """A step without prompts in it, with the spread of the mean: most gaps are such."""
    latency = served.estimate.latency
    return scale(latency.tpot_s, latency.decode.step_s / latency.tpot_s.value)


def _percentile(
    share: Literal["p50", "p95", "p99"], name: Literal["ttft_s", "tpot_s", "e2e_s"]
) -> Callable[[Served], Interval]:
    """Reads a percentile over requests, with the relative interval of the mean."""

    def read(served: Served) -> Interval:
        latency = served.estimate.latency
        mean: Interval = getattr(latency, name)
        if latency.load is None:
            if share == "p50":
                # With a fixed number in flight the estimate takes all requests to be alike.
                return mean
            raise NotEstimated(
                "percentiles above the median need requests_per_s: with a fixed number of requests "
                "in flight only means are estimated"
            )
        found: Percentiles | None = getattr(latency.load, name)
        if found is None:
            raise NotEstimated(
                "requests arrive faster than they can be served, so that there are no percentiles"
            )
        return scale(mean, getattr(found, share) / mean.value)

    return read


def _goodput(served: Served) -> Interval:
    """The highest rate of requests that keeps the limits, with the spread of the saturation."""
    if not served.limits:
        raise NotEstimated("goodput needs limits, e.g. {'ttft_p99_s': 2.0}")
    bounds = [(quantity_of(name, "inference"), most) for name, most in served.limits.items()]
    most_per_s = served.estimate.latency.saturation_requests_per_s

    def keeps(rate_per_s: float) -> bool:
        setup = served.estimate.setup
        workload = replace(setup.workload, requests_per_s=rate_per_s)
        found = replace(served, estimate=estimate_inference(replace(setup, workload=workload)))
        try:
            return all(bound.of_served(found).value <= most for bound, most in bounds)
        except NotEstimated:
            return False

    low, high = 0.0, float(most_per_s.value)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if keeps(middle) else (low, middle)
    if low == 0.0:
        raise NotEstimated("by the estimate no rate of requests keeps the limits")
    return scale(most_per_s, low / most_per_s.value)


def _energy(served: Served) -> InferenceEnergy:
    try:
        return inference_energy(served.estimate, served.infrastructure)
    except ValueError as unknown:
        raise NotEstimated(str(unknown)) from None


def _joules(wh: Interval, served: Served, *, of_token: bool) -> Interval:
    tokens = served.estimate.setup.workload.output_tokens if of_token else 1.0
    return scale(wh, _JOULES_PER_WH / tokens)


def _training_energy(trained: Trained) -> TrainingEnergy:
    try:
        return run_energy(trained.speed, trained.infrastructure)
    except ValueError as unknown:
        raise NotEstimated(str(unknown)) from None


def _run_kwh(trained: Trained) -> Interval:
    found = _training_energy(trained).run_kwh
    if found is None:
        raise NotEstimated("energy of a run needs training.tokens")
    return found


def _run_s(trained: Trained) -> Interval:
    if trained.speed.run is None:
        raise NotEstimated("time of a run needs training.tokens")
    return trained.speed.run.wall_s


def _samples(trained: Trained) -> Interval:
    return scale(trained.speed.tokens_per_s, 1.0 / trained.speed.setup.micro_batch.tokens)


def _period(*path: str) -> Callable[[Spent], Interval]:
    """Reads a figure of the period of an answer about impacts."""

    def read(spent: Spent) -> Interval:
        if spent["impacts"] is None:
            raise NotEstimated("the accelerator's thermal design power is not known")
        found: Any = spent["impacts"]["period"]
        for name in path:
            found = found[name]
        if found is None:
            raise NotEstimated(f"{path[-1]} is not known for the place or the hardware")
        return Interval(found["value"], found["low"], found["high"])

    return read


def _times() -> Iterator[Quantity]:
    """Latencies: mean, median and high percentiles over requests."""
    meant: Mapping[Literal["ttft_s", "tpot_s", "e2e_s"], tuple[str, Callable[[Served], Interval]]]
    meant = {
        "ttft_s": (
            "time to the first token, waiting included",
            lambda served: served.estimate.latency.ttft_s,
        ),
        "tpot_s": (
            "time per output token of a request: (E2E − TTFT) / (output tokens − 1)",
            lambda served: served.estimate.latency.tpot_s,
        ),
        "e2e_s": (
            "time from arrival to the last token",
            lambda served: served.estimate.latency.e2e_s,
        ),
    }
    for name, (text, read) in meant.items():
        stem = name.removesuffix("_s")
        yield Quantity(name, "s", f"Mean {text}.", read, aliases=(f"mean_{stem}_s",))
        yield Quantity(
            f"{stem}_p50_s",
            "s",
            f"Median {text}.",
            _percentile("p50", name),
            aliases=(f"median_{stem}_s",),
        )
        yield Quantity(
            f"{stem}_p95_s",
            "s",
            f"95th percentile of the {text}; needs requests_per_s.",
            _percentile("p95", name),
            aliases=(f"p95_{stem}_s",),
        )
        yield Quantity(
            f"{stem}_p99_s",
            "s",
            f"99th percentile of the {text}; needs requests_per_s.",
            _percentile("p99", name),
            aliases=(f"p99_{stem}_s",),
        )


_TABLE = (
    Quantity(
        "weights_bytes",
        "B",
        "Weights on the accelerator that holds most.",
        lambda served: _held(served.estimate.memory.weights_bytes),
        lambda trained: _held(trained.memory.weights_bytes),
    ),
    Quantity(
        "allocated_bytes",
        "B",
        "Peak of what tensors take on one accelerator (torch.cuda.max_memory_allocated).",
        _allocated,
        _trained_allocated,
        aliases=("peak_allocated_bytes",),
    ),
    Quantity(
        "allocated_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        _allocated_total,
        _trained_total(_trained_allocated),
        aliases=("peak_allocated_total_bytes",),
    ),
    Quantity(
        "reserved_bytes",
        "B",
        "Peak of what the allocator took on one accelerator (torch.cuda.max_memory_reserved).",
        _reserved,
        _trained_reserved,
        aliases=("peak_reserved_bytes",),
    ),
    Quantity(
        "reserved_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        _reserved_total,
        _trained_total(_trained_reserved),
        aliases=("peak_reserved_total_bytes",),
    ),
    Quantity(
        "process_bytes",
        "B",
        "All memory that the process takes on one accelerator, as nvidia-smi shows it. Engines "
        "that allocate ahead take memory_utilization_ratio × capacity, and are compared with that.",
        _process,
        lambda trained: trained.memory.total_bytes,
    ),
    Quantity(
        "process_total_bytes",
        "B",
        "The same, summed over all accelerators.",
        _process_total,
        _trained_total(lambda trained: trained.memory.total_bytes),
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
        "Context and buffers of libraries on one accelerator, outside the allocator.",
        lambda served: served.estimate.memory.libraries_bytes,
        lambda trained: trained.memory.libraries_bytes,
    ),
    Quantity(
        "kv_cache_bytes",
        "B",
        "KV caches of the requests in flight, on one accelerator.",
        lambda served: _held(served.estimate.memory.kv_cache_bytes),
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
        "Tokens for which the KV cache of a replica has room.",
        lambda served: served.estimate.memory.kv_cache_capacity_tokens,
    ),
    *_times(),
    Quantity(
        "itl_p50_s",
        "s",
        "Median gap between two tokens of a request, prompts of other requests in between or not.",
        _gap,
        aliases=("median_itl_s",),
    ),
    Quantity(
        "prefill_tokens_per_s",
        "tokens/s",
        "Prompt tokens of a request over its time to the first token.",
        _prefill_rate,
    ),
    Quantity(
        "decode_tokens_per_s",
        "tokens/s",
        "Output tokens of one request over the time after its first: 1 / TPOT.",
        lambda served: _rate(1.0, served.estimate.latency.tpot_s),
        aliases=("output_tokens_per_s_per_user",),
    ),
    Quantity(
        "request_tokens_per_s",
        "tokens/s",
        "Output tokens of one request over its whole time, the prompt's included.",
        _request_rate,
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
        _total_rate,
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
        trained=_samples,
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
        "run_s",
        "s",
        "Length of a whole training run, failures included; needs training.tokens.",
        trained=_run_s,
    ),
    Quantity(
        "accelerator_power_w",
        "W",
        "Mean power of one accelerator while the workload runs.",
        lambda served: _energy(served).power.accelerator_mean_power_w,
        lambda trained: _training_energy(trained).power.accelerator_mean_power_w,
        aliases=("accelerator_mean_power_w",),
    ),
    Quantity(
        "it_power_w",
        "W",
        "Mean power of all accelerators with their hosts, before the building's share.",
        lambda served: _energy(served).power.it_power_w,
        lambda trained: _training_energy(trained).power.it_power_w,
    ),
    Quantity(
        "wall_power_w",
        "W",
        "Power of the machines at the socket, under load; the same as IT power by the estimate.",
        lambda served: _energy(served).power.it_power_w,
        lambda trained: _training_energy(trained).power.it_power_w,
    ),
    Quantity(
        "accelerator_energy_per_output_token_j",
        "J",
        "Energy of all accelerators for each output token.",
        lambda served: _joules(_energy(served).request.accelerators_wh, served, of_token=True),
        aliases=("energy_per_output_token_j",),
    ),
    Quantity(
        "accelerator_energy_per_request_j",
        "J",
        "Energy of all accelerators for each request.",
        lambda served: _joules(_energy(served).request.accelerators_wh, served, of_token=False),
        aliases=("energy_per_request_j",),
    ),
    Quantity(
        "it_energy_per_output_token_j",
        "J",
        "Energy of accelerators and hosts for each output token.",
        lambda served: _joules(_energy(served).request.it_wh, served, of_token=True),
    ),
    Quantity(
        "it_energy_per_request_j",
        "J",
        "Energy of accelerators and hosts for each request.",
        lambda served: _joules(_energy(served).request.it_wh, served, of_token=False),
    ),
    Quantity(
        "it_energy_j",
        "J",
        "Energy of a run or a period, before the building's share.",
        trained=lambda trained: scale(_run_kwh(trained), _JOULES_PER_KWH),
        spent=lambda spent: scale(_period("it_energy_kwh")(spent), _JOULES_PER_KWH),
    ),
    Quantity(
        "facility_energy_j",
        "J",
        "Energy of a run or a period, the building's share included.",
        spent=lambda spent: scale(_period("facility_energy_kwh")(spent), _JOULES_PER_KWH),
    ),
    Quantity(
        "operational_gco2e",
        "gCO2e",
        "Emissions of the electricity, by the average of the grid.",
        spent=_period("carbon", "operational_location_gco2e"),
        aliases=("operational_location_gco2e",),
    ),
    Quantity(
        "total_gco2e",
        "gCO2e",
        "Emissions of the electricity and the hardware's share of its making.",
        spent=_period("carbon", "total_gco2e"),
    ),
    Quantity(
        "water_l",
        "l",
        "Water consumed on site and where the electricity is made.",
        spent=_period("water", "total_l"),
    ),
)

#: Every quantity that an estimate can be compared with, by its name.
QUANTITIES: Mapping[str, Quantity] = MappingProxyType({one.name: one for one in _TABLE})
_BY_ALIAS: Mapping[str, str] = MappingProxyType(
    {alias: one.name for one in _TABLE for alias in one.aliases}
)
