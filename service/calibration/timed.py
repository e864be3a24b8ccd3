"""Constants of times, whose spread goes by what a time is spent on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group
from service.calibration.hierarchy import Keys
from service.calibration.levels import main_source, rows_of
from service.calibration.parts import Part
from service.calibration.spread import best_log_sigma, divided, quantile
from service.core.elementwise import FloatArray
from service.core.interval import Z_90, exact
from service.core.performance.spread import MECHANISMS, TimeShares
from service.estimation.levels import unmeasured_ratio, widening
from service.estimation.measurements.documents import MeasurementDocument

#: Standard deviations over those of kernels of measured engines and hardware: of waiting for hosts
#: and messages, and of memory outside the accelerator, whose links nobody measured. Errors of
#: serving and of training, either of them alone, have the best interval scores with these; they are
#: not fitted again, since few sources would only tell how those few are.
WIDENINGS = {
    "waiting_spread_ratio": 2.5,
    "outside_spread_ratio": 3.5,
}
#: Mechanisms by the terms that decide how long they take; all others decide what hosts do.
_MECHANISM = {
    name: mechanism
    for mechanism, names in {
        "compute": (
            *("matrix_16bit_ratio", "narrow_8bit_ratio", "narrow_4bit_ratio", "tile_rows"),
            *("matrix_flops_per_joule", "attention_matrix_ratio", "expert_ratio", "routing_s"),
            *("expert_half_elements", "narrow_experts_s", "scaled_sums_ratio"),
            "scaled_tiles_ratio",
            *("popularity_ratio", "halved_ratio", "score_features"),
            *("pipelined_ratio", "dequantised_ratio"),
            *("backend_matrix_ratio", "backend_blas_ratio", "vector_attention_ratio"),
        ),
        "memory": (
            *("memory_ratio", "overlap_ratio", "attention_memory_ratio", "elementwise_passes"),
            *("packed_memory_ratio", "backend_memory_ratio", "unpacking_operations"),
            *("sampled_bytes", "cycle_read_bytes"),
            *("cast_bytes", "dequantised_bytes", "unpacked_bytes"),
        ),
        "interconnect": (
            *("link_ratio", "collective_s", "data_overlap_ratio", "tensor_overlap_ratio"),
            "ring_hop_s",
        ),
    }.items()
    for name in names
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What an estimated time is spent on, and whether the model routes tokens to experts.

    ``known_variance`` is what its logarithm has beside errors of constants, such as what is not
    known of host memory [-].
    """

    shares: TimeShares
    routed: bool
    known_variance: float = 0.0


class TimedRow(Protocol):
    """A measured time or rate; rows of one ``configuration`` share a vote."""

    @property
    def document(self) -> MeasurementDocument:
        """Where it stands."""

    @property
    def source(self) -> str:
        """Catalog id of the source."""

    @property
    def model(self) -> str:
        """Id of the model."""

    @property
    def configuration(self) -> str:
        """What was measured."""

    @property
    def keys(self) -> Keys:
        """Keys of its levels."""


