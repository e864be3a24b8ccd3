"""Memory of an inference deployment on its fullest accelerator, and what fits beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tensors import TensorClass
from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
)
from service.core.elementwise import Label, Number, Truth, ceil, floor, maximum, minimum, where
from service.core.interval import (
    Interval,
    certainty,
    exact,
    independent_sum,
    scale,
    shift,
    shortfall,
)
from service.core.memory.fullest import fullest
from service.core.memory.inference.activations import StepPeak, step_peak, step_peak_bytes
from service.core.memory.inference.runtime import EngineRuntime, RuntimeOverheads
from service.core.memory.kv_cache import (
    CacheLayout,
    cache_layout,
    layout_sequence_bytes,
    windowed_bytes,
)
from service.core.memory.weights import RankWeights, stage_weights


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What of a rank's memory does not depend on the workload, for one pipeline stage."""

    weights: RankWeights
    cache: CacheLayout
    peak: StepPeak


@dataclass(frozen=True, slots=True)
class SizeLine:
    """Size of a sequence's cache over its length, once some windows are full."""

    constant_bytes: Number
    bytes_per_token: float


@dataclass(frozen=True, slots=True)
class InferenceMemory:
    """Memory on the fullest accelerator [B], and the room it leaves.

    ``usable_bytes`` is the share of ``capacity_bytes`` that the engine may fill, and
    ``kv_cache_budget_bytes`` what weights and the parts that count against the share leave of it
    for caches, as long as everything together stays within the capacity. ``headroom_bytes`` is what
    the requested caches leave of that; ``fits`` says whether its value is not negative, and
    ``fits_certainty`` the same of the whole interval: "yes", "likely", "unlikely" or "no".
    ``kv_cache_capacity_tokens`` counts tokens of all sequences of one replica, ``max_concurrency``
    sequences of the workload's shape over all replicas, and ``max_context_tokens`` the longest
    sequence at the workload's concurrency, up to what model and settings allow (infinite where
    nothing bounds it). ``kv_cache_bytes_per_token`` is the size of the next token at the workload's
    length, ``sequence_bytes`` that of a whole sequence, ``draft_model_bytes`` a draft model with
    its caches (part of the runtime memory), and ``shared_bytes`` what sequences share of it;
    ``step_tokens`` are computed in one step, ``concurrency_per_replica`` sequences are held by a
    rank. ``peak_bytes`` are temporary tensors before what was measured, ``fixed_runtime_bytes`` and
    ``slack_bytes`` parts of the runtime memory.
    """

    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    engine: EngineRuntime
    plan: StagePlan
    weights_bytes: Interval
    weights_by_class_bytes: Mapping[TensorClass, Number]
    kv_cache_bytes: Interval
    activations_bytes: Interval
    runtime_bytes: Interval
    total_bytes: Interval
    capacity_bytes: Number
    usable_bytes: Number
    fits: Truth
    fits_certainty: Label
    headroom_bytes: Interval
    shortfall_bytes: Interval
    kv_cache_bytes_per_token: Number
    kv_cache_budget_bytes: Interval
    kv_cache_capacity_tokens: Interval
    max_concurrency: Interval
    max_context_tokens: Interval
    sequence_bytes: Number
    shared_bytes: Number
    prefill_bytes: Number
    step_tokens: Number
    sampled_sequences: Number
    concurrency_per_replica: Number
    peak_bytes: Number
    fixed_runtime_bytes: Interval
    slack_bytes: Interval
    draft_model_bytes: Number = 0.0

    @property
    def libraries_bytes(self) -> Interval:
        """Context and buffers of collectives, part of the fixed runtime memory [B]."""
        return self.engine.libraries(self.deployment.parallelism)

    @property
    def tokens(self) -> Number:
        """Tokens of a whole sequence [token]."""
        return self.workload.input_tokens + self.workload.output_tokens

    @property
    def windows(self) -> Mapping[str, Number]:
        """What one sequence keeps in layers of each window [B]."""
        layout = self.plan.cache
        return {part.name: windowed_bytes(layout, part, self.tokens) for part in layout.windowed}

    @property
    def growing_windows(self) -> Mapping[str, Number]:
        """What the next token adds to layers of each window [B/token]."""
        return _growing_windows(self.plan.cache, self.tokens)

    @property
    def context_limit_tokens(self) -> float:
        """Longest sequence that settings and model allow, infinite without a limit [token]."""
        return _context_limit(self.deployment, self.serving)

    @property
    def room_each_bytes(self) -> Number:
        """Room for the growing cache of each sequence that the rank holds [B]."""
        return _room_each(
            self.plan.cache,
            self.kv_cache_budget_bytes.value / self.engine.cache_copies,
            self.concurrency_per_replica,
            self.step_tokens,
        )

    @property
    def deciding_line(self) -> SizeLine:
        """The windows that are full at the longest sequence, as a line of sizes over lengths."""
        room, limit = self.room_each_bytes, self.context_limit_tokens
        return max(
            _size_lines(self.plan.cache),
            key=lambda line: _reach(line, room, self.plan.cache.block_tokens, limit),
        )


