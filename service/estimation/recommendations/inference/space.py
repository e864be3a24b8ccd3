"""Resolves what a recommendation searches: models, formats, layouts, accelerators and places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, nextafter

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import usual_task
from service.core.deployment import Accelerator, Parallelism
from service.core.engines import USUAL_ENGINE_OF_GGUF, Engine, EngineRelease
from service.core.layouts import replica_layouts
from service.core.memory.inference.tiers import MemoryTiers
from service.core.performance.inference.goodput import FIGURES, TimeLimit
from service.core.search.batch_evaluation import (
    CONCURRENCY_GRID,
    AcceleratorOption,
    Demand,
    Environment,
    SearchSpace,
    SpeculationOption,
)
from service.core.search.workloads import WORKLOAD_KINDS, WorkloadKind
from service.estimation.backends import backend_of
from service.estimation.calibrations import calibration
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.inference.speculation import resolve_speculation, speculation_option
from service.estimation.inference.tiers import computed_by_host, tiers_around
from service.estimation.learning.searches import learnt_options
from service.estimation.recommendations.context import search_context
from service.estimation.recommendations.inference.engines import (
    SearchedEngine,
    check_formats,
    searched_engines,
    with_backend,
)
from service.estimation.recommendations.inference.formats import (
    TriedModel,
    note_bits,
    note_unread,
    tried_caches,
    tried_model,
    tried_releases,
)
from service.estimation.recommendations.limits import Bounds, bounds_of
from service.estimation.recommendations.places import Sites, searched_sites, usually_bought
from service.estimation.recommendations.requests import (
    ChoiceRequest,
    DecisionLimitsRequest,
    DecisionWorkload,
    PercentileLimitsRequest,
    RecommendationRequest,
    SearchedWorkload,
    WeightsRequest,
)
from service.estimation.recommendations.search_context import SearchContext, named_accelerators
from service.estimation.requests import ServingRequest, SpeculativeRequest
from service.estimation.resolution import (
    UNNAMED,
    Problems,
    resolve_model,
)
from service.estimation.software import check_searched, resolve_serving_engine
from service.estimation.starting import resolve_serving, started_options, usage_context
from service.estimation.usual_engines import told_formats
from service.estimation.writing import valued

#: Kinds of the matrix that are no inference.
NOT_SEARCHED = frozenset({"llm-training"})


@dataclass(frozen=True, slots=True)
class ResolvedSearch:
    """A search with everything filled in that its request left open or referred to.

    ``models``, ``environments``, ``spaces`` and ``tried`` go together: each model, or release of
    it, under each engine.
    """

    kind: WorkloadKind
    models: tuple[Entry[ModelArchitecture], ...]
    context: SearchContext
    demand: Demand
    environments: tuple[Environment, ...]
    spaces: tuple[SearchSpace, ...]
    tried: tuple[TriedModel, ...]
    drafts: tuple[SpeculativeRequest | None, ...]
    limits: DecisionLimitsRequest
    weights: Mapping[str, float]
    asked_serving: ServingRequest
    pools: bool

    def most_tokens(self, architecture: ModelArchitecture) -> int | None:
        """Longest sequence of a model under the engine's settings; None without a limit."""
        return self.asked_serving.max_model_len or architecture.max_position_embeddings

    def bounds(self, architecture: ModelArchitecture) -> Bounds:
        """What limits are set to, by the caller and by a model."""
        return bounds_of(self.limits) | {
            "context_length": self.most_tokens(architecture),
            "carries_the_load": 0.0,
            "max_accelerators": float(self.spaces[0].most_accelerators),
        }

    @property
    def accelerators(self) -> tuple[Entry[Accelerator], ...]:
        """Accelerators by their positions in the spaces."""
        return self.context.accelerators


