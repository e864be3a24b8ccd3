"""Use case: what to buy or rent, where, and configured how, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import Caution
from service.core.planning.ranking import (
    Anchor,
    nearest_flip,
    ranking,
    robustness,
    scores,
    utilities,
    weight_row,
)
from service.core.planning.workloads import METRICS, Metric
from service.estimation.answers import frame, provenance, warnings
from service.estimation.decisions.anchors import anchors
from service.estimation.decisions.field import Exclusion, Field, field
from service.estimation.decisions.near_misses import least_violating
from service.estimation.decisions.requests import RecommendationRequest
from service.estimation.decisions.space import ResolvedSearch, resolve_search
from service.estimation.decisions.verification import verified
from service.estimation.rejection import FieldError, Rejected

#: Members of the front that an answer lists, and candidates tried for each priority.
MOST_LISTED = 50
_MOST_TRIED = 25
#: Candidates over which robustness is drawn: those that could win at all.
_MOST_DRAWN = 300

#: Units of the metrics, of which less is better.
UNITS: Mapping[Metric, str] = {
    "headroom": "share of memory filled",
    "latency": "s",
    "carbon": "gCO2e/1k output tokens",
    "water": "L/1k output tokens",
    "cost": "USD/1k output tokens",
}


def recommendation_answer(
    request: RecommendationRequest, snapshot: CatalogSnapshot
) -> dict[str, Any]:
    """The best choice for each priority, the front it stands on, and what excluded the others.

    Raises
    ------
    Rejected
        If the request refers to unknown things, or asks for a kind that is decided elsewhere.
    """
    search = resolve_search(request, snapshot)
    found = field(search)
    anchored = anchors(search, snapshot, found) if len(found) else {}
    answer = frame(snapshot.revision)
    answer |= {
        "workload_kind": search.kind.id,
        "weights": {name: float(weight) for name, weight in search.weights.items()},
        "anchors": [
            {"metric": name, "best": a.best, "worst": a.worst, "unit": UNITS[name]}
            for name, a in anchored.items()
        ],
        "limits": search.limits.model_dump(),
        "searched": {
            "models": len(search.models),
            "accelerators": len(search.accelerators),
            "regions": len(search.regions),
            "configurations": found.searched,
            "candidates": found.combined,
            "unbeaten": len(found),
        },
        "excluded": [_exclusion(one) for one in found.exclusions if one.excluded],
    }
    cautions: list[Caution] = []
    if len(found):
        weights = _weights(search, anchored, cautions)
        ranked = _Ranked(search, found, anchored, weights)
        answer["choices"] = ranked.choices(request, snapshot, cautions)
        answer["front"] = [ranked.summary(at) for at in ranked.order[:MOST_LISTED]]
        answer["least_violating"] = []
    else:
        answer["choices"], answer["front"] = [], []
        answer["least_violating"] = least_violating(search, found)
        cautions.append(
            Caution(
                "nothing_meets_the_limits", "no candidate meets all limits; see what is closest"
            )
        )
    answer["warnings"] = warnings(cautions)
    answer["provenance"] = provenance(snapshot, _entries(search, answer["choices"]))
    return answer


class _Ranked:
    """The field with its utilities and its order under the weights asked for."""

    def __init__(
        self,
        search: ResolvedSearch,
        found: Field,
        anchored: Mapping[Metric, Anchor],
        weights: NDArray[np.float64],
    ) -> None:
        self.search, self.found = search, found
        self.anchors, self.weights = anchored, weights
        self.utility = utilities(found.metrics, anchored)
        self.scores = scores(self.utility, weights)
        self.order = ranking(found.metrics, anchored, weights)

    def choices(
        self, request: RecommendationRequest, snapshot: CatalogSnapshot, cautions: list[Caution]
    ) -> list[dict[str, Any]]:
        """The first verified candidate for each priority."""
        found: list[dict[str, Any]] = []
        for priority in ("balanced", *self.anchors):
            choice = self._choice(priority, request, snapshot)
            if choice is not None:
                found.append(choice)
        if not found:
            cautions.append(
                Caution(
                    "none_verified",
                    "candidates of the search miss a limit once arrivals at random and "
                    "percentiles are computed; relax the limits a little",
                )
            )
        return found

    def summary(self, at: int) -> dict[str, Any]:
        """A candidate with its metrics."""
        place = self.search.regions[self.found.place[at]]
        rows, row = self.found.of_model[self.found.model[at]], self.found.row[at]
        space = self.search.spaces[self.found.model[at]]
        precision = space.precisions[rows.precision[row]]
        layout = space.layouts[rows.layout[row]]
        return {
            "model": self.search.models[self.found.model[at]].id,
            "accelerator": self.search.accelerators[rows.offer[row]].id,
            "accelerator_count": int(rows.accelerators[row]),
            "region": place.id,
            "precision": {
                "weights": precision.weights.id,
                "kv_cache": precision.kv_cache.id,
                "activations": precision.activations.id,
            },
            "parallelism": {
                "tensor": layout.tensor,
                "pipeline": layout.pipeline,
                "expert": layout.expert,
                "data": int(rows.replicas[row]),
                "context": layout.context,
            },
            "concurrency_per_replica": int(rows.concurrency[row]),
            "headroom_ratio": float(rows.headroom_ratio[row]),
            "ttft_s": float(rows.ttft_s[row]),
            "tpot_s": float(rows.tpot_s[row]),
            "metrics": self._metrics(at),
            "score_ratio": float(self.scores[at]),
        }

    def _metrics(self, at: int) -> dict[str, float | None]:
        return {name: _known(self.found.metrics[at, c]) for c, name in enumerate(METRICS)}

    def _choice(
        self, priority: str, request: RecommendationRequest, snapshot: CatalogSnapshot
    ) -> dict[str, Any] | None:
        order = self.order if priority == "balanced" else self._best_on(priority)
        for at in order[:_MOST_TRIED]:
            summary = self.summary(int(at))
            checked = verified(summary, self.search, request, snapshot)
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
        values = self.found.metrics[:, METRICS.index(priority)]
        best = np.nanmin(values) if np.isfinite(values).any() else np.nan
        # Within two per cent of each other the other metrics decide.
        steps = np.floor(np.log(np.maximum(values, 1e-300) / max(best, 1e-300)) / 0.02)
        place = np.empty(len(self.order), dtype=np.intp)
        place[self.order] = np.arange(len(self.order))
        return np.lexsort((place, np.nan_to_num(steps, nan=np.inf)))

    def _contributions(self, at: int) -> list[dict[str, Any]]:
        """What each metric adds to the score."""
        return [
            {
                "metric": name,
                "value": _known(self.found.metrics[at, column]),
                "unit": UNITS[name],
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
            values = self.found.metrics[:, column]
            mine = float(values[at])
            if not np.isfinite(mine) or not np.isfinite(values).any():
                continue
            best = float(np.nanmin(values))
            found.append(
                {
                    "metric": name,
                    "best": best,
                    "unit": UNITS[name],
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
            self.found.metrics[contenders],
            self.found.spreads[contenders],
            self.anchors,
            self.weights,
            winner,
        )
        return {"share_ratio": found.share_ratio, "clear_winner": found.clear}

    def _nearest_loser(self, at: int) -> dict[str, Any] | None:
        order = np.concatenate([[at], self.order[self.order != at]])
        flip = nearest_flip(self.found.metrics, self.anchors, self.weights, order)
        if flip is None:
            return None
        return {
            "candidate": self.summary(flip.rival),
            "would_win_if": None
            if flip.metric is None
            else {"metric": flip.metric, "change_ratio": flip.change_ratio},
        }

    def _agreement(self, at: int) -> dict[str, Any]:
        """Whether the figures bear the matrix's row out."""
        kind = self.search.kind
        decisive: dict[str, Metric] = {
            "memory capacity": "headroom",
            "memory speed": "latency",
            "environment": "carbon",
        }
        metric = decisive.get(kind.focus)
        if metric is None:
            return {"focus": kind.focus, "agrees": None, "because": "the row names no one factor"}
        values = self.found.metrics[:, METRICS.index(metric)]
        best, mine = float(np.nanmin(values)), float(values[at])
        worse = mine / best - 1.0 if best > 0.0 else 0.0
        agrees = worse <= _AGREEING_RATIO
        return {
            "focus": kind.focus,
            "agrees": agrees,
            "because": f"the choice is {worse:.0%} from the best {metric} of all that meet the "
            f"limits ({mine:.3g} against {best:.3g} {UNITS[metric]})"
            + ("" if agrees else "; other metrics outweigh it at these weights"),
        }


