"""Measured efficiencies that turn peak rates into achieved ones.

Each set belongs to a hardware family and an engine, never to a model, and carries the spread of
its residuals, from which the intervals of latencies and powers come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from service.core.elementwise import Number, hypot
from service.core.figures import Figures, from_figures
from service.core.learning import CHANNELS, NO_CORRECTION, NO_CORRECTIONS, Correction, Corrections
from service.core.performance.host_experts import HostProcessors
from service.core.performance.spread import NO_WIDENING, TimeShares, Widening
from service.core.stacking import ALIKE, FIGURE, NAME

#: How often every stored form of a score moves: the product of queries and keys writes it, the
#: softmax reads and writes it, and the product with values reads it.
SCORE_PASSES = 4.0

#: What packets leave of a host link's rate to what they carry: 128 bytes each, with 24 of headers
#: and checks (Xilinx WP350, Understanding Performance of PCI Express Systems, 2014).
PAYLOAD_RATIO = 128.0 / 152.0
#: Tokens from which weights in the host's memory are copied to the accelerator: llama.cpp,
#: ``ggml_backend_cuda_device_offload_op``, ``min_batch_size``, 2025.
COPIED_TOKENS = 32


#: What an engine does whatever the hardware, of which figures of its memory tell.
RUNTIME_FACTS = (
    "fuses_attention",
    "bytes_per_score",
    "fuses_elementwise",
    "result_ratio",
    "regrows_cache",
    "repeats_heads",
)


@dataclass(frozen=True, slots=True)
class HardwareEfficiency:
    """What a hardware family reaches of its datasheet.

    ``matrix_ratio`` is the share of dense peak that large matrix products reach, by operand width
    in bits; ``memory_ratio`` the share of peak bandwidth that streaming reads reach;
    ``attention_matrix_ratio`` and ``attention_memory_ratio`` are the same for attention kernels;
    ``overlap_ratio`` how much of the shorter of compute and memory time hides behind the longer;
    ``tile_rows`` the rows by which a tall matrix product's height is effectively padded;
    ``expert_ratio`` how fast grouped products of large routed experts are beside dense ones of the
    same work, routing and permutation included, and ``expert_half_elements`` how many elements a
    matrix of an expert has where products of many rows reach half of that; ``narrow_experts_s`` is
    what a layer of experts that multiply operands of 8 or 4 bit takes besides, to narrow and scale
    activations; ``popularity_ratio`` is the standard deviation over the mean of how often experts
    are chosen;
    ``blas_ratio`` how fast the library is that multiplies dense matrices, beside the usual one;
    ``link_ratio`` the share of link bandwidth that collectives reach; ``dequantised_ratio`` how
    fast products are that widen their weights first beside those that need not;
    ``matrix_flops_per_joule`` is what matrix products of 16-bit operands reach for each watt of
    thermal design power at most, because clocks fall when that power is drawn: infinite where
    nothing tells. Narrower operands reach in proportion more. ``prefill_log_sigma``,
    ``decode_log_sigma`` and ``throughput_log_sigma`` are the spreads of times of prompts, of times
    of decoding and of rates.
    """

    matrix_ratio: Mapping[int, float] = field(metadata=FIGURE)
    memory_ratio: float = field(metadata=FIGURE)
    attention_matrix_ratio: float = field(metadata=FIGURE)
    attention_memory_ratio: float = field(metadata=FIGURE)
    overlap_ratio: float = field(metadata=FIGURE)
    tile_rows: Number = field(metadata=FIGURE)
    expert_ratio: float = field(metadata=FIGURE)
    link_ratio: float = field(metadata=FIGURE)
    prefill_log_sigma: Number = field(metadata=FIGURE)
    decode_log_sigma: Number = field(metadata=FIGURE)
    throughput_log_sigma: Number = field(metadata=FIGURE)
    dequantised_ratio: float = field(default=1.0, metadata=FIGURE)
    expert_half_elements: float = field(default=0.0, metadata=FIGURE)
    narrow_experts_s: float = field(default=0.0, metadata=FIGURE)
    popularity_ratio: float = field(default=0.0, metadata=FIGURE)
    blas_ratio: float = field(default=1.0, metadata=FIGURE)
    matrix_flops_per_joule: float = field(default=inf, metadata=FIGURE)


@dataclass(frozen=True, slots=True)
class EngineOverhead:
    """Time an inference engine adds to the work itself.

    ``step_s`` per scheduler step, ``layer_s`` per layer (kernel launches or graph replay gaps),
    ``sequence_s`` per running sequence and step (scheduling, sampling, detokenising), on a host
    whose cores take ``core_time_ratio`` of the time that those of an accelerator server do, and
    ``host_ratio`` of that with a vendor's driver on a kind of machine. A layer's kernels take
    ``prompt_layer_s`` of the host to be issued in steps with prompts, of which no graphs are
    captured: they are issued beside the accelerator's work. ``launch_bound`` engines issue kernels
    one by one: their overhead runs beside the accelerator and counts only where it is longer than
    the work. Engines with ``half_accumulation`` add up products of 16-bit floats in 16 bit, which
    some hardware does faster. Of the pipeline stages that could work at the same time on parts of a
    prompt, ``pipelined_ratio`` do so beside the first; launches of ``prompt_layer_kernel_count`` a
    layer say how many could (0: all); ``pipelined_log_sigma`` is what that adds to the spread of
    prompts' times. ``expert_s`` is what each expert of a layer takes that an accelerator holds,
    where experts are no product of one kernel. Unless settings say otherwise, an engine
    ``fuses_attention``; one that does not stores ``bytes_per_score`` for each pair of tokens and
    head [B]. Where it ``replays_graphs``, a layer takes what the accelerator needs from kernel to
    kernel, whatever the host. An engine that ``fuses_elementwise`` has few kernels between
    products; results of layers are ``result_ratio`` times as wide as activations. One that
    ``regrows_cache`` copies it into a longer one at each step; one that ``repeats_heads`` copies
    keys and values for every head of queries first, one that ``rereads_heads`` reads them once for
    each; where it ``rereads_by_sequence``, as many sequences as heads of a group share what they
    read. One that is ``weight_only`` widens narrow weights for activations in 16 bit. Matrices in
    few bits are read at ``packed_memory_ratio`` of the bandwidth of those in 16; those of
    ``widened_whole`` formats are written in 16 bit before they multiply ``widened_from_rows`` or
    more, zero if never. With ``whole_expert_tiles`` products of experts fill tiles alone. Routed
    experts whose weights have fewer than ``unrouted_below_bits`` each multiply all tokens. Choosing
    a token moves ``sampled_bytes`` for each entry of the vocabulary, and ``sampling_ratio`` of that
    with a release that sorts none. The server's own process takes ``told_s`` to tell a token,
    beside all else: no step ends sooner than its tokens are told. By the backend in use a layer
    takes ``backend_layer_ratio`` of what it takes by the interface of the hardware's maker. A
    weight in super-blocks takes ``unpacking_operations`` [-]; 0 where nobody knows. Weights of up
    to ``loaded_bits`` are read by loads that multiprocessors of ``loading_lane_count`` each have
    few of under way: ``cycle_read_bytes`` in a cycle, 0 where nobody knows. Fused attention that is
    ``vector_attention`` has no matrix units: it computes all that a mask takes away, at
    ``vector_attention_ratio`` of the peak of lanes of 32 bit. Where an engine ``loops_experts`` of
    a prompt, each product of one takes ``prompt_product_s``; else all are one kernel. A server that
    answers requests in the engine's own process adds ``served_s`` to each step; a script that hands
    them over has none. What a step computes is handed to the other ranks of tensor parallelism in
    ``ranks_s`` each, and a step with prompts starts by another program or path in ``prompts_s``.
    Decoding attends to ``bucket_ratio`` times as many tokens as there are. All experts of
    ``batched_expert_models`` multiply all tokens in one product each, where weights have 16 bits;
    states of ``stepwise_state_models`` are carried on operation by operation. One that
    ``multiplies_integers`` quantises activations to meet weights in few bits as integers of 8. On
    up to ``replayed_accelerators`` a step with one token is a graph, in which a layer takes
    ``replayed_ratio`` of what an accelerator server takes to issue its kernels. One that
    ``schedules_ahead`` spends ``step_s`` and ``sequence_s`` beside the accelerator. One that does
    not ``reaches_matrix_units`` multiplies by vectors. Where ``widening_operations`` of lanes of 32
    bit are known that widen a weight for a row, they stand in for ``dequantised_ratio``. Products
    of weights in few bits reach ``warp_ratio`` of the rate of others; to convert the sum of a block
    of integers takes ``converting_operations``.
    """

    step_s: float = field(metadata=FIGURE)
    layer_s: float = field(metadata=FIGURE)
    sequence_s: float = field(metadata=FIGURE)
    collective_s: float = field(metadata=FIGURE)
    launch_bound: bool = field(metadata=ALIKE)
    half_accumulation: bool = field(default=False, metadata=ALIKE)
    pipelined_ratio: float = field(default=1.0, metadata=FIGURE)
    pipelined_log_sigma: float = field(default=0.0, metadata=FIGURE)
    expert_s: float = field(default=0.0, metadata=FIGURE)
    fuses_attention: bool = field(default=True, metadata=ALIKE)
    bytes_per_score: float = field(default=0.0, metadata=ALIKE)
    prompt_layer_s: float = field(default=0.0, metadata=FIGURE)
    host_ratio: float = field(default=1.0, metadata=FIGURE)
    core_time_ratio: float = field(default=1.0, metadata=FIGURE)
    replays_graphs: bool = field(default=False, metadata=ALIKE)
    fuses_elementwise: bool = field(default=True, metadata=ALIKE)
    result_ratio: float = field(default=1.0, metadata=ALIKE)
    regrows_cache: bool = field(default=False, metadata=ALIKE)
    repeats_heads: bool = field(default=False, metadata=ALIKE)
    rereads_heads: bool = field(default=False, metadata=ALIKE)
    rereads_by_sequence: bool = field(default=False, metadata=ALIKE)
    weight_only: bool = field(default=False, metadata=ALIKE)
    prompt_layer_kernel_count: float = field(default=0.0, metadata=ALIKE)
    packed_memory_ratio: float = field(default=1.0, metadata=FIGURE)
    whole_expert_tiles: bool = field(default=False, metadata=ALIKE)
    widened_from_rows: float = field(default=0.0, metadata=ALIKE)
    prompt_product_s: float = field(default=0.0, metadata=FIGURE)
    unrouted_below_bits: float = field(default=0.0, metadata=ALIKE)
    sampled_bytes: float = field(default=0.0, metadata=FIGURE)
    sampling_ratio: float = field(default=1.0, metadata=ALIKE)
    schedules_ahead: bool = field(default=False, metadata=ALIKE)
    told_s: float = field(default=0.0, metadata=FIGURE)
    backend_layer_ratio: float = field(default=1.0, metadata=FIGURE)
    unpacking_operations: float = field(default=0.0, metadata=FIGURE)
    vector_attention: bool = field(default=False, metadata=ALIKE)
    vector_attention_ratio: float = field(default=1.0, metadata=FIGURE)
    loops_experts: bool = field(default=False, metadata=ALIKE)
    served_s: float = field(default=0.0, metadata=FIGURE)
    ranks_s: float = field(default=0.0, metadata=FIGURE)
    prompts_s: float = field(default=0.0, metadata=FIGURE)
    bucket_ratio: float = field(default=1.0, metadata=ALIKE)
    loaded_bits: float = field(default=0.0, metadata=ALIKE)
    loading_lane_count: float = field(default=0.0, metadata=ALIKE)
    cycle_read_bytes: float = field(default=0.0, metadata=FIGURE)
    batched_expert_models: frozenset[str] = field(default=frozenset(), metadata=ALIKE)
    stepwise_state_models: frozenset[str] = field(default=frozenset(), metadata=ALIKE)
    multiplies_integers: bool = field(default=False, metadata=ALIKE)
    replayed_accelerators: float = field(default=0.0, metadata=ALIKE)
    replayed_ratio: float = field(default=1.0, metadata=FIGURE)
    reaches_matrix_units: bool = field(default=True, metadata=ALIKE)
    widening_operations: float = field(default=0.0, metadata=ALIKE)
    warp_ratio: float = field(default=1.0, metadata=ALIKE)
    converting_operations: float = field(default=2.0, metadata=ALIKE)

    @property
    def waited_ratio(self) -> Number:
        """Time of the host over that of an accelerator server's [-]."""
        return self.host_ratio * self.core_time_ratio

    @property
    def layer_ratio(self) -> Number:
        """What host and backend do to the time of a layer: nothing to that of a graph's [-]."""
        return 1.0 if self.replays_graphs else self.waited_ratio * self.backend_layer_ratio

    def moved_per_score(self, fused: bool | None) -> float:
        """What attention moves for each score, by what settings say of it [B]."""
        fused = self.fuses_attention if fused is None else fused
        return 0.0 if fused else SCORE_PASSES * self.bytes_per_score

    def stages_at_work(self, overlapping: float) -> Number:
        """Pipeline stages that work at once on parts of prompts, of those that could [-]."""
        return 1.0 + self.pipelined_ratio * (overlapping - 1.0)


