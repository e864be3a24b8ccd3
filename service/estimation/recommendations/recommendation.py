"""Answers with what is best of what nothing beats, and why: the same for inference and training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.catalog.entries.entry import Entry
from service.catalog.named_models import TAKEN_FOR
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.explanation import EstimateWarning
from service.core.search.ranking import weight_row
from service.core.search.workloads import METRICS
from service.estimation.answers import frame, provenance, warning_entries
from service.estimation.detail import WHOLE, Detail
from service.estimation.recommendations.against import Places, held_against_plan
from service.estimation.recommendations.answers import (
    Excluded,
    ImpliedLimit,
    NotSearched,
)
from service.estimation.recommendations.near_misses import least_violating
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.ranked import RankedCandidates, Subject
from service.estimation.recommendations.search import Search
from service.estimation.recommendations.search_context import REFERENCE_REGION, SearchContext
from service.estimation.rejection import FieldError, Rejected
from service.estimation.writing import written


@dataclass(frozen=True, slots=True)
class Plan:
    """What choices are held against: the caller's own plan with its limits, None if not given.

    ``places`` are where estimates state what plans are held against each other by; ``figures``
    takes out of an estimate what is told of it in any case.
    """

    baseline: dict[str, Any] | None
    places: Places
    figures: Callable[[Mapping[str, Any]], Mapping[str, Any]]

    def told(self, choice: Mapping[str, Any], detail: Detail) -> dict[str, Any]:
        """A choice, or the caller's own plan, with its figures and what is included."""
        left_out = set[str]()
        if not detail.has("estimates"):
            left_out.add("estimate")
        if not detail.has("compared"):
            left_out |= {"compared", "nearest_loser"}
        told = {name: part for name, part in choice.items() if name not in left_out}
        start = told.get("start")
        if start is not None and not detail.has("kubernetes"):
            told["start"] = {name: part for name, part in start.items() if name != "kubernetes"}
        return told | {"figures": self.figures(choice["estimate"])}


#: Parts of a choice that are read beside those of others, and their significant digits.
_COMPARED = frozenset({"figures", "against"})
_DIGITS = 5


def recommendation(
    search: Search,
    found: SearchResult[Any],
    subject: Subject,
    plan: Plan,
    warnings: list[EstimateWarning],
    snapshot: CatalogSnapshot,
    implied: Sequence[ImpliedLimit] = (),
    detail: Detail = WHOLE,
) -> dict[str, Any]:
    """The best choice for each priority, the front it stands on, and what excluded the others.

    Parameters
    ----------
    search, found, subject
        What was searched and found, and how it is compared, described and verified.
    plan
        The caller's own, and how choices are held against it.
    warnings
        What the caller should know; more is added.
    snapshot
        The catalog.
    implied
        Limits that nobody set.
    detail
        How much is told.

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
        weights = _weighted(search.weights, search.context, found.placed.metrics, warnings)
        ranked = RankedCandidates(subject, found.placed, search, weights)
        choices = ranked.choices(warnings)
        front = ranked.front() if detail.has("front") else []
        _note_use(choices, warnings)
    else:
        near = least_violating(found, search.context, subject.describe_miss, subject.describe_small)
        told = "the closest ones are listed" if near else "excluded says which limit"
        warnings.append(
            EstimateWarning("nothing_meets_the_limits", f"every candidate misses a limit; {told}")
        )
    warnings += search.context.sites.warnings()
    warnings += dict.fromkeys(
        one for model in search.models for one in model.value.warnings if one.code == TAKEN_FOR
    )
    _note_stand_ins(search.context, warnings)
    held = held_against_plan(
        choices, None if plan.baseline is None else plan.baseline["estimate"], plan.places
    )
    answer = frame(snapshot.revision) | {
        "workload_kind": search.kind.id,
        "weights": {name: float(weight) for name, weight in search.weights.items()},
        "limits": search.limits.model_dump(mode="json"),
        "searched": {
            "models": len({one.id for one in search.models}),
            "accelerators": len(search.context.accelerators),
            "regions": len(search.context.regions),
            "combinations": found.searched + sum(len(left) for left in found.left_out),
            "configurations": found.searched,
            "within_limits": found.placed.configurations,
            "candidates": found.placed.combined,
            "unbeaten": unbeaten,
        },
        "implied": list(implied),
        "not_searched": [written(one, NotSearched) for one in search.context.not_searched],
        "excluded": [written(one, Excluded) for one in found.exclusions if one.candidates],
        "baseline": None if plan.baseline is None else plan.told(plan.baseline, detail),
        "choices": [_to_compare(plan.told(choice, detail)) for choice in held],
        "least_violating": near,
        "warnings": warning_entries(warnings),
        "provenance": provenance(
            snapshot,
            [
                *_chosen_entries(search.models, search.context, choices),
                ("calibrations", snapshot.calibrations[REFERENCE_REGION]),
            ],
            detail,
        ),
    }
    return answer | {"front": front} if detail.has("front") else answer


def _to_compare(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice with as many digits as comparing takes; its request gives the very estimate."""
    return {name: _rounded(part) if name in _COMPARED else part for name, part in choice.items()}


