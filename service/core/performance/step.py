"""Time of one forward step, by what it is spent on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf
from statistics import NormalDist

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, maximum, minimum, sqrt
from service.core.performance.calibration import EngineOverhead, PerformanceCalibration
from service.core.performance.collectives import all_reduce_s, all_to_all_s, send_s
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.work import AttentionWork, MatrixProduct, RankWork

#: Stands in for no rows at all in divisions.
_FEWEST_ROWS = 1e-9


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step processes on one replica (or one rank of a data-parallel expert group).

    ``prefill_tokens`` new prompt tokens from ``prefill_sequences`` prompts, each token attending
    to ``prefill_context_tokens`` tokens on average, and ``decode_sequences`` sequences of
    ``decode_context_tokens`` tokens that each get one more token.
    """

    prefill_tokens: Number
    prefill_sequences: Number
    prefill_context_tokens: Number
    decode_sequences: Number
    decode_context_tokens: Number


@dataclass(frozen=True, slots=True)
class StepTime:
    """Time of a step [s] and what bounds it.

    ``compute_s`` and ``memory_s`` are the times that arithmetic and memory traffic would take
    alone, summed over operators; ``work_s`` is what they take together; ``interconnect_s`` and
    ``overhead_s`` come on top. ``flops`` and ``memory_bytes`` are per rank.
    """

    total_s: Number
    work_s: Number
    compute_s: Number
    memory_s: Number
    compute_bound_s: Number
    interconnect_s: Number
    overhead_s: Number
    flops: Number
    memory_bytes: Number

    def followed_by(self, other: StepTime, times: Number) -> StepTime:
        """The step and then so many of another."""
        return StepTime(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name) * times
                for each in fields(self)
            }
        )

    def slowed(self, ratio: Number) -> StepTime:
        """The same work in a multiple of the time."""
        return replace(
            self,
            total_s=self.total_s * ratio,
            work_s=self.work_s * ratio,
            compute_s=self.compute_s * ratio,
            memory_s=self.memory_s * ratio,
            compute_bound_s=self.compute_bound_s * ratio,
            interconnect_s=self.interconnect_s * ratio,
            overhead_s=self.overhead_s * ratio,
        )