def inference_memory(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    overheads: RuntimeOverheads,
) -> InferenceMemory:
    """Memory of an inference deployment on its fullest accelerator [B].

    References
    ----------
    Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180; vLLM's division of
    memory: what weights, the profiled peak and non-PyTorch memory leave of the share becomes cache
    (vllm/v1/worker/gpu_worker.py, 2025).
    """
    plans = stage_plans(
        deployment.architecture,
        deployment.precision,
        deployment.parallelism,
        serving.kv_block_tokens,
    )
    estimates = [_on_stage(plan, deployment, workload, serving, overheads) for plan in plans]
    return fullest(estimates, lambda memory: memory.total_bytes.value)


@lru_cache(maxsize=1024)
def stage_plans(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    block_tokens: int,
) -> tuple[StagePlan, ...]:
    """Plans of the pipeline stages that can be the fullest: no other holds more of everything."""
    peak = step_peak(architecture, precision.activations, parallelism)
    plans: list[StagePlan] = []
    for stage in range(parallelism.pipeline):
        weights = stage_weights(architecture, precision.weights, parallelism, stage)
        outdone = [
            other.weights.layers >= weights.layers
            and other.weights.total_bytes >= weights.total_bytes
            for other in plans
        ]
        if any(outdone):
            continue
        layout = cache_layout(architecture, precision.kv_cache, parallelism, block_tokens, stage)
        plans.append(StagePlan(weights, layout, peak))
    return tuple(plans)


