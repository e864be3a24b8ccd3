"""Memory of an inference deployment on its fullest accelerator, and what fits beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf

from service.core.architecture.tensors import TensorClass
from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    ServingSettings,
)
from service.core.elementwise import (
    Label,
    Number,
    Truth,
    ceil,
    is_nothing,
    maximum,
    minimum,
)
from service.core.interval import (
    Interval,
    bounded,
    certainty,
    from_log_sigma,
    independent_sum,
    shift,
    shortfall,
)
from service.core.lightweight import computed_once, lightweight
from service.core.memory.fullest import fullest
from service.core.memory.inference import held, kept
from service.core.memory.inference.activations import (
    StepShape,
    images_peak_bytes,
    layer_bytes,
    step_peak_bytes,
)
from service.core.memory.inference.filled import activations_of_load, filled_bytes
from service.core.memory.inference.growth import (
    Ramp,
    SequencesRoom,
    deciding_sequences,
    deciding_stretch,
    max_context_tokens,
    sampled_sequences,
    sequences_that_fit,
    step_tokens,
)
from service.core.memory.inference.otherwise import reaching
from service.core.memory.inference.plans import EnginePlan, draft_plan, engine_plans
from service.core.memory.inference.room import (
    Stretch,
    cache_log_sigma,
    cache_room,
    capacity_tokens,
    context_limit,
    full_bytes,
    grows,
    held_bytes,
    uncertain_room,
)
from service.core.memory.inference.runtime import EngineRuntime, RuntimeOverheads
from service.core.memory.inference.worst_step import score_copies, step_shape
from service.core.memory.kv_cache import (
    layout_sequence_bytes,
    windowed_bytes,
)
from service.core.otherwise import Other


@lightweight
class InferenceMemory:
    """Memory on the fullest accelerator [B], and the room it leaves.

    ``usable_bytes`` is what the engine may fill of ``capacity_bytes`` by its share, and
    ``room_bytes`` what weights and the parts that count against the share leave of it for caches,
    as long as everything together stays within the capacity; below zero by what these lack.
    ``headroom_bytes`` is what the requested caches leave of that; ``fits`` says whether its value
    is not negative.
    ``sequence_bytes`` is the size of a whole sequence, ``request_bytes`` that of a request with all
    its beams, of which ``beams_bytes`` are answers of further beams that share its prompt;
    ``draft_model_bytes`` a draft model, or a checkpoint's own layers for drafts, with its caches
    (part of the runtime memory), and
    ``shared_bytes`` what requests share of theirs; a running one lacks ``growing_bytes`` of a whole
    one on average; ``step_tokens`` are computed in one step, ``concurrency_per_replica`` sequences
    are held by a rank. ``peak_bytes`` are temporary tensors before what was measured, of the step
    that ``shape`` tells, and ``images_bytes`` those while its images are encoded; ``steps`` and
    ``sampled`` are tokens of a step and sequences sampled at once over the sequences that run;
    ``libraries_bytes``, ``context_bytes``, ``graphs_bytes`` and ``slack_bytes`` are parts of the
    runtime memory, and ``kept_bytes`` stay free beside the share, by the layout. ``tokens`` are
    those that a sequence's caches have room for. ``stages`` are all that can be the fullest, if
    there are several: any of them may decide what fits. Where choices are left open, ``usual`` is
    the memory by what most people mean, and ``otherwise`` that by other outcomes, over which
    intervals reach.
    """

    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    engine: EngineRuntime
    plan: EnginePlan
    weights_bytes: Interval
    weights_by_class_bytes: Mapping[TensorClass, Number]
    kv_cache_bytes: Interval
    activations_bytes: Interval
    capacity_bytes: Number
    usable_bytes: Number
    fits: Truth
    headroom_bytes: Interval
    room_bytes: Interval
    host_bytes: Interval
    checkpoint_bytes: Number
    sequence_bytes: Number
    beams_bytes: Number
    shared_bytes: Number
    growing_bytes: Number
    prefill_bytes: Number
    shape: StepShape
    steps: Ramp
    sampled: Ramp
    tokens: Number
    concurrency_per_replica: Number
    peak_bytes: Number
    images_bytes: Number
    libraries_bytes: Interval
    context_bytes: Interval
    graphs_bytes: Interval
    slack_bytes: Interval
    draft_model_bytes: Number = 0.0
    kept_bytes: Number = 0.0
    stages: tuple[InferenceMemory, ...] = ()
    usual: InferenceMemory | None = None
    otherwise: Mapping[str, tuple[Other[InferenceMemory], ...]] = field(default_factory=dict)

    @reaching
    def runtime_bytes(self) -> Interval:
        """What engine and driver hold beside tensors [B]."""
        return independent_sum(
            (self.libraries_bytes, self.slack_bytes, self.graphs_bytes, self.context_bytes)
        )

    @reaching
    def total_bytes(self) -> Interval:
        """All that is held [B]."""
        return independent_sum(
            (self.weights_bytes, self.kv_cache_bytes, self.activations_bytes, self.runtime_bytes)
        )

    @property
    def request_bytes(self) -> Number:
        """Caches of a whole request, with all its beams [B]."""
        return self.workload.beams.prompt_copies * self.sequence_bytes + self.beams_bytes

    @computed_once
    def kv_cache_bytes_per_token(self) -> Number:
        """Size of the next token at the workload's length [B]."""
        return full_bytes(self.plan.cache) + sum(self.growing_windows.values())

    @computed_once
    def cache_room_bytes(self) -> Interval:
        """What is left for caches with what the size of caches is off [B]."""
        return uncertain_room(self.room_bytes, self.cache_log_sigma)

    @computed_once
    def kv_cache_budget_bytes(self) -> Interval:
        """The size of all caches that there is room for, none where the rest does not fit [B]."""
        return bounded(self.room_bytes, 0.0, inf)

    @property
    def cache_log_sigma(self) -> float:
        """How far the size of caches is off [-]."""
        engine = self.engine
        return cache_log_sigma(self.plan.cache, engine.size_log_sigma, paged=engine.fills_share)

    @computed_once
    def sequences_that_fit(self) -> Number:
        """Sequences of the workload's shape that there is room for, over all replicas [-]."""
        return sequences_that_fit(self, "value")[0]

    @reaching
    def max_concurrency(self) -> Interval:
        """The same with its interval [-]."""
        return Interval(self.sequences_that_fit, *sequences_that_fit(self, "low", "high"))

    @computed_once
    def max_context_tokens(self) -> Interval:
        """The longest sequence at the workload's concurrency, infinite if unbounded [token]."""
        return max_context_tokens(self)

    @computed_once
    def fits_certainty(self) -> Label:
        """Whether it fits in all of the interval: "yes", "likely", "unlikely" or "no"."""
        return certainty(self.headroom_bytes)

    @computed_once
    def shortfall_bytes(self) -> Interval:
        """What is missing where it does not fit [B]."""
        return shortfall(self.headroom_bytes)

    @computed_once
    def counted_tokens(self) -> Number:
        """The length of sequences at which tokens that have room are counted [token].

        It is the workload's, but the longest that is admitted where an engine fills its share with
        pages of which windows and states need as many however long a sequence is, and prints for
        how many of these it has room (vLLM, v1/core/kv_cache_utils.py, 2026).
        """
        layout, longest = self.plan.cache, self.context_limit_tokens
        fixed = bool(layout.windowed) or grows(layout.state_bytes)
        if not self.engine.fills_share or not fixed or longest == inf:
            return self.tokens
        return maximum(self.tokens, longest)

    @computed_once
    def counted_sequence_bytes(self) -> Number:
        """Size of a sequence of so many tokens, with what a step computes beside windows [B]."""
        if self.counted_tokens is self.tokens:
            return self.sequence_bytes
        layout, step = self.plan.cache, self.step_tokens
        if self.engine.counts_groups and layout.grouped_bytes_per_token:
            # As if every group kept all tokens (vLLM, v1/core/kv_cache_utils.py, 2025).
            return layout.grouped_bytes_per_token * self.counted_tokens
        sequence = layout_sequence_bytes(layout, self.counted_tokens, step)
        return self.engine.cache_copies * sequence

    @reaching
    def kv_cache_capacity_tokens(self) -> Interval:
        """Tokens of all sequences of one replica that caches have room for [token]."""
        return capacity_tokens(
            self.plan.cache,
            self.cache_room_bytes,
            self.counted_sequence_bytes,
            self.counted_tokens,
        )

    @reaching
    def allocated_bytes(self) -> Interval:
        """What tensors take at the peak of a step [B]."""
        return independent_sum((self.weights_bytes, self.kv_cache_bytes, self.activations_bytes))

    @reaching
    def reserved_bytes(self) -> Interval:
        """The same with what the allocator holds beyond it, captured graphs included [B]."""
        return independent_sum((self.allocated_bytes, self.slack_bytes, self.graphs_bytes))

    @reaching
    def process_bytes(self) -> Interval:
        """What the process holds, whose caches may fill its share whatever the load [B].

        Models that see both ways keep nothing between steps, and no caches are taken for them
        (vLLM, v1/core/kv_cache_utils.py, 2025: no groups of caches, no pages).
        """
        if not self.engine.fills_share or not self.deployment.architecture.causal:
            return self.total_bytes
        return filled_bytes(self)

    @property
    def reached_bytes(self) -> Number:
        """Temporary tensors at the peak of the steps that the load makes [B]."""
        return activations_of_load(self).value

    @property
    def step_tokens(self) -> Number:
        """Tokens computed in one step [token]."""
        return self.shape.step_tokens

    @property
    def layer_peak_bytes(self) -> Number:
        """Temporary tensors inside the widest layer [B]."""
        return layer_bytes(self.plan.peak, self.shape)

    @property
    def windows(self) -> Mapping[str, Number]:
        """What one sequence keeps in layers of each window [B]."""
        layout, tokens = self.plan.cache, self.tokens
        return {part.name: windowed_bytes(layout, part, tokens) for part in layout.windowed}

    @property
    def growing_windows(self) -> Mapping[str, Number]:
        """What the next token adds to layers of each window [B/token]."""
        return held.growing_windows(self.plan.cache, self.tokens)

    @property
    def context_limit_tokens(self) -> float:
        """Longest sequence that settings and model allow, infinite without a limit [token]."""
        return context_limit(self.deployment, self.serving)

    @property
    def draft_sequence_bytes(self) -> Number:
        """A sequence's cache of the draft model [B]."""
        draft = draft_plan(self.engine, self.serving, self.deployment)
        return 0.0 if draft is None else layout_sequence_bytes(draft.cache, self.tokens)

    @property
    def rooms(self) -> tuple[Number, Number]:
        """What is left for caches within the engine's share, and on the accelerator [B]."""
        engine = self.engine
        beside = self.weights_bytes.value + self.libraries_bytes.value + self.slack_bytes.value
        activations, graphs = self.activations_bytes.value, self.graphs_bytes.value
        inside = beside
        for part, counts in (
            (activations, engine.activations_in_share),
            (graphs, engine.graphs_in_share),
            (engine.counted_context(self.context_bytes).value, engine.context_in_share > 0.0),
        ):
            if counts:
                inside = inside + part
        return self.usable_bytes - inside, self.capacity_bytes - beside - activations - graphs

    @property
    def deciding_sequences(self) -> SequencesRoom:
        """The room that decides how many sequences fit."""
        return deciding_sequences(self)

    @property
    def deciding_stretch(self) -> Stretch:
        """The room that decides how long sequences can be."""
        return deciding_stretch(self)


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
    engine = overheads.of(serving.release)
    plans = engine_plans(deployment, serving, engine)
    estimates = [_on_stage(plan, deployment, workload, serving, engine) for plan in plans]
    found = fullest(estimates, lambda memory: memory.total_bytes.value)
    return replace(found, stages=tuple(estimates)) if len(estimates) > 1 else found


