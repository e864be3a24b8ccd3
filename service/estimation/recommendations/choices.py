"""Answers with what is best of what nothing beats, and why: the same for inference and training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.elementwise import FloatArray
from service.core.explanation import EstimateWarning
from service.core.search.ranking import (
    Anchor,
    nearest_flip,
    ranking,
    robustness,
    scores,
    utilities,
    weight_row,
)
from service.core.search.workloads import METRICS, Metric, WorkloadKind
from service.estimation.answers import frame, provenance, warning_entries
from service.estimation.recommendations.placement import PlacedCandidates, SearchResult
from service.estimation.recommendations.search_context import REFERENCE_REGION, SearchContext
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import Request

#: Members of the front that an answer lists, and candidates tried for each priority.
MOST_LISTED = 50
_MOST_TRIED = 25
#: Candidates over which robustness is drawn: those that could win at all.
_MOST_DRAWN = 300

#: How far from the best on the row's own metric a choice may be and still follow the row.
_AGREEING_RATIO = 0.5

#: Warnings that say that a figure rests on other hardware's measurements, or on an assumption.
_WEAK = frozenset({"efficiency_not_measured", "power_not_measured", "assumed_figure"})

#: Parts of an estimate that an answer with several of them says once.
_SAID_ONCE = ("catalog_revision", "engine_version", "provenance")


@dataclass(frozen=True, slots=True)
class Verified:
    """The full estimate of a choice, its limits with margins, and how far it can be trusted."""

    estimate: dict[str, Any]
    limits: list[dict[str, Any]]
    confidence: str


def verified_estimate(estimate: Mapping[str, Any], limits: list[dict[str, Any]]) -> Verified | None:
    """An estimate with the limits it was held to, or None where it misses one."""
    if any(row["verdict"] == "fail" for row in (*limits, *estimate["constraints"])):
        return None
    codes = {warning["code"] for warning in estimate["warnings"]}
    confidence = "low" if len(codes & _WEAK) > 1 else "medium" if codes & _WEAK else "high"
    parts = {name: estimate[name] for name in estimate if name not in _SAID_ONCE}
    return Verified(parts, limits, confidence)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is chosen among: how a row is described and verified, and in which units.

    ``describe`` gives a candidate its own members, without metrics and score; ``verify`` estimates
    it, given its description and row, as a single deployment.
    """

    kind: WorkloadKind
    units: Mapping[Metric, str]
    describe: Callable[[int], dict[str, Any]]
    verify: Callable[[Mapping[str, Any], int], Verified | None]