def _rounded(part: Any) -> Any:
    if isinstance(part, float):
        return float(f"{part:.{_DIGITS}g}")
    if isinstance(part, dict):
        return {name: _rounded(one) for name, one in part.items()}
    return [_rounded(one) for one in part] if isinstance(part, list) else part


def _note_use(choices: Iterable[Mapping[str, Any]], warnings: list[EstimateWarning]) -> None:
    """Say at which use costs of hardware of one's own hold, by the first choice that says so."""
    for choice in choices:
        for warning in choice["estimate"]["warnings"]:
            if warning["code"] == "always_in_use":
                name = choice["candidate"]["accelerator"]
                told = f"{name}: {warning['message']}"
                warnings.append(EstimateWarning("always_in_use", told))
                return


def _note_stand_ins(context: SearchContext, warnings: list[EstimateWarning]) -> None:
    """Say where an assumption stands in for water that nobody published."""
    without = context.regions_without_wue()
    usual = without[0].value.wue_l_per_kwh if without else None
    if usual is not None:
        warnings.append(
            EstimateWarning(
                "usual_wue",
                f"{len(without)} of {len(context.regions)} regions publish no water use on site: "
                f"{usual.value:g} L/kWh ({usual.low:g} to {usual.high:g}) are assumed in data "
                "centres there, and none at home or in an office",
            )
        )
    unknown = context.regions_without_stress()
    if unknown:
        warnings.append(
            EstimateWarning(
                "water_stress_assumed",
                f"how scarce water is in {len(unknown)} of {len(context.regions)} regions is not "
                "published; they are compared as if it were extremely scarce",
            )
        )


def _weighted(
    requested: Mapping[str, float],
    context: SearchContext,
    metrics: FloatArray,
    warnings: list[EstimateWarning],
) -> FloatArray:
    """Weights over the metrics that are known; says what is left out and whose prices are used."""
    known = np.isfinite(metrics)
    unknown = [m for at, m in enumerate(METRICS) if requested[m] > 0.0 and not known[:, at].any()]
    partly = requested["cost"] > 0.0 and not known[:, METRICS.index("cost")].all()
    if unknown:
        warnings.append(
            EstimateWarning(
                "metric_unknown",
                f"{', '.join(unknown)} cannot be compared, because nothing in the search has a "
                "known price: state your own. The other weights are scaled up",
            )
        )
    elif partly:
        warnings.append(
            EstimateWarning(
                "some_prices_unknown",
                "candidates without a known price come after all others; state their prices to "
                "compare them",
            )
        )
    if context.prices.listed and requested["cost"] > 0.0 and not unknown:
        warnings.append(
            EstimateWarning(
                "list_prices",
                "costs are on-demand list prices of whole machines in the region, or elsewhere in "
                "the same cloud if only those are known; state your own prices if they differ",
            )
        )
    try:
        return weight_row({m: requested[m] for m in METRICS}, metrics)
    except ValueError as error:
        raise Rejected([FieldError("/weights", str(error))]) from None


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
