"""What counts as good and as bad: anchors of utilities, from limits and a reference deployment.

Anchors depend on model, load and limits alone, never on the candidates, so that a further
candidate changes nobody's score. The one exception is a model that no searched layout of the
reference holds: the first candidate that holds it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.engines import EngineRelease
from service.core.number_formats import NUMBER_FORMATS
from service.core.search.batch_evaluation import SearchSpace
from service.core.search.inference_candidates import InferenceCandidates, inference_candidates
from service.core.search.ranking import Anchor
from service.core.search.workloads import Metric
from service.estimation.calibrations import calibration
from service.estimation.recommendations.inference.search import latency_metric
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.placement import SearchResult
from service.estimation.recommendations.reference import reference
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import resolve_precision
from service.estimation.starting import started_options

#: As many sequences as a lightly loaded replica of the reference has.
_REFERENCE_CONCURRENCY = 16

#: Latencies are as good as any at a third of the limit; without a limit, utility is 0 at twice the
#: reference's.
_BEST_LATENCY_RATIO = 1.0 / 3.0
_WORST_LATENCY_RATIO = 2.0


def anchors(
    search: ResolvedSearch, snapshot: CatalogSnapshot, result: SearchResult[InferenceCandidates]
) -> Mapping[Metric, Anchor]:
    """Anchors of the metrics that can be compared, for a result that is not empty.

    Returns
    -------
    mapping
        Without cost where no price is known of any accelerator in the search.
    """
    target = search.kind.headroom_target_ratio
    found: dict[Metric, Anchor] = {"headroom": Anchor(1.0 - target, 1.0)}
    context = search.context
    standard = reference(snapshot, context)
    reference_rows, row = _rows(standard.accelerator, search, snapshot, result)
    worst = _worst_latency_s(search, float(latency_metric(reference_rows, search)[row]))
    found["latency"] = Anchor(worst * _BEST_LATENCY_RATIO, worst)
    per_1k = 1000.0 / search.demand.output_tokens
    kwh = float(reference_rows.it_wh[row]) / 1000.0 * per_1k
    hours = float(reference_rows.accelerator_hours[row]) * per_1k
    priced = bool(np.isfinite(context.prices.each_usd_per_hour()).any())
    found |= standard.anchors(kwh, hours, 1.0, priced)
    return found


def _worst_latency_s(search: ResolvedSearch, reference_s: float) -> float:
    limits, demand = search.limits, search.demand
    calls = demand.calls_per_task if search.kind.id == "agentic" else 1
    given = [
        limit
        for limit in (
            limits.task_s if search.kind.id == "agentic" else None,
            None if limits.e2e_s is None else limits.e2e_s * calls,
            None
            if limits.ttft_s is None or limits.tpot_s is None
            else calls * (limits.ttft_s + (demand.output_tokens - 1.0) * limits.tpot_s),
        )
        if limit is not None
    ]
    return min(given) if given else reference_s * _WORST_LATENCY_RATIO


def _rows(
    entry: Entry[Accelerator],
    search: ResolvedSearch,
    snapshot: CatalogSnapshot,
    result: SearchResult[InferenceCandidates],
) -> tuple[InferenceCandidates, int]:
    """The first model as shipped, on as few of the reference accelerators as hold it."""
    serving = search.environment.serving
    measured = calibration(snapshot, serving.release, entry.value)
    architecture = search.models[0].value
    shipped = resolve_precision(PrecisionRequest(), architecture)
    halves = NUMBER_FORMATS["bf16"]
    weights = shipped.weights if shipped.weights.bits_per_element < 16.0 else halves
    precision = type(shipped)(weights, halves, halves)
    widest = search.spaces[0].layouts
    space = SearchSpace(
        (precision,),
        widest,
        started_options(
            [(entry.value, measured.performance)],
            search.asked_serving,
            EngineRelease(serving.engine, serving.engine_generation),
            architecture,
            snapshot,
        ),
        max(layout.replica_accelerators for layout in widest),
        native_only=False,
    )
    found, _ = inference_candidates(
        architecture, space, search.demand, replace(search.environment, tiers=None)
    )
    if not len(found):
        # Not even the widest layout holds the weights there: what holds them is what there is.
        return next((rows, 0) for rows in result.by_model if len(rows))
    ranks = np.array([layout.replica_accelerators for layout in widest])[found.layout]
    fits = found.headroom_ratio >= 0.0
    order = np.lexsort(
        (np.abs(found.concurrency_per_replica - _REFERENCE_CONCURRENCY), ranks, ~fits)
    )
    return found, int(order[0])