def _on_stage(
    plan: StagePlan,
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    overheads: RuntimeOverheads,
) -> InferenceMemory:
    parallelism = deployment.parallelism
    engine = overheads.of(serving.release)
    layout = plan.cache
    tokens = workload.input_tokens + workload.output_tokens
    concurrency_per_replica = ceil(workload.concurrency / parallelism.data)

    step_tokens = _step_tokens(engine, serving, workload.input_tokens, concurrency_per_replica)
    sampled = engine.sampled_sequences(
        deployment.accelerator, concurrency_per_replica, serving.max_running_sequences
    )
    peak = step_peak_bytes(plan.peak, step_tokens, sampled, engine.bytes_per_logit)
    activations, slack = engine.temporary(peak)
    draft = _draft_bytes(serving, parallelism, concurrency_per_replica, tokens)
    libraries = shift(engine.libraries(parallelism), serving.reserved_bytes + draft)
    runtime = independent_sum((libraries, slack, engine.graphs_bytes))

    copies = engine.cache_copies
    sequence = copies * layout_sequence_bytes(layout, tokens)
    # One sequence at a time holds a step's worth of tokens beside its windows.
    prefill = (
        copies * layout_sequence_bytes(layout, tokens, minimum(step_tokens, tokens)) - sequence
        if layout.windowed
        else 0.0
    )
    shared = copies * _shared_bytes(layout, workload, tokens)
    cache = concurrency_per_replica * (sequence - shared) + shared + prefill

    weights = plan.weights.total_bytes
    total = shift(independent_sum((activations, runtime)), weights + cache)
    capacity = deployment.accelerator.memory_bytes
    usable = capacity * serving.memory_utilization_ratio
    inside = [libraries, slack]
    if engine.activations_in_share:
        inside.append(activations)
    if engine.graphs_in_share:
        inside.append(engine.graphs_bytes)
    budget = _budget(
        weights, usable, independent_sum(inside), capacity, shift(total, -weights - cache)
    )
    headroom = shift(budget, -cache)
    next_token = _next_token_bytes(layout, tokens)
    return InferenceMemory(
        deployment=deployment,
        workload=workload,
        serving=serving,
        engine=engine,
        plan=plan,
        weights_bytes=exact(weights),
        weights_by_class_bytes=plan.weights.by_class_bytes,
        kv_cache_bytes=exact(cache),
        activations_bytes=activations,
        runtime_bytes=runtime,
        total_bytes=total,
        capacity_bytes=capacity,
        usable_bytes=usable,
        fits=headroom.value >= 0.0,
        fits_certainty=certainty(headroom),
        headroom_bytes=headroom,
        shortfall_bytes=shortfall(headroom),
        kv_cache_bytes_per_token=next_token,
        kv_cache_budget_bytes=budget,
        kv_cache_capacity_tokens=_capacity_tokens(layout, budget, sequence, tokens),
        max_concurrency=_max_concurrency(budget, sequence, shared, prefill, parallelism.data),
        max_context_tokens=_max_context_tokens(
            layout,
            scale(budget, 1.0 / copies),
            concurrency_per_replica,
            step_tokens,
            _context_limit(deployment, serving),
        ),
        sequence_bytes=sequence,
        shared_bytes=shared,
        prefill_bytes=prefill,
        step_tokens=step_tokens,
        sampled_sequences=sampled,
        concurrency_per_replica=concurrency_per_replica,
        peak_bytes=peak,
        fixed_runtime_bytes=libraries,
        slack_bytes=slack,
        draft_model_bytes=draft,
    )


def _draft_bytes(
    serving: ServingSettings,
    parallelism: Parallelism,
    concurrency_per_replica: Number,
    tokens: Number,
) -> Number:
    """Weights and caches of a draft model on a rank [B]."""
    speculation = serving.speculation
    if speculation is None or speculation.architecture is None or speculation.precision is None:
        return 0.0
    plans = stage_plans(
        speculation.architecture, speculation.precision, parallelism, serving.kv_block_tokens
    )
    plan = max(plans, key=lambda one: one.weights.total_bytes)
    return plan.weights.total_bytes + concurrency_per_replica * layout_sequence_bytes(
        plan.cache, tokens
    )


def _step_tokens(
    engine: EngineRuntime,
    serving: ServingSettings,
    input_tokens: Number,
    concurrency_per_replica: Number,
) -> Number:
    """Tokens that the engine prepares for, or computes, in one step."""
    if engine.prefills_whole:
        return concurrency_per_replica * input_tokens
    most = min(float(serving.chunked_prefill_tokens), engine.most_step_tokens)
    if engine.reserves_cache:
        # It measures its peak with a full step when it starts, whatever the load will be.
        return most
    return minimum(most, concurrency_per_replica * input_tokens)


def _shared_bytes(layout: CacheLayout, workload: InferenceWorkload, tokens: Number) -> Number:
    """Bytes of a sequence that all others read too: whole pages of the common prefix."""
    ratio = workload.prefix_cached_ratio
    if isinstance(ratio, float | int) and ratio == 0.0:
        return 0.0
    block = layout.block_tokens * layout.context_ranks
    common = minimum(ratio * workload.input_tokens, maximum(tokens - 1, 0.0))
    return layout.full_bytes_per_token * layout.block_tokens * floor(common / block)


def _next_token_bytes(layout: CacheLayout, tokens: Number) -> Number:
    return _full(layout) + sum(_growing_windows(layout, tokens).values())


def _growing_windows(layout: CacheLayout, tokens: Number) -> dict[str, Number]:
    """Bytes per token of windowed layers that are not full yet, by window [B/token]."""
    return {
        part.name: where(tokens <= part.window_tokens, part.bytes_per_token, 0.0)
        for part in layout.windowed
    }