def step_time(
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> StepTime:
    """Time [s], FLOPs and bytes moved of one forward step on a rank.

    Every operator takes the longer of its compute and its memory time, plus the part of the
    shorter that does not overlap; operators run one after the other; messages and overheads are
    added. With pipeline parallelism the load is that of one microbatch and the time that of its
    way through all stages.

    References
    ----------
    Williams, Waterman, Patterson, Roofline, 2009, https://doi.org/10.1145/1498765.1498785.
    """
    hardware = calibration.hardware
    tokens = (load.prefill_tokens + load.decode_sequences) / parallelism.context
    sequences = load.prefill_sequences + load.decode_sequences
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * hardware.memory_ratio
    memory_bytes: Number = 0.0
    engine = calibration.engine
    per_token = Rows(tokens, hardware.tile_rows)
    per_sequence = Rows(sequences, hardware.tile_rows)
    # Compute and memory time of each operator [s].
    operators: list[tuple[Number, Number]] = []
    rates: dict[tuple[str, float, float], tuple[Number, Number]] = {}
    for item in work.products:
        rows = per_sequence if item.per_sequence else per_token
        padded_flops, item_bytes = product_load(
            item, rows, hardware.tile_rows, parallelism, work.activation_bytes
        )
        kind = (item.matrix_precision, item.weight_bits, item.expert_elements)
        if kind not in rates:
            rates[kind] = product_rates(item, accelerator, calibration)
        flops_per_s, bytes_per_s = rates[kind]
        operators.append((padded_flops / flops_per_s, item_bytes / bytes_per_s))
        memory_bytes = memory_bytes + item_bytes
    flops = per_token.flops * tokens + per_sequence.flops * sequences
    attention_bandwidth = accelerator.memory_bandwidth_bytes_per_s * hardware.attention_memory_ratio
    attention_peak, _ = peak_flops_per_s(accelerator, engine_precision("bf16", engine))
    attention_flops_per_s = attention_peak * hardware.attention_matrix_ratio
    for layer in work.attention:
        item_flops, item_bytes = attention_load(layer, load, parallelism.context)
        operators.append((item_flops / attention_flops_per_s, item_bytes / attention_bandwidth))
        flops = flops + item_flops
        memory_bytes = memory_bytes + item_bytes
    compute_s: Number = 0.0
    memory_s: Number = 0.0
    work_s: Number = 0.0
    compute_bound_s: Number = 0.0
    exposed_ratio = 1.0 - hardware.overlap_ratio
    for item_compute_s, item_memory_s in operators:
        shorter_s = minimum(item_compute_s, item_memory_s)
        item_s = maximum(item_compute_s, item_memory_s) + exposed_ratio * shorter_s
        work_s = work_s + item_s
        compute_bound_s = compute_bound_s + item_s * (item_compute_s >= item_memory_s)
        compute_s = compute_s + item_compute_s
        memory_s = memory_s + item_memory_s
    other_bytes = (
        tokens * work.elementwise_bytes_per_token + sequences * work.state_bytes_per_sequence
    )
    work_s = work_s + other_bytes / bandwidth
    memory_s = memory_s + other_bytes / bandwidth
    memory_bytes = memory_bytes + other_bytes
    flops = flops + tokens * work.state_flops_per_token
    interconnect_s = _message_time(work, tokens, accelerator, parallelism, calibration)
    overhead_s = (
        calibration.engine.step_s
        + calibration.engine.layer_s * work.layers
        + calibration.engine.sequence_s * sequences
        + hardware.narrow_experts_s * _narrow_expert_layers(work, accelerator, engine)
    )
    if calibration.engine.launch_bound:
        # Kernels are issued one by one beside the accelerator: only the excess is seen.
        overhead_s = maximum(overhead_s - work_s, 0.0)
    return StepTime(
        total_s=work_s + interconnect_s + overhead_s,
        work_s=work_s,
        compute_s=compute_s,
        memory_s=memory_s,
        compute_bound_s=compute_bound_s,
        interconnect_s=interconnect_s,
        overhead_s=overhead_s,
        flops=flops,
        memory_bytes=memory_bytes,
    )


def _narrow_expert_layers(
    work: RankWork, accelerator: Accelerator, engine: EngineOverhead
) -> float:
    """Layers whose routed experts multiply operands of fewer than 16 bits."""
    expert = next((item for item in work.products if item.experts), None)
    if expert is None:
        return 0.0
    _, bits = peak_flops_per_s(accelerator, engine_precision(expert.matrix_precision, engine))
    return work.routed_layers if bits < 16 else 0.0


def product_rates(
    item: MatrixProduct, accelerator: Accelerator, calibration: PerformanceCalibration
) -> tuple[Number, Number]:
    """FLOP/s and bytes/s that products of a kind reach."""
    hardware = calibration.hardware
    peak, bits = peak_flops_per_s(
        accelerator, engine_precision(item.matrix_precision, calibration.engine)
    )
    rate = peak * hardware.matrix_ratio[bits]
    power_w, per_joule = accelerator.thermal_design_power_w, hardware.matrix_flops_per_joule
    # A plain infinity limits none of the configurations, so that nothing need be computed.
    if power_w is not None and not (isinstance(per_joule, float) and per_joule == inf):
        # Clocks fall gradually towards what the power allows.
        exceeded = rate / (power_w * accelerator.clock_ratio * per_joule * (16.0 / bits))
        square = exceeded * exceeded
        # The sharpness is four: roots that are rounded alike for one and for arrays of any length.
        rate = rate / sqrt(sqrt(1.0 + square * square))
    if item.weight_bits < bits:
        rate = rate * hardware.dequantised_ratio
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * hardware.memory_ratio
    if not item.experts:
        return rate, bandwidth
    # Products of small experts end before they have filled the accelerator.
    filled = item.expert_elements / (item.expert_elements + hardware.expert_half_elements)
    ratio = hardware.expert_ratio * filled
    return rate * ratio, bandwidth * ratio


class Rows:
    """How many rows products have, what they are padded to, and whether there are any.

    Many rows fill tiles but for one that is partly used; of a few, kernels for narrow products
    waste as many again at most. ``flops`` adds up what each row takes in all of them.
    """

    __slots__ = ("any", "count", "flops", "padded")

    def __init__(self, count: Number, tile_rows: float) -> None:
        self.count = count
        self.flops = 0.0
        self.any = (count > 0) * 1.0
        self.padded = padded_rows(count, 1.0, tile_rows)


@cache
def expected_highest(ranks: int) -> float:
    """How many standard deviations the highest of some normal values lies above their mean.

    References
    ----------
    Blom, Statistical Estimates and Transformed Beta-Variables, 1958 (expected order statistics).
    """
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def padded_rows(rows: Number, matrices: Number, tile_rows: Number) -> Number:
    """Rows of products with the padding of their tiles, where some matrices share the rows.

    Each matrix adds ``tile_rows`` where its rows are many, and its own rows once more where they
    are few: those are products of a matrix and some vectors.
    """
    tiles = tile_rows * matrices
    return rows + rows * tiles / maximum(rows + tiles, _FEWEST_ROWS)


def product_load(
    item: MatrixProduct,
    rows: Rows,
    tile_rows: float,
    parallelism: Parallelism,
    activation_bytes: float,
) -> tuple[Number, Number]:
    """FLOPs, padding included, and bytes moved by products of a kind in one step."""
    per_row = 2.0 * item.input_features * item.output_features * item.calls
    features = (item.input_features + item.output_features) * activation_bytes * item.calls
    if not item.experts:
        weight_bytes = item.weight_bytes * item.calls
        rows.flops += per_row
        return per_row * rows.padded, weight_bytes * rows.any + features * rows.count
    # Tokens of every data-parallel rank of the expert group meet at the experts.
    group = max(1.0, parallelism.expert / parallelism.tensor)
    group_rows = rows.count * group
    touched_ratio = 1.0 - (1.0 - item.experts_per_token / item.experts) ** group_rows
    touched = item.copies * touched_ratio
    routed_rows = group_rows * item.copies_per_token
    rows.flops += per_row * group * item.copies_per_token
    if parallelism.expert > 1:
        # All ranks wait for the one whose experts were chosen most.
        above = expected_highest(parallelism.expert)
        busiest = touched + above * sqrt(touched * (1.0 - touched_ratio))
        touched = minimum(busiest, item.copies)
        elsewhere = 1.0 - item.copies / item.experts
        routed_rows = routed_rows + above * sqrt(routed_rows * elsewhere)
    return (
        per_row * padded_rows(routed_rows, touched, tile_rows),
        item.weight_bytes * item.calls * touched + features * routed_rows,
    )


def attention_load(
    layer: AttentionWork, load: StepLoad, context_ranks: int
) -> tuple[Number, Number]:
    """FLOPs and bytes moved by attention over the contexts of a step."""
    decode_span = load.decode_context_tokens
    prefill_span = load.prefill_context_tokens
    if not layer.causal:
        # As many tokens after it as before it.
        prefill_span = prefill_span + 0.5 * load.prefill_tokens / maximum(
            load.prefill_sequences, 1.0
        )
    if layer.encoded:
        decode_span = prefill_span = layer.encoded_tokens
    if layer.window_tokens is not None:
        window = float(layer.window_tokens)
        # A chunked window is half full on average; a sliding one is full once it is reached.
        decode_span = minimum(decode_span, window / 2.0 if layer.chunked else window)
        prefill_span = minimum(prefill_span, window / 2.0 if layer.chunked else window)
    pairs = (
        load.decode_sequences * decode_span + load.prefill_tokens * prefill_span
    ) / context_ranks
    # A prompt's own keys and values are read once per block of queries, from cache for the most
    # part: about twice the context a prompt ends with.
    read_tokens = (
        load.decode_sequences * decode_span
        + load.prefill_sequences * 2.0 * prefill_span
        + load.prefill_tokens
    ) / context_ranks
    return layer.flops_per_pair * pairs, layer.cache_bytes_per_token * read_tokens


def _message_time(
    work: RankWork,
    tokens: Number,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Number:
    link_ratio = calibration.hardware.link_ratio
    floor_s = calibration.engine.collective_s
    hidden_bytes = tokens * work.hidden_size * work.activation_bytes
    seconds: Number = 0.0
    if parallelism.tensor > 1:
        seconds = work.reductions * all_reduce_s(
            hidden_bytes, parallelism.tensor, accelerator, link_ratio, floor_s
        )
    if work.exchanges:
        seconds = seconds + work.exchanges * all_to_all_s(
            tokens * work.exchanges_bytes_per_token / parallelism.tensor,
            parallelism.expert,
            accelerator,
            link_ratio,
            floor_s,
        )
    if parallelism.pipeline > 1:
        ranks = parallelism.tensor * parallelism.pipeline
        across = ranks > accelerator.scale_up_domain_accelerators
        seconds = seconds + (parallelism.pipeline - 1) * send_s(
            hidden_bytes / parallelism.tensor, across, accelerator, link_ratio
        )
    return seconds