@dataclass(frozen=True, kw_only=True)
class TimedPart(Part):
    """Constants of times.

    ``spent_of`` tells what the time of a row is spent on, by constants; ``widening_id`` is the
    entry that says by what times are less well known, which may be that of a spread itself;
    ``routed_widenings`` are those of models with routed experts beside what holds for all.
    Of what priors let levels deviate that were not measured, errors bear out
    ``unmeasured_ratio``, over the spread of times [-]; of what decides a mechanism, so many times
    as much as ``mechanism_ratios`` say of a part and it.
    """

    rows: Sequence[TimedRow]
    spent_of: Callable[[Any, Mapping[str, float]], Spent]
    widening_id: str
    unmeasured_ratio: float
    routed_widenings: Mapping[str, float]
    mechanism_ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @cached_property
    def spent(self) -> list[Spent]:
        """What all times are spent on, each by constants that were fitted without its source."""
        return [self.spent_of(row, self.without_own(row).values(row.keys)) for row in self.rows]

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """How far times are off for sources that were left out, by what they are spent on.

        The spread of each quantity is that of kernels that are known, with which intervals have
        the best score; the errors of one group may stay out of it.
        """
        every = self.beside(without)
        wider = {**WIDENINGS, **self.routed_widenings} | self._unmeasured_ratios(every)
        by_id: dict[str, list[int]] = {self.widening_id: []}
        for at in every:
            by_id.setdefault(self.spread_of(self.rows[at]), []).append(at)
        return [
            self._spread(id_, numbers, wider, wider if id_ == self.widening_id else {})
            for id_, numbers in sorted(by_id.items())
            if numbers or every
        ]

    def _spread(
        self,
        id_: str,
        numbers: Sequence[int],
        wider: Mapping[str, float],
        figures: Mapping[str, float],
    ) -> CalibrationEntry:
        """The entry of a spread, with some figures besides; of widenings alone without rows."""
        note = "Standard deviations over those of kernels of measured engines and hardware."
        counts = Counter(row.source for row in self.rows)
        if numbers:
            counts = Counter(self.rows[at].source for at in numbers)
            errors = np.abs([self.errors[at][0] for at in numbers])
            weights, ratios = self._weights(numbers), self._ratios(numbers, wider)
            known = np.array([self.spent[at].known_variance for at in numbers])
            sigma = best_log_sigma(errors, ratios, known, weights)
            inside = errors <= Z_90 * ratios * np.sqrt(sigma**2 + known)
            left_out = [self.left_out[at] for at in numbers]
            figures = divided(left_out, sigma**2) | dict(figures)
            note = (
                f"By {rows_of(counts)}, each source estimated by constants fitted without it: half "
                f"of the figures lie within a factor {np.exp(quantile(errors, weights, 0.5)):.2f}, "
                f"and {weights @ inside:.0%} inside the interval."
            )
        source = main_source(counts)
        return CalibrationEntry(
            id_,
            {"part": id_},
            note,
            {name: rounded(value) for name, value in figures.items()},
            source,
            int(self.snapshot.sources[source].document["year"]),
        )

    def _weights(self, numbers: Sequence[int]) -> FloatArray:
        """Weights that add up to one: sources alike, and configurations alike within a source."""
        rows = [self.rows[at] for at in numbers]
        figures = Counter((row.source, row.configuration) for row in rows)
        configurations = Counter(source for source, _ in figures)
        return np.array(
            [
                1.0
                / figures[row.source, row.configuration]
                / configurations[row.source]
                / len(configurations)
                for row in rows
            ]
        )

    def _ratios(self, numbers: Sequence[int], wider: Mapping[str, float]) -> FloatArray:
        """How much wider than that of kernels that are known the spread of each row is."""
        figures = {name: exact(value) for name, value in wider.items()}
        return np.array(
            [
                float(
                    widening(figures, self.errors[at][1]).ratio(
                        self.spent[at].shares, self.spent[at].routed
                    )
                )
                for at in numbers
            ]
        )

    def _unmeasured_ratios(self, numbers: Sequence[int]) -> dict[str, float]:
        """What levels add to the spread of mechanisms where they were not measured.

        Priors say how far constants may lie from those of a wider level, and slopes how estimates
        follow: over the mechanism's share of the time, that is much the same for all rows.
        """
        position = {term.name: at for at, term in enumerate(self.fitted.problem.terms)}
        slopes, weights = self.fitted.slopes[list(numbers)], self._weights(numbers)
        shares = np.array([self.spent[at].shares for at in numbers])
        found = {}
        for part, terms in self.terms.items():
            for depth, level in enumerate(terms[0].levels):
                for at, mechanism in enumerate(MECHANISMS):
                    variance = sum(
                        (slopes[:, position[term.name]] * term.levels[depth].tau) ** 2
                        for term in terms
                        if mechanism_of(term.name) == mechanism
                    )
                    whole = float(weights @ shares[:, at] ** 2)
                    if np.ndim(variance) and whole > 0.0:
                        name = unmeasured_ratio(part, level.kind, mechanism)
                        ratio = float(np.sqrt(weights @ variance / whole)) * self.unmeasured_ratio
                        ratio *= self.mechanism_ratios.get((part, mechanism), 1.0)
                        found[name] = rounded(ratio)
        return found


def mechanism_of(term: str) -> str:
    """The mechanism whose time a constant decides."""
    return _MECHANISM.get(term, "overhead")
