"""Resolves a sweep and divides it into chunks, the same way wherever and whenever it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from service.catalog.entries.entry import Entry
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism, Region
from service.core.engines import Engine, EngineRelease
from service.core.layouts import replica_layouts
from service.core.number_formats import NUMBER_FORMATS
from service.core.search.batch_evaluation import (
    CONCURRENCY_GRID,
    MOST_SIZES,
    AcceleratorOption,
    Demand,
    Environment,
    SearchSpace,
    SpeculationOption,
)
from service.estimation.backends import BACKEND, backend_of, check_backend, has_backend
from service.estimation.calibrations import calibration
from service.estimation.inference.speculation import resolve_speculation, speculation_option
from service.estimation.inference.tiers import computed_by_host, tiers_around
from service.estimation.layouts import resolve_parallelism
from service.estimation.platforms import in_asked_facility, in_asked_machine
from service.estimation.recommendations.inference.formats import (
    TriedModel,
    note_bits,
    note_unread,
    tried_caches,
    tried_model,
)
from service.estimation.recommendations.inference.space import (
    check_generates,
    resolve_demand,
    time_limits,
)
from service.estimation.recommendations.limits import Bounds
from service.estimation.recommendations.places import Sites, cloud_regions, placeable
from service.estimation.recommendations.requests import PercentileLimitsRequest
from service.estimation.recommendations.search_context import (
    PriceList,
    price_list,
    prices_by_id,
)
from service.estimation.references import InlineRegion
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import (
    Problems,
    resolve_accelerator,
    resolve_model,
    resolve_region,
)
from service.estimation.software import (
    check_holds,
    check_reads,
    check_runs_on,
    check_searched,
    resolve_serving_engine,
)
from service.estimation.starting import resolve_serving, started_options, usage_context
from service.estimation.sweeps.requests import MOST_PER_ACCELERATOR, SweepRequest, SweepSpace
from service.estimation.usual_engines import told_formats

Asked = TypeVar("Asked")
Value = TypeVar("Value")

#: Configurations of a chunk, in all regions: a few seconds on one core, some tens of megabytes.
CHUNK_CONFIGURATIONS = 200_000


@dataclass(frozen=True, slots=True)
class Block:
    """One model, layout and choice of formats on accelerators ``first`` up to ``last``."""

    model: int
    layout: int
    precision: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Blocks that are evaluated and kept together, and how many configurations they have."""

    blocks: tuple[Block, ...]
    configurations: int


@dataclass(frozen=True, slots=True)
class Study:
    """A sweep with everything filled in that its request left open or referred to."""

    models: tuple[tuple[str, ModelArchitecture], ...]
    accelerators: tuple[tuple[str, Accelerator], ...]
    regions: tuple[tuple[str, Region], ...]
    spaces: tuple[SearchSpace, ...]
    demand: Demand
    environment: Environment
    limits: PercentileLimitsRequest
    keep_all: bool
    prices: PriceList
    placeable: NDArray[np.bool_]
    chunks: tuple[Chunk, ...]

    @property
    def bounds(self) -> Bounds:
        """What limits are set to, by the caller and by the load."""
        return self.limits.model_dump() | {"carries_the_load": 0.0}

    def each(self, space: SearchSpace, layout: Parallelism) -> int:
        """Configurations of one accelerator in a layout and formats, in one region."""
        counts = space.replica_counts(layout)
        if counts is None and self.demand.sized_by_rate:
            return MOST_SIZES
        return len(space.concurrencies) * (1 if counts is None else len(counts))

    @property
    def configurations(self) -> int:
        """How many are evaluated in all."""
        return sum(chunk.configurations for chunk in self.chunks)


