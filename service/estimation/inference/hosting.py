"""What stands where and runs what: all of a deployment that does not depend on its load.

Most questions are about the loads and prices of few deployments, so that it is kept by what the
request says of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.prediction import PREDICTORS_LEFT_OUT, predictors
from service.core.deployment import Accelerator, Parallelism, Precision, ServingSettings
from service.core.engines import Engine, EngineRelease
from service.core.explanation import EstimateWarning
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.weights import total_model_bytes
from service.core.performance.kernels import OPERAND_BITS, multiplied_precision
from service.core.platform import Machine
from service.estimation.backends import check_backend
from service.estimation.calibrations import Calibration, calibration
from service.estimation.defaults import accelerator_warnings
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.left_open import (
    NOTHING_LEFT_OPEN,
    LeftOpen,
    Otherwise,
    left_open,
    other_contexts,
    other_servings,
)
from service.estimation.inference.speculation import ResolvedSpeculation, resolve_speculation
from service.estimation.inference.tasks import resolve_task
from service.estimation.inference.tiers import ResolvedTiers, resolve_tiers
from service.estimation.layouts import resolve_parallelism
from service.estimation.loaded_formats import loaded_precision, usual_file
from service.estimation.platforms import resolve_placed, roomier_machine
from service.estimation.references import HubModel, InlineAccelerator, InlinePlatform, ModelConfig
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import (
    DeploymentRequest,
    ParallelismRequest,
    PrecisionRequest,
    ServingRequest,
)
from service.estimation.resolution import (
    GROUPED,
    Problems,
    check_precision_runs,
    resolve_model,
    served_precision,
    weights_format,
)
from service.estimation.software import (
    check_holds,
    check_reads,
    check_runs_on,
    lack_warnings,
    resolve_serving_engine,
    serving_pointer,
)
from service.estimation.starting import resolve_serving, start_settings
from service.estimation.unknown_releases import release_warnings

#: Deployments that are kept, each of some kilobytes.
_MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class Hosted:
    """A deployment without its load, and without a layout where its request leaves that open.

    ``architecture`` is the model as its engine holds it for the task. ``problems`` are such as do
    not keep other parts of a request from being looked at. ``warnings`` are of what stands there,
    ``setting_warnings`` of formats and settings. ``left_open`` is what else the request may mean.
    """

    model: Entry[ModelArchitecture]
    accelerator: Entry[Accelerator]
    machine: Entry[Machine] | None
    release: EngineRelease
    engine: Engine
    parallelism: Parallelism | None
    architecture: ModelArchitecture
    precision: Precision
    tiers: ResolvedTiers | None
    speculation: ResolvedSpeculation | None
    serving: ServingSettings
    calibration: Calibration
    problems: tuple[FieldError, ...]
    warnings: tuple[EstimateWarning, ...]
    setting_warnings: tuple[EstimateWarning, ...]
    left_open: LeftOpen = NOTHING_LEFT_OPEN


class _Asked(NamedTuple):
    """What a request says of all this, and nothing else."""

    model: str | ModelConfig | HubModel
    accelerator: str | InlineAccelerator
    platform: str | InlinePlatform | None
    power_limit_w: float | None
    precision: PrecisionRequest
    serving: ServingRequest
    accelerator_count: int | None
    parallelism: ParallelismRequest | None
    task: Literal["generate", "embed", "rerank"] | None
    arrivals: Literal["spread", "at_once"] | None
    searches: bool


def hosted(
    request: DeploymentRequest | ImpactsRequest, snapshot: CatalogSnapshot, problems: Problems
) -> Hosted:
    """What stands where and runs what; notes what is wrong with it and goes on where it can.

    Raises
    ------
    Rejected
        With everything that is wrong with it, and all that ``problems`` held before, where nothing
        else can be said.
    """
    model, accelerator = request.model, request.accelerator
    if model is None or accelerator is None:
        problems.refuse("", "a deployment needs a model and an accelerator")
    asked = _Asked(
        model,
        accelerator,
        request.platform,
        request.power_limit_w,
        request.precision,
        request.serving,
        request.accelerator_count,
        request.parallelism,
        request.workload.task,
        request.workload.arrivals,
        request.workload.beam_width > 1,
    )
    try:
        hash(asked)
    except TypeError:  # A configuration that came with the request.
        found = _resolved(snapshot, asked)
    else:
        found = _kept(snapshot, asked)
    if isinstance(found, Hosted):
        problems.join(found.problems)
        return found
    problems.join(found)
    raise Rejected(problems.errors)


def _resolved(snapshot: CatalogSnapshot, asked: _Asked) -> Hosted | tuple[FieldError, ...]:
    """The deployment with what else it may be, or what keeps it from being one."""
    found = _as_usual(snapshot, asked)
    if not isinstance(found, Hosted) or found.problems:
        return found
    servings = other_servings(
        asked.serving,
        found.release,
        found.engine,
        found.model,
        found.accelerator,
        found.serving.usage_context if asked.arrivals is None else None,
        snapshot,
    )
    others = (
        (setting, share_ratio, _as_usual(snapshot, asked._replace(serving=serving)))
        for setting, share_ratio, serving in servings
    )
    able = (
        Otherwise(setting, share_ratio, one.release, one.serving, one.calibration)
        for setting, share_ratio, one in others
        if isinstance(one, Hosted) and not one.problems
    )
    contexts = other_contexts(asked.serving, found.release, found.serving, found.calibration)
    every = (*able, *contexts)
    return replace(
        found, left_open=left_open(found.engine, every, found.serving, found.calibration)
    )


def _as_usual(snapshot: CatalogSnapshot, asked: _Asked) -> Hosted | tuple[FieldError, ...]:
    """The deployment by what is asked and usual, or what keeps it from being one."""
    problems = Problems()
    model = problems.attempt("/model", lambda: resolve_model(asked.model, snapshot))
    accelerator, machine = resolve_placed(
        asked.accelerator, asked.platform, asked.power_limit_w, snapshot, problems
    )
    given = () if accelerator is None else (accelerator.value,)
    files = () if model is None else (weights_format(asked.precision, model.value).id,)
    types = () if model is None else (model.value.model_type,)
    release = resolve_serving_engine(
        *(asked.serving, given, files, snapshot, problems, types), searches=asked.searches
    )
    known = snapshot.engines.get(release.engine)
    parallelism = None
    if asked.parallelism is not None:
        parallelism = resolve_parallelism(
            asked.parallelism,
            asked.accelerator_count,
            model.value if model is not None else None,
            problems,
            pads_heads=known is not None and known.value.pads_heads,
        )
    if problems.found or model is None or accelerator is None or known is None:
        return problems.errors
    pointer = serving_pointer(asked.serving)
    check_runs_on(release, "inference", accelerator.value, pointer, snapshot, problems)
    check_backend(asked.serving.backend, release, accelerator.value, snapshot, problems)
    used = resolve_task(asked.task, asked.serving, model.value, problems)
    loaded = loaded_precision(asked.precision, used, release, snapshot)
    precision = served_precision(loaded, used, problems)
    hardware = accelerator.value.hardware
    check_reads(release, precision.weights, "/precision/weights", snapshot, problems, hardware)
    check_holds(release, precision.kv_cache, "/precision/kv_cache", snapshot, problems)
    check_precision_runs(precision, accelerator.value, problems)
    experts_of = release.key if known.value.experts_on_host and used.routes else None
    if experts_of is not None and asked.platform is None and not asked.serving.memory_tiers:
        held_bytes = total_model_bytes(used, precision.weights)
        roomier = roomier_machine(held_bytes, accelerator.value, snapshot)
        if roomier is not None:
            return _as_usual(snapshot, asked._replace(platform=roomier))
    tiers = resolve_tiers(asked.serving, accelerator.value, snapshot, problems, release, experts_of)
    speculation = resolve_speculation(
        asked.serving.speculative, parallelism or Parallelism(), release, snapshot, problems
    )
    if asked.arrivals == "at_once" and asked.serving.disaggregated is not None:
        problems.add(
            "/workload/arrivals",
            "disaggregated serving is estimated only for requests that keep arriving; use spread",
        )
    start = start_settings(
        asked.serving, release, used, accelerator.value, snapshot, asked.arrivals
    )
    serving = resolve_serving(
        asked.serving,
        release,
        start,
        accelerator.value,
        snapshot,
        asked.arrivals,
        None if speculation is None else speculation.value,
    )
    chosen = calibration(
        snapshot, release.key, accelerator.value, serving.backend, serving.usage_context
    )
    return Hosted(
        model=model,
        accelerator=accelerator,
        machine=machine,
        release=release,
        engine=known.value,
        parallelism=parallelism,
        architecture=used,
        precision=precision,
        tiers=tiers,
        speculation=speculation,
        serving=serving,
        calibration=chosen,
        problems=problems.errors,
        warnings=(
            *_model_warnings(model.value, serving),
            *chosen.warnings,
            *release_warnings(release, snapshot),
            *accelerator_warnings(accelerator),
        ),
        setting_warnings=()
        if problems.found
        else (
            *_file_warnings(asked.precision, precision, used, known.value),
            *_precision_warnings(precision, accelerator.value),
            *lack_warnings(release, precision.weights, used, accelerator.value, snapshot),
            *_setting_warnings(serving, used, release.engine, chosen.runtime),
        ),
    )


_kept = derived(most=_MOST_KEPT)(_resolved)


def _model_warnings(
    model: ModelArchitecture, serving: ServingSettings
) -> Iterator[EstimateWarning]:
    """What is said of a model, but that layers for drafts are left out where they draft."""
    speculation = serving.speculation
    drafting = speculation is not None and speculation.architecture is None
    for warning in model.warnings:
        if warning.code != PREDICTORS_LEFT_OUT or not drafting or predictors(model) is None:
            yield warning


def _file_warnings(
    asked: PrecisionRequest, precision: Precision, model: ModelArchitecture, engine: Engine
) -> Iterator[EstimateWarning]:
    """What to say where an engine takes another file of a model than its checkpoint.

    And of a size of groups that the format of the weights has not.
    """
    if asked.group_size is not None and asked.weights not in GROUPED:
        yield EstimateWarning(
            "setting_unused",
            f"only {', '.join(GROUPED)} take a group_size: it changes nothing here",
            about="precision.group_size",
        )
    if usual_file(asked, model, engine) is not None:
        usual = precision.weights.listed_id.upper()
        yield EstimateWarning(
            "usual_file",
            f"{engine.name} loads models in {usual} by default: name another format of weights if "
            "you use one",
            about="precision.weights",
        )


def _precision_warnings(precision: Precision, accelerator: Accelerator) -> list[EstimateWarning]:
    weights = precision.weights
    used = multiplied_precision(accelerator, weights.matrix_precision)
    if OPERAND_BITS[used] <= OPERAND_BITS[weights.matrix_precision]:
        return []
    return [
        EstimateWarning(
            "precision_not_native",
            f"{accelerator.name} cannot multiply {weights.listed_id.upper()} directly: weights are "
            f"widened to {used.upper()} first, which saves memory but no computing time",
        )
    ]


def _setting_warnings(
    serving: ServingSettings, model: ModelArchitecture, engine: str, runtime: RuntimeOverheads
) -> Iterator[EstimateWarning]:
    """What to say of settings that the engine or the model has no use for."""
    held = runtime.of(serving.release)
    if serving.flash_attention is False and not held.bytes_per_score:
        yield EstimateWarning(
            "setting_unused",
            f"{engine} always fuses attention: turning flash_attention off changes nothing",
            about="serving.flash_attention",
        )
    if serving.attention_density_ratio < 1.0:
        yield EstimateWarning(
            "attention_is_sparse",
            f"attending to {serving.attention_density_ratio:.3g} of the tokens needs a kernel that "
            f"skips the others; {engine} has one only for models that were trained this way. The "
            "loss of quality depends on model and task, and the time for choosing tokens is not "
            "counted",
        )
    if serving.limit_mm_per_prompt is None:
        return
    if model.images is None or not held.profiles_images:
        yield EstimateWarning(
            "setting_unused",
            f"{engine} is not known to reserve memory for the images of such a model: "
            "limit_mm_per_prompt changes nothing",
            about="serving.limit_mm_per_prompt",
        )
