"""Measured efficiencies that turn peak rates into achieved ones.

Each set belongs to a hardware family and an engine, never to a model, and carries the spread of
its residuals, from which the intervals of latencies and powers come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from service.core.elementwise import Number, hypot, is_nothing
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
    "fused_features_multiple",
    "fuses_elementwise",
    "result_ratio",
    "regrows_cache",
    "repeats_heads",
)


@dataclass(frozen=True, slots=True)
class HardwareEfficiency:
    """How much of its datasheet a hardware family reaches in practice.

    Ratios are of the datasheet's peaks unless a field says otherwise.
    """

    matrix_ratio: Mapping[int, float] = field(metadata=FIGURE)
    """Share of dense peak that large matrix products reach, by operand width in bits [-]."""
    memory_ratio: float = field(metadata=FIGURE)
    """Share of peak bandwidth that streaming reads reach [-]."""
    attention_matrix_ratio: float = field(metadata=FIGURE)
    """``matrix_ratio`` of attention kernels [-]."""
    attention_memory_ratio: float = field(metadata=FIGURE)
    """``memory_ratio`` of attention kernels [-]."""
    overlap_ratio: float = field(metadata=FIGURE)
    """Share of the shorter of compute and memory time that hides behind the longer [-]."""
    tile_rows: Number = field(metadata=FIGURE)
    """Rows by which the height of a tall matrix product is padded in effect."""
    expert_ratio: float = field(metadata=FIGURE)
    """Speed of grouped products of large routed experts, with routing and permutation, over that
    of dense products of the same work [-]."""
    link_ratio: float = field(metadata=FIGURE)
    """Share of link bandwidth that collectives reach [-]."""
    prefill_log_sigma: Number = field(metadata=FIGURE)
    """Spread of the logarithm of times of prompts [-]."""
    decode_log_sigma: Number = field(metadata=FIGURE)
    """Spread of the logarithm of times of decoding [-]."""
    throughput_log_sigma: Number = field(metadata=FIGURE)
    """Spread of the logarithm of rates [-]."""
    dequantised_ratio: float = field(default=1.0, metadata=FIGURE)
    """Speed of products that widen their weights first over that of products that need not [-]."""
    expert_half_elements: float = field(default=0.0, metadata=FIGURE)
    """Elements of an expert's matrix at which products of many rows reach half of
    ``expert_ratio``."""
    narrow_experts_s: float = field(default=0.0, metadata=FIGURE)
    """Time per layer of experts to narrow and scale activations to 8 or 4 bits [s]."""
    popularity_ratio: float = field(default=0.0, metadata=FIGURE)
    """Standard deviation over the mean of how often each expert is chosen [-]."""
    blas_ratio: float = field(default=1.0, metadata=FIGURE)
    """Speed of the library that multiplies dense matrices over that of the usual one [-]."""
    matrix_flops_per_joule: float = field(default=inf, metadata=FIGURE)
    """Operations on 16-bit operands per joule of thermal design power that matrix products can
    sustain before clocks fall; infinite where unknown [FLOP/J]. Narrower operands sustain
    proportionally more."""


@dataclass(frozen=True, slots=True)
class EngineOverhead:
    """What an inference engine does, and the time that it adds to the work of the accelerator.

    Times of the host hold for a core of an accelerator server. On another machine they are
    multiplied by ``waited_ratio``. Fields without a time say which kernels an engine has, and so
    how much work there is.
    """

    # Time of the host

    step_s: float = field(metadata=FIGURE)
    """Time per step of the scheduler [s]."""
    layer_s: float = field(metadata=FIGURE)
    """Time per layer: launches of kernels, or gaps between those of a replayed graph [s]."""
    sequence_s: float = field(metadata=FIGURE)
    """Time per running sequence and step, to schedule, sample and detokenise [s]."""
    collective_s: float = field(metadata=FIGURE)
    """Least time of a message between accelerators [s]."""
    launch_bound: bool = field(metadata=ALIKE)
    """Whether kernels are issued one by one, beside the accelerator's work: overhead then counts
    only where it takes longer than that work."""
    schedules_ahead: bool = field(default=False, metadata=ALIKE)
    """Whether ``step_s`` and ``sequence_s`` pass beside the accelerator's work."""
    host_ratio: float = field(default=1.0, metadata=FIGURE)
    """Time of the host on a kind of machine with a vendor's driver, over that of an accelerator
    server, beyond ``core_time_ratio`` [-]."""
    core_time_ratio: float = field(default=1.0, metadata=FIGURE)
    """Time of the host's cores over that of an accelerator server's [-]."""
    backend_layer_ratio: float = field(default=1.0, metadata=FIGURE)
    """Time of a layer by the backend in use over that by the interface of the hardware's maker
    [-]."""

    # Steps with prompts, pipelines and captured graphs

    prompt_layer_s: float = field(default=0.0, metadata=FIGURE)
    """Time to issue a layer's kernels in steps with prompts, for which no graph is captured; it
    runs beside the accelerator's work [s]."""
    prompts_s: float = field(default=0.0, metadata=FIGURE)
    """Time per step with prompts to start another program or path [s]."""
    prompt_layer_kernel_count: float = field(default=0.0, metadata=ALIKE)
    """Kernels that a layer launches for a prompt, which limit how many pipeline stages can work
    at once; 0: no limit."""
    pipelined_ratio: float = field(default=1.0, metadata=FIGURE)
    """Share of the other pipeline stages that could work on a prompt at the same time and do
    [-]."""
    pipelined_log_sigma: float = field(default=0.0, metadata=FIGURE)
    """What it adds to the spread of times of prompts that the other stages work at the same time
    as well as they could [-]."""
    replays_graphs: bool = field(default=False, metadata=ALIKE)
    """Whether decoding replays a captured graph, so that a layer's time does not depend on the
    host."""
    replayed_accelerators: float = field(default=0.0, metadata=ALIKE)
    """Accelerators up to which a step with one token is a graph."""
    replayed_ratio: float = field(default=1.0, metadata=FIGURE)
    """Time of a layer in such a graph over that of issuing its kernels [-]."""
    records_ahead: bool = field(default=False, metadata=ALIKE)
    """Whether kernels are recorded while the accelerator works on those before, so that the time of
    a layer is the accelerator's, as in a graph."""
    native: bool = field(default=False, metadata=ALIKE)
    """Whether native code drives an accelerator from a host that chooses tokens, by logits that are
    copied to it (llama.cpp, ``llama_context::decode``, 2025; ExLlamaV2, ``ExLlamaV2Sampler``,
    2023)."""

    # Servers and sampling

    told_s: float = field(default=0.0, metadata=FIGURE)
    """Time per token of the server's own process, which runs beside all else: no step ends before
    its tokens are sent [s]."""
    served_s: float = field(default=0.0, metadata=FIGURE)
    """Time per step of a server that answers requests in the engine's process; none where a
    script hands requests over [s]."""
    streamed_s: float = field(default=0.0, metadata=FIGURE)
    """Time per sequence and step to stream its token, where users read along [s]."""
    received_s: float = field(default=0.0, metadata=FIGURE)
    """Time of a server before a prompt is begun and after its first token is chosen; none where a
    script hands requests over [s]."""
    ranks_s: float = field(default=0.0, metadata=FIGURE)
    """Time per further rank of tensor parallelism to hand over the inputs of a step [s]."""
    sampled_bytes: float = field(default=0.0, metadata=FIGURE)
    """What choosing a token moves per entry of the vocabulary [B]."""
    sampling_ratio: float = field(default=1.0, metadata=ALIKE)
    """Share of ``sampled_bytes`` that a release moves which does not sort [-]."""

    # Attention and elementwise kernels

    fuses_attention: bool = field(default=True, metadata=ALIKE)
    """Whether attention is one kernel, unless the request says otherwise."""
    bytes_per_score: float = field(default=0.0, metadata=ALIKE)
    """What attention that is not fused stores per pair of tokens and head [B]."""
    fused_features_multiple: float = field(default=0.0, metadata=ALIKE)
    """Features that heads have a multiple of where fused kernels take them; 0: any number [-]."""
    waits_for_exponentials: bool = field(default=False, metadata=ALIKE)
    """Whether fused attention of narrow heads waits for exponentials of scores."""
    vector_attention: bool = field(default=False, metadata=ALIKE)
    """Whether fused attention computes without matrix units."""
    vector_attention_ratio: float = field(default=1.0, metadata=FIGURE)
    """Share of the peak of 32-bit lanes that ``vector_attention`` reaches, for masked pairs as
    well [-]."""
    regrows_cache: bool = field(default=False, metadata=ALIKE)
    """Whether each step copies the cache into a longer one."""
    repeats_heads: bool = field(default=False, metadata=ALIKE)
    """Whether keys and values are first copied for every head of queries."""
    head_reads_exponent_ratio: float = field(default=0.0, metadata=ALIKE)
    """Power of the heads in a group by which reads of keys and values grow: 0 if they are read
    once, 1 if once for every head of queries [-]."""
    rereads_by_sequence: bool = field(default=False, metadata=ALIKE)
    """Whether as many sequences as a group has heads share what is read for each of these."""
    prompt_bucket_tokens: float = field(default=0.0, metadata=ALIKE)
    """The shortest length that prompts are filled up to, others being each twice the one before;
    0 where they are computed as they are [token]."""
    dense_graph_sequences: float = field(default=0.0, metadata=ALIKE)
    """Sequences beyond which decoding has graphs for each double of them alone; 0: for all."""
    bucket_ratio: float = field(default=1.0, metadata=ALIKE)
    """Tokens that decoding attends to over those in the cache [-]."""
    expands_latents: bool = field(default=False, metadata=ALIKE)
    """Whether prompts have keys and values of each head made of latents before they attend."""
    fuses_elementwise: bool = field(default=True, metadata=ALIKE)
    """Whether there are few kernels between matrix products."""
    result_ratio: float = field(default=1.0, metadata=ALIKE)
    """Width of the results of layers over that of activations [-]."""
    stepwise_state_models: frozenset[str] = field(default=frozenset(), metadata=ALIKE)
    """Types of models whose recurrent states are carried on operation by operation."""

    # Matrix products

    half_accumulation: bool = field(default=False, metadata=ALIKE)
    """Whether products of 16-bit floats are summed in 16 bits, which some hardware does faster."""
    weight_only: bool = field(default=False, metadata=ALIKE)
    """Whether narrow weights are always widened to meet activations of 16 bits."""
    multiplies_integers: bool = field(default=False, metadata=ALIKE)
    """Whether activations are quantised to multiply weights in few bits as 8-bit integers."""
    packed_memory_ratio: float = field(default=1.0, metadata=FIGURE)
    """Share of the bandwidth for 16-bit matrices at which matrices in few bits are read [-]."""
    unpacking_operations: float = field(default=0.0, metadata=FIGURE)
    """Operations to unpack a weight in super-blocks; 0: unknown [-]."""
    widened_from_rows: float = field(default=0.0, metadata=ALIKE)
    """Rows from which matrices of some formats are written out in 16 bits before they are
    multiplied; 0: never."""
    many_widened_from_rows: float = field(default=0.0, metadata=ALIKE)
    """The same of formats whose own kernels take longer with many rows alone; 0: never."""
    loaded_bits: float = field(default=0.0, metadata=ALIKE)
    """Width of weights up to which ``cycle_read_bytes`` applies [bit]."""
    loading_lane_count: float = field(default=0.0, metadata=ALIKE)
    """Lanes of a multiprocessor of hardware whose lanes have few loads under way."""
    cycle_read_bytes: float = field(default=0.0, metadata=FIGURE)
    """What such a multiprocessor reads in a cycle; 0: unknown [B]."""
    reaches_matrix_units: bool = field(default=True, metadata=ALIKE)
    """Whether products are multiplied on matrix units, where there are any, or on vector units."""
    widening_operations: float = field(default=0.0, metadata=ALIKE)
    """Operations of 32-bit lanes that widen a weight for a row, in place of
    ``dequantised_ratio``; 0: unknown [-]."""
    warp_ratio: float = field(default=1.0, metadata=ALIKE)
    """Rate of products of weights in few bits over that of others [-]."""
    converting_operations: float = field(default=2.0, metadata=ALIKE)
    """Operations that convert the sum of a block of integers [-]."""

    # Experts

    expert_s: float = field(default=0.0, metadata=FIGURE)
    """Time per expert of a layer that an accelerator holds, where experts are not multiplied by
    one kernel [s]."""
    loops_experts: bool = field(default=False, metadata=ALIKE)
    """Whether the experts of a prompt are multiplied one after the other."""
    prompt_product_s: float = field(default=0.0, metadata=FIGURE)
    """Time per product of an expert in prompts, where ``loops_experts`` [s]."""
    whole_expert_tiles: bool = field(default=False, metadata=ALIKE)
    """Whether the product of each expert fills tiles of its own."""
    default_expert_tiles: bool = field(default=False, metadata=ALIKE)
    """Whether experts of 16 bit that no kernel was tuned for fill the tiles of ``DEFAULT_TILES``
    where there are more tokens than experts."""
    scaled_tile_rows: float = field(default=0.0, metadata=ALIKE)
    """Rows of the tiles that experts in blocks of 8-bit floats fill; 0: a smooth cost."""
    scaled_tiles_ratio: float = field(default=0.0, metadata=FIGURE)
    """Share of the peak of 32-bit units at which such tiles scale the sums of blocks; 0: nothing
    limits it [-]."""
    grouped_expert_tiles: bool = field(default=False, metadata=ALIKE)
    """Whether experts in blocks of 8-bit floats fill the tiles of ``GROUPED_TILES`` instead."""
    fuses_experts: bool = field(default=False, metadata=ALIKE)
    """Whether one call routes narrow experts of any model, multiplies and narrows between
    products."""
    widened_tile_rows: float = field(default=0.0, metadata=ALIKE)
    """Rows of the tiles for each of which lanes widen weights of experts in four bits; 0: not
    known."""
    widened_tile_operations: float = field(default=0.0, metadata=ALIKE)
    """Operations of 32-bit lanes that widen a weight for a tile [-]."""
    widened_tile_ratio: float = field(default=1.0, metadata=ALIKE)
    """Rate of matrix units in such tiles over that of other products [-]."""
    widens_all_formats: bool = field(default=False, metadata=ALIKE)
    """Whether that holds for all formats in four bits, rather than for MXFP4."""
    unrouted_below_bits: float = field(default=0.0, metadata=ALIKE)
    """Width of weights below which every expert multiplies all tokens [bit]."""
    batched_expert_models: frozenset[str] = field(default=frozenset(), metadata=ALIKE)
    """Types of models whose experts, in 16 bits, all multiply all tokens in one product each."""

    @property
    def waited_ratio(self) -> Number:
        """Time of the host over that of an accelerator server's [-]."""
        return self.host_ratio * self.core_time_ratio

    @property
    def layer_ratio(self) -> Number:
        """What host and backend do to the time of a layer: nothing to that of a graph's [-]."""
        if self.replays_graphs:
            return 1.0
        issued = 1.0 if self.records_ahead else self.waited_ratio
        return issued * self.backend_layer_ratio

    def moved_per_score(self, fused: bool | None, head_features: Iterable[float] = ()) -> float:
        """What attention moves for each score, by what settings say of it and by heads [B]."""
        fused = self.fuses_attention if fused is None else fused
        multiple = self.fused_features_multiple
        if fused and not (multiple and any(round(one) % multiple for one in head_features)):
            return 0.0
        return SCORE_PASSES * self.bytes_per_score

    def pipelining_log_sigma(self, pipeline: int, chunks: Number) -> Number:
        """What a number of stages add to the spread of times of prompts in some chunks [-].

        Stages that work one after the other take as long as one accelerator does, and so do those
        that a single chunk goes through.
        """
        if pipeline == 1:
            return 0.0
        return self.pipelined_log_sigma * self.pipelined_ratio * (chunks > 1.0)

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
    how much of the time of memory is owed to what lies outside [-]. Of that time, processors of the
    host compute ``computed_ratio`` in steps that do not copy [-].
    """

    bandwidth_bytes_per_s: Number = field(metadata=FIGURE)
    outside_ratio: Number = field(metadata=FIGURE)
    computed_ratio: Number = field(default=1.0, metadata=FIGURE)


@dataclass(frozen=True, slots=True, eq=False)
class PerformanceCalibration:
    """The efficiencies that apply to one deployment, and where they come from.

    Compared by identity, as models are.

    ``corrections`` are what own measurements of its kind say about the times that follow. Spreads
    are those of kernels that are known; ``widening`` says by what a time has more, by what it is
    spent on, and ``outside_ratio`` how much of the time of memory is owed to what lies outside the
    accelerator [-]. Experts are computed by the ``host``, as far as it serves this accelerator; by
    the accelerator where that is None. Where processors compute what lies outside in small steps,
    ``copied`` is what others see. Beside the spread of kernels, memory outside the accelerator,
    drafts and copies that wait for each other add ``added_decode_log_sigma`` to that of decoding
    and ``added_prompts_log_sigma`` to that of prompts [-].
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
    added_decode_log_sigma: Number = field(default=0.0, metadata=FIGURE)
    added_prompts_log_sigma: Number = field(default=0.0, metadata=FIGURE)

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
        added = self.added_log_sigma(figure)
        spread: Number = own if is_nothing(added) else hypot(own, added)
        return spread

    def added_log_sigma(self, figure: str) -> Number:
        """What is unsure of a figure beside kernels, which adds to its spread in squares [-]."""
        return self.added_prompts_log_sigma if figure == "prefill" else self.added_decode_log_sigma

    @property
    def decode_log_sigma(self) -> Number:
        """Spread of the time of decoding, spent in kernels alone [-]."""
        return self.hardware.decode_log_sigma * self.corrections.decode.spread_ratio

    @property
    def throughput_log_sigma(self) -> Number:
        """Spread of the rate of requests, whose time is spent in kernels alone [-]."""
        return self.hardware.throughput_log_sigma * self.corrections.decode.spread_ratio

    def prefill_log_sigma(self, pipeline: int = 1, chunks: Number = 1.0) -> Number:
        """The same of the time of prompts in some chunks through some pipeline stages [-]."""
        added = self.engine.pipelining_log_sigma(pipeline, chunks)
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


