"""Latency and throughput of an inference deployment under a workload.

Definitions: TTFT runs from a request's arrival to its first output token, waiting included;
TPOT = (E2E − TTFT) / (output tokens − 1); E2E = TTFT + (output tokens − 1) · TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf

from numpy import ndarray

from service.core.deployment import Deployment, InferenceWorkload, ServingSettings
from service.core.elementwise import Number, Truth, maximum, minimum, where
from service.core.interval import Interval, exact, from_log_sigma, independent_sum, quotient, scale
from service.core.lightweight import lightweight
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.batching import SteadyState, closed_loop
from service.core.performance.inference.burst import Burst, burst_load
from service.core.performance.inference.disaggregation import (
    Pools,
    pooled_closed_loop,
    pooled_open_load,
)
from service.core.performance.inference.open_load import OpenLoad, ReplicaLoad, fullest, open_load
from service.core.performance.inference.pools import disaggregated_pools
from service.core.performance.inference.replica import Mix, Replica, Requests
from service.core.performance.inference.speculation import Drafting
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.spread import TimeShares
from service.core.performance.step import StepLoad, StepTime, rank_steps, step_time
from service.core.performance.usage import Usage, phase_use, reference_flops_per_s
from service.core.performance.work import rank_work


@lightweight
class Phase:
    """A forward step seen on the roofline: where its time goes and which limit it meets.

    ``bottleneck`` is "compute", "memory_bandwidth", "interconnect", "overhead" or "capacity".
    """

    bottleneck: str
    step_s: Number
    compute_bound_s: Number
    memory_bound_s: Number
    interconnect_s: Number
    overhead_s: Number
    flops: Number
    memory_bytes: Number
    peak_flops_per_s: Number
    arithmetic_intensity_flop_per_byte: Number
    ridge_point_flop_per_byte: Number


@lightweight
class InferenceLatency:
    """What users of the deployment see, and why. Times [s], rates [1/s].

    ``log_sigma`` are the spreads of times of decoding, of prompts (prefill) and of the rate
    (throughput), by what each is spent on [-].

    ``ttft_parts_s`` add up to the time to the first token; ``new_input_tokens`` of a prompt are
    computed. ``peak_flops_per_s`` and ``memory_bandwidth_bytes_per_s`` bound the steps. ``full``
    are the steps of a replica with all slots taken, ``pools`` stand in its place where prompts and
    decoding are apart, and ``limit_requests_per_s`` bounds the rate where no rate of arrivals is
    given. ``load`` is a replica under a rate, ``burst`` one to which requests come all at once;
    None for others.
    """

    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    task_s: Interval
    output_tokens_per_s_per_accelerator: Interval
    output_tokens_per_s: Interval
    input_tokens_per_s: Interval
    requests_per_s: Interval
    saturation_requests_per_s: Interval
    log_sigma: Mapping[str, Number]
    running_sequences_per_replica: Number
    waiting_requests: Number
    replicas: int
    peak_flops_per_s: Number
    memory_bandwidth_bytes_per_s: Number
    usage: Usage
    state: SteadyState
    load: OpenLoad | None
    burst: Burst | None
    ttft_parts_s: Mapping[str, Number]
    new_input_tokens: Number
    full: Mix | None
    pools: Pools | None
    limit_requests_per_s: Number | None

    @cached_property
    def output_tokens_per_s_per_user(self) -> Interval:
        """Tokens that a user sees in a second once they come [token/s]."""
        return quotient(exact(1.0), self.tpot_s)

    @cached_property
    def prefill(self) -> Phase:
        """A step of a prompt's chunk."""
        return self._phase(self.state.prefill, False)

    @cached_property
    def decode(self) -> Phase:
        """A step of decoding sequences; more that wait than run lack room for their caches."""
        starved = self.waiting_requests > self.running_sequences_per_replica * self.replicas
        return self._phase(self.state.decode, starved)

    def _phase(self, step: StepTime, starved: Truth) -> Phase:
        return _phase(step, self.peak_flops_per_s, self.memory_bandwidth_bytes_per_s, starved)


