"""Matrix products on one rank: what a row of them costs, and the reading of their weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, log1p
from typing import NamedTuple

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import (
    Number,
    Truth,
    exp,
    is_nothing,
    log,
    maximum,
    minimum,
    sqrt,
    where,
)
from service.core.performance.busiest import BALANCED_RATIO, expected_highest
from service.core.performance.calibration import EngineOverhead, PerformanceCalibration
from service.core.performance.expert_tiles import (
    DEFAULT_TILES,
    filled_rows,
    limited_by_scaling,
    tiled_rows,
    untuned_row_s,
    whole_tiles,
)
from service.core.performance.host_experts import HostProcessors
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.native_kernels import (
    SCALED_BLOCK_FLOPS,
    SCALING_OPERATIONS,
    SUPER_SCALING_OPERATIONS,
)
from service.core.performance.widened_experts import widening_tile_s, widens_tiles
from service.core.performance.work import MACHINE_RANKS, MatrixProduct

#: Stands in for no rows at all in divisions.
_FEWEST_ROWS = 1e-9


class ProductCost(NamedTuple):
    """Products of a kind: by padded row, for reading weights, and by row for what they multiply.

    Experts have weights for each copy that is read. ``widened_s`` is what it takes to write all
    weights in 16 bit, and to read them again, from ``widened_from_rows`` on: zero where kernels
    widen them by tiles. Fewer rows take ``tiled_ratio`` times as long to multiply.
    """

    padded_row_s: Number
    weights_s: Number
    row_s: Number
    widened_s: Number = 0.0
    widened_from_rows: float = 0.0
    tiled_ratio: Number = 1.0


class ProductSize(NamedTuple):
    """Products of a kind: what a row takes [FLOP, B], and their weights [B]."""

    item: MatrixProduct
    row_flops: float
    row_bytes: float
    weights_bytes: float


@dataclass(frozen=True, slots=True)
class Sizes:
    """Products that have the same rows: each token of a step, or each sequence.

    ``row_flops`` and ``row_bytes`` are what a row takes in all of them [FLOP, B], ``weights_bytes``
    what is read where there are any [B].
    """

    each: tuple[ProductSize, ...]
    row_flops: float
    row_bytes: float
    weights_bytes: float


@dataclass(frozen=True, slots=True)
class WorkSizes:
    """Products of a rank: those of each token, of each sequence, and of routed experts."""

    by_token: Sizes
    by_sequence: Sizes
    experts: tuple[ProductSize, ...]


@dataclass(frozen=True, slots=True)
class ExpertProducts:
    """Products of routed experts of one shape.

    Tokens of ``sharing_replicas`` meet at the experts. How often experts are chosen deviates from
    the mean by ``popularity_ratio`` of it, as a gamma distribution, so that an expert's rows have a
    negative binomial one; what ranks hold is as uneven by ``uneven_ratio`` for each expert. The
    rank whose experts were chosen most is above the mean by ``busiest_ratio`` of the standard
    deviation. Where they are ``unrouted``, each expert multiplies all tokens. An expert's rows fill
    tiles of ``tile_rows``; zero where they are a smooth cost. Kernels around grouped products pass
    over ``filled_rows`` besides. Lanes widen weights in ``widening_tile_s`` for each tile of up to
    ``widened_rows``, while matrix units wait. Where nobody tuned them, rows of more tokens than
    there are experts on the rank fill default tiles, and take ``untuned_row_s`` each.

    References
    ----------
    Johnson, Kemp, Kotz, Univariate Discrete Distributions, 2005, section 5.3 (gamma mixtures).
    """

    cost: ProductCost
    size: ProductSize
    sharing_replicas: float
    busiest_ratio: float
    popularity_ratio: Number = 0.0
    uneven_ratio: Number = 0.0
    unrouted: bool = False
    tile_rows: float = 0.0
    untuned_row_s: Number | None = None
    filled_rows: float = 0.0
    widened_rows: float = 0.0
    widening_tile_s: Number = 0.0

    @property
    def token_flops(self) -> float:
        """What a token takes in them [FLOP]."""
        item = self.size.item
        copies = item.copies if self.unrouted else item.copies_per_token
        return self.size.row_flops * self.sharing_replicas * copies

    def compute_s(self, tuned_s: Number, tokens: Number, read: Number, rows: Number) -> Number:
        """Time of arithmetic, where it takes ``tuned_s`` by tiles that suit the tokens [s]."""
        if not is_nothing(self.widening_tile_s):
            tiles = whole_tiles(rows, read, self.widened_rows) / self.widened_rows
            return tuned_s + self.widening_tile_s * tiles
        if self.untuned_row_s is None or self.unrouted:
            return tuned_s
        many: Truth = tokens * self.sharing_replicas > self.size.item.copies
        padded = whole_tiles(rows, read, DEFAULT_TILES.rows)
        return where(many, maximum(self.untuned_row_s * padded, tuned_s), tuned_s)

    def stalled_s(self, tokens: Number, read: Number, rows: Number) -> Number:
        """How long matrix units wait for their operands in tiles that nobody tuned [s].

        Meanwhile they draw no power of arithmetic.
        """
        if self.untuned_row_s is None or self.unrouted:
            return 0.0
        many: Truth = tokens * self.sharing_replicas > self.size.item.copies
        padded = whole_tiles(rows, read, DEFAULT_TILES.rows)
        return maximum(self.untuned_row_s - self.cost.padded_row_s, 0.0) * padded * many

    def load(self, tokens: Number) -> tuple[Number, Number]:
        """Copies of experts that are read, and rows of their products, of the busiest rank [-]."""
        read, rows = self.mean_load(tokens)
        if self.unrouted or not self.busiest_ratio:
            return read, rows
        # All ranks wait for the one whose experts were chosen most.
        item = self.size.item
        left_out_ratio = maximum(1.0 - read / item.copies, 0.0)
        busiest = read + self.busiest_ratio * sqrt(read * left_out_ratio)
        elsewhere = 1.0 - item.copies / item.experts
        uneven = self.uneven_ratio * self.uneven_ratio * rows / item.copies
        rows = rows + self.busiest_ratio * sqrt(rows * elsewhere * (1.0 + uneven))
        return minimum(busiest, item.copies), rows

    def mean_load(self, tokens: Number) -> tuple[Number, Number]:
        """Copies of experts that are read, and rows of their products, of the average rank [-]."""
        item = self.size.item
        tokens = tokens * self.sharing_replicas
        if self.unrouted:
            return item.copies * (tokens > 0), tokens * item.copies
        chosen = item.experts_per_token / item.experts
        read_ratio: Number = 1.0
        if chosen < 1.0:
            read_ratio = 1.0 - exp(-self._met(tokens, -log1p(-chosen)))
        return item.copies * read_ratio, tokens * item.copies_per_token

    def _met(self, tokens: Number, once: Number) -> Number:
        """Negative logarithm of the share of experts that no token chose.

        It is ``once`` for a token. Those that it left out are less popular with others, too.
        """
        ratio = self.popularity_ratio
        if isinstance(ratio, float) and not ratio:
            return tokens * once
        variance = ratio * ratio
        others = maximum(tokens - 1.0, 0.0)
        found = log(1.0 + variance * once * others / (1.0 + variance * once)) / variance
        return minimum(tokens, 1.0) * once + found


@lru_cache(maxsize=2048)
def alike_together(products: tuple[MatrixProduct, ...]) -> tuple[MatrixProduct, ...]:
    """The products with those as one that take the same time a call: of one shape or its mirror."""
    found: dict[tuple[object, ...], MatrixProduct] = {}
    for item in products:
        alike = (
            *sorted((item.input_features, item.output_features)),
            item.weight_bytes,
            item.matrix_precision,
            item.copies,
            item.copies_per_token,
            item.experts,
            item.experts_per_token,
            item.per_sequence,
            item.weight_bits,
            item.expert_elements,
            item.super_blocks,
            item.row_operations,
            item.widened_for_many,
        )
        before = found.get(alike)
        found[alike] = item if before is None else replace(item, calls=before.calls + item.calls)
    return tuple(found.values())


@lru_cache(maxsize=2048)
def work_sizes(products: tuple[MatrixProduct, ...], activation_bytes: float) -> WorkSizes:
    """What products of a rank take, those of one shape and its mirror together."""
    sizes = [
        ProductSize(
            item,
            2.0 * item.input_features * item.output_features * item.calls,
            (item.input_features + item.output_features) * activation_bytes * item.calls,
            item.weight_bytes * item.calls,
        )
        for item in alike_together(products)
    ]
    dense = [size for size in sizes if not size.item.experts]
    return WorkSizes(
        _together([size for size in dense if not size.item.per_sequence]),
        _together([size for size in dense if size.item.per_sequence]),
        tuple(size for size in sizes if size.item.experts),
    )


def _together(sizes: Sequence[ProductSize]) -> Sizes:
    return Sizes(
        tuple(sizes),
        sum(size.row_flops for size in sizes),
        sum(size.row_bytes for size in sizes),
        sum(size.weights_bytes for size in sizes),
    )


def product_costs(
    sizes: Iterable[ProductSize], accelerator: Accelerator, calibration: PerformanceCalibration
) -> tuple[ProductCost, ...]:
    """What products cost on an accelerator."""
    found: list[ProductCost] = []
    rates: dict[tuple[str, float, float, bool, float, bool], tuple[Number, Number]] = {}
    for item, row_flops, row_bytes, weights_bytes in sizes:
        kind = (
            *(item.matrix_precision, item.weight_bits, item.expert_elements, item.super_blocks),
            *(item.row_operations, item.widened_for_many),
        )
        if kind not in rates:
            rates[kind] = product_rates(item, accelerator, calibration)
        flops_per_s, bytes_per_s = rates[kind]
        # A plain zero where nothing is widened, so that nothing need be computed.
        widened_s: Number = 0.0
        tiled_ratio: Number = 1.0
        if from_rows := widened_from(item, calibration.engine):
            widened_s = weights_bytes * (16.0 / item.weight_bits) / bytes_per_s
            if item.widened_for_many:
                tiled_ratio = flops_per_s / _widened(flops_per_s, accelerator, calibration)
        found.append(
            ProductCost(
                row_flops / flops_per_s,
                weights_bytes / bytes_per_s,
                row_bytes / bytes_per_s,
                widened_s,
                from_rows,
                tiled_ratio,
            )
        )
    return tuple(found)


def expert_products(
    sizes: Sequence[ProductSize],
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> tuple[ExpertProducts, ...]:
    """Products of routed experts with what they cost."""
    if not sizes:
        return ()
    # Tokens of every data-parallel rank of the expert group meet at the experts.
    sharing = max(1.0, parallelism.expert / parallelism.tensor)
    busiest = expected_highest(parallelism.expert) if parallelism.expert > 1 else 0.0
    popularity = calibration.hardware.popularity_ratio
    balanced = BALANCED_RATIO if parallelism.expert > MACHINE_RANKS else 1.0
    on_host, engine = calibration.host is not None, calibration.engine
    if calibration.host is None:
        costs = product_costs(sizes, accelerator, calibration)
    else:
        costs = tuple(_host_cost(size, calibration.host) for size in sizes)
    return tuple(
        ExpertProducts(
            cost,
            size,
            sharing,
            busiest,
            popularity,
            popularity * balanced,
            is_unrouted(size.item, engine),
            0.0 if on_host else _tile_rows(size.item, accelerator, engine),
            None
            if on_host
            else untuned_row_s(
                *(size.row_flops, size.row_flops / cost.padded_row_s, size.item),
                *(accelerator, engine),
            ),
            0.0 if on_host else filled_rows(size.item, accelerator, engine),
            engine.widened_tile_rows,
            0.0 if on_host else widening_tile_s(size.item, size.weights_bytes, accelerator, engine),
        )
        for cost, size in zip(costs, sizes, strict=True)
    )


def _tile_rows(item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead) -> float:
    """Rows of tiles that products of experts fill; zero where they are a smooth cost."""
    _, bits = peak_flops_per_s(accelerator, engine_precision(item.matrix_precision, engine))
    return tiled_rows(item, bits, accelerator, engine)


def _host_cost(size: ProductSize, host: HostProcessors) -> ProductCost:
    """What a product of experts costs the processors of the host."""
    flops_per_s, bytes_per_s = host.flops_per_s.value, host.bytes_per_s.value
    return ProductCost(
        size.row_flops / flops_per_s,
        size.weights_bytes / bytes_per_s,
        size.row_bytes / bytes_per_s,
    )


def product_rates(
    item: MatrixProduct, accelerator: Accelerator, calibration: PerformanceCalibration
) -> tuple[Number, Number]:
    """FLOP/s and bytes/s that products of a kind reach."""
    hardware = calibration.hardware
    integers = _as_integers(item, accelerator, calibration.engine)
    asked = "int8" if integers else engine_precision(item.matrix_precision, calibration.engine)
    peak, bits = peak_flops_per_s(accelerator, asked)
    narrow = item.weight_bits < 16.0
    rate = peak * hardware.matrix_ratio[bits] * (calibration.engine.warp_ratio if narrow else 1.0)
    power_w, per_joule = accelerator.thermal_design_power_w, hardware.matrix_flops_per_joule
    # A plain infinity limits none of the configurations, so that nothing need be computed.
    if power_w is not None and not (isinstance(per_joule, float) and per_joule == inf):
        # Clocks fall gradually towards what the power allows.
        rate = _slowed(rate, power_w * accelerator.clock_ratio * per_joule * (16.0 / bits))
    if item.row_operations:
        rate = _row_by_row(rate, item, accelerator)
    elif integers:
        rate = _scaled(rate, item, accelerator, calibration)
    elif widens_tiles(item, bits, calibration.engine):
        # Lanes widen weights while matrix units wait, which is counted by tiles.
        rate = rate * calibration.engine.widened_tile_ratio
    elif item.weight_bits < bits and not widened_whole(item, calibration.engine):
        rate = _widened(rate, accelerator, calibration)
    reached = hardware.memory_ratio
    if narrow:
        reached = reached * calibration.engine.packed_memory_ratio
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * calibration.reached_ratio(reached)
    if item.super_blocks and item.weight_bits < 16.0:
        bandwidth = _unpacked_as_read(bandwidth, item, accelerator, calibration.engine)
    if item.weight_bits <= calibration.engine.loaded_bits:
        bandwidth = _read_as_loaded(bandwidth, accelerator, calibration.engine)
    if not item.experts and (not narrow or widened_whole(item, calibration.engine)):
        # Kernels for weights in few bits are the engine's own, whatever library is beside them.
        rate = rate * hardware.blas_ratio
    if not item.experts or is_unrouted(item, calibration.engine):
        return rate, bandwidth
    # Loops over small matrices end before matrix units are busy; reading them is as fast.
    filled = item.expert_elements / (item.expert_elements + hardware.expert_half_elements)
    rate = rate * hardware.expert_ratio * filled
    if tiled_rows(item, bits, accelerator, calibration.engine):
        rate = limited_by_scaling(rate, item, accelerator, calibration.engine)
    return rate, bandwidth * hardware.expert_ratio


def _as_integers(item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead) -> bool:
    """Whether weights in few bits are multiplied as integers of 8 bit."""
    narrow = item.weight_bits < 16.0
    return engine.multiplies_integers and narrow and "int8" in accelerator.peak_flops_per_s


def _scaled(
    flops_per_s: Number,
    item: MatrixProduct,
    accelerator: Accelerator,
    calibration: PerformanceCalibration,
) -> Number:
    """FLOP/s of products of integers whose blocks' sums are scaled in 32 bit.

    Each waits for its sum, and multiprocessors have too few warps to do others' products beside
    (llama.cpp, mmq.cuh, 2025: one block of 256 threads a multiprocessor).
    """
    operations = SUPER_SCALING_OPERATIONS if item.super_blocks else SCALING_OPERATIONS
    operations += calibration.engine.converting_operations
    return _beside_lanes(flops_per_s, SCALED_BLOCK_FLOPS / operations, accelerator, calibration)


def _row_by_row(flops_per_s: Number, item: MatrixProduct, accelerator: Accelerator) -> Number:
    """FLOP/s of kernels that widen each weight again for each row, on lanes that are busy."""
    peak = accelerator.peak_flops_per_s.get("fp32")
    if peak is None:
        return flops_per_s
    return minimum(flops_per_s, peak / item.row_operations)


def _widened(
    flops_per_s: Number, accelerator: Accelerator, calibration: PerformanceCalibration
) -> Number:
    """FLOP/s of products whose weights are widened by tiles on their way into matrix units."""
    operations = calibration.engine.widening_operations
    if not operations:
        return flops_per_s * calibration.hardware.dequantised_ratio
    # A weight takes a multiplication and an addition for each row.
    return _beside_lanes(flops_per_s, 2.0 / operations, accelerator, calibration)


def _beside_lanes(
    flops_per_s: Number,
    lane_flops: float,
    accelerator: Accelerator,
    calibration: PerformanceCalibration,
) -> Number:
    """FLOP/s of matrix units that wait for lanes of 32 bit, once for ``lane_flops`` of them."""
    peak = accelerator.peak_flops_per_s.get("fp32")
    if peak is None:
        return flops_per_s
    # A multiplication with an addition is one operation.
    lanes_per_s = peak / 2.0 * calibration.hardware.matrix_ratio[32] * lane_flops
    return 1.0 / (1.0 / flops_per_s + 1.0 / lanes_per_s)


def _unpacked_as_read(
    bandwidth: Number, item: MatrixProduct, accelerator: Accelerator, engine: EngineOverhead
) -> Number:
    """Bytes/s of weights in super-blocks, which units of 32 bit unpack beside reading them."""
    peak, operations = accelerator.peak_flops_per_s.get("fp32"), engine.unpacking_operations
    if peak is None or (isinstance(operations, float) and not operations):
        return bandwidth
    # A multiplication with an addition is one operation. Both go on side by side.
    return _slowed(bandwidth, peak / 2.0 / operations * (item.weight_bits / 8.0))


def _read_as_loaded(bandwidth: Number, accelerator: Accelerator, engine: EngineOverhead) -> Number:
    """Bytes/s of weights that multiprocessors can have under way, each so many in a cycle."""
    peak, read_bytes = accelerator.peak_flops_per_s.get("fp32"), engine.cycle_read_bytes
    if peak is None or (isinstance(read_bytes, float) and not read_bytes):
        return bandwidth
    cycles_per_s = peak / 2.0 / engine.loading_lane_count
    return _slowed(bandwidth, cycles_per_s * read_bytes)


def _slowed(rate: Number, limit: Number) -> Number:
    """A rate that bends gradually towards a limit."""
    exceeded = rate / limit
    square = exceeded * exceeded
    # The sharpness is four: roots that are rounded alike for one and for arrays of any length.
    slowed: Number = rate / sqrt(sqrt(1.0 + square * square))
    return slowed


def widened_whole(item: MatrixProduct, engine: EngineOverhead) -> bool:
    """Whether an engine writes a matrix in 16 bit before it multiplies many rows."""
    return widened_from(item, engine) > 0.0


def widened_from(item: MatrixProduct, engine: EngineOverhead) -> float:
    """Rows from which an engine writes a matrix in 16 bit before it multiplies; 0 if never.

    Experts have too few rows each.
    """
    if item.experts or item.weight_bits >= 16.0:
        return 0.0
    if item.widened_for_many:
        return engine.many_widened_from_rows
    return engine.widened_from_rows if item.widened_whole else 0.0


def is_unrouted(item: MatrixProduct, engine: EngineOverhead) -> bool:
    """Whether each expert of an engine multiplies all tokens."""
    narrow = item.weight_bits < engine.unrouted_below_bits
    return item.experts > 0 and (narrow or is_batched(item, engine))


def is_batched(item: MatrixProduct, engine: EngineOverhead) -> bool:
    """Whether experts of an engine are one batch of matrices that multiply all tokens."""
    return item.weight_bits >= 16.0 and item.model_type in engine.batched_expert_models
