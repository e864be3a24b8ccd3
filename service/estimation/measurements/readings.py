"""How an estimate gives what was measured, from what the core computed.

Figures may be arrays: a calibration computes with an element for each set of constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from service.core.deployment import WITHOUT_LIMIT, Parallelism
from service.core.elementwise import Number, everywhere
from service.core.estimate.inference import InferenceEnergy, inference_energy
from service.core.estimate.training import run_energy
from service.core.impacts.training_energy import TrainingEnergy
from service.core.interval import Interval, exact, quotient, scale
from service.core.memory.inference.memory import inference_memory
from service.core.performance.inference.load_ends import percentile_s
from service.estimation.measurements.measurable import NotEstimated, Served, Spent, Trained

#: What sizes that follow from shapes miss of what frameworks hold, which pad vocabularies and
#: experts, and of what logs print in three digits: nine in ten published sizes lie within it [-].
_HELD_RATIO = 0.02
#: What sizes of files are off for being printed in three digits, and for headers and buffers [-].
_ROUNDED_RATIO = 0.005
_JOULES_PER_WH = 3600.0
JOULES_PER_KWH = 3.6e6
_ENDLESS = "requests arrive faster than they can be served, so that waits have no end"


def stated(size: Number) -> Interval:
    """A count of stored bytes, as far as what is published of it is rounded [B]."""
    return Interval(size, size * (1.0 - _ROUNDED_RATIO), size * (1.0 + _ROUNDED_RATIO))


def held(size: Interval) -> Interval:
    """A size of training that follows from shapes, as far as what is held can be off it."""
    less, more = 1.0 - _HELD_RATIO, 1.0 + _HELD_RATIO
    return Interval(size.value, size.low * less, size.high * more)


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


def process_total(served: Served) -> Interval:
    """All that processes take on all accelerators [B]."""
    memory = served.estimate.memory
    if memory.engine.fills_share:
        return scale(memory.process_bytes, _accelerators(served))

    def around(one: Served) -> Interval:
        memory = one.estimate.memory
        return _sum_of(memory.activations_bytes, memory.runtime_bytes)

    return _over_all(served, memory.process_bytes, around)


def reserved_total(served: Served) -> Interval:
    """What allocators took on all accelerators [B]."""

    def around(one: Served) -> Interval:
        memory = one.estimate.memory
        return _sum_of(memory.activations_bytes, memory.slack_bytes, memory.graphs_bytes)

    return _over_all(served, served.estimate.memory.reserved_bytes, around)


def allocated_total(served: Served) -> Interval:
    """What tensors take on all accelerators [B]."""
    memory = served.estimate.memory
    return _over_all(
        served, memory.allocated_bytes, lambda one: one.estimate.memory.activations_bytes
    )


def trained_reserved(trained: Trained) -> Interval:
    """What the allocator of a training run took on the fullest accelerator [B]."""
    return trained.memory.reserved_bytes


def trained_allocated(trained: Trained) -> Interval:
    """What the tensors of a training run take on the fullest accelerator [B]."""
    return trained.memory.allocated_bytes


def trained_total(each: Callable[[Trained], Interval]) -> Callable[[Trained], Interval]:
    """Reads the sum over all accelerators of what each takes."""

    def read(trained: Trained) -> Interval:
        count = trained.memory.deployment.parallelism.accelerator_count
        return scale(each(trained), count)

    return read


def ended(time_s: Interval) -> Interval:
    """A time that waiting adds to, where it ends.

    Raises
    ------
    NotEstimated
        If requests arrive faster than they can be served.
    """
    if not np.any(np.isfinite(time_s.value)):
        raise NotEstimated(_ENDLESS)
    return time_s


def rate(amount: Number, time_s: Interval) -> Interval:
    """An amount over a time."""
    return quotient(exact(amount), time_s)


def prefill_rate(served: Served) -> Interval:
    """Prompt tokens over the time to the first token [token/s].

    They are those of a prompt, or of all that a script hands over as one batch to an engine that
    takes any number.
    """
    setup = served.estimate.setup
    workload, tokens = setup.workload, setup.workload.input_tokens
    if workload.requests_per_s is None and everywhere(
        setup.serving.max_running_sequences >= WITHOUT_LIMIT
    ):
        tokens = tokens * workload.concurrency
    return rate(tokens, ended(served.estimate.latency.ttft_s))


def request_rate(served: Served) -> Interval:
    """Output tokens of a request over its whole time [token/s]."""
    time_s = ended(served.estimate.latency.e2e_s)
    return rate(served.estimate.setup.workload.output_tokens, time_s)


def total_rate(served: Served) -> Interval:
    """Prompt and output tokens of all requests [token/s]."""
    workload = served.estimate.setup.workload
    tokens = workload.sequence_tokens
    return scale(served.estimate.latency.requests_per_s, tokens)


def gap(served: Served) -> Interval:
    """A step without prompts in it, with the spread of the mean: most gaps are such."""
    latency = served.estimate.latency
    return scale(latency.tpot_s, latency.decode.step_s / latency.tpot_s.value)


def percentile(
    share: Literal["p50", "p95", "p99"], name: Literal["ttft_s", "tpot_s", "e2e_s"]
) -> Callable[[Served], Interval]:
    """Reads a percentile over requests."""

    def read(served: Served) -> Interval:
        latency = served.estimate.latency
        if latency.endless and name != "tpot_s":
            raise NotEstimated(_ENDLESS)
        return percentile_s(latency, name, share)

    return read


def energy(served: Served) -> InferenceEnergy:
    """Power and energy of a deployment.

    Raises
    ------
    NotEstimated
        If the accelerator's thermal design power is not known.
    """
    try:
        return inference_energy(served.estimate, served.infrastructure)
    except ValueError as unknown:
        raise NotEstimated(str(unknown)) from None


def joules(wh: Interval, served: Served, *, of_token: bool) -> Interval:
    """Energy of a request, or of each of its output tokens [J]."""
    tokens = served.estimate.setup.workload.output_tokens if of_token else 1.0
    return scale(wh, _JOULES_PER_WH / tokens)


def training_energy(trained: Trained) -> TrainingEnergy:
    """Power and energy of a training run.

    Raises
    ------
    NotEstimated
        If the accelerator's thermal design power is not known.
    """
    try:
        return run_energy(trained.speed, trained.infrastructure)
    except ValueError as unknown:
        raise NotEstimated(str(unknown)) from None


def joules_per_token(trained: Trained) -> Interval:
    """Energy of accelerators and hosts for each token of a training step [J].

    Raises
    ------
    NotEstimated
        If the accelerator's thermal design power is not known.
    """
    tokens = float(trained.speed.step.tokens_per_step)
    return scale(training_energy(trained).step_kwh, JOULES_PER_KWH / tokens)


def run_kwh(trained: Trained) -> Interval:
    """Energy of a whole training run [kWh].

    Raises
    ------
    NotEstimated
        If nobody says how many tokens it has.
    """
    found = training_energy(trained).run_kwh
    if found is None:
        raise NotEstimated("energy of a run needs training.tokens")
    return found


def run_s(trained: Trained) -> Interval:
    """Length of a whole training run, failures included [s].

    Raises
    ------
    NotEstimated
        If nobody says how many tokens it has.
    """
    if trained.speed.run is None:
        raise NotEstimated("time of a run needs training.tokens")
    return trained.speed.run.wall_s


def samples(trained: Trained) -> Interval:
    """Sequences trained on by all accelerators [1/s]."""
    return scale(trained.speed.tokens_per_s, 1.0 / trained.speed.setup.micro_batch.tokens)


def period(*path: str) -> Callable[[Spent], Interval]:
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