def inference_latency(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    calibration: PerformanceCalibration,
    fitting_sequences: Number,
) -> InferenceLatency:
    """Latency, throughput and bottlenecks of a deployment in steady state.

    Without a request rate the workload is a closed loop: ``concurrency`` requests are always in
    flight, spread evenly over the replicas, unless as many come all at once and none after them.
    With a rate, arrivals are random, and the number in flight follows from Little's law.

    Parameters
    ----------
    deployment
        Model, formats, accelerator and layout.
    workload
        Lengths [tokens], concurrency [-] or request rate [1/s].
    serving
        Engine settings.
    calibration
        Efficiencies of the hardware family and engine.
    fitting_sequences
        Sequences of this workload that the KV cache of one replica holds [-].

    Returns
    -------
    InferenceLatency
        Intervals come from the residual spread of the calibration.
    """
    parallelism = deployment.parallelism
    replicas = parallelism.data
    slots = maximum(minimum(fitting_sequences, serving.max_running_sequences), 1.0)
    replica = replica_of(deployment, workload, serving, calibration)
    if serving.disaggregation is not None:
        return _disaggregated(deployment, workload, serving, replica, float(slots))
    prefill = replica.prefill()
    load: ReplicaLoad
    if workload.arrivals == "at_once" and workload.requests_per_s is None:
        load = burst_load(replica, slots, workload.concurrency / replicas, prefill)
        full, full_per_s = fullest(replica, slots, prefill)
    elif workload.requests_per_s is None:
        concurrency_per_replica = workload.concurrency / replicas
        running_sequences = maximum(minimum(concurrency_per_replica, slots), 1.0)
        state = closed_loop(replica, running_sequences, prefill)
        # Requests beyond the running ones wait their turn; a queue of q at rate X lasts q / X.
        waiting = maximum(concurrency_per_replica - running_sequences, 0.0)
        wait_s = waiting / state.requests_per_s
        # Fewer users than replicas leave some replicas without work part of the time.
        busy = minimum(concurrency_per_replica, 1.0)
        load = ReplicaLoad(
            state=state,
            running_sequences=running_sequences,
            waiting_requests=waiting,
            busy_ratio=busy,
            requests_per_s=state.requests_per_s * busy,
            mean_ttft_s=state.ttft_s + wait_s,
            ttft_parts_s={**state.ttft_parts_s, "free_slot": wait_s},
        )
        full, full_per_s = fullest(replica, slots, prefill)
    else:
        full, full_per_s = fullest(replica, slots, prefill)
        rate = workload.requests_per_s / replicas
        load = open_load(replica, slots, rate, prefill, full, full_per_s)
    saturation_per_s = maximum(full_per_s, load.state.requests_per_s) * replicas
    return _latency(
        deployment, workload, calibration, load, saturation_per_s, saturation_per_s, full=full
    )


def new_input_tokens(workload: InferenceWorkload) -> Number:
    """Prompt tokens that are computed: at least the last, whatever a cache holds [token]."""
    return maximum(workload.input_tokens * (1.0 - workload.prefix_cached_ratio), 1.0)


def replica_of(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    calibration: PerformanceCalibration,
) -> Replica:
    """A replica of a deployment with the requests that it runs."""
    parallelism, encoded_tokens = deployment.parallelism, workload.encoded_tokens
    work = rank_work(deployment.architecture, deployment.precision, parallelism).attending_sparsely(
        serving.attention_density_ratio
    )
    encoder: StepTime | None = None
    image, encodes = workload.image, work.encoder
    read = StepLoad(encoded_tokens, 1.0, encoded_tokens / 2.0, 0.0, 0.0)
    if image is not None:
        encodes, encoded_tokens = work.images, workload.images * image.tokens
        parts, patches = workload.images * image.parts, workload.images * image.patches
        read = StepLoad(patches, parts, image.patches / image.parts / 2.0, 0.0, 0.0)
    elif work.audio is not None and workload.audio_tokens:
        encodes, encoded_tokens = work.audio, workload.audio_tokens
        read = StepLoad(workload.audio_positions, 1.0, workload.audio_positions / 2.0, 0.0, 0.0)
    if encodes is not None:
        encoder = step_time(
            *(encodes, read, deployment.accelerator, parallelism, calibration),
            serving.flash_attention,
        )
    attending = work.attending_to(encoded_tokens)
    return Replica(
        steps=rank_steps(
            *(attending, deployment.accelerator, parallelism, calibration), serving.flash_attention
        ),
        parallelism=parallelism,
        calibration=calibration,
        requests=Requests(
            new_input_tokens=new_input_tokens(workload),
            context_tokens=workload.input_tokens,
            output_tokens=workload.output_tokens,
            encoded_tokens=encoded_tokens,
            input_spread=workload.input_spread,
            output_spread=workload.output_spread,
        ),
        chunk_tokens=serving.chunked_prefill_tokens,
        drafting=_drafting(deployment, serving, calibration),
        prompts_apart=serving.prompts_apart,
        encoder=encoder,
    )


