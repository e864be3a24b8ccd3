"""Engines that a search tries: the one asked for, else on each accelerator what is usual there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import Backend
from service.core.deployment import Accelerator
from service.core.engines import EngineRelease
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.backends import BACKEND, has_backend
from service.estimation.recommendations.requests import SearchRequest
from service.estimation.requests import ServingRequest
from service.estimation.resolution import Problems
from service.estimation.software import (
    check_holds,
    check_reads,
    resolve_serving_engine,
)


@dataclass(frozen=True, slots=True)
class SearchedEngine:
    """A release of an engine, and the positions of the accelerators that it is tried on."""

    release: EngineRelease
    positions: frozenset[int]


def searched_engines(
    asked: ServingRequest,
    common: EngineRelease,
    accelerators: Sequence[Entry[Accelerator]],
    weights_formats: Sequence[str],
    model_types: frozenset[str],
    one_for_all: bool,
    snapshot: CatalogSnapshot,
) -> tuple[SearchedEngine, ...]:
    """Each engine with the accelerators that it is tried on, the common one first.

    Parameters
    ----------
    asked
        Settings of the request, whose engine or version is that of all accelerators.
    common
        The release that is asked for, or the usual one of most accelerators.
    accelerators
        What is searched.
    weights_formats
        Formats of weights that are asked for; empty for any.
    model_types
        Types of the models.
    one_for_all
        Whether the common engine runs everything, as one file of a model does on every desk.
    snapshot
        The catalog.
    """
    everywhere = frozenset(range(len(accelerators)))
    if asked.engine is not None or asked.engine_version is not None or one_for_all:
        return (SearchedEngine(common, everywhere),)
    tried: dict[EngineRelease, set[int]] = {common: set()}
    for position, entry in enumerate(accelerators):
        usual = resolve_serving_engine(
            asked, (entry.value,), weights_formats, snapshot, Problems(), model_types
        )
        tried.setdefault(usual, set()).add(position)
    return tuple(
        SearchedEngine(release, frozenset(positions))
        for release, positions in tried.items()
        if positions
    ) or (SearchedEngine(common, everywhere),)


def with_backend(
    engines: Sequence[SearchedEngine],
    backend: Backend | None,
    accelerators: Sequence[Entry[Accelerator]],
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> tuple[SearchedEngine, ...]:
    """The engines with the accelerators on which they have a backend; notes where none is left."""
    if backend is None:
        return tuple(engines)
    found = []
    for one in engines:
        engine = snapshot.engines[one.release.engine].value
        able = {at for at in one.positions if has_backend(engine, backend, accelerators[at].value)}
        if able:
            found.append(SearchedEngine(one.release, frozenset(able)))
    if not found:
        names = ", ".join(dict.fromkeys(one.release.engine for one in engines))
        problems.add(BACKEND, f"{names} has no {backend} on any of the accelerators")
        return tuple(engines)
    return tuple(found)


def check_formats(
    search: SearchRequest,
    engines: Sequence[SearchedEngine],
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> None:
    """Note formats of weights and caches that none of the engines takes."""
    values = [snapshot.engines[one.release.engine].value for one in engines]
    first = engines[0].release
    for at, name in enumerate(search.precisions or ()):
        if not any(one.reads(name) for one in values):
            pointer = f"/search/precisions/{at}"
            check_reads(first, NUMBER_FORMATS[name], pointer, snapshot, problems)
    for at, name in enumerate(search.kv_caches or ()):
        if not any(one.caches.has(name) for one in values):
            pointer = f"/search/kv_caches/{at}"
            check_holds(first, NUMBER_FORMATS[name], pointer, snapshot, problems)


def engine_to_name(
    asked: ServingRequest,
    engine: str,
    accelerator: Accelerator,
    weights_format: str,
    model_type: str,
    snapshot: CatalogSnapshot,
) -> str | None:
    """The engine as a choice's request names it: None where it is the usual one anyway."""
    if asked.engine is not None:
        return asked.engine
    usual = resolve_serving_engine(
        asked, (accelerator,), (weights_format,), snapshot, Problems(), (model_type,)
    )
    return None if usual.engine == engine else engine