#: How far from the best on the row's own metric a choice may be and still follow the row.
_AGREEING_RATIO = 0.5


def _weights(
    search: ResolvedSearch, anchored: Mapping[Metric, Anchor], cautions: list[Caution]
) -> NDArray[np.float64]:
    """Weights over the metrics that are known; says what is left out."""
    lost = [m for m in METRICS if search.weights[m] > 0.0 and m not in anchored]
    if lost:
        cautions.append(
            Caution(
                "metric_unknown",
                f"{', '.join(lost)} cannot be compared: no accelerator in the search has a known "
                "price; give usd_per_accelerator_hour. The other weights are scaled up",
            )
        )
    elif search.list_priced and search.weights["cost"] > 0.0:
        cautions.append(
            Caution(
                "list_prices",
                "cost is by the lowest on-demand list price of any provider in the catalog, "
                "whether or not that provider is in the region; give usd_per_accelerator_hour for "
                "your own",
            )
        )
    try:
        return weight_row({m: search.weights[m] for m in METRICS}, anchored)
    except ValueError as error:
        raise Rejected([FieldError("/weights", str(error))]) from None


def _exclusion(one: Exclusion) -> dict[str, Any]:
    return {
        "limit": one.limit,
        "threshold": one.threshold,
        "unit": one.unit,
        "candidates": one.excluded,
        "nearest_value": one.nearest_value,
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _entries(
    search: ResolvedSearch, choices: Iterable[Mapping[str, Any]]
) -> list[tuple[str, Entry[Any]]]:
    """Catalog entries of what was chosen."""
    accelerators = {entry.id: entry for entry in search.accelerators}
    regions = {entry.id: entry for entry in search.regions}
    found: dict[tuple[str, str], Entry[Any]] = {}
    for entry in search.models:
        found[("models", entry.id)] = entry
    for choice in choices:
        candidate = choice["candidate"]
        found[("accelerators", candidate["accelerator"])] = accelerators[candidate["accelerator"]]
        found[("regions", candidate["region"])] = regions[candidate["region"]]
    return [(collection, entry) for (collection, _), entry in found.items()]