def _disaggregated(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    replica: Replica,
    slots: float,
) -> InferenceLatency:
    """Latency with prompts and decoding in pools of their own, of a single configuration."""
    pools = disaggregated_pools(deployment, serving, replica, slots)
    load: ReplicaLoad
    if workload.requests_per_s is None:
        state, rate_per_s = pooled_closed_loop(pools, float(workload.concurrency))
        load = ReplicaLoad(
            state=state,
            running_sequences=state.decoding_sequences,
            waiting_requests=0.0,
            busy_ratio=1.0,
            requests_per_s=rate_per_s / pools.replicas,
            mean_ttft_s=state.ttft_s,
            ttft_parts_s=state.ttft_parts_s,
        )
    else:
        load = pooled_open_load(pools, float(workload.requests_per_s))
    limits_per_s = pools.saturation_per_s, pools.closed_limit_per_s
    return _latency(deployment, workload, replica.calibration, load, *limits_per_s, pools=pools)


def _latency(
    deployment: Deployment,
    workload: InferenceWorkload,
    calibration: PerformanceCalibration,
    load: ReplicaLoad,
    saturation_per_s: Number,
    closed_limit_per_s: Number,
    full: Mix | None = None,
    pools: Pools | None = None,
) -> InferenceLatency:
    """What users see, from the load of a replica; limits are of all replicas [1/s]."""
    state, arrivals = load.state, load if isinstance(load, OpenLoad) else None
    burst = load if isinstance(load, Burst) else None
    parallelism, accelerator = deployment.parallelism, deployment.accelerator
    replicas = parallelism.data
    later_tokens = workload.output_tokens - 1.0
    saturated: Truth = False if arrivals is None else arrivals.saturated
    spread = _log_sigma(deployment, calibration, state, later_tokens)
    ttft = from_log_sigma(load.mean_ttft_s, spread["prefill"])
    tpot = from_log_sigma(state.tpot_s, spread["decode"])
    e2e = without_end(independent_sum((ttft, scale(tpot, later_tokens))), saturated)
    ttft = without_end(ttft, saturated)
    rate_sigma = spread["throughput"]
    requests_per_s = from_log_sigma(load.requests_per_s * replicas, rate_sigma)
    multiplied = engine_precision(deployment.precision.weights.matrix_precision, calibration.engine)
    peak, _ = peak_flops_per_s(accelerator, multiplied)
    output_tokens_per_s = scale(requests_per_s, workload.output_tokens)
    return InferenceLatency(
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
        task_s=scale(e2e, workload.calls_per_task),
        output_tokens_per_s_per_accelerator=scale(
            output_tokens_per_s, 1.0 / parallelism.accelerator_count
        ),
        output_tokens_per_s=output_tokens_per_s,
        input_tokens_per_s=scale(requests_per_s, workload.input_tokens + workload.encoded_tokens),
        requests_per_s=requests_per_s,
        saturation_requests_per_s=from_log_sigma(saturation_per_s, rate_sigma),
        log_sigma=spread,
        running_sequences_per_replica=load.running_sequences,
        waiting_requests=load.waiting_requests * replicas,
        replicas=replicas,
        peak_flops_per_s=peak,
        memory_bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
        usage=_usage(state, deployment, peak, load.busy_ratio, later_tokens),
        state=state,
        load=arrivals,
        burst=burst,
        ttft_parts_s=load.ttft_parts_s,
        new_input_tokens=new_input_tokens(workload),
        full=full,
        pools=pools,
        limit_requests_per_s=closed_limit_per_s if arrivals is None and burst is None else None,
    )


def time_shares(state: SteadyState, later_tokens: Number) -> dict[str, TimeShares]:
    """What times of decoding and of prompts, and the time that a request takes up, are spent on.

    Decoding sequences wait while the prompts of others are computed.
    """
    decode, prefill = state.decode.shares, state.prefill.shares
    waited = maximum(1.0 - state.decode.total_s / state.tpot_s, 0.0)
    prompt_s, answer_s = _taken_s(state, later_tokens)
    return {
        "decode": decode.mixed(prefill, waited),
        "prefill": prefill,
        "throughput": decode.mixed(prefill, prompt_s / maximum(prompt_s + answer_s, 1e-12)),
    }


def _taken_s(state: SteadyState, later_tokens: Number) -> tuple[Number, Number]:
    """Time of a replica that a request's prompt takes, and its share of steps of decoding [s]."""
    steps = later_tokens / maximum(state.decoding_sequences, 1e-9)
    return state.chunks * state.prefill.total_s, steps * state.decode.total_s


