"""Latency and throughput of an inference deployment under a workload.

Definitions: TTFT runs from a request's arrival to its first output token, waiting included;
TPOT = (E2E − TTFT) / (output tokens − 1); E2E = TTFT + (output tokens − 1) · TPOT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from service.core.deployment import (
    WITHOUT_LIMIT,
    Deployment,
    InferenceWorkload,
    ServingSettings,
    most_requests,
)
from service.core.elementwise import Number, Truth, everywhere, maximum, minimum, where
from service.core.interval import Interval, exact, from_log_sigma, independent_sum, quotient, scale
from service.core.lightweight import computed_once, lightweight
from service.core.otherwise import Other, reaching
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.batching import SteadyState
from service.core.performance.inference.burst import Burst, burst_load
from service.core.performance.inference.closed_load import ClosedLoad, closed_load
from service.core.performance.inference.disaggregation import (
    Pools,
    pooled_closed_load,
    pooled_open_load,
)
from service.core.performance.inference.fastest import no_faster
from service.core.performance.inference.load_ends import LoadEnds, without_end
from service.core.performance.inference.open_load import (
    OpenLoad,
    ReplicaLoad,
    TimedLoad,
    open_load,
)
from service.core.performance.inference.phases import Phase, phase
from service.core.performance.inference.pools import disaggregated_pools
from service.core.performance.inference.replica import FullReplica, Mix, Replica
from service.core.performance.inference.replicas import (
    new_input_tokens,
    received_s,
    replica_of,
)
from service.core.performance.inference.shares import log_sigmas
from service.core.performance.inference.tasks import task_s
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.steps import StepTime
from service.core.performance.usage import PhaseUse, Usage, phase_use, reference_flops_per_s

#: What stands for a time or share that is none.
_LEAST_S = 1e-12


@lightweight
class InferenceLatency:
    """What users of a deployment see, and why. Times [s], rates [1/s].

    All follows from what ``replica`` carries, and what it would with all slots taken, ``filled``;
    ``pools`` stand in place of that where prompts and decoding are apart. ``average`` is the call
    of average context, where those of a task differ. Intervals reach over what the same users see
    ``otherwise``: by other choices that the request leaves open.
    """

    deployment: Deployment
    workload: InferenceWorkload
    calibration: PerformanceCalibration
    replica: TimedLoad | Burst
    filled: FullReplica | None = None
    pools: Pools | None = None
    average: InferenceLatency | None = None
    otherwise: tuple[Other[InferenceLatency], ...] = ()

    @property
    def state(self) -> SteadyState:
        """The replica in steady state."""
        return self.replica.state

    @property
    def full(self) -> Mix | None:
        """Steps of a replica with all slots taken; None where prompts and decoding are apart."""
        return None if self.filled is None else self.filled.mix

    @computed_once
    def saturation_per_s(self) -> Number:
        """The highest rate, over all replicas [1/s]."""
        if self.filled is not None:
            return maximum(self.filled.requests_per_s, self.state.requests_per_s) * self.replicas
        return inf if self.pools is None else self.pools.saturation_per_s

    @property
    def load(self) -> OpenLoad | None:
        """The replica under a rate of arrivals; None without one."""
        return self.replica if isinstance(self.replica, OpenLoad) else None

    @property
    def burst(self) -> Burst | None:
        """The replica to which requests come all at once; None where they do not."""
        return self.replica if isinstance(self.replica, Burst) else None

    @property
    def replicas(self) -> int:
        """Copies of the model [-]."""
        return self.deployment.parallelism.data

    @property
    def later_tokens(self) -> Number:
        """Tokens after the first [token]."""
        return self.workload.output_tokens - 1.0

    @property
    def ttft_parts_s(self) -> Mapping[str, Number]:
        """What adds up to the time to the first token [s]."""
        return self.kept.ttft_parts_s

    @property
    def running_sequences_per_replica(self) -> Number:
        """Requests that a replica works on [-]."""
        return self.replica.running_sequences

    @property
    def waiting_requests(self) -> Number:
        """Requests that wait for a slot, over all replicas [-]."""
        return self.replica.waiting_requests * self.replicas

    @property
    def new_input_tokens(self) -> Number:
        """Tokens of a prompt that are computed [token]."""
        return new_input_tokens(self.workload, self.calibration)

    @property
    def received_s(self) -> Number:
        """Time that a server takes for a request beside its steps [s]."""
        return received_s(self.workload, self.calibration)

    @property
    def limit_requests_per_s(self) -> Number | None:
        """What bounds the rate where requests are always in flight; None for other loads [1/s]."""
        if self.load is not None or self.burst is not None:
            return None
        return self.saturation_per_s if self.pools is None else self.pools.closed_limit_per_s

    @property
    def memory_bandwidth_bytes_per_s(self) -> Number:
        """What bounds steps that read memory [B/s]."""
        return self.deployment.accelerator.memory_bandwidth_bytes_per_s

    @property
    def saturated(self) -> Truth:
        """Whether requests come faster than they can be served, and wait without end."""
        return False if self.load is None else self.load.saturated

    @property
    def mean_e2e_s(self) -> Number:
        """Mean time of a request, infinite where requests wait without end [s]."""
        mean_s = self.replica.mean_ttft_s + self.state.tpot_s * self.later_tokens
        return where(self.saturated, inf, mean_s)

    def mean_s(self, figure: str) -> Number:
        """Mean of a time of requests by its name, without the work that its interval takes [s]."""
        ttft_s = where(self.saturated, inf, self.replica.mean_ttft_s)
        return {"ttft_s": ttft_s, "tpot_s": self.state.tpot_s}.get(figure, self.mean_e2e_s)

    @computed_once
    def peak_flops_per_s(self) -> Number:
        """What bounds steps that compute [FLOP/s]."""
        weights = self.deployment.precision.weights
        multiplied = engine_precision(weights.matrix_precision, self.calibration.engine)
        return peak_flops_per_s(self.deployment.accelerator, multiplied)[0]

    @computed_once
    def log_sigma(self) -> Mapping[str, Number]:
        """Spreads of times of decoding, of prompts (prefill) and of the rate (throughput) [-]."""
        return log_sigmas(self.deployment, self.calibration, self.state, self.later_tokens)

    @computed_once
    def usage(self) -> Usage:
        """How hard accelerators work."""
        busy_ratio = self.replica.busy_ratio
        return _usage(
            *(self.state, self.deployment, self.peak_flops_per_s),
            *(busy_ratio, self.later_tokens, self.replica.running_sequences),
        )

    @computed_once
    def ends(self) -> LoadEnds | None:
        """The replica should it be slower or faster; None where what is in flight is given."""
        if self.load is None:
            return None
        return LoadEnds(self.load, self.log_sigma["throughput"], self.later_tokens)

    @property
    def kept(self) -> TimedLoad | Burst:
        """The replica if it keeps up with what comes, for which alone first tokens have an end."""
        return self.kept_load or self.replica

    @property
    def kept_load(self) -> OpenLoad | None:
        """The same under a rate; None without one."""
        return self.load if self.ends is None or everywhere(self.endless) else self.ends.kept

    @property
    def endless(self) -> Truth:
        """Whether more comes than even the upper end of the rate at saturation."""
        asked = self.workload.requests_per_s
        if asked is None or self.load is None:
            return False
        return asked >= self.saturation_requests_per_s.high

    def _reaching(self, own: Interval, name: str) -> Interval:
        """A figure over what it is by other choices."""
        if not self.otherwise:
            return own
        figures = (Other(getattr(one.found, name), one.share_ratio) for one in self.otherwise)
        return reaching(own, figures)

    @computed_once
    def _own_ttft_s(self) -> Interval:
        log_sigma = self.log_sigma["prefill"]
        if self.ends is not None:
            return self.ends.ttft_s(log_sigma)
        return self._over_lengths(lambda load: from_log_sigma(load.mean_ttft_s, log_sigma))

    @computed_once
    def _mean_ttft_s(self) -> Interval:
        """Time to the first token as if nothing waited without end [s]."""
        return self._reaching(self._own_ttft_s, "_own_ttft_s")

    @computed_once
    def ttft_s(self) -> Interval:
        """Time to the first token [s]."""
        return without_end(self._mean_ttft_s, self.endless)

    @computed_once
    def _own_tpot_s(self) -> Interval:
        log_sigma = self.log_sigma["decode"]
        if self.ends is not None:
            return self.ends.tpot_s(log_sigma)
        return self._over_lengths(self._token_s)

    def _token_s(self, load: ReplicaLoad) -> Interval:
        """Time of each later token, were what is in flight known [s]."""
        tpot_s = from_log_sigma(load.state.tpot_s, self.log_sigma["decode"])
        return no_faster(tpot_s, load.state, self.deployment, self.calibration)

    @computed_once
    def tpot_s(self) -> Interval:
        """Time of each later token [s]."""
        return self._reaching(self._own_tpot_s, "_own_tpot_s")

    @computed_once
    def _own_e2e_s(self) -> Interval:
        if self.ends is None:
            return self._over_lengths(self._whole_s)
        return independent_sum((self._own_ttft_s, scale(self._own_tpot_s, self.later_tokens)))

    def _whole_s(self, load: ReplicaLoad) -> Interval:
        """Time of a whole request, were what is in flight known [s]."""
        ttft_s = from_log_sigma(load.mean_ttft_s, self.log_sigma["prefill"])
        return independent_sum((ttft_s, scale(self._token_s(load), self.later_tokens)))

    def _over_lengths(self, figure: Callable[[ReplicaLoad], Interval]) -> Interval:
        """A figure over what it is should lengths differ, where nobody says whether they do."""
        load = self.replica
        return load.over_lengths(figure) if isinstance(load, ClosedLoad) else figure(load)

    @computed_once
    def e2e_s(self) -> Interval:
        """Time of a whole request [s]."""
        return without_end(self._reaching(self._own_e2e_s, "_own_e2e_s"), self.endless)

    @property
    def e2e_spread_ratio(self) -> Number:
        """Upper end of the time of a whole request over it, were what is in flight known [-]."""
        whole = self._whole_s(self.replica)
        return whole.high / whole.value

    @computed_once
    def call_s(self) -> Interval:
        """Time of a call of average context [s]."""
        return self.e2e_s if self.average is None else self.average.e2e_s

    @computed_once
    def task_s(self) -> Interval:
        """Time of a whole task: its calls, and tools between them [s]."""
        return task_s(self.call_s, self.workload)

    @computed_once
    def own_requests_per_s(self) -> Interval:
        """Requests that end, over all replicas, by this choice alone [1/s]."""
        log_sigma = self.log_sigma["throughput"]
        return self._over_lengths(
            lambda load: from_log_sigma(load.requests_per_s * self.replicas, log_sigma)
        )

    @computed_once
    def requests_per_s(self) -> Interval:
        """Requests that end, over all replicas [1/s]."""
        return self._reaching(self.own_requests_per_s, "own_requests_per_s")

    @computed_once
    def saturation_requests_per_s(self) -> Interval:
        """The most that can end [1/s]."""
        own = from_log_sigma(self.saturation_per_s, self.log_sigma["throughput"])
        return self._reaching(own, "saturation_requests_per_s")

    @computed_once
    def output_tokens_per_s(self) -> Interval:
        """Tokens that come out, over all replicas [token/s]."""
        return scale(self.requests_per_s, self.workload.output_tokens)

    @computed_once
    def output_tokens_per_s_per_accelerator(self) -> Interval:
        """The same by accelerator [token/s]."""
        count = self.deployment.parallelism.accelerator_count
        return scale(self.output_tokens_per_s, 1.0 / count)

    @computed_once
    def input_tokens_per_s(self) -> Interval:
        """Tokens that go in, over all replicas [token/s]."""
        workload = self.workload
        return scale(self.requests_per_s, workload.input_tokens + workload.encoded_tokens)

    @computed_once
    def output_tokens_per_s_per_user(self) -> Interval:
        """Tokens that a user sees in a second once they come [token/s]."""
        return quotient(exact(1.0), self.tpot_s)

    @computed_once
    def prefill(self) -> Phase:
        """A step of a prompt's chunk."""
        return self._phase(self.state.prefill, False)

    @computed_once
    def decode(self) -> Phase:
        """A step of decoding sequences; more that wait than run lack room for their caches."""
        starved = self.waiting_requests > self.running_sequences_per_replica * self.replicas
        return self._phase(self.state.decode, starved)

    def _phase(self, step: StepTime, starved: Truth) -> Phase:
        return phase(step, self.peak_flops_per_s, self.memory_bandwidth_bytes_per_s, starved)


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
    slots = maximum(minimum(fitting_sequences, most_requests(serving, workload)), 1.0)
    replica = replica_of(deployment, workload, serving, calibration)
    if serving.disaggregation is not None:
        return _disaggregated(deployment, workload, serving, replica, float(slots))
    prefill = replica.prefill()
    filled = FullReplica(replica, slots, prefill)
    load: TimedLoad | Burst
    if workload.arrivals == "at_once" and workload.requests_per_s is None:
        load = burst_load(replica, slots, workload.concurrency / replicas, prefill)
    elif workload.requests_per_s is None:
        # An engine without a limit on sequences runs the batches that a script makes.
        in_batches = everywhere(serving.max_running_sequences >= WITHOUT_LIMIT)
        requests = workload.concurrency / replicas
        load = closed_load(replica, slots, requests, prefill, in_batches=in_batches)
    else:
        load = open_load(filled, workload.requests_per_s / replicas)
    return InferenceLatency(deployment, workload, calibration, load, filled=filled)


