"""Older releases of a framework that a training request may mean: ranges that reach over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import islice

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import Engine, release_key
from service.core.memory.training.settings import LeftOpen, TrainingSettings
from service.core.otherwise import RARE_RATIO
from service.core.releases import older_in_use
from service.estimation.rejection import Rejected
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems
from service.estimation.since import runs_since
from service.estimation.training.calibrations import training_figures
from service.estimation.training.fitting import fits
from service.estimation.training.requests import TrainingRequest, TrainingSettingsRequest
from service.estimation.training.setup import ResolvedTraining, as_told

_VERSION = "framework_version"
#: Releases that are computed besides the newest, the oldest first: those between them are about
#: like one or the other.
_MOST_TRIED = 2
#: What a release does not decide, or is decided for the run already.
_NOT_OF_RELEASES = ("left_open", "framework_version")


def with_older_releases(
    run: ResolvedTraining, request: TrainingRequest, snapshot: CatalogSnapshot
) -> ResolvedTraining:
    """A run whose ranges reach over older releases with which it may have been made.

    The value is that of the newest. A run that was published was made within some months from when
    its model, its accelerator and the framework were there (`service.core.releases`), by what that
    release does where it is told nothing. One that does not fit so is left out.

    Parameters
    ----------
    run, request
        The run with everything decided, and what was asked.
    snapshot
        The catalog.
    """
    entry = snapshot.engines.get(run.setup.settings.framework)
    asked = request.training
    if entry is None or asked.framework_version is not None or _names_release(asked, entry.value):
        return run
    choices = tuple(_choices(run, request, entry.value, snapshot))
    if not choices:
        return run
    settings = replace(run.setup.settings, left_open=(*run.setup.settings.left_open, *choices))
    return replace(run, setup=replace(run.setup, settings=settings))


def _names_release(asked: TrainingSettingsRequest, framework: Engine) -> bool:
    """Whether the framework was asked for by the name of a release, or not at all."""
    return asked.framework is None or framework.named(asked.framework) is not None


def _choices(
    run: ResolvedTraining, request: TrainingRequest, framework: Engine, snapshot: CatalogSnapshot
) -> Iterator[LeftOpen]:
    """The choice of each older release that makes a difference, the oldest first."""
    usual = run.setup.settings
    newest = _what_counts(usual.framework_generation, run, framework, snapshot)
    since = runs_since(run.model, run.accelerator, snapshot)
    counted: dict[str, tuple[float, object]] = {}
    for generation, share in older_in_use(framework.generations, since):
        if generation == usual.framework_generation:
            break
        if share > RARE_RATIO:
            counts = _what_counts(generation, run, framework, snapshot)
            # Of several that are alike the newest is meant as often as they are together.
            counted = {one: found for one, found in counted.items() if found[1] != counts}
            counted[generation] = share, counts
    apart = ((one, share) for one, (share, counts) in counted.items() if counts != newest)
    for generation, share in islice(apart, _MOST_TRIED):
        older = _with_release(generation, run, request, snapshot)
        if older is not None:
            other = tuple(_apart(usual, older.setup.settings))
            yield LeftOpen((_VERSION,), (other,), to_fit=True, share_ratio=share)


def _what_counts(
    generation: str | None, run: ResolvedTraining, framework: Engine, snapshot: CatalogSnapshot
) -> object:
    """What a release decides of a run: what it does untold, and what is measured of it."""
    setup = run.setup
    settings, deployment = setup.settings, setup.deployment
    key = release_key(framework.id, generation)
    until = framework.superseded(generation)
    found = training_figures(snapshot, key, deployment.accelerator).efficiency
    return (
        framework.recipes.untold(
            settings.method_beside(deployment.precision.weights),
            settings.zero_stage,
            until,
            routes=deployment.architecture.routes,
        ),
        framework.fuses_attention(generation, capped=deployment.architecture.caps_scores),
        replace(found, performance=replace(found.performance, source="", measured=True)),
        replace(run.overheads.of(key), framework="", calibration=""),
    )


def _with_release(
    generation: str, run: ResolvedTraining, request: TrainingRequest, snapshot: CatalogSnapshot
) -> ResolvedTraining | None:
    """The same run with a release, by what that does untold; None if it does not run so."""
    setup = run.setup
    layout = setup.deployment.parallelism
    degrees = {name: getattr(layout, name) for name in ParallelismRequest.model_fields}
    told = {
        "framework": setup.settings.framework,
        _VERSION: generation,
        "micro_batch_size": int(setup.micro_batch.sequences),
        "gradient_accumulation_steps": int(setup.settings.gradient_accumulation_steps),
        "global_batch_size": None,
        "global_batch_tokens": None,
        "zero_stage": setup.settings.zero_stage,
        "pipeline_schedule": setup.settings.pipeline_schedule,
        "virtual_stages": setup.settings.virtual_stages,
    }
    recomputed = {
        name: getattr(run.asked, name) for name in ("activation_checkpointing", "recomputed_layers")
    }
    for more in ({}, recomputed):
        training = request.training.model_copy(update=told | more)
        update = {"training": training, "parallelism": ParallelismRequest(**degrees)}
        with suppress(Rejected):
            older = as_told(request.model_copy(update=update), snapshot, Problems())
            if fits(older):
                return older
    return None


def _apart(usual: TrainingSettings, older: TrainingSettings) -> Iterator[tuple[str, object]]:
    """Settings that a release makes otherwise, by name."""
    for field in fields(usual):
        value = getattr(older, field.name)
        if field.name not in _NOT_OF_RELEASES and value != getattr(usual, field.name):
            yield field.name, value