def _log_sigma(
    deployment: Deployment,
    calibration: PerformanceCalibration,
    state: SteadyState,
    later_tokens: Number,
) -> dict[str, Number]:
    """Spreads of times of decoding, of prompts and of the rate [-]."""
    known = {
        "decode": calibration.decode_log_sigma,
        "prefill": calibration.prefill_log_sigma(deployment.parallelism.pipeline),
        "throughput": calibration.throughput_log_sigma,
    }
    routed = deployment.architecture.routes
    return {
        name: known[name]
        * calibration.widening.ratio(shares.reading_outside(calibration.outside_ratio), routed)
        for name, shares in time_shares(state, later_tokens).items()
    }


def without_end(figure: Interval, endless: Truth) -> Interval:
    """A time, infinite where requests wait without end."""
    if not isinstance(endless, ndarray) and not endless:
        return figure
    return Interval(*(where(endless, inf, end) for end in (figure.value, figure.low, figure.high)))


def _drafting(
    deployment: Deployment, serving: ServingSettings, calibration: PerformanceCalibration
) -> Drafting | None:
    speculation, parallelism = serving.speculation, deployment.parallelism
    if speculation is None:
        return None
    steps = None
    if speculation.architecture is not None and speculation.precision is not None:
        work = rank_work(speculation.architecture, speculation.precision, parallelism)
        steps = rank_steps(
            *(work, deployment.accelerator, parallelism, calibration), serving.flash_attention
        )
    return Drafting(steps, speculation.draft_tokens, speculation.acceptance_ratio)


def _phase(
    step: StepTime, peak_flops: Number, bandwidth_bytes_per_s: Number, starved: Truth
) -> Phase:
    memory_bound_s = step.work_s - step.compute_bound_s
    parts = {
        "compute": step.compute_bound_s,
        "memory_bandwidth": memory_bound_s,
        "interconnect": step.interconnect_s,
        "overhead": step.overhead_s,
    }
    # With arrays of configurations there is no one bottleneck to name; the parts tell.
    single = not hasattr(step.total_s, "shape")
    bottleneck = max(parts, key=lambda part: parts[part]) if single else "varies"
    if single and starved:
        bottleneck = "capacity"
    return Phase(
        bottleneck=bottleneck,
        step_s=step.total_s,
        compute_bound_s=step.compute_bound_s,
        memory_bound_s=memory_bound_s,
        interconnect_s=step.interconnect_s,
        overhead_s=step.overhead_s,
        flops=step.flops,
        memory_bytes=step.memory_bytes,
        peak_flops_per_s=peak_flops,
        arithmetic_intensity_flop_per_byte=step.flops / step.memory_bytes,
        ridge_point_flop_per_byte=peak_flops / bandwidth_bytes_per_s,
    )


def _usage(
    state: SteadyState,
    deployment: Deployment,
    peak_flops: Number,
    busy_ratio: Number,
    later_tokens: Number,
) -> Usage:
    """Work done in one request's share of time, over that time.

    A replica that ends ``requests_per_s`` requests runs that many prefills a second, and decode
    steps back to back with the decoding sequences that are there.
    """
    accelerator = deployment.accelerator
    prefills_per_s = state.requests_per_s * state.chunks
    steps_per_s = state.requests_per_s * later_tokens / maximum(state.decoding_sequences, 1e-9)
    flops_per_s = prefills_per_s * state.prefill.flops + steps_per_s * state.decode.flops
    bytes_per_s = (
        prefills_per_s * state.prefill.memory_bytes + steps_per_s * state.decode.memory_bytes
    )
    reference = reference_flops_per_s(accelerator)
    busy_s = prefills_per_s * state.prefill.total_s, steps_per_s * state.decode.total_s
    whole_s = maximum(busy_s[0] + busy_s[1], 1e-12)
    return Usage(
        memory_utilisation_ratio=minimum(
            bytes_per_s / accelerator.memory_bandwidth_bytes_per_s, 1.0
        ),
        compute_utilisation_ratio=minimum(flops_per_s / peak_flops, 1.0),
        busy_ratio=busy_ratio,
        phases=tuple(
            phase_use(
                time_s / whole_s,
                step.total_s,
                step.overhead_s,
                step.memory_bytes,
                step.compute_s,
                reference,
            )
            for time_s, step in zip(busy_s, (state.prefill, state.decode), strict=True)
        ),
    )