def resolve_study(request: SweepRequest, snapshot: CatalogSnapshot) -> Study:
    """Fill in a sweep from the catalog and divide it.

    Raises
    ------
    Rejected
        With every reference that is unknown and every list that leaves nothing to evaluate.
    """
    problems = Problems()
    models = _entries("/models", request.models, resolve_model, snapshot, problems)
    accelerators, regions = _places(request.space, snapshot, problems)
    own = prices_by_id(
        request.usd_per_accelerator_hour, "/usd_per_accelerator_hour", snapshot, problems
    )
    tiers = tiers_around(request.serving, snapshot, problems)
    for _, entry in models:
        check_generates(entry, "/models", problems)
    named = [] if request.space.accelerators is None else [one.value for _, one in accelerators]
    formats = told_formats(request.space.precisions, (entry.value for _, entry in models))
    release = resolve_serving_engine(
        *(request.serving, named, formats, snapshot, problems),
        {entry.value.model_type for _, entry in models},
    )
    check_searched(release, snapshot, problems)
    asked_draft = request.serving.speculative
    speculation = resolve_speculation(asked_draft, Parallelism(), release, snapshot, problems)
    problems.stop_if_any()
    if tiers is not None:
        tiers = computed_by_host(tiers, request.serving, release, snapshot)
    accelerators = _able(accelerators, request, release, snapshot, problems)
    entries = [entry for _, entry in accelerators]
    asked = request.space.accelerators is not None
    limit_w = request.power_limit_w
    housed = in_asked_machine(entries, request.platform, limit_w, asked, snapshot, problems)
    regions = [
        (name, in_asked_facility(entry, request.facility, snapshot)) for name, entry in regions
    ]
    accelerators = [
        (name, entry)
        for (name, _), entry in zip(accelerators, housed, strict=True)
        if entry is not None
    ]
    for at, name in enumerate(request.space.precisions or ()):
        check_reads(release, NUMBER_FORMATS[name], f"/space/precisions/{at}", snapshot, problems)
    for at, name in enumerate(request.space.kv_caches or ()):
        check_holds(release, NUMBER_FORMATS[name], f"/space/kv_caches/{at}", snapshot, problems)
    problems.stop_if_any()
    asked_backend, usage = request.serving.backend, usage_context(request.serving, None)
    measured = [
        calibration(
            snapshot,
            release.key,
            entry.value,
            backend_of(asked_backend, release, entry.value, snapshot),
            usage,
        )
        for _, entry in accelerators
    ]
    performances = [
        (entry.value, one.performance)
        for (_, entry), one in zip(accelerators, measured, strict=True)
    ]
    options = [
        started_options(performances, request.serving, release, entry.value, snapshot)
        for _, entry in models
    ]
    serving = resolve_serving(
        request.serving, release, options[0][0].start, entries[0].value, snapshot
    )
    engine, draft = snapshot.engines[release.engine], speculation_option(speculation)
    spaces = tuple(
        _space(at, entry, request, options[at], draft, engine, problems)
        for at, (_, entry) in enumerate(models)
    )
    problems.stop_if_any()
    study = Study(
        models=tuple((name, entry.value) for name, entry in models),
        accelerators=tuple((name, entry.value) for name, entry in accelerators),
        regions=tuple((name, entry.value) for name, entry in regions),
        spaces=spaces,
        demand=_demand(request),
        environment=Environment(serving, measured[0].runtime, measured[0].infrastructure, tiers),
        limits=request.limits,
        keep_all=request.keep == "candidates",
        prices=price_list(
            [entry.id for _, entry in accelerators],
            own,
            [entry for _, entry in regions],
            snapshot,
            request.list_prices,
        ),
        placeable=placeable(
            request.space.placement,
            request.space.accelerators is not None,
            [entry for _, entry in accelerators],
            Sites(tuple(entry for _, entry in regions), None),
            snapshot,
        ),
        chunks=(),
    )
    study = replace(study, chunks=tuple(_chunks(study)))
    if not study.chunks:
        problems.add(
            "/space",
            "nothing to evaluate: no layout fits within max_accelerators and divides one of "
            "accelerator_counts",
        )
    problems.stop_if_any()
    return study


def _demand(request: SweepRequest) -> Demand:
    """What configurations have to carry, and whether replicas are counted by their goodput."""
    demand = resolve_demand(request.workload, None)
    if not request.sized_by_goodput:
        return demand
    limits = time_limits(request.limits)
    return replace(demand, reserve_ratio=request.space.reserve_ratio, limits=limits)


