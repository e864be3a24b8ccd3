"""Resolves what a recommendation searches: models, formats, layouts, accelerators and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import (
    Attention,
    LatentAttention,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.core.deployment import Accelerator, Parallelism, Precision, Region
from service.core.number_formats import NUMBER_FORMATS
from service.core.planning.passes import Around, Demand, Offer, Space
from service.core.planning.workloads import WORKLOAD_KINDS, WorkloadKind
from service.estimation.calibrations import Calibration, calibration
from service.estimation.costs import lowest_list_prices
from service.estimation.decisions.requests import (
    LimitsRequest,
    RecommendationRequest,
    SearchRequest,
)
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import (
    Problems,
    resolve_model,
    resolve_precision,
    serving_values,
)

#: Formats tried where the caller names none: as shipped, and what serving engines run widely.
_USUAL_WEIGHTS = ("bf16", "fp8", "int8", "awq-int4", "nvfp4", "mxfp4")
_USUAL_CACHES = ("bf16", "fp8")
#: Kinds of the matrix that are no inference.
NOT_SEARCHED = frozenset({"llm-training"})
_TENSOR_DEGREES = (1, 2, 4, 8, 16, 32, 64)
_PIPELINE_DEGREES = (1, 2, 4, 8)
#: Pipeline stages are tried from this many tensor-parallel ranks on: below, more ranks of those
#: answer faster and hold as much.
_WIDE_TENSOR = 8


@dataclass(frozen=True, slots=True)
class ResolvedSearch:
    """A search with everything filled in that its request left open or referred to."""

    kind: WorkloadKind
    models: tuple[Entry[ModelArchitecture], ...]
    accelerators: tuple[Entry[Accelerator], ...]
    calibrations: tuple[Calibration, ...]
    regions: tuple[Entry[Region], ...]
    demand: Demand
    around: Around
    spaces: tuple[Space, ...]
    limits: LimitsRequest
    weights: Mapping[str, float]
    usd_per_hour: Mapping[str, float]
    list_priced: frozenset[str]
    #: Which accelerators (rows) can stand in which regions (columns).
    placeable: NDArray[np.bool_]


def resolve_search(request: RecommendationRequest, snapshot: CatalogSnapshot) -> ResolvedSearch:
    """Fill in a search from the catalog.

    Raises
    ------
    Rejected
        With every reference that is unknown.
    """
    problems = Problems()
    models = _models(request, snapshot, problems)
    accelerators = _accelerators(request, snapshot, problems)
    regions = _regions(request, snapshot, problems)
    prices = {
        accelerator.id: price
        for name, price in request.usd_per_accelerator_hour.items()
        if (
            accelerator := problems.attempt(
                f"/usd_per_accelerator_hour/{name}",
                lambda name=name: snapshot.find("accelerators", name),  # type: ignore[misc]
            )
        )
        is not None
    }
    listed = lowest_list_prices(snapshot) if request.list_prices else {}
    assumed = {
        entry.id: listed[entry.id]
        for entry in accelerators
        if entry.id in listed and entry.id not in prices
    }
    kind = WORKLOAD_KINDS[request.workload_kind]
    if kind.id in NOT_SEARCHED:
        problems.add(
            "/workload_kind",
            f"{kind.id} is not searched: recommendations are of inference. Send its candidates to "
            "/v1/estimates/batch, each with training settings, and compare",
        )
    problems.stop_if_any()
    serving = serving_values(request.serving)
    calibrations = tuple(
        calibration(snapshot, serving.engine, accelerator.value.family)
        for accelerator in accelerators
    )
    offers = [
        Offer(accelerator.value, measured.performance)
        for accelerator, measured in zip(accelerators, calibrations, strict=True)
    ]
    first = calibrations[0]
    return ResolvedSearch(
        kind=kind,
        models=models,
        accelerators=accelerators,
        calibrations=calibrations,
        regions=regions,
        demand=_demand(request),
        around=Around(serving, first.runtime, first.infrastructure),
        spaces=tuple(_space(model.value, request, offers) for model in models),
        limits=_limits(request.limits, kind),
        weights=_weights(request, kind),
        usd_per_hour=assumed | prices,
        list_priced=frozenset(assumed),
        placeable=_placeable(request.search, accelerators, regions, snapshot),
    )


def _models(
    request: RecommendationRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[ModelArchitecture], ...]:
    if request.model is not None:
        asked = request.model
        found = [problems.attempt("/model", lambda: resolve_model(asked, snapshot))]
    else:
        found = [
            problems.attempt(f"/models/{at}", lambda one=one: resolve_model(one, snapshot))  # type: ignore[misc]
            for at, one in enumerate(request.models or ())
        ]
    return tuple(entry for entry in found if entry is not None)


def _accelerators(
    request: RecommendationRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[Accelerator], ...]:
    if request.search.accelerators is None:
        return tuple(snapshot.accelerators.values())
    found = [
        problems.attempt(
            f"/search/accelerators/{at}",
            lambda name=name: snapshot.find("accelerators", name),  # type: ignore[misc]
        )
        for at, name in enumerate(request.search.accelerators)
    ]
    return tuple({entry.id: entry for entry in found if entry is not None}.values())


def _regions(
    request: RecommendationRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[Region], ...]:
    if request.search.regions is None:
        return tuple(
            region for region in snapshot.regions.values() if region.document.get("kind") == "cloud"
        )
    found = [
        problems.attempt(
            f"/search/regions/{at}",
            lambda name=name: snapshot.find("regions", name),  # type: ignore[misc]
        )
        for at, name in enumerate(request.search.regions)
    ]
    return tuple({entry.id: entry for entry in found if entry is not None}.values())


def _placeable(
    search: SearchRequest,
    accelerators: Sequence[Entry[Accelerator]],
    regions: Sequence[Entry[Region]],
    snapshot: CatalogSnapshot,
) -> NDArray[np.bool_]:
    """Which accelerators can stand in which regions.

    Where only what is offered counts, a cloud's regions are open to what that cloud is known to
    rent out, and any other place to everything. Accelerators that the caller names are placed
    anywhere if no cloud is known to have them.
    """
    placement = search.placement or ("anywhere" if search.regions is not None else "offered")
    if placement == "anywhere":
        return np.ones((len(accelerators), len(regions)), dtype=bool)
    clouds = [
        region.id.partition("/")[0] if region.document.get("kind") == "cloud" else None
        for region in regions
    ]
    offered: dict[str, set[str]] = {}
    for instance in snapshot.instances.values():
        offered.setdefault(instance.value.accelerator, set()).add(instance.value.provider)
    rows = []
    for accelerator in accelerators:
        by = offered.get(accelerator.id, set()) & set(filter(None, clouds))
        anywhere = not by and search.accelerators is not None
        rows.append([anywhere or cloud is None or cloud in by for cloud in clouds])
    return np.array(rows, dtype=bool)


def _demand(request: RecommendationRequest) -> Demand:
    workload = request.workload
    return Demand(
        input_tokens=float(workload.input_tokens),
        output_tokens=float(workload.output_tokens),
        requests_per_s=workload.requests_per_s,
        concurrency=None if workload.concurrency is None else float(workload.concurrency),
        prefix_cached_ratio=workload.prefix_cached_ratio,
        calls_per_task=workload.calls_per_task,
    )


def _limits(asked: LimitsRequest, kind: WorkloadKind) -> LimitsRequest:
    """The caller's limits, with the kind's own latencies where the caller gives none."""
    return asked.model_copy(
        update={
            "ttft_s": kind.ttft_s if asked.ttft_s is None else asked.ttft_s,
            "tpot_s": kind.tpot_s if asked.tpot_s is None else asked.tpot_s,
        }
    )


def _weights(request: RecommendationRequest, kind: WorkloadKind) -> Mapping[str, float]:
    if request.weights is not None:
        return request.weights.model_dump()
    return {str(metric): weight for metric, weight in kind.weights.items()}


def _space(
    architecture: ModelArchitecture, request: RecommendationRequest, offers: Sequence[Offer]
) -> Space:
    return Space(
        precisions=precisions(
            architecture,
            request.search.precisions,
            request.search.kv_caches,
            request.limits.weight_bits_at_least,
        ),
        layouts=layouts(architecture, request.search.max_accelerators),
        offers=offers,
        most_accelerators=request.search.max_accelerators,
        native_only=request.search.precisions is None,
    )


def precisions(
    architecture: ModelArchitecture,
    asked: Sequence[str] | None,
    asked_caches: Sequence[str] | None,
    least_bits: float | None,
) -> tuple[Precision, ...]:
    """Number formats to try: those asked for, else as shipped and what engines run widely.

    Parameters
    ----------
    architecture
        The model.
    asked, asked_caches
        Formats of weights and KV caches, None for the usual ones.
    least_bits
        Bits an element that weights must have [bit].
    """
    least = least_bits or 0.0
    caches = asked_caches or _USUAL_CACHES
    shipped = resolve_precision(PrecisionRequest(), architecture).weights
    weights = (
        [shipped, *(NUMBER_FORMATS[name] for name in _USUAL_WEIGHTS)]
        if asked is None
        else [NUMBER_FORMATS[name] for name in asked]
    )
    # A checkpoint in few bits gains nothing from being widened again.
    most = shipped.bits_per_element if asked is None else 32.0
    kept = {
        one.id: one for one in weights if least <= one.bits_per_element <= max(most, least)
    } or {shipped.id: shipped}
    bf16 = NUMBER_FORMATS["bf16"]
    return tuple(
        Precision(one, NUMBER_FORMATS[cache], bf16) for one in kept.values() for cache in caches
    )


def layouts(architecture: ModelArchitecture, most: int) -> tuple[Parallelism, ...]:
    """Layouts of one replica: tensor parallelism as far as heads divide, then pipeline stages."""
    heads = {
        group.mixer.query_heads
        for group in architecture.groups
        if isinstance(group.mixer, Attention | LatentAttention)
    }
    degrees = [
        tensor
        for tensor in _TENSOR_DEGREES
        if tensor <= most and all(count % tensor == 0 for count in heads)
    ]
    experts = min(
        (
            group.feed_forward.experts
            for group in architecture.groups
            if isinstance(group.feed_forward, MixtureOfExperts)
        ),
        default=1,
    )
    found: list[Parallelism] = []
    for tensor in degrees:
        stages = _PIPELINE_DEGREES if tensor == degrees[-1] or tensor >= _WIDE_TENSOR else (1,)
        for pipeline in stages:
            if prod((tensor, pipeline)) > most or pipeline > architecture.layer_count:
                continue
            found.append(Parallelism(tensor=tensor, pipeline=pipeline))
            if 1 < tensor <= experts:
                found.append(Parallelism(tensor=tensor, pipeline=pipeline, expert=tensor))
    return tuple(found)