@dataclass(frozen=True, slots=True)
class PowerModel:
    """What an accelerator draws above idle, by what it does.

    ``resident_ratio`` of what there is between idle and the limit of power is drawn as long as
    requests are in flight, clocks up and a model in memory; ``active_ratio`` in proportion to the
    time in which kernels run. Every byte to or from memory takes ``memory_j_per_byte``, every
    operation of matrix units on 16-bit operands ``matrix_j_per_flop``, and on narrower ones in
    proportion less. Own measurements show ``own_ratio`` of all that together. ``log_sigma`` is
    the spread of an accelerator's power, ``machine_log_sigma`` that of whole machines.
    """

    resident_ratio: float = field(metadata=FIGURE)
    active_ratio: float = field(metadata=FIGURE)
    memory_j_per_byte: float = field(metadata=FIGURE)
    matrix_j_per_flop: float = field(metadata=FIGURE)
    log_sigma: float = field(metadata=FIGURE)
    machine_log_sigma: float = field(default=0.0, metadata=FIGURE)
    own_ratio: float = field(default=1.0, metadata=FIGURE)
    source: str = field(default="", metadata=NAME)

    def corrected(self, correction: Correction) -> PowerModel:
        """The model with all that is drawn above idle corrected."""
        return replace(
            self,
            own_ratio=self.own_ratio * correction.ratio,
            log_sigma=self.log_sigma * correction.spread_ratio,
        )


