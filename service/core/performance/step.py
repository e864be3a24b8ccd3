"""Time of forward steps, by what it is spent on."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import log

from numpy import ndarray

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, Truth, is_nothing, maximum, minimum, positive
from service.core.lightweight import computed_once, lightweight
from service.core.performance.attended import attended
from service.core.performance.attention_cost import AttentionCost, attention_costs, is_on_vectors
from service.core.performance.buckets import graph_ratio
from service.core.performance.calibration import COPIED_TOKENS, PerformanceCalibration
from service.core.performance.collectives import Message
from service.core.performance.expert_tiles import padded_rows, whole_tiles
from service.core.performance.issued import (
    fused_layers,
    looped_experts,
    narrow_expert_layers,
    prompt_launch_count,
    replays,
)
from service.core.performance.kernels import driven
from service.core.performance.messages import HALVED_TOKENS, hidden_ratio, logits_s, token_message
from service.core.performance.products import (
    ExpertProducts,
    ProductCost,
    WorkSizes,
    expert_products,
    product_costs,
    work_sizes,
)
from service.core.performance.steps import StepLoad, StepTime
from service.core.performance.work import MACHINE_RANKS, RankWork

#: Tokens up to which products of experts are those of a matrix and some vectors, which have no
#: tiles: llama.cpp, ``MMVQ_MAX_BATCH_SIZE``, 2024.
_VECTOR_ROWS = 8
#: How far the time is off that a server's process takes to tell tokens, either way: servers' cores
#: differ by half (``core_time_ratio`` of platforms), and load generators often share them [-].
_TOLD_DOUBT_RATIO = 1.5
#: The logarithm of what lies between both ways [-].
_TOLD_DOUBT_SPAN = 2.0 * log(_TOLD_DOUBT_RATIO)


@lightweight
class RankSteps:
    """Steps of a rank, with all in advance that does not depend on their load.

    ``by_token`` and ``by_sequence`` are what products cost with a row for each, of ``sizes``, where
    drafted tokens have logits as sequences have; ``experts`` are those with a row for each choice
    of a token. A token takes ``token_flops`` and ``message.byte_s``, logits move ``chosen_bytes``
    and a sequence ``state_bytes``; ``overhead_s``, with ``narrowing_s`` in it, ``step_s`` and
    ``sequence_s`` are the engine's. ``launch_bound`` ones issue kernels beside the work; what is
    scheduled is done beside it where an engine ``schedules_ahead``. Ranks and servers wait
    ``handed_s`` for what they are handed. Kernels of steps with prompts take ``issued_s`` to be
    issued, beside the work and in place of the ``layers_s`` that the overhead has of graphs.
    Products of experts take ``prompt_product_s`` each in them, and tiles of their own where there
    are ``whole_expert_tiles``. Where steps are ``eager`` in place of graphs, all are issued as
    those. A token moves ``elementwise_bytes_per_token`` besides. A step with prompts issues
    ``prompt_launch_count`` kernels, zero where nobody counted them, and starts in ``prompts_s``.
    Decoding attends to ``bucket_ratio`` times as many tokens as there are. It has graphs for each
    number of sequences up to ``dense_graph_sequences``, and for its doubles (0: for all). Work of
    ``experts_on_host`` is none of the accelerator's.
    Kernels of steps with prompts are issued while others run, which saves ``ahead_s``.
    ``exposed_ratio`` of the shorter of arithmetic and memory traffic does not overlap with the
    longer. Attention ``skips_masked`` pairs, or computes them. A graph saves ``replaying_s`` of
    steps with one token. Where the host computes what lies there, many tokens are ``copying``.
    """

    work: RankWork
    context_ranks: int
    tile_rows: Number
    exposed_ratio: Number
    sizes: WorkSizes
    by_token: tuple[ProductCost, ...]
    by_sequence: tuple[ProductCost, ...]
    experts: tuple[ExpertProducts, ...]
    attention: tuple[AttentionCost, ...]
    bytes_per_s: Number
    token_flops: float
    message: Message
    prompt_message: Message | None
    hidden_ratio: Number
    overhead_s: Number
    handed_s: Number
    narrowing_s: Number
    step_s: Number
    sequence_s: Number
    schedules_ahead: bool
    state_bytes: Number
    chosen_bytes: Number
    told_s: Number
    layers_s: Number
    ahead_s: Number
    replaying_s: Number
    issued_s: Number
    eager: bool
    launch_bound: bool
    fused: bool
    skips_masked: bool
    rereads_by_sequence: bool
    elementwise_bytes_per_token: float
    prompt_product_s: Number
    whole_expert_tiles: bool
    prompt_launch_count: float
    prompts_s: Number
    bucket_ratio: float
    dense_graph_sequences: float
    experts_on_host: bool
    outside_ratio: Number = 0.0
    computed_outside_ratio: Number = 0.0
    copying: RankSteps | None = None

    # Whether there is any of what most engines and deployments have none of.

    @computed_once
    def reads_outside(self) -> bool:
        """Whether a part of the memory's time is owed to what lies outside."""
        return not is_nothing(self.outside_ratio)

    @computed_once
    def hides_messages(self) -> bool:
        """Whether messages are sent while halves of a step are computed."""
        return not is_nothing(self.hidden_ratio)

    @computed_once
    def issues_prompts(self) -> bool:
        """Whether a step can be over before its last kernel is issued."""
        return not self.launch_bound and not is_nothing(self.issued_s)

    @computed_once
    def saves_launches(self) -> bool:
        """Whether steps of one token, or with prompts, save a part of the launches."""
        return not (is_nothing(self.ahead_s) and is_nothing(self.replaying_s))

    @computed_once
    def starts_prompts(self) -> bool:
        """Whether it takes time to start a step with prompts."""
        return not is_nothing(self.prompts_s)

    @computed_once
    def fills_graphs(self) -> bool:
        """Whether steps of decoding compute more sequences than there are."""
        return self.dense_graph_sequences > 0.0

    @computed_once
    def tells_tokens(self) -> bool:
        """Whether a server's process tells tokens to users."""
        return not is_nothing(self.told_s)

    def time(self, load: StepLoad) -> StepTime:
        """A forward step: by where weights outside the accelerator are multiplied, if there are."""
        step = self._time(load)
        if self.copying is None:
            return step
        return step.unless(load.tokens >= COPIED_TOKENS, self.copying.time(load))

    def _time(self, load: StepLoad) -> StepTime:
        """Time [s], FLOPs and bytes moved of one forward step.

        Every operator takes the longer of its compute and its memory time, plus the part of the
        shorter that does not overlap; operators run one after the other; messages and overheads
        are added. With pipeline parallelism the load is that of one microbatch and the time that
        of its way through all stages.
        """
        tokens, sequences, prompts = load.tokens, load.sequences, load.prompts
        # One for each sequence, and one in place of each drafted token.
        chosen = tokens if is_nothing(load.prefill_sequences) else sequences
        if self.context_ranks > 1:
            tokens = tokens / self.context_ranks
        computed, filled = tokens, chosen
        filled_ratio: Number = 1.0
        if self.fills_graphs:
            # Steps without prompts are filled up to the next number of sequences with a graph.
            beyond = graph_ratio(sequences, self.dense_graph_sequences) - 1.0
            filled_ratio = 1.0 + (beyond - beyond * prompts)
            computed, filled = tokens * filled_ratio, chosen * filled_ratio
        flops = tokens * self.token_flops + chosen * self.sizes.by_sequence.row_flops
        # What moves memory without multiplying matrices is bound by memory.
        memory_bytes = tokens * self.elementwise_bytes_per_token + sequences * self.state_bytes
        memory_bytes = memory_bytes + chosen * self.chosen_bytes
        memory_s: Number = memory_bytes / self.bytes_per_s
        operators: list[tuple[Number, Number]] = []  # arithmetic and memory time of each [s]
        always, padded = True, None
        for costs, sizes, rows in (
            (self.by_token, self.sizes.by_token, computed),
            (self.by_sequence, self.sizes.by_sequence, filled),
        ):
            if not costs:
                continue
            if padded is None or rows is not computed:
                always, padded = positive(rows), padded_rows(rows, 1.0, self.tile_rows)
            for padded_row_s, weights_s, row_s, widened_s, from_rows, tiled_ratio in costs:
                read_s = weights_s if always else weights_s * (rows > 0)
                product_s = padded_row_s * padded
                if from_rows:
                    # Read and written in 16 bit first, and read from there by the product.
                    many: Truth = rows >= from_rows
                    memory_s = memory_s + (weights_s + widened_s) * many
                    read_s = read_s + (widened_s - weights_s) * many
                    memory_bytes = memory_bytes + 2.0 * widened_s * many * self.bytes_per_s
                    product_s = product_s * (tiled_ratio - (tiled_ratio - 1.0) * many)
                operators.append((product_s, read_s + row_s * rows))
            weights_bytes = sizes.weights_bytes if always else sizes.weights_bytes * (rows > 0)
            memory_bytes = memory_bytes + (weights_bytes + sizes.row_bytes * rows)
        # Products of experts that are issued one by one, and those of the host.
        apart_s: Number = 0.0
        host_s: Number = 0.0
        # What the rank whose experts were chosen most does beyond the average one.
        uneven_s: Number = 0.0
        idle_compute_s: Number = 0.0
        uneven_bytes: Number = 0.0
        for expert in self.experts:
            mean_read, mean_rows = read, rows = expert.load(tokens)
            if self.fills_graphs:
                rows = rows * filled_ratio
            operators.append(self._of_experts(expert, tokens, read, rows))
            if self.experts_on_host:
                host_s = host_s + maximum(*operators[-1])
                continue
            size = expert.size
            moved_rows = rows + expert.filled_rows
            memory_bytes = memory_bytes + (size.weights_bytes * read + size.row_bytes * moved_rows)
            if expert.busiest_ratio:
                mean_read, mean_rows = expert.mean_load(tokens)
                mean_rows = mean_rows * filled_ratio
                mean = self._of_experts(expert, tokens, mean_read, mean_rows)
                uneven_s = uneven_s + maximum(*operators[-1]) - maximum(*mean)
                idle_compute_s = idle_compute_s + operators[-1][0] - mean[0]
                uneven_bytes = uneven_bytes + size.weights_bytes * (read - mean_read)
                uneven_bytes = uneven_bytes + size.row_bytes * (rows - mean_rows)
            idle_compute_s = idle_compute_s + expert.stalled_s(tokens, mean_read, mean_rows)
            apart_s = apart_s + self.prompt_product_s * size.item.calls * read
        for (
            layer,
            pair_flops,
            pair_s,
            decoded_pair_s,
            token_s,
            token_bytes,
            scores_s,
            scores_bytes,
        ) in self.attention:
            pairs, decoded, read = attended(
                layer, load, self.context_ranks, self.skips_masked, self.bucket_ratio
            )
            if self.rereads_by_sequence:
                # Blocks of a group's heads read side by side what they share.
                read = read / minimum(maximum(sequences, 1.0), layer.heads_per_kv_head)
            pairs_s = pair_s * pairs
            if decoded_pair_s is not pair_s:
                pairs_s = pairs_s + (decoded_pair_s - pair_s) * decoded
                flops = flops + (layer.flops_per_pair - pair_flops) * decoded
            operators.append((pairs_s, token_s * read))
            flops = flops + pair_flops * pairs
            memory_bytes = memory_bytes + token_bytes * read
            if not self.fused:
                memory_s = memory_s + scores_s * pairs
                memory_bytes = memory_bytes + scores_bytes * pairs
        compute_s: Number = 0.0
        # Of operators whose arithmetic takes longer: that, and their memory time.
        longer_s: Number = 0.0
        beside_s: Number = 0.0
        for item_compute_s, item_memory_s in operators:
            bound: Truth = item_compute_s >= item_memory_s
            longer_s = longer_s + bound * item_compute_s
            beside_s = beside_s + bound * item_memory_s
            compute_s = compute_s + item_compute_s
            memory_s = memory_s + item_memory_s
        processors_s = host_s
        if self.reads_outside:
            # Links bring what lies outside, or processors of the host compute it.
            own_s = maximum(memory_s - beside_s - host_s, 0.0)
            outside_s = self.outside_ratio * own_s
            host_s = host_s + outside_s
            processors_s = processors_s + self.computed_outside_ratio * outside_s
        compute_bound_s = longer_s + self.exposed_ratio * beside_s
        work_s = (
            compute_bound_s + (memory_s - beside_s) + self.exposed_ratio * (compute_s - longer_s)
        )
        interconnect_s = self.message.fixed_s + self.message.byte_s * tokens
        if self.prompt_message is not None:
            more = self.prompt_message
            of_prompts_s = more.fixed_s + more.byte_s * tokens - interconnect_s
            interconnect_s = interconnect_s + of_prompts_s * prompts
        if self.hides_messages:
            halved: Truth = tokens >= HALVED_TOKENS
            hidden_s = self.hidden_ratio * minimum(interconnect_s, work_s) * halved
            interconnect_s = interconnect_s - hidden_s
        overhead_s, scheduling_s = self.overhead_s, self.step_s + self.sequence_s * sequences
        late_s: Number = 0.0
        if self.issues_prompts:
            issued: Truth = True if self.eager else prompts
            # No step is over before its last kernel is issued.
            left_s = self.issued_s - self.layers_s - work_s - interconnect_s
            late_s = maximum(left_s, 0.0) * issued
        if self.schedules_ahead:
            # The next step is made ready meanwhile: only the excess is seen.
            meanwhile_s = work_s + interconnect_s + overhead_s + self.handed_s + late_s
            scheduling_s = maximum(scheduling_s - meanwhile_s, 0.0)
        if self.saves_launches:
            # A mean between one and two is that of steps with one and of others.
            alone = minimum(maximum(2.0 - tokens, 0.0), 1.0)
            overhead_s = overhead_s - maximum(self.ahead_s * prompts, self.replaying_s * alone)
        if self.launch_bound:
            # Kernels are issued one by one beside the accelerator: only the excess is seen.
            overhead_s = maximum(overhead_s - work_s, 0.0)
        # What comes between steps waits for tokens to be chosen, and the next step for it.
        overhead_s = overhead_s + self.handed_s + scheduling_s + late_s
        if self.experts:
            overhead_s = overhead_s + apart_s * prompts
        if self.starts_prompts:
            overhead_s = overhead_s + self.prompts_s * prompts
        unsure_s = overhead_s
        if self.tells_tokens:
            # The server's process falls behind where steps are shorter than it takes to tell them.
            told_s, within_s = self.told_s * sequences, work_s + interconnect_s
            slower_s = maximum(told_s * _TOLD_DOUBT_RATIO - within_s, overhead_s)
            faster_s = maximum(told_s / _TOLD_DOUBT_RATIO - within_s, overhead_s)
            overhead_s = maximum(overhead_s, told_s - within_s)
            unsure_s = maximum(overhead_s, (slower_s - faster_s) / _TOLD_DOUBT_SPAN)
        # By position, which takes less than half the time: names are those of the fields.
        return StepTime(
            work_s + interconnect_s + overhead_s,
            work_s,
            compute_s,
            compute_bound_s,
            interconnect_s,
            overhead_s,
            flops,
            memory_bytes,
            unsure_s,
            self.narrowing_s,
            host_s,
            uneven_s,
            idle_compute_s,
            uneven_bytes,
            processors_s,
        )

    def _of_experts(
        self, expert: ExpertProducts, tokens: Number, read: Number, rows: Number
    ) -> tuple[Number, Number]:
        """Compute and memory time of products of experts, by what is read and multiplied [s]."""
        padded_row_s, weights_s, row_s, *_ = expert.cost
        if expert.tile_rows:
            padded = whole_tiles(rows, read, expert.tile_rows)
            moved_s = row_s * (rows + expert.filled_rows)
            return padded_row_s * padded, weights_s * read + moved_s
        padded = padded_rows(rows, read, self.tile_rows)
        if self.whole_expert_tiles:
            tiled: Truth = tokens > _VECTOR_ROWS
            padded = padded + (rows + read * self.tile_rows - padded) * tiled
        compute_s = expert.compute_s(padded_row_s * padded, tokens, read, rows)
        return compute_s, weights_s * read + row_s * rows