def _on_stage(
    plan: EnginePlan,
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    engine: EngineRuntime,
) -> InferenceMemory:
    parallelism, accelerator = deployment.parallelism, deployment.accelerator
    layout = plan.cache.beside(workload.encoded_tokens)
    if layout is not plan.cache:
        plan = replace(plan, cache=layout)
    tokens = engine.held_tokens(
        workload.input_tokens + workload.output_tokens, serving.max_model_len
    )
    concurrency_per_replica = ceil(workload.concurrency / parallelism.data)

    beams = workload.beams
    steps = step_tokens(engine, serving, beams.prompt_copies * workload.input_tokens)
    sampled = sampled_sequences(engine, serving.max_running_sequences, beams.width)
    at_once = steps.at(concurrency_per_replica), sampled.at(concurrency_per_replica)
    unset = held.unset_tokens(engine, deployment, serving)
    attended = workload.input_tokens if engine.prefills_whole else maximum(tokens, unset)
    copies = score_copies(plan, engine, serving, workload, at_once[0], attended)
    shape = step_shape(plan, engine, serving, *at_once, attended, copies)
    peak_bytes = step_peak_bytes(plan.peak, shape)
    images_bytes = images_peak_bytes(plan.peak, shape)
    activations_bytes = engine.activations(peak_bytes, images_bytes)
    if engine.may_store_scores(serving.flash_attention):
        # Where nobody says that attention is not fused, pools are taken to keep one copy at most.
        storing = replace(shape, bytes_per_score=engine.score_bytes(False, minimum(copies, 1.0)))
        most = engine.activations(step_peak_bytes(plan.peak, storing), images_bytes)
        high = maximum(activations_bytes.high, most.high)
        activations_bytes = Interval(activations_bytes.value, activations_bytes.low, high)
    drafting = draft_plan(engine, serving, deployment)
    draft_model_bytes: Number = 0.0
    if drafting is not None:
        each = layout_sequence_bytes(drafting.cache, tokens)
        draft_model_bytes = drafting.weights.total_bytes + concurrency_per_replica * each
    libraries_bytes = shift(
        engine.libraries(parallelism, accelerator.scale_up),
        serving.reserved_bytes + draft_model_bytes,
    )
    graphs_bytes = engine.graphs(eager=serving.enforce_eager)
    context_bytes = engine.context(accelerator)
    copies = engine.cache_copies
    sequence_bytes = copies * layout_sequence_bytes(layout, tokens)
    beams_bytes: Number = 0.0
    if not is_nothing(sharing := beams.width - beams.prompt_copies):
        beams_bytes = copies * sharing * layout_sequence_bytes(layout, workload.output_tokens)
    # One sequence at a time holds what a step computes of its prompt beside its windows.
    prompt = minimum(shape.step_tokens, workload.input_tokens)
    prefill_bytes = (
        copies * layout_sequence_bytes(layout, tokens, prompt) - sequence_bytes
        if layout.windowed
        else 0.0
    )
    shared_bytes = copies * held.shared_bytes(layout, workload, tokens)
    growing_bytes = copies * held.growing_bytes(
        plan, engine, workload, serving, sequence_bytes / copies
    )
    request = beams.prompt_copies * sequence_bytes + beams_bytes
    cached = (
        held_bytes(concurrency_per_replica, request - shared_bytes, growing_bytes)
        + shared_bytes
        + prefill_bytes
    )

    slack_bytes = engine.slack(peak_bytes)
    weights_bytes = plan.weights_bytes
    capacity_bytes = accelerator.memory_bytes
    # Plain figures first, so that there are fewer passes where others are arrays.
    inside = [weights_bytes, libraries_bytes]
    for part, counts in (
        (graphs_bytes, engine.graphs_in_share),
        (engine.counted_context(context_bytes), engine.context_in_share > 0.0),
        (activations_bytes, engine.activations_in_share),
    ):
        if counts:
            inside.append(part)
    counted = independent_sum((*inside, slack_bytes))
    usable_bytes = engine.usable_bytes(
        capacity_bytes, serving.memory_utilization_ratio, counted.value
    )
    kept_bytes = kept.kept_bytes(engine, deployment, serving)
    if not is_nothing(kept_bytes):
        usable_bytes = usable_bytes - kept_bytes
    room_bytes = cache_room(
        usable_bytes,
        counted,
        capacity_bytes,
        independent_sum(
            (weights_bytes, libraries_bytes, graphs_bytes, activations_bytes, slack_bytes)
        ),
    )
    if grows(unset):
        taken = minimum(copies * layout_sequence_bytes(layout, unset), room_bytes.value)
        cached = maximum(cached, taken)
    sigma = cache_log_sigma(layout, engine.size_log_sigma, paged=engine.fills_share)
    headroom_bytes, kv_cache_bytes = shift(room_bytes, -cached), from_log_sigma(cached, sigma)
    weights_by_class_bytes = plan.weights.by_class_bytes
    fits = headroom_bytes.value >= 0.0
    host_bytes = plan.host_bytes
    checkpoint_bytes = plan.weights.total_model_bytes
    return InferenceMemory(
        deployment,
        workload,
        serving,
        engine,
        plan,
        weights_bytes,
        weights_by_class_bytes,
        kv_cache_bytes,
        activations_bytes,
        capacity_bytes,
        usable_bytes,
        fits,
        headroom_bytes,
        room_bytes,
        host_bytes,
        checkpoint_bytes,
        sequence_bytes,
        beams_bytes,
        shared_bytes,
        growing_bytes,
        prefill_bytes,
        shape,
        steps,
        sampled,
        tokens,
        concurrency_per_replica,
        peak_bytes,
        images_bytes,
        libraries_bytes,
        context_bytes,
        graphs_bytes,
        slack_bytes,
        draft_model_bytes,
        kept_bytes,
    )