def resolve_search(request: RecommendationRequest, snapshot: CatalogSnapshot) -> ResolvedSearch:
    """Fill in a search from the catalog."""
    problems = Problems()
    models = searched_models(request, snapshot, problems)
    kind = WORKLOAD_KINDS[request.workload_kind]
    sites = searched_sites(request.search, kind, snapshot, problems)
    named = named_accelerators(request.search, snapshot, problems)
    usual = named if named is not None or not sites.bought_only else usually_bought(sites, snapshot)
    for_a_desk = named is None and _for_a_desk(sites, request.workload)
    types = frozenset(model.value.model_type for model in models)
    formats = told_formats(request.search.precisions, (model.value for model in models))
    release = resolve_serving_engine(
        _of_a_desk(request, snapshot) if for_a_desk else request.serving,
        [entry.value for entry in usual or ()],
        formats,
        snapshot,
        problems,
        types,
    )
    context = search_context(
        request,
        request.search,
        request.limits,
        named,
        release,
        "inference",
        sites,
        snapshot,
        problems,
    )
    accelerators = context.accelerators
    if kind.id in NOT_SEARCHED:
        problems.add(
            "/workload_kind",
            f"use /v1/recommendations/training for {kind.id}",
        )
    drafts = searched_drafts(request, release, snapshot, problems)
    tiers = tiers_around(request.serving, snapshot, problems)
    check_searched(release, snapshot, problems)
    for model in models:
        check_generates(model, "/model" if request.models is None else "/models", problems)
    problems.stop_if_any()
    engines = searched_engines(
        request.serving,
        release,
        accelerators,
        formats,
        types,
        for_a_desk,
        snapshot,
    )
    engines = with_backend(engines, request.serving.backend, accelerators, snapshot, problems)
    check_formats(request.search, engines, snapshot, problems)
    tried = _tried(models, request, engines, snapshot, problems)
    problems.stop_if_any()
    spaces = [
        space
        for engine, of_engine in zip(engines, tried, strict=True)
        for space in _spaces(engine, of_engine, request, accelerators, tiers, snapshot)
    ]
    limits = _limits(request.limits, kind)
    return ResolvedSearch(
        kind=kind,
        models=tuple(one.entry for of_engine in tried for one in of_engine),
        context=context,
        demand=replace(
            resolve_demand(request.workload, request.workload.concurrency),
            reserve_ratio=request.search.reserve_ratio,
            limits=time_limits(limits),
        ),
        environments=tuple(environment for _, environment in spaces),
        spaces=tuple(space for space, _ in spaces),
        tried=tuple(one for of_engine in tried for one in of_engine),
        drafts=tuple(requested for requested, _ in drafts),
        limits=limits,
        weights=matrix_weights(request.weights, kind),
        asked_serving=request.serving,
        pools=request.search.disaggregated,
    )


def _for_a_desk(sites: Sites, workload: DecisionWorkload) -> bool:
    """Whether hardware is bought for one person, rather than to serve several from racks."""
    alone = workload.requests_per_s is None and workload.concurrency == 1
    return alone and sites.bought_only and "owned" not in (sites.where or ())


def _of_a_desk(request: RecommendationRequest, snapshot: CatalogSnapshot) -> ServingRequest:
    """Settings by the engine that single users run, which reads files of few bits on anything."""
    asked = request.serving
    given = (asked.engine, asked.engine_version, request.search.precisions)
    if any(one is not None for one in given) or USUAL_ENGINE_OF_GGUF not in snapshot.engines:
        return asked
    return asked.model_copy(update={"engine": USUAL_ENGINE_OF_GGUF})