def rank_steps(
    work: RankWork,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    fused: bool | None = None,
    eager: bool = False,
    streaming: bool = False,
) -> RankSteps:
    """What steps of a rank take, whatever their load: small ones, and those that copy weights.

    Attention is ``fused`` as the engine does it where that is None. ``eager`` steps of an engine
    that replays graphs are issued kernel by kernel. ``streaming`` ones tell each token to its user.

    References
    ----------
    Williams, Waterman, Patterson, Roofline, 2009, https://doi.org/10.1145/1498765.1498785.
    """
    how = fused, eager, streaming
    if (copied := calibration.copied) is not None:
        slower = replace(accelerator, memory_bandwidth_bytes_per_s=copied.bandwidth_bytes_per_s)
        other = replace(calibration, outside_ratio=copied.outside_ratio, copied=None)
        within = _rank_steps(work, accelerator, parallelism, calibration, *how)
        return replace(within, copying=_rank_steps(work, slower, parallelism, other, *how))
    # Those of a search are asked for once, and large.
    large = isinstance(accelerator.memory_bandwidth_bytes_per_s, ndarray)
    made = _rank_steps if large else _kept_steps
    return made(work, accelerator, parallelism, calibration, *how)


def _rank_steps(
    work: RankWork,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    fused: bool | None,
    eager: bool,
    streaming: bool,
) -> RankSteps:
    hardware, engine = calibration.hardware, calibration.engine
    accelerator = driven(accelerator, engine)
    sizes = work_sizes(work.products, work.activation_bytes * engine.result_ratio)
    experts = expert_products(sizes.experts, accelerator, parallelism, calibration)
    on_host = bool(experts) and calibration.host is not None
    routed_flops = 0.0 if on_host else sum(one.token_flops for one in experts)
    moved_per_score = engine.moved_per_score(fused, (one.head_features for one in work.attention))
    streamed_per_s = accelerator.memory_bandwidth_bytes_per_s * calibration.reached_ratio(
        hardware.memory_ratio
    )
    attention = attention_costs(
        work.attention, accelerator, calibration, moved_per_score, streamed_per_s
    )
    narrow_layers = 0.0 if on_host else narrow_expert_layers(work, accelerator, engine)
    narrowing_s = hardware.narrow_experts_s * narrow_layers
    issued_ratio = work.launches_ratio if engine.launch_bound else 1.0
    layers_s = engine.layer_s * engine.layer_ratio * fused_layers(work, engine) * issued_ratio
    replayed_s = engine.layer_s * engine.replayed_ratio * fused_layers(work, engine)
    graph_saves_s = maximum(layers_s - replayed_s, 0.0)
    replaying_s = graph_saves_s if replays(work, parallelism, engine) else 0.0
    queued = engine.native and not engine.launch_bound and not engine.records_ahead
    return RankSteps(
        work=work,
        context_ranks=parallelism.context,
        tile_rows=hardware.tile_rows,
        exposed_ratio=1.0 - hardware.overlap_ratio,
        sizes=sizes,
        by_token=product_costs(sizes.by_token.each, accelerator, calibration),
        by_sequence=product_costs(sizes.by_sequence.each, accelerator, calibration),
        experts=experts,
        attention=attention,
        bytes_per_s=streamed_per_s,
        token_flops=sizes.by_token.row_flops + routed_flops + work.state_flops_per_token,
        message=token_message(work, accelerator, parallelism, calibration),
        prompt_message=token_message(work, accelerator, parallelism, calibration, True)
        if work.exchanges and parallelism.expert > MACHINE_RANKS
        else None,
        hidden_ratio=hidden_ratio(work, accelerator, parallelism),
        overhead_s=layers_s
        + engine.expert_s * (0.0 if on_host else looped_experts(work, engine))
        + narrowing_s,
        handed_s=(engine.served_s + engine.ranks_s * (parallelism.tensor - 1.0))
        * engine.waited_ratio,
        narrowing_s=narrowing_s,
        step_s=engine.step_s * engine.waited_ratio,
        sequence_s=(engine.sequence_s + streaming * engine.streamed_s) * engine.waited_ratio
        + logits_s(work, accelerator, engine),
        schedules_ahead=engine.schedules_ahead,
        state_bytes=work.state_bytes_per_sequence,
        chosen_bytes=engine.sampled_bytes * engine.sampling_ratio * work.chosen_from,
        told_s=engine.told_s * engine.waited_ratio if work.chosen_from else 0.0,
        layers_s=layers_s,
        replaying_s=replaying_s,
        ahead_s=graph_saves_s if queued else 0.0,
        issued_s=engine.prompt_layer_s
        * engine.waited_ratio
        * engine.backend_layer_ratio
        * (work.layers + work.added_layers * engine.replays_graphs),
        eager=eager and engine.replays_graphs,
        launch_bound=engine.launch_bound,
        fused=moved_per_score == 0.0,
        skips_masked=moved_per_score == 0.0
        and not is_on_vectors(accelerator, calibration, moved_per_score),
        rereads_by_sequence=engine.head_reads_exponent_ratio > 0.0 and engine.rereads_by_sequence,
        elementwise_bytes_per_token=work.moved_between(engine.fuses_elementwise)
        * engine.result_ratio,
        prompt_product_s=engine.prompt_product_s if engine.loops_experts else 0.0,
        whole_expert_tiles=engine.whole_expert_tiles,
        prompt_launch_count=prompt_launch_count(work, engine),
        prompts_s=engine.prompts_s * engine.waited_ratio,
        bucket_ratio=engine.bucket_ratio,
        dense_graph_sequences=0.0 if eager else engine.dense_graph_sequences,
        experts_on_host=on_host,
        outside_ratio=calibration.outside_ratio,
        computed_outside_ratio=0.0
        if calibration.copied is None
        else calibration.copied.computed_ratio,
    )


_kept_steps = lru_cache(maxsize=512)(_rank_steps)


def step_time(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    fused: bool | None = None,
) -> StepTime:
    """A single step of a rank; see :meth:`RankSteps.time`."""
    return rank_steps(work, accelerator, parallelism, calibration, fused).time(load)
