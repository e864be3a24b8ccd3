"""Use case: what to buy or rent, where, and configured how, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import Caution
from service.core.planning.workloads import Metric
from service.estimation.answers import frame, provenance, warnings
from service.estimation.decisions.anchors import anchors
from service.estimation.decisions.choosing import (
    Ranked,
    Subject,
    anchors_answer,
    chosen_entries,
    weighted,
)
from service.estimation.decisions.field import Field, field
from service.estimation.decisions.near_misses import least_violating
from service.estimation.decisions.requests import RecommendationRequest
from service.estimation.decisions.space import ResolvedSearch, resolve_search
from service.estimation.decisions.verification import verified
from service.estimation.requests import SpeculativeRequest

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
    unbeaten = len(found.sited.row)
    anchored = anchors(search, snapshot, found) if unbeaten else {}
    answer = frame(snapshot.revision)
    answer |= {
        "workload_kind": search.kind.id,
        "weights": {name: float(weight) for name, weight in search.weights.items()},
        "anchors": anchors_answer(anchored, UNITS),
        "limits": search.limits.model_dump(),
        "searched": {
            "models": len(search.models),
            "accelerators": len(search.accelerators),
            "regions": len(search.ground.regions),
            "configurations": found.searched,
            "candidates": found.sited.combined,
            "unbeaten": unbeaten,
        },
        "excluded": [one.answer() for one in found.exclusions if one.excluded],
    }
    cautions: list[Caution] = []
    if unbeaten:
        weights = weighted(search.weights, search.ground, anchored, cautions)
        subject = Subject(
            kind=search.kind,
            units=UNITS,
            describe=lambda at: _description(at, search, found),
            verify=lambda candidate, at: verified(
                candidate, search, request, snapshot, _draft(at, search, found)
            ),
        )
        ranked = Ranked(subject, found.sited, anchored, weights)
        answer["choices"] = ranked.choices(cautions)
        answer["front"] = ranked.front()
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
    answer["provenance"] = provenance(
        snapshot, chosen_entries(search.models, search.ground, answer["choices"])
    )
    return answer


def _shown_draft(asked: SpeculativeRequest | None) -> dict[str, Any] | None:
    if asked is None:
        return None
    model = asked.draft_model
    return {
        "draft_model": model if model is None or isinstance(model, str) else "inline",
        "draft_tokens": asked.draft_tokens,
        "acceptance_ratio": asked.acceptance_ratio,
    }


def _draft(at: int, search: ResolvedSearch, found: Field) -> SpeculativeRequest | None:
    """How a candidate decodes."""
    sited = found.sited
    return search.drafts[int(found.of_model[sited.model[at]].draft[sited.row[at]])]


def _description(at: int, search: ResolvedSearch, found: Field) -> dict[str, Any]:
    """A candidate as the search sees it."""
    sited = found.sited
    model, row = sited.model[at], sited.row[at]
    rows, space = found.of_model[model], search.spaces[model]
    precision = space.precisions[rows.precision[row]]
    layout = space.layouts[rows.layout[row]]
    hourly = sited.usd_per_hour[at]
    return {
        "model": search.models[model].id,
        "accelerator": search.accelerators[rows.offer[row]].id,
        "accelerator_count": int(rows.accelerators[row]),
        "region": search.ground.regions[sited.place[at]].id,
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
        "speculative": _shown_draft(search.drafts[rows.draft[row]]),
        "uses_memory_tiers": bool(rows.spilled[row]),
        "headroom_ratio": float(rows.headroom_ratio[row]),
        "ttft_s": float(rows.ttft_s[row]),
        "tpot_s": float(rows.tpot_s[row]),
        "usd_per_hour": float(hourly) if np.isfinite(hourly) else None,
    }