def _places(
    space: SweepSpace, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[list[tuple[str, Entry[Accelerator]]], list[tuple[str, Entry[Region]]]]:
    """Accelerators and regions: those asked for, else all that can be had and all cloud regions."""
    accelerators = (
        list(snapshot.delivered_accelerators().items())
        if space.accelerators is None
        else _entries(
            "/space/accelerators", space.accelerators, resolve_accelerator, snapshot, problems
        )
    )
    regions = (
        _cloud_regions(snapshot)
        if space.regions is None
        else _regions(space.regions, snapshot, problems)
    )
    return accelerators, regions


def _able(
    accelerators: list[tuple[str, Entry[Accelerator]]],
    request: SweepRequest,
    release: EngineRelease,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> list[tuple[str, Entry[Accelerator]]]:
    """Accelerators that the engine runs on; others are noted where they were asked for."""
    if request.space.accelerators is not None:
        for _, entry in accelerators:
            pointer = "/space/accelerators"
            check_runs_on(release, "inference", entry.value, pointer, snapshot, problems)
            check_backend(request.serving.backend, release, entry.value, snapshot, problems)
        return accelerators
    engine = snapshot.engines[release.engine].value
    able = [
        (name, entry)
        for name, entry in accelerators
        if engine.runs_on(entry.value.hardware)
        and has_backend(engine, request.serving.backend, entry.value)
    ]
    if not able:
        problems.add(BACKEND, f"no accelerator that {engine.name} runs on has it")
    return able


def named(given: object, at: int) -> str:
    """What rows call an entry: its id, or its place in the list if it was given in line."""
    return given if isinstance(given, str) else f"inline {at}"


def _entries(
    pointer: str,
    asked: Iterable[Asked],
    resolve: Callable[[Asked, CatalogSnapshot], Entry[Value]],
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> list[tuple[str, Entry[Value]]]:
    """Each entry once, under its id where it is one of the catalog, in the order given."""
    listed: dict[str, Entry[Value]] = {}
    for at, given in enumerate(asked):
        entry = problems.attempt(f"{pointer}/{at}", partial(resolve, given, snapshot))
        if entry is not None:
            listed.setdefault(entry.id if isinstance(given, str) else named(given, at), entry)
    return list(listed.items())


def _regions(
    asked: Iterable[str | InlineRegion], snapshot: CatalogSnapshot, problems: Problems
) -> list[tuple[str, Entry[Region]]]:
    """Each region once, in the order given; names of groups stand for several."""
    listed: dict[str, Entry[Region]] = {}
    for at, given in enumerate(asked):
        pointer = f"/space/regions/{at}"
        if isinstance(given, str):
            meant = problems.attempt(pointer, partial(regions_meant, given, snapshot))
            for entry in meant or ():
                listed.setdefault(entry.id, entry)
            continue
        inline = problems.attempt(pointer, partial(resolve_region, given, snapshot))
        if inline is not None:
            listed.setdefault(named(given, at), inline)
    return list(listed.items())


def _cloud_regions(snapshot: CatalogSnapshot) -> list[tuple[str, Entry[Region]]]:
    return [(region.id, region) for region in cloud_regions(snapshot)]


def _formats(
    entry: Entry[ModelArchitecture],
    request: SweepRequest,
    engine: Entry[Engine],
    problems: Problems,
) -> TriedModel:
    """Formats of weights that are swept; notes a limit that none of them meets."""
    asked, least = request.space.precisions, request.limits.weight_bits_at_least or 0.0
    every = tried_model(entry, entry.id, asked, True, engine)
    if not every.formats:
        note_unread([engine.id], entry.id, "/serving/engine", asked is not None, problems)
        return every
    kept = every.at_least(least)
    if not kept.formats:
        note_bits(least, every.widest(), "space.precisions" if asked else entry.id, problems)
    return kept


def _space(
    at: int,
    entry: Entry[ModelArchitecture],
    request: SweepRequest,
    options: tuple[AcceleratorOption, ...],
    speculation: SpeculationOption,
    engine: Entry[Engine],
    problems: Problems,
) -> SearchSpace:
    asked, architecture = request.space, entry.value
    found: tuple[Parallelism, ...]
    if asked.parallelisms is None:
        found = replica_layouts(
            architecture,
            asked.max_accelerators,
            divides_layers=engine.value.divides_layers,
            shares_experts=engine.value.shares_experts,
        )
    else:
        wanted = [ParallelismRequest(**layout.model_dump()) for layout in asked.parallelisms]
        possible = [resolve_parallelism(one, None, architecture, Problems()) for one in wanted]
        found = tuple(dict.fromkeys(one for one in possible if one is not None))
        if not found:
            problems.add(
                "/space/parallelisms",
                f"the heads, layers or experts of models/{at} allow no layout",
            )
    found = tuple(layout for layout in found if speculation.divides(layout))
    return SearchSpace(
        precisions=_formats(entry, request, engine, problems).precisions(
            tried_caches(asked.kv_caches, engine.value)
        ),
        layouts=found,
        accelerators=options,
        most_accelerators=asked.max_accelerators,
        native_only=asked.precisions is None,
        native_caches_only=asked.kv_caches is None,
        concurrencies=tuple(dict.fromkeys(asked.concurrencies or CONCURRENCY_GRID)),
        accelerator_counts=None
        if asked.accelerator_counts is None
        else tuple(dict.fromkeys(asked.accelerator_counts)),
        speculations=(speculation,),
    )


def _chunks(study: Study) -> Iterator[Chunk]:
    """Blocks in the order of models, layouts and formats, as many to a chunk as it may hold."""
    blocks: list[Block] = []
    held = 0
    for block, each in _blocks(study):
        first = block.first
        while first < block.last:
            room = max((CHUNK_CONFIGURATIONS - held) // each, 0 if held else 1)
            last = min(first + room, block.last)
            if last > first:
                blocks.append(replace(block, first=first, last=last))
                held += each * (last - first)
            if last < block.last:
                yield Chunk(tuple(blocks), held)
                blocks, held = [], 0
            first = last
    if blocks:
        yield Chunk(tuple(blocks), held)


def _blocks(study: Study) -> Iterator[tuple[Block, int]]:
    """Each layout and choice of formats, and the configurations of one accelerator in it."""
    for model_at, space in enumerate(study.spaces):
        for layout_at, layout in enumerate(space.layouts):
            counts = space.replica_counts(layout)
            if layout.least_accelerators > space.most_accelerators or counts == ():
                continue
            each = study.each(space, layout)
            for precision_at in range(len(space.precisions)):
                yield (
                    Block(model_at, layout_at, precision_at, 0, len(space.accelerators)),
                    each * len(study.regions),
                )


assert MOST_PER_ACCELERATOR <= CHUNK_CONFIGURATIONS  # noqa: S101 - one accelerator fits a chunk