def _budget(
    weights: Number, usable: Number, inside: Interval, capacity: Number, overhead: Interval
) -> Interval:
    """Room for caches: within the engine's share, and within the accelerator with all beside it."""

    def room(within_share: Number, within_accelerator: Number) -> Number:
        return minimum(usable - within_share, capacity - within_accelerator) - weights

    return Interval(
        room(inside.value, overhead.value),
        room(inside.high, overhead.high),
        room(inside.low, overhead.low),
    )


def _capacity_tokens(
    layout: CacheLayout, budget: Interval, sequence: Number, tokens: Number
) -> Interval:
    """Tokens of all sequences that the budget holds, at the workload's length."""
    block = layout.block_tokens
    per_byte = ceil(tokens / block) * block / maximum(sequence, 1.0)

    def capacity(room: Number) -> Number:
        return maximum(floor(room * per_byte / block) * block, 0.0)

    return Interval(capacity(budget.value), capacity(budget.low), capacity(budget.high))


def _max_concurrency(
    budget: Interval, sequence: Number, shared: Number, prefill: Number, replicas: int
) -> Interval:
    """Sequences that the budget holds, over all replicas."""
    private = maximum(sequence - shared, 1.0)

    def sequences(room: Number) -> Number:
        return replicas * maximum(floor((room - shared - prefill) / private), 0.0)

    return Interval(sequences(budget.value), sequences(budget.low), sequences(budget.high))


def _context_limit(deployment: Deployment, serving: ServingSettings) -> float:
    """Longest sequence that settings and model allow."""
    if serving.max_model_len is not None:
        return float(serving.max_model_len)
    limit = deployment.architecture.max_position_embeddings
    return float("inf") if limit is None else float(limit)


def _max_context_tokens(
    layout: CacheLayout,
    budget: Interval,
    concurrency_per_replica: Number,
    step_tokens: Number,
    limit: float,
) -> Interval:
    """Longest sequence such that ``concurrency`` of them fit.

    The size of a sequence grows with its length ever more slowly, as one window after the other
    fills up: it is the least of as many straight lines as there are windows, plus one. So the
    longest sequence within a size is the greatest of the lengths that the lines give.
    """
    lines = _size_lines(layout)

    def longest(room: Number) -> Number:
        each = _room_each(layout, room, concurrency_per_replica, step_tokens)
        tokens: Number = 0.0
        for line in lines:
            tokens = maximum(tokens, _reach(line, each, layout.block_tokens, limit))
        return minimum(tokens, limit)

    return Interval(longest(budget.value), longest(budget.low), longest(budget.high))


def _room_each(
    layout: CacheLayout, room: Number, concurrency_per_replica: Number, step_tokens: Number
) -> Number:
    """Room of each sequence, one of which holds a step's worth of tokens beside its windows [B]."""
    prefill = step_tokens * layout.windowed_bytes_per_token
    return (room - prefill) / maximum(concurrency_per_replica, 1.0)


def _reach(line: SizeLine, room: Number, block_tokens: int, limit: float) -> Number:
    """Longest sequence in whole pages by one line; the limit where it does not grow [token]."""
    if line.bytes_per_token > 0.0:
        return (
            floor((room - line.constant_bytes) / line.bytes_per_token / block_tokens) * block_tokens
        )
    return where(room >= line.constant_bytes, limit, 0.0)


def _size_lines(layout: CacheLayout) -> list[SizeLine]:
    """A sequence's size with 0, 1, 2 … windows filled, narrowest first."""
    block = layout.block_tokens
    constant: Number = layout.state_bytes
    slope = _full(layout) + layout.windowed_bytes_per_token
    lines = [SizeLine(constant, slope)]
    for part in layout.windowed:
        pages = ceil(part.window_tokens / block) + 1.0
        constant = constant + part.bytes_per_token * block * pages
        slope = slope - part.bytes_per_token
        # What is left of the last window by subtraction is rounding, not bytes.
        lines.append(
            SizeLine(constant, slope if part is not layout.windowed[-1] else _full(layout))
        )
    return lines


def _full(layout: CacheLayout) -> float:
    return layout.full_bytes_per_token / layout.context_ranks
