"""What an engine runs with: what a request sets, else what its release starts with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from service.catalog.derived import derived
from service.catalog.entries.engines import kin_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, ServingSettings, Speculation
from service.core.engine_defaults import (
    START_SETTINGS,
    DefaultsRule,
    Start,
    StartSettings,
    UsageContext,
    starting_with,
)
from service.core.engines import CLASSES, EngineRelease
from service.core.performance.calibration import PerformanceCalibration
from service.core.search.batch_evaluation import AcceleratorOption
from service.estimation.backends import backend_of
from service.estimation.requests import ServingRequest
from service.estimation.software import preempts
from service.estimation.writing import valued


def usage_context(asked: ServingRequest, arrivals: str | None) -> UsageContext:
    """How requests reach the engine: a script hands them over all at once."""
    return asked.usage_context or ("offline" if arrivals == "at_once" else "server")


def start_settings(
    asked: ServingRequest,
    release: EngineRelease,
    architecture: ModelArchitecture,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
    arrivals: str | None = None,
) -> StartSettings:
    """What a release runs a model with on an accelerator.

    Parameters
    ----------
    asked
        Settings of the request, which come before defaults.
    release
        The engine's release.
    architecture
        The model, whose longest sequence is the engine's unless settings limit it.
    accelerator
        What it runs on.
    snapshot
        The catalog, whose engines state their defaults.
    arrivals
        How requests come, as of the workload.
    """
    start = Start(
        hardware=accelerator.hardware,
        memory_bytes=float(accelerator.memory_bytes),
        usage=usage_context(asked, arrivals),
        longest_tokens=asked.max_model_len or architecture.max_position_embeddings,
    )
    wanted = tuple(getattr(asked, name) for name in START_SETTINGS)
    return _started(snapshot, release, start, wanted)


def resolve_serving(
    asked: ServingRequest,
    release: EngineRelease,
    start: StartSettings,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
    arrivals: str | None = None,
    speculation: Speculation | None = None,
) -> ServingSettings:
    """Settings of serving without pools, which are resolved apart.

    Parameters
    ----------
    asked, release, accelerator, snapshot, arrivals
        As of `start_settings`.
    start
        What the engine runs with.
    speculation
        How tokens are drafted, resolved.
    """
    return valued(
        ServingSettings,
        asked,
        engine=release.engine,
        engine_generation=release.generation,
        preempts=preempts(release, snapshot),
        usage_context=usage_context(asked, arrivals),
        speculation=speculation,
        disaggregation=None,
        max_running_sequences=start.max_running_sequences,
        chunked_prefill_tokens=start.chunked_prefill_tokens,
        memory_utilization_ratio=start.memory_utilization_ratio,
        prompts_apart=start.prompts_apart,
        share_by_engine=asked.memory_utilization_ratio is None,
        backend=backend_of(asked.backend, release, accelerator, snapshot),
    )


def started_options(
    measured: Iterable[tuple[Accelerator, PerformanceCalibration]],
    asked: ServingRequest,
    release: EngineRelease,
    architecture: ModelArchitecture,
    snapshot: CatalogSnapshot,
) -> tuple[AcceleratorOption, ...]:
    """Accelerators with what is measured of them, and what the engine runs a model with there."""
    return tuple(
        AcceleratorOption(
            accelerator,
            performance,
            start_settings(asked, release, architecture, accelerator, snapshot),
        )
        for accelerator, performance in measured
    )


@derived(most=4096)
def _started(
    snapshot: CatalogSnapshot,
    release: EngineRelease,
    start: Start,
    wanted: tuple[float | None, ...],
) -> StartSettings:
    asked = dict(zip(START_SETTINGS, wanted, strict=True))
    return starting_with(tuple(_rules(release, snapshot)), start, asked)


def _rules(release: EngineRelease, snapshot: CatalogSnapshot) -> Iterator[tuple[DefaultsRule, ...]]:
    """Rules of a release, of its engine, of those it is like, and of what stands for its class."""
    engine = snapshot.engines[release.engine].value
    yield engine.defaults_of(release.generation)
    reference = CLASSES[engine.classes["inference"]].reference
    for id_ in (engine.id, reference):
        for key, _ in kin_of(id_, snapshot.engines):
            yield snapshot.engines[key].value.defaults
