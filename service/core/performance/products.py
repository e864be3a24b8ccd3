"""Matrix products on one rank: what a row of them costs, and the reading of their weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import inf, log1p
from statistics import NormalDist
from typing import NamedTuple

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, exp, maximum, minimum, sqrt
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.work import MatrixProduct

#: Stands in for no rows at all in divisions.
_FEWEST_ROWS = 1e-9


class ProductCost(NamedTuple):
    """Products of a kind: by padded row, for reading weights, and by row for what they multiply.

    Experts have weights for each copy that is read.
    """

    padded_row_s: Number
    weights_s: Number
    row_s: Number


@dataclass(frozen=True, slots=True)
class Products:
    """Products that have the same rows: each token of a step, or each sequence.

    ``row_flops`` and ``row_bytes`` are what a row takes in all of them [FLOP, B], ``weights_bytes``
    what is read where there are any [B].
    """

    costs: tuple[ProductCost, ...]
    row_flops: float
    row_bytes: float
    weights_bytes: float


@dataclass(frozen=True, slots=True)
class ExpertProducts:
    """Products of routed experts of one shape.

    ``copies`` of ``experts`` lie on a rank, of which each token chooses ``experts_per_token``; the
    tokens of ``group`` replicas meet there, on average at ``rows_per_token`` of the copies.
    ``above`` is by how many standard deviations the rank whose experts were chosen most is above
    the mean.
    """

    cost: ProductCost
    copies: float
    experts: int
    experts_per_token: int
    group: float
    rows_per_token: float
    above: float
    row_flops: float
    row_bytes: float
    weights_bytes: float

    def load(self, tokens: Number) -> tuple[Number, Number]:
        """Copies of experts that are read, and rows of their products [-]."""
        tokens = tokens * self.group
        chosen = self.experts_per_token / self.experts
        read_ratio: Number = 1.0
        if chosen < 1.0:
            read_ratio = 1.0 - exp(tokens * log1p(-chosen))
        read = self.copies * read_ratio
        rows = tokens * self.rows_per_token
        if self.above:
            # All ranks wait for the one whose experts were chosen most.
            busiest = read + self.above * sqrt(read * (1.0 - read_ratio))
            read = minimum(busiest, self.copies)
            elsewhere = 1.0 - self.copies / self.experts
            rows = rows + self.above * sqrt(rows * elsewhere)
        return read, rows


def dense_products(
    items: Iterable[MatrixProduct],
    accelerator: Accelerator,
    calibration: PerformanceCalibration,
    activation_bytes: float,
) -> Products:
    """What products of matrices that every row meets cost."""
    costs: list[ProductCost] = []
    flops = features = weights = 0.0
    rates: dict[tuple[str, float], tuple[Number, Number]] = {}
    for item in items:
        row_flops, row_bytes, weights_bytes = _sizes(item, activation_bytes)
        flops, features, weights = flops + row_flops, features + row_bytes, weights + weights_bytes
        kind = item.matrix_precision, item.weight_bits
        if kind not in rates:
            rates[kind] = product_rates(item, accelerator, calibration)
        flops_per_s, bytes_per_s = rates[kind]
        costs.append(
            ProductCost(
                row_flops / flops_per_s, weights_bytes / bytes_per_s, row_bytes / bytes_per_s
            )
        )
    return Products(tuple(costs), flops, features, weights)


def expert_products(
    item: MatrixProduct,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    activation_bytes: float,
) -> ExpertProducts:
    """What products of routed experts cost."""
    row_flops, row_bytes, weights_bytes = _sizes(item, activation_bytes)
    flops_per_s, bytes_per_s = product_rates(item, accelerator, calibration)
    return ExpertProducts(
        cost=ProductCost(
            row_flops / flops_per_s, weights_bytes / bytes_per_s, row_bytes / bytes_per_s
        ),
        copies=item.copies,
        experts=item.experts,
        experts_per_token=item.experts_per_token,
        # Tokens of every data-parallel rank of the expert group meet at the experts.
        group=max(1.0, parallelism.expert / parallelism.tensor),
        rows_per_token=item.copies_per_token,
        above=expected_highest(parallelism.expert) if parallelism.expert > 1 else 0.0,
        row_flops=row_flops,
        row_bytes=row_bytes,
        weights_bytes=weights_bytes,
    )


def _sizes(item: MatrixProduct, activation_bytes: float) -> tuple[float, float, float]:
    """FLOPs and bytes of a row, and bytes of the weights."""
    return (
        2.0 * item.input_features * item.output_features * item.calls,
        (item.input_features + item.output_features) * activation_bytes * item.calls,
        item.weight_bytes * item.calls,
    )


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