class Ranked:
    """Candidates with their utilities and their order under the weights asked for."""

    def __init__(
        self,
        subject: Subject,
        found: PlacedCandidates,
        anchored: Mapping[Metric, Anchor],
        weights: FloatArray,
    ) -> None:
        self.subject, self.metrics, self.spreads = subject, found.metrics, found.spreads
        self.anchors, self.weights = anchored, weights
        self.utility = utilities(found.metrics, anchored)
        self.scores = scores(self.utility, weights)
        self.order = ranking(found.metrics, anchored, weights)

    def choices(self, warnings: list[EstimateWarning]) -> list[dict[str, Any]]:
        """The first verified candidate for each priority."""
        found: list[dict[str, Any]] = []
        for priority in ("balanced", *self.anchors):
            choice = self._choice(priority)
            if choice is not None:
                found.append(choice)
        if not found:
            warnings.append(
                EstimateWarning(
                    "none_verified",
                    "candidates of the search miss a limit once they are estimated in full; relax "
                    "the limits a little",
                )
            )
        return found

    def front(self) -> list[dict[str, Any]]:
        """The best candidates, in order."""
        return [self.summary(int(at)) for at in self.order[:MOST_LISTED]]

    def summary(self, at: int) -> dict[str, Any]:
        """A candidate with its metrics."""
        return self.subject.describe(at) | {
            "metrics": {name: _known(self.metrics[at, c]) for c, name in enumerate(METRICS)},
            "score_ratio": float(self.scores[at]),
        }

    def _choice(self, priority: str) -> dict[str, Any] | None:
        order = self.order if priority == "balanced" else self._best_on(priority)
        for at in order[:_MOST_TRIED]:
            summary = self.summary(int(at))
            checked = self.subject.verify(summary, int(at))
            if checked is not None:
                return {
                    "priority": priority,
                    "candidate": summary,
                    "estimate": checked.estimate,
                    "limits": checked.limits,
                    "contributions": self._contributions(int(at)),
                    "given_up": self._given_up(int(at)),
                    "robustness": self._robustness(int(at)),
                    "nearest_loser": self._nearest_loser(int(at)),
                    "agreement": self._agreement(int(at)),
                    "confidence": checked.confidence,
                }
        return None

    def _best_on(self, priority: str) -> NDArray[np.intp]:
        """By one metric first, near-ties by the order of all."""
        values = self._values(priority)
        best = np.nanmin(values) if np.isfinite(values).any() else np.nan
        # Within two per cent of each other the other metrics decide.
        steps = np.floor(np.log(np.maximum(values, 1e-300) / max(best, 1e-300)) / 0.02)
        place = np.empty(len(self.order), dtype=np.intp)
        place[self.order] = np.arange(len(self.order))
        return np.lexsort((place, np.nan_to_num(steps, nan=np.inf)))

    def _values(self, metric: str) -> FloatArray:
        values: FloatArray = self.metrics[:, [str(one) for one in METRICS].index(metric)]
        return values

    def _contributions(self, at: int) -> list[dict[str, Any]]:
        """What each metric adds to the score."""
        return [
            {
                "metric": name,
                "value": _known(self.metrics[at, column]),
                "unit": self.subject.units[name],
                "utility_ratio": float(self.utility[at, column]),
                "weight_ratio": float(self.weights[column]),
                "contribution_ratio": float(self.utility[at, column] * self.weights[column]),
            }
            for column, name in enumerate(METRICS)
        ]

    def _given_up(self, at: int) -> list[dict[str, Any]]:
        """How much worse than the best of the front on each metric."""
        found = []
        for column, name in enumerate(METRICS):
            values = self.metrics[:, column]
            mine = float(values[at])
            if not np.isfinite(mine) or not np.isfinite(values).any():
                continue
            best = float(np.nanmin(values))
            found.append(
                {
                    "metric": name,
                    "best": best,
                    "unit": self.subject.units[name],
                    "worse_ratio": mine / best - 1.0 if best > 0.0 else None,
                }
            )
        return found

    def _robustness(self, at: int) -> dict[str, Any]:
        contenders = self.order[:_MOST_DRAWN]
        if at not in contenders:
            contenders = np.append(contenders, at)
        winner = int(np.flatnonzero(contenders == at)[0])
        found = robustness(
            self.metrics[contenders],
            self.spreads[contenders],
            self.anchors,
            self.weights,
            winner,
        )
        return {"share_ratio": found.share_ratio, "clear_winner": found.clear}

    def _nearest_loser(self, at: int) -> dict[str, Any] | None:
        order = np.concatenate([[at], self.order[self.order != at]])
        flip = nearest_flip(self.metrics, self.anchors, self.weights, order)
        if flip is None:
            return None
        return {
            "candidate": self.summary(flip.rival),
            "would_win_if": None
            if flip.metric is None
            else {"metric": flip.metric, "change_ratio": flip.change_ratio},
        }

    def _agreement(self, at: int) -> dict[str, Any]:
        """Whether the figures confirm the deciding factor of the decision matrix."""
        kind = self.subject.kind
        decisive: dict[str, Metric] = {
            "memory capacity": "headroom",
            "memory speed": "latency",
            "environment": "carbon",
        }
        metric = decisive.get(kind.focus)
        if metric is None:
            return {"focus": kind.focus, "agrees": None, "because": "the row names no one factor"}
        values = self._values(metric)
        best, mine = float(np.nanmin(values)), float(values[at])
        worse = mine / best - 1.0 if best > 0.0 else 0.0
        agrees = worse <= _AGREEING_RATIO
        return {
            "focus": kind.focus,
            "agrees": agrees,
            "because": f"the choice is {worse:.0%} from the best {metric} of all that meet the "
            f"limits ({mine:.3g} against {best:.3g} {self.subject.units[metric]})"
            + ("" if agrees else "; other metrics outweigh it at these weights"),
        }


class Search(Protocol):
    """What was searched, with everything filled in that its request left open."""

    @property
    def kind(self) -> WorkloadKind:
        """The row of the decision matrix."""

    @property
    def models(self) -> tuple[Entry[ModelArchitecture], ...]:
        """The models to choose among."""

    @property
    def context(self) -> SearchContext:
        """Accelerators, places and prices."""

    @property
    def limits(self) -> Request:
        """The hard limits."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weights of the metrics."""