@dataclass(frozen=True, slots=True)
class CopiedWeights:
    """What steps see that copy weights from outside the accelerator before they multiply them.

    ``bandwidth_bytes_per_s`` is what all memories together amount to [B/s], and ``outside_ratio``
    how much of the time of memory is owed to what lies outside [-]. Others, in which processors of
    the host compute, have the spread ``host_log_sigma`` beside that of kernels [-].
    """

    bandwidth_bytes_per_s: Number = field(metadata=FIGURE)
    outside_ratio: Number = field(metadata=FIGURE)
    host_log_sigma: Number = field(metadata=FIGURE)


@dataclass(frozen=True, slots=True, eq=False)
class PerformanceCalibration:
    """The efficiencies that apply to one deployment, and where they come from.

    Compared by identity, as models are.

    ``corrections`` are what own measurements of its kind say about the times that follow. Spreads
    are those of kernels that are known; ``widening`` says by what a time has more, by what it is
    spent on, and ``outside_ratio`` how much of the time of memory is owed to what lies outside the
    accelerator [-]. Experts are computed by the ``host``, as far as it serves this accelerator; by
    the accelerator where that is None. Where processors compute what lies outside in small steps,
    ``copied`` is what others see.
    """

    hardware: HardwareEfficiency = field(metadata=FIGURE)
    engine: EngineOverhead = field(metadata=FIGURE)
    power: PowerModel = field(metadata=FIGURE)
    source: str = field(metadata=NAME)
    measured: bool = field(metadata=FIGURE)
    corrections: Corrections = field(default=NO_CORRECTIONS, metadata=FIGURE)
    widening: Widening = field(default=NO_WIDENING, metadata=FIGURE)
    outside_ratio: Number = field(default=0.0, metadata=FIGURE)
    host: HostProcessors | None = field(default=None, metadata=FIGURE)
    copied: CopiedWeights | None = field(default=None, metadata=FIGURE)

    def reached_ratio(self, own_ratio: Number) -> Number:
        """Share of bandwidth that kernels reach who reach a share of the accelerator's own [-].

        What lies outside arrives as fast as links deliver it, whatever kernels do, or is read by
        processors as fast as these reach.
        """
        outside, payload_ratio = self.outside_ratio, PAYLOAD_RATIO if self.copied is None else 1.0
        reached: Number = own_ratio / (1.0 - outside + own_ratio / payload_ratio * outside)
        return reached

    def widened(self, figure: str, log_sigma: Number, shares: TimeShares, routed: bool) -> Number:
        """Spread of decoding, of prompts (prefill) or of the rate, by what it is spent on [-]."""
        copied, outside = self.copied, self.outside_ratio
        if copied is not None and figure == "prefill":
            outside = copied.outside_ratio
        own = log_sigma * self.widening.ratio(shares.reading_outside(outside), routed)
        if copied is None or figure == "prefill":
            return own
        spread: Number = hypot(own, copied.host_log_sigma)
        return spread

    @property
    def decode_log_sigma(self) -> Number:
        """Spread of the time of decoding, spent in kernels alone [-]."""
        return self.hardware.decode_log_sigma * self.corrections.decode.spread_ratio

    @property
    def throughput_log_sigma(self) -> Number:
        """Spread of the rate of requests, whose time is spent in kernels alone [-]."""
        return self.hardware.throughput_log_sigma * self.corrections.decode.spread_ratio

    def prefill_log_sigma(self, pipeline: int) -> Number:
        """The same of the time of prompts through a number of pipeline stages [-]."""
        added = self.engine.pipelined_log_sigma if pipeline > 1 else 0.0
        spread: Number = (self.hardware.prefill_log_sigma**2 + added**2) ** 0.5
        return spread * self.corrections.prefill.spread_ratio

    @property
    def own_measurements(self) -> Mapping[str, str]:
        """What own measurements do to each channel that they say something of, in words."""
        each = {name: getattr(self.corrections, name) for name in CHANNELS}
        return {
            name: f"times {one.ratio:.4g}" for name, one in each.items() if one is not NO_CORRECTION
        }

    def corrected(self, corrections: Corrections) -> PerformanceCalibration:
        """The calibration as own measurements correct it."""
        return replace(self, corrections=corrections, power=self.power.corrected(corrections.power))


def hardware_efficiency(figures: Figures) -> HardwareEfficiency:
    """A hardware family's efficiencies from its figures, as a backend reaches them."""

    def by_backend(name: str) -> Number:
        return figures[name].value if name in figures else 1.0

    of_products = by_backend("backend_matrix_ratio")
    ratios = {
        bits: figures[f"matrix_{bits}bit_ratio"].value * of_products for bits in (32, 16, 8, 4)
    }
    return from_figures(
        HardwareEfficiency,
        figures,
        matrix_ratio=ratios,
        memory_ratio=figures["memory_ratio"].value * by_backend("backend_memory_ratio"),
        blas_ratio=by_backend("backend_blas_ratio"),
    )


def power_model(figures: Figures, machine_log_sigma: Number, source: str) -> PowerModel:
    """A power model from its figures, named by where they stand, and the spread of machines."""
    return from_figures(
        PowerModel,
        figures,
        log_sigma=figures["power_log_sigma"].value,
        machine_log_sigma=machine_log_sigma,
        source=source,
    )