def _disaggregated(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    replica: Replica,
    slots: float,
) -> InferenceLatency:
    """Latency with prompts and decoding in pools of their own, of a single configuration."""
    pools = disaggregated_pools(deployment, serving, replica, slots)
    load: TimedLoad | Burst
    if workload.requests_per_s is None:
        load = pooled_closed_load(pools, float(workload.concurrency))
    else:
        load = pooled_open_load(pools, float(workload.requests_per_s))
    return InferenceLatency(deployment, workload, replica.calibration, load, pools=pools)


def _usage(
    state: SteadyState,
    deployment: Deployment,
    peak_flops: Number,
    busy_ratio: Number,
    later_tokens: Number,
    running_sequences: Number,
) -> Usage:
    """Work done in one request's share of time, over that time.

    A replica that ends ``requests_per_s`` requests runs that many prefills a second, and decode
    steps back to back with the decoding sequences that are there. Stages of a pipeline that have
    none of these to work on wait for the others.
    """
    accelerator = deployment.accelerator
    prefills_per_s = state.requests_per_s * state.chunks
    steps_per_s = state.requests_per_s * later_tokens / maximum(state.decoding_sequences, 1e-9)
    reference = reference_flops_per_s(accelerator)
    prefill_s = prefills_per_s * state.prefill.total_s
    decode_s = steps_per_s * state.decode.total_s
    whole_s = maximum(prefill_s + decode_s, _LEAST_S)
    in_flight = maximum(running_sequences / maximum(busy_ratio, _LEAST_S), 1.0)
    stages = deployment.parallelism.pipeline
    filling, decoding = _working_ratios(state, stages, in_flight)
    flops_per_s = prefills_per_s * state.prefill.flops * filling
    flops_per_s = flops_per_s + steps_per_s * state.decode.flops * decoding
    bytes_per_s = prefills_per_s * state.prefill.mean_bytes * filling
    bytes_per_s = bytes_per_s + steps_per_s * state.decode.mean_bytes * decoding

    def use(time_s: Number, step: StepTime, working: Number) -> PhaseUse:
        return phase_use(
            time_s / whole_s,
            step.total_s,
            step.total_s - (step.total_s - step.waiting_s) * working,
            step.mean_bytes * working,
            step.mean_compute_s * working,
            reference,
            step.processors_s,
        )

    memory_utilisation_ratio = minimum(bytes_per_s / accelerator.memory_bandwidth_bytes_per_s, 1.0)
    compute_utilisation_ratio = minimum(flops_per_s / peak_flops, 1.0)
    phases = use(prefill_s, state.prefill, filling), use(decode_s, state.decode, decoding)
    return Usage(memory_utilisation_ratio, compute_utilisation_ratio, busy_ratio, phases)


def _working_ratios(state: SteadyState, stages: int, in_flight: Number) -> tuple[Number, Number]:
    """Share of a step in which a stage of a pipeline has work, of prompts and of decoding [-].

    A step passes all stages, which work at the same time on others of the requests in flight, or
    on other chunks of a prompt; what finds none of these waits.
    """
    if stages == 1:
        return 1.0, 1.0
    chunks_s = state.chunks * state.prefill.total_s
    at_once = minimum(chunks_s / maximum(state.unloaded_ttft_s, _LEAST_S), stages)
    return (
        minimum(in_flight * at_once / stages, 1.0),
        minimum(in_flight / stages, 1.0),
    )