def recommendation(
    search: Search,
    found: SearchResult[Any],
    anchored: Mapping[Metric, Anchor],
    subject: Subject,
    closest: Callable[[], list[dict[str, Any]]],
    warnings: list[EstimateWarning],
    snapshot: CatalogSnapshot,
) -> dict[str, Any]:
    """The best choice for each priority, the front it stands on, and what excluded the others.

    Parameters
    ----------
    search, found, anchored, subject
        What was searched and found, and how it is compared, described and verified.
    closest
        Says what comes closest to limits that nothing meets.
    warnings
        What the caller should know; more is added.
    snapshot
        The catalog.

    Raises
    ------
    Rejected
        If nothing that is known has any weight.
    """
    unbeaten = len(found.placed.row)
    choices: list[dict[str, Any]] = []
    front: list[dict[str, Any]] = []
    near: list[dict[str, Any]] = []
    if unbeaten:
        weights = _weighted(search.weights, search.context, anchored, warnings)
        ranked = Ranked(subject, found.placed, anchored, weights)
        choices, front = ranked.choices(warnings), ranked.front()
    else:
        near = closest()
        warnings.append(
            EstimateWarning(
                "nothing_meets_the_limits", "nothing meets all limits; see what is closest"
            )
        )
    _note_usual_wue(search.context, warnings)
    return frame(snapshot.revision) | {
        "workload_kind": search.kind.id,
        "weights": {name: float(weight) for name, weight in search.weights.items()},
        "anchors": _anchors(anchored, subject.units),
        "limits": search.limits.model_dump(),
        "searched": {
            "models": len(search.models),
            "accelerators": len(search.context.accelerators),
            "regions": len(search.context.regions),
            "configurations": found.searched,
            "candidates": found.placed.combined,
            "unbeaten": unbeaten,
        },
        "excluded": [one.answer() for one in found.exclusions if one.excluded],
        "choices": choices,
        "front": front,
        "least_violating": near,
        "warnings": warning_entries(warnings),
        "provenance": provenance(
            snapshot,
            [
                *_chosen_entries(search.models, search.context, choices),
                ("calibrations", snapshot.calibrations[REFERENCE_REGION]),
            ],
        ),
    }


def _note_usual_wue(context: SearchContext, warnings: list[EstimateWarning]) -> None:
    """Say where the usual WUE stands in, as estimates of such a region state no total water."""
    without, usual = context.regions_without_wue(), context.reference_region.wue_l_per_kwh
    if without and usual is not None:
        warnings.append(
            EstimateWarning(
                "usual_wue",
                f"{len(without)} of {len(context.regions)} regions publish no water use on site: "
                f"{usual.value:g} L/kWh ({usual.low:g} to {usual.high:g}) are taken for comparing "
                "them; their estimates state water off site only",
            )
        )


def _weighted(
    asked: Mapping[str, float],
    context: SearchContext,
    anchored: Mapping[Metric, Anchor],
    warnings: list[EstimateWarning],
) -> FloatArray:
    """Weights over the metrics that are known; says what is left out and whose prices are used.

    Raises
    ------
    Rejected
        If nothing that is known has any weight.
    """
    lost = [m for m in METRICS if asked[m] > 0.0 and m not in anchored]
    if lost:
        warnings.append(
            EstimateWarning(
                "metric_unknown",
                f"{', '.join(lost)} cannot be compared: no accelerator in the search has a known "
                "price; give usd_per_accelerator_hour. The other weights are scaled up",
            )
        )
    elif context.prices.listed and asked["cost"] > 0.0:
        warnings.append(
            EstimateWarning(
                "list_prices",
                "cost is by on-demand list prices of whole instances of the region's cloud, and "
                "where it lists none, by the lowest of any provider in the catalog; give "
                "usd_per_accelerator_hour for your own",
            )
        )
    try:
        return weight_row({m: asked[m] for m in METRICS}, anchored)
    except ValueError as error:
        raise Rejected([FieldError("/weights", str(error))]) from None


def _anchors(
    anchored: Mapping[Metric, Anchor], units: Mapping[Metric, str]
) -> list[dict[str, Any]]:
    """Anchors as they go over the wire."""
    return [
        {"metric": name, "best": one.best, "worst": one.worst, "unit": units[name]}
        for name, one in anchored.items()
    ]


def _chosen_entries(
    models: Iterable[Entry[Any]], context: SearchContext, choices: Iterable[Mapping[str, Any]]
) -> list[tuple[str, Entry[Any]]]:
    """Catalog entries of what was chosen."""
    accelerators = {entry.id: entry for entry in context.accelerators}
    regions = {entry.id: entry for entry in context.regions}
    found: dict[tuple[str, str], Entry[Any]] = {}
    for entry in models:
        found[("models", entry.id)] = entry
    for choice in choices:
        candidate = choice["candidate"]
        found[("accelerators", candidate["accelerator"])] = accelerators[candidate["accelerator"]]
        found[("regions", candidate["region"])] = regions[candidate["region"]]
    return [(collection, entry) for (collection, _), entry in found.items()]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
