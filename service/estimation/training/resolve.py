"""A training run from the catalog, with what its request leaves open decided."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import FALLBACK_ENGINE, Engine
from service.core.explanation import EstimateWarning
from service.core.layouts import has_fast_links
from service.estimation.platforms import resolve_placed
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.batches import (
    GATHERS_WEIGHTS,
    MOST_STEP_TOKENS,
    has_few_sequences,
    tells_batch,
)
from service.estimation.training.fitting import (
    Fitted,
    fits,
    has_modules,
    headroom_bytes,
    least_that_fits,
    untold_that_fits,
)
from service.estimation.training.releases import with_older_releases
from service.estimation.training.requests import TrainingRequest, TrainingSettingsRequest
from service.estimation.training.setup import ResolvedTraining, as_told
from service.estimation.training.speed import resolved_speed
from service.estimation.training.usual_layouts import layout_warning, usual_layouts
from service.estimation.usual_engines import usual_framework

#: Code of what is said of a framework that nobody named.
FRAMEWORK_ASSUMED = "framework_assumed"
#: What models that have to be divided are taken to be trained with: an assumption, as the recipes
#: that are published for them (Megatron Bridge, NeMo, MLPerf Training) run on its core.
_DIVIDES_MODELS = "megatron-lm"
_Found = TypeVar("_Found")
_Fit: TypeAlias = Callable[
    [
        ResolvedTraining,
        TrainingSettingsRequest,
        Engine,
        Callable[[TrainingSettingsRequest], ResolvedTraining],
    ],
    _Found,
]


def resolve_training(
    request: TrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedTraining:
    """Fill in a training run from the catalog.

    What nobody told is as the framework does it, or by the least that makes the run fit, in a
    layout that does.

    Raises
    ------
    Rejected
        With everything that is wrong with it, and all that ``problems`` held before.
    """
    if request.training.framework is not None:
        return with_older_releases(_made_to_fit(request, snapshot, problems), request, snapshot)
    usual = _by_usual_framework(request, snapshot)
    if usual is not None:
        return usual
    try:
        copies = _made_to_fit(_named(request, FALLBACK_ENGINE), snapshot, problems)
    except Rejected:
        short = has_few_sequences(request.training, request.accelerator_count or 1)
        divided = _with_model_divided(request, snapshot, _FEW_SEQUENCES) if short else None
        if divided is None:
            raise
        return divided
    for reason, is_so in (
        (_EXPERTS, _gathers_experts),
        (_LARGE_STEPS, _has_large_steps),
        (_LARGE_COPIES, _lacks_room),
    ):
        divided = _with_model_divided(request, snapshot, reason) if is_so(copies, request) else None
        if divided is not None:
            return divided
    return copies


#: Why a model is taken to be divided though nobody says by which framework.
_EXPERTS = "copies of all experts do not fit on each accelerator and it divides them"
_LARGE_COPIES = "copies of the model do not fit on each accelerator, however states are divided"
_FEW_SEQUENCES = "a step has no sequence for a copy of the model on each accelerator"
_LARGE_STEPS = (
    "with a copy of the model on each accelerator a step would have more tokens than any that was "
    "published"
)


def _gathers_experts(copies: ResolvedTraining, _: TrainingRequest) -> bool:
    """Whether copies of a whole model gather all experts for the few that a token uses."""
    settings = copies.setup.settings
    gathers = settings.zero_stage == GATHERS_WEIGHTS or not fits(copies)
    return copies.setup.deployment.architecture.routes and gathers


def _has_large_steps(copies: ResolvedTraining, request: TrainingRequest) -> bool:
    """Whether copies on each accelerator make larger steps than people take, untold."""
    setup = copies.setup
    batch = setup.micro_batch
    steps = float(setup.settings.gradient_accumulation_steps)
    tokens = float(batch.sequences * batch.tokens) * steps * setup.deployment.parallelism.data
    return not tells_batch(request.training, steps) and tokens > MOST_STEP_TOKENS


def _lacks_room(copies: ResolvedTraining, request: TrainingRequest) -> bool:
    """Whether copies fit in no way, on accelerators whose links are made for dividing models.

    Who tells what is divided or recomputed has copies.
    """
    asked = request.training
    untold = asked.zero_stage is None and asked.activation_checkpointing is None
    return untold and not fits(copies) and has_fast_links(copies.setup.deployment.accelerator)


def _with_model_divided(
    request: TrainingRequest, snapshot: CatalogSnapshot, reason: str
) -> ResolvedTraining | None:
    """A run in a framework that divides models, for a reason in words.

    None if the layout is told, adapters are trained, or nothing else runs or fits.
    """
    if request.parallelism is not None or request.training.method != "full":
        return None
    try:
        found = _made_to_fit(_named(request, _DIVIDES_MODELS), snapshot, Problems())
    except Rejected:
        return None
    if not fits(found):
        return None
    name = snapshot.engines[_DIVIDES_MODELS].value.name
    assumed = EstimateWarning(
        FRAMEWORK_ASSUMED,
        f"the request names no framework: {name} is estimated, as {reason}",
        about="training.framework",
    )
    return replace(found, warnings=(assumed, *found.warnings))


def _by_usual_framework(
    request: TrainingRequest, snapshot: CatalogSnapshot
) -> ResolvedTraining | None:
    """A run by the framework that most people use on its accelerator, if that can be so."""
    accelerator, _ = resolve_placed(
        request.accelerator, request.platform, request.power_limit_w, snapshot, Problems()
    )
    hardware = None if accelerator is None else accelerator.value.hardware
    usual = None if hardware is None else usual_framework(snapshot, hardware)
    if usual is None or accelerator is None:
        return None
    try:
        found = _made_to_fit(_named(request, usual), snapshot, Problems())
    except Rejected:
        return None
    name = snapshot.engines[found.setup.settings.framework].value.name
    assumed = EstimateWarning(
        FRAMEWORK_ASSUMED,
        f"the request names no framework: {name} is estimated, which most people train with on "
        f"{accelerator.value.name}",
        about="training.framework",
    )
    return replace(found, warnings=(assumed, *found.warnings))


def _named(request: TrainingRequest, framework: str) -> TrainingRequest:
    """The same request with a framework."""
    training = request.training.model_copy(update={"framework": framework})
    return request.model_copy(update={"training": training})


def _made_to_fit(
    request: TrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedTraining:
    """A run by the framework that its request names, or by the least that makes it fit."""
    try:
        usual = as_told(request, snapshot, problems)
    except Rejected:
        divided = _in_fewer_copies(request, snapshot)
        if divided is None:
            raise
        return divided
    framework = snapshot.engines[usual.setup.settings.framework].value
    found = _by(least_that_fits, usual, request, snapshot, framework)
    if request.parallelism is not None:
        return _completed(found)
    if not _fits_at_ease(found.run, usual):
        found = _divided_to_fit(found.run, request, snapshot, framework) or found
    elif found.run.setup.deployment.architecture.routes:
        # A token uses few experts, of which ranks that share them have less to do one by one.
        shared = _divided_to_fit(found.run, request, snapshot, framework)
        if shared is not None and fits(shared.run):
            found = max(found, shared, key=lambda one: _rate(one.run, snapshot))
    return _completed(found)


def _fits_at_ease(run: ResolvedTraining, usual: ResolvedTraining) -> bool:
    """Whether a run fits without layers that are recomputed for nothing but that."""
    return fits(run) and (_recomputes(usual) or not _recomputes(run))


def _recomputes(run: ResolvedTraining) -> bool:
    """Whether a run recomputes all of its layers."""
    return run.setup.settings.activation_checkpointing == "full"


def _completed(found: Fitted[ResolvedTraining]) -> ResolvedTraining:
    """A run with what it leaves open, and what is to be said of how it is made to fit."""
    if not found.left_open and not found.warnings:
        return found.run
    setup = found.run.setup
    settings = replace(setup.settings, left_open=(*setup.settings.left_open, *found.left_open))
    return replace(
        found.run,
        setup=replace(setup, settings=settings),
        warnings=(*found.run.warnings, *found.warnings),
    )


def _by(
    fit: _Fit[_Found],
    usual: ResolvedTraining,
    request: TrainingRequest,
    snapshot: CatalogSnapshot,
    framework: Engine,
) -> _Found:
    """A run, laid out as asked, by a way to make it fit."""

    def told(training: TrainingSettingsRequest) -> ResolvedTraining:
        return as_told(request.model_copy(update={"training": training}), snapshot, Problems())

    return fit(usual, request.training, framework, told)


def _in_fewer_copies(
    request: TrainingRequest, snapshot: CatalogSnapshot
) -> ResolvedTraining | None:
    """A run whose global batch has no sequence for a copy of the model on each accelerator.

    It divides the model, in the fastest layout that fits; None if there is none such.
    """
    asked = request.training
    told = asked.global_batch_size is not None or asked.global_batch_tokens is not None
    if request.parallelism is not None or not told:
        return None
    alone = asked.model_copy(update={"global_batch_size": None, "global_batch_tokens": None})
    try:
        whole = as_told(request.model_copy(update={"training": alone}), snapshot, Problems())
    except Rejected:
        return None
    framework = snapshot.engines[whole.setup.settings.framework].value
    found = _divided_to_fit(whole, request, snapshot, framework)
    return None if found is None else _completed(found)


def _divided_to_fit(
    whole: ResolvedTraining, request: TrainingRequest, snapshot: CatalogSnapshot, framework: Engine
) -> Fitted[ResolvedTraining] | None:
    """The run in the fastest layout that fits, or that lacks least; None if there is no other.

    Layouts that fit by what the framework does untold come first, and those that recompute all
    layers last. Modules of experts and latents cost little to recompute: layouts that do no more
    than that count among the first.
    """
    runs = []
    for layout in usual_layouts(whole.setup, request.training, framework):
        divided = request.model_copy(update={"parallelism": layout})
        with suppress(Rejected):
            runs.append((as_told(divided, snapshot, Problems()), divided))
    found = [
        one
        for run, divided in runs
        if (one := _by(untold_that_fits, run, divided, snapshot, framework)) is not None
    ]
    by_modules = has_modules(whole.setup.deployment.architecture)
    if not found or by_modules:
        made = [_by(least_that_fits, run, divided, snapshot, framework) for run, divided in runs]
        fitting = [one for one in made if fits(one.run)]
        found = found + [one for one in fitting if not _recomputes(one.run)] or fitting
        if not found and made:
            found = [max(made, key=lambda one: headroom_bytes(one.run))]
    if not found:
        return None
    best = max(found, key=lambda one: _rate(one.run, snapshot))
    return replace(best, warnings=(*best.warnings, layout_warning(best.run.setup)))


def _rate(run: ResolvedTraining, snapshot: CatalogSnapshot) -> float:
    """Tokens that a run takes a second."""
    settled = replace(run.setup, settings=replace(run.setup.settings, left_open=()))
    speed = resolved_speed(settled, run.figures(snapshot), run.memory)
    return float(speed.tokens_per_s.value)
