"""Constants of times, whose spread goes by what a time is spent on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.groups import Group
from service.calibration.hierarchy import Keys
from service.calibration.levels import main_source, rows_of
from service.calibration.parts import Part, Unseen
from service.calibration.spread import best_log_sigma, divided, quantile
from service.calibration.stand_ins import (
    FEWEST_GROUPS,
    LEVELS,
    USUAL,
    Strangers,
    likely_ratios,
    weights_by_group,
)
from service.core.elementwise import FloatArray
from service.core.interval import Z_90, exact
from service.core.performance.spread import MECHANISMS, TimeShares
from service.estimation.levels import unmeasured_ratio, widening
from service.estimation.measurements.documents import MeasurementDocument

#: Standard deviations over those of kernels of measured engines and hardware: of waiting for hosts
#: and messages, of memory outside the accelerator, whose links and drives nobody measured, and of
#: models with routed experts. Errors of serving and of training, either of
#: them alone, have the best interval scores with these; they are not fitted again, since few
#: sources would only tell how those few are.
WIDENINGS = {
    "waiting_spread_ratio": 2.5,
    "outside_spread_ratio": 6.0,
    "experts_spread_ratio": 1.5,
}
#: Mechanisms by the terms that decide how long they take; all others decide what hosts do.
_MECHANISM = {
    name: mechanism
    for mechanism, names in {
        "compute": (
            *("matrix_16bit_ratio", "matrix_8bit_ratio", "matrix_4bit_ratio", "tile_rows"),
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
    entry that says by what times are less well known, which may be that of a spread itself.
    Of what priors let levels deviate that were not measured, intervals have what errors of
    families and engines bear out that are left out whole.
    """

    rows: Sequence[TimedRow]
    spent_of: Callable[[Any, Mapping[str, float]], Spent]
    widening_id: str

    @cached_property
    def spent(self) -> list[Spent]:
        """What all times are spent on, each by constants that were fitted without its source."""
        return [self.spent_of(row, self.without_own(row).values(row.keys)) for row in self.rows]

    def spreads(self, without: Group | None = None) -> list[CalibrationEntry]:
        """How far times are off for sources that were left out, by what they are spent on.

        The spread of each quantity is that of kernels that are known, with which intervals have
        the best score where levels that are not measured add what is usual; the errors of one group
        may stay out of it. What families and engines show to add that are left out whole is more,
        and would make kernels that are known look surer than they are if it counted there.
        """
        every = self.beside(without)
        by_id: dict[str, list[int]] = {self.widening_id: []}
        for at in every:
            by_id.setdefault(self.spread_of(self.rows[at]), []).append(at)
        prior = self._prior_ratios(every)
        usual = WIDENINGS | _times(prior, USUAL)
        sigmas = {id_: self._log_sigma(of, usual) for id_, of in by_id.items() if of}
        wider = WIDENINGS | self._borne_out(prior, by_id, sigmas)
        return [
            self._spread(
                *(id_, numbers, sigmas.get(id_, 0.0)),
                *(wider, wider if id_ == self.widening_id else {}),
            )
            for id_, numbers in sorted(by_id.items())
            if numbers or every
        ]

    def _spread(
        self,
        id_: str,
        numbers: Sequence[int],
        sigma: float,
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

    def _log_sigma(self, numbers: Sequence[int], wider: Mapping[str, float]) -> float:
        """The spread of kernels that are known with which intervals of rows have the best score."""
        errors = np.abs([self.errors[at][0] for at in numbers])
        known = np.array([self.spent[at].known_variance for at in numbers])
        ratios = self._ratios(numbers, wider)
        return best_log_sigma(errors, ratios, known, self._weights(numbers))

    def _ratios(self, numbers: Sequence[int], wider: Mapping[str, float]) -> FloatArray:
        """How much wider than that of kernels that are known the spread of each row is."""
        missing = [self.errors[at][1] for at in numbers]
        found: FloatArray = np.sqrt(self._squares(numbers, missing, wider))
        return found

    def _squares(
        self,
        numbers: Sequence[int],
        missing: Sequence[Sequence[tuple[str, str]]],
        wider: Mapping[str, float],
    ) -> FloatArray:
        """Squares of these ratios where some levels of each row were not measured."""
        figures = {name: exact(value) for name, value in wider.items()}
        return np.array(
            [
                float(widening(figures, levels).ratio(self.spent[at].shares, self.spent[at].routed))
                ** 2
                for at, levels in zip(numbers, missing, strict=True)
            ]
        )

    @cached_property
    def _left_whole(self) -> Mapping[str, Mapping[str, Mapping[int, Unseen]]]:
        """Rows of every family and engine by constants without any of its rows, by kind and key."""
        found: dict[str, dict[str, Mapping[int, Unseen]]] = {}
        for kind in LEVELS:
            keys = sorted({row.keys[kind] for row in self.rows})
            for key in keys:
                rows = [row.document for row in self.rows if row.keys[kind] == key]
                found.setdefault(kind, {})[key] = self.unseen(Group.of(kind, key, rows))
        return found

    def _borne_out(
        self,
        prior: Mapping[str, Mapping[str, float]],
        by_spread: Mapping[str, Sequence[int]],
        log_sigmas: Mapping[str, float],
    ) -> dict[str, float]:
        """What levels add, as much of it as families and engines bear out that are left out."""
        sigmas = np.zeros(len(self.rows))
        for id_, sigma in log_sigmas.items():
            sigmas[list(by_spread[id_])] = sigma
        strangers = {}
        for kind, groups in self._left_whole.items():
            rows = [
                (key, number, unseen)
                for key, group in groups.items()
                for number, unseen in group.items()
                if sigmas[number] > 0.0
            ]
            # Sources that are left out alone tell of such hardware and engines, too.
            rows += [
                (self.rows[number].source, number, self.errors[number])
                for number in np.flatnonzero(sigmas).tolist()
                if any(level in LEVELS[kind] for _, level in self.errors[number][1])
            ]
            if len({key for key, _, _ in rows}) >= FEWEST_GROUPS:
                strangers[kind] = self._strangers(rows, prior, sigmas)
        borne = likely_ratios(strangers)
        return {name: rounded(value) for name, value in _times(prior, borne).items()}

    def _strangers(
        self,
        rows: Sequence[tuple[str, int, Unseen]],
        prior: Mapping[str, Mapping[str, float]],
        sigmas: FloatArray,
    ) -> Strangers:
        """Rows that were left out with their group, and what their spreads are made of."""
        numbers = [number for _, number, _ in rows]
        own = [self.rows[number] for number in numbers]
        missing = [levels for _, _, (_, levels) in rows]
        squares = self._squares(numbers, missing, WIDENINGS)
        added = {
            kind: self._squares(numbers, missing, WIDENINGS | dict(named)) - squares
            for kind, named in prior.items()
        }
        return Strangers(
            errors=np.abs([error for _, _, (error, _) in rows]),
            sigmas=sigmas[numbers],
            squares=squares,
            added=added,
            known=np.array([self.spent[number].known_variance for number in numbers]),
            weights=weights_by_group(
                [key for key, _, _ in rows],
                [row.source for row in own],
                [row.configuration for row in own],
            ),
            groups=len({key for key, _, _ in rows}),
        )

    def _prior_ratios(self, numbers: Sequence[int]) -> dict[str, dict[str, float]]:
        """What priors let levels add to the spread of mechanisms where they were not measured.

        By what is left out where a level is not measured: hardware or software.
        """
        position = {term.name: at for at, term in enumerate(self.fitted.problem.terms)}
        slopes, weights = self.fitted.slopes[list(numbers)], self._weights(numbers)
        shares = np.array([self.spent[at].shares for at in numbers])
        found: dict[str, dict[str, float]] = {kind: {} for kind in LEVELS}
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
                        kind = next(one for one, levels in LEVELS.items() if level.kind in levels)
                        found[kind][name] = float(np.sqrt(weights @ variance / whole))
        return found


def _times(
    prior: Mapping[str, Mapping[str, float]], ratios: Mapping[str, float]
) -> dict[str, float]:
    """What levels add by name, as a ratio of each kind to what priors let them."""
    return {name: ratios[kind] * each for kind, of in prior.items() for name, each in of.items()}


def mechanism_of(term: str) -> str:
    """The mechanism whose time a constant decides."""
    return _MECHANISM.get(term, "overhead")