def matrix_ratios(figures: Figures) -> dict[int, Number]:
    """Shares of dense peak that large matrix products reach, by operand width in bits [-].

    Figures say of narrow operands how far products reach beside those of 16 bit; in earlier
    revisions of the catalog, shares of their own peaks.
    """
    ratios: dict[int, Number] = {
        bits: figures[f"matrix_{bits}bit_ratio"].value for bits in (32, 16)
    }
    for bits in (8, 4):
        own = figures.get(f"matrix_{bits}bit_ratio")
        if own is None:
            ratios[bits] = ratios[16] * figures[f"narrow_{bits}bit_ratio"].value
        else:
            ratios[bits] = own.value
    return ratios


def hardware_efficiency(figures: Figures) -> HardwareEfficiency:
    """A hardware family's efficiencies from its figures, as a backend reaches them."""

    def over_usual(name: str) -> Number:
        return figures[name].value if name in figures else 1.0

    of_products = over_usual("backend_matrix_ratio")
    ratios = {bits: ratio * of_products for bits, ratio in matrix_ratios(figures).items()}
    return from_figures(
        HardwareEfficiency,
        figures,
        matrix_ratio=ratios,
        memory_ratio=figures["memory_ratio"].value * over_usual("backend_memory_ratio"),
        blas_ratio=over_usual("backend_blas_ratio"),
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