def _tried(
    models: Sequence[Entry[ModelArchitecture]],
    request: RecommendationRequest,
    engines: Sequence[SearchedEngine],
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> list[list[TriedModel]]:
    """Models and releases of them with their formats, by engine; notes a limit that none meets."""
    asked, least = request.search.precisions, request.limits.weight_bits_at_least or 0.0
    conversions = request.search.allow_conversions
    found: list[list[TriedModel]] = [[] for _ in engines]
    for model, reference in zip(models, request.asked_models, strict=True):
        every: list[TriedModel] = []
        met = False
        for of_engine, searched in zip(found, engines, strict=True):
            engine = snapshot.engines[searched.release.engine]
            tried = [tried_model(model, reference, asked, conversions, engine)]
            if asked is None:
                releases = tried_releases(model, conversions, engine, snapshot)
                tried = [*(one.made_nowhere_else(releases) for one in tried), *releases]
            kept = [one for one in (each.at_least(least) for each in tried) if one.formats]
            of_engine += kept
            met = met or bool(kept)
            every += [one for one in tried if one.formats]
        if not met and every:
            widest = max((one.widest() for one in every), key=lambda one: one.bits_per_element)
            note_bits(least, widest, "search.precisions" if asked else model.id, problems)
        elif not met:
            names = [one.release.engine for one in engines]
            note_unread(names, model.id, "/serving/engine", asked is not None, problems)
    return found


def _spaces(
    engine: SearchedEngine,
    tried: Sequence[TriedModel],
    request: RecommendationRequest,
    accelerators: Sequence[Entry[Accelerator]],
    tiers: MemoryTiers | None,
    snapshot: CatalogSnapshot,
) -> Iterator[tuple[SearchSpace, Environment]]:
    """What is searched of each model under an engine, and what stands around it."""
    release = engine.release
    drafts = searched_drafts(request, release, snapshot, Problems())
    asked, usage = request.serving.backend, usage_context(request.serving, None)
    found = [
        calibration(
            snapshot, release.key, one.value, backend_of(asked, release, one.value, snapshot), usage
        )
        for one in accelerators
    ]
    measured = [
        (accelerator.value, one.performance)
        for accelerator, one in zip(accelerators, found, strict=True)
    ]
    first = found[min(engine.positions)]
    value = snapshot.engines[release.engine].value
    if tiers is not None:
        tiers = computed_by_host(tiers, request.serving, release, snapshot)
    caches = tried_caches(request.search.kv_caches, value)
    for one in tried:
        options = started_options(measured, request.serving, release, one.entry.value, snapshot)
        start = options[min(engine.positions)].start
        serving = resolve_serving(
            request.serving, release, start, accelerators[min(engine.positions)].value, snapshot
        )
        learnt = learnt_options(options, one.entry, accelerators, serving.engine, snapshot)
        yield (
            _space(one, request, value, caches, learnt, engine.positions, drafts),
            Environment(serving, first.runtime, first.infrastructure, tiers),
        )


def resolve_demand(workload: SearchedWorkload, concurrency: int | None) -> Demand:
    """What deployments have to carry, of a workload with so many requests in flight or None."""
    input_tokens, input_spread = mean_and_spread(workload.input_tokens)
    output_tokens, output_spread = mean_and_spread(workload.output_tokens)
    return valued(
        Demand,
        workload,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        input_spread=input_spread,
        output_spread=output_spread,
        concurrency=None if concurrency is None else float(concurrency),
    )


def searched_models(
    request: ChoiceRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Entry[ModelArchitecture], ...]:
    """The model, or the models to choose among; unknown ones are noted.

    Of several, those that have no name are told apart by where they stand in the request.
    """
    found: list[Entry[ModelArchitecture] | None] = []
    for at, one in enumerate(request.asked_models):
        path = "/model" if request.models is None else f"/models/{at}"
        entry = problems.attempt(path, lambda one=one: resolve_model(one, snapshot))  # type: ignore[misc]
        if entry is not None and entry.id == UNNAMED and request.models is not None:
            entry = replace(entry, id=f"{UNNAMED} {at}")
        found.append(entry)
    return tuple(entry for entry in found if entry is not None)


def check_generates(model: Entry[ModelArchitecture], pointer: str, problems: Problems) -> None:
    """Note a model that is or has an encoder, or embeds: searches are of those that only decode."""
    task = usual_task(model.value)
    if model.value.made_for != "generate":
        does = "embeds sequences" if task == "embed" else "ranks documents"
        problems.add(
            pointer,
            f"{model.id} {does} in one pass and generates nothing, which searches do not try; ask "
            f"/v1/compare which accelerators do most sequences a second and dollar, with "
            f'workload.task "{task}" and the tokens of a sequence in workload.input_tokens',
        )
    elif not model.value.generates or model.value.encoder is not None:
        has = "is" if model.value.encoder is None else "has"
        problems.add(
            pointer,
            f"{model.id} {has} an encoder, which searches do not try; ask "
            "/v1/estimates/inference what one accelerator or another does",
        )


def time_limits(limits: PercentileLimitsRequest) -> tuple[TimeLimit, ...]:
    """The limits on times of requests that are set."""
    return tuple(
        TimeLimit(figure, limits.percentile, most_s)
        for figure in FIGURES
        if (most_s := getattr(limits, figure)) is not None
    )


def _limits(requested: DecisionLimitsRequest, kind: WorkloadKind) -> DecisionLimitsRequest:
    """The caller's limits, with the kind's own latencies where the caller gives none."""
    if not requested.implied:
        return requested
    return requested.model_copy(
        update={
            "ttft_s": kind.ttft_s if requested.ttft_s is None else requested.ttft_s,
            "tpot_s": kind.tpot_s if requested.tpot_s is None else requested.tpot_s,
        }
    )


def matrix_weights(requested: WeightsRequest | None, kind: WorkloadKind) -> Mapping[str, float]:
    """The caller's weights, else those of the matrix's row."""
    if requested is not None:
        return requested.model_dump()
    return {str(metric): weight for metric, weight in kind.metric_weights_ratio.items()}


#: A way of decoding as it was asked for, None for decoding token by token, and resolved.
RequestedDraft = tuple[SpeculativeRequest | None, SpeculationOption]


def searched_drafts(
    request: RecommendationRequest,
    release: EngineRelease,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[RequestedDraft, ...]:
    """Ways of decoding to try, as an engine loads drafts; unknown draft models are noted."""
    alternatives = request.search.speculative
    if alternatives is None:
        requested, pointer = request.serving.speculative, "/serving/speculative"
        return (_draft(requested, pointer, release, snapshot, problems),)
    found = [_draft(None, "", release, snapshot, problems)]
    for at, one in enumerate(alternatives):
        found.append(_draft(one, f"/search/speculative/{at}", release, snapshot, problems))
    return tuple(found)


def _draft(
    requested: SpeculativeRequest | None,
    pointer: str,
    release: EngineRelease,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> RequestedDraft:
    # Layouts that do not divide a draft model are left out where they are evaluated.
    resolved = resolve_speculation(requested, Parallelism(), release, snapshot, problems, pointer)
    return requested, speculation_option(resolved)


def _space(
    tried: TriedModel,
    request: RecommendationRequest,
    engine: Engine,
    caches: Sequence[str],
    options: Sequence[AcceleratorOption],
    positions: frozenset[int],
    drafts: Sequence[RequestedDraft],
) -> SearchSpace:
    return SearchSpace(
        precisions=tried.precisions(caches),
        layouts=replica_layouts(
            tried.entry.value,
            request.search.max_accelerators,
            divides_layers=engine.divides_layers,
            shares_experts=engine.shares_experts,
        ),
        accelerators=options,
        most_accelerators=request.search.max_accelerators,
        native_only=request.search.precisions is None,
        native_caches_only=request.search.kv_caches is None,
        positions=positions,
        without_kernels=_without_kernels(tried, engine, options, request),
        concurrencies=_concurrencies(request.workload.concurrency),
        speculations=tuple(option for _, option in drafts),
        needed_stages_only=True,
    )


def _without_kernels(
    tried: TriedModel,
    engine: Engine,
    options: Sequence[AcceleratorOption],
    request: RecommendationRequest,
) -> Mapping[str, frozenset[int]]:
    """On which accelerators an engine has no kernels for a format, by their positions.

    Formats that are asked for are tried all the same, and their estimates say so.
    """
    if request.search.precisions is not None:
        return {}
    return {
        name: frozenset(
            at
            for at, option in enumerate(options)
            if engine.lacks_format(name, option.accelerator.hardware)
        )
        for name in {one.listed_id for one in tried.formats.values()}
    }


def _concurrencies(in_flight: int | None) -> Sequence[float]:
    """Sequences that a replica may run: of so many in flight, what replicas share evenly."""
    if in_flight is None:
        return CONCURRENCY_GRID
    counts = {ceil(in_flight / running): None for running in CONCURRENCY_GRID}
    # Rounded up where division would ask for one replica more.
    shares = ((count, in_flight / count) for count in counts)
    return tuple(
        share if ceil(in_flight / share) == count else nextafter(share, inf)
        for count, share in shares
    )
