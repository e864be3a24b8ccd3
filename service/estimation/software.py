"""Which engine a request means, at which release, and whether it runs on the hardware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import log

from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.engines import (
    Engine,
    EngineRelease,
    EngineWorkload,
    UnknownVersion,
    release_of,
)
from service.core.explanation import EstimateWarning
from service.core.hardware import Hardware
from service.core.memory.training.settings import Offload, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS, OF_CHECKPOINT, NumberFormat
from service.core.performance.training.pipeline import fill_rounds
from service.core.performance.training.work import product_format
from service.estimation.requests import ServingRequest
from service.estimation.resolution import Problems
from service.estimation.unknown_engines import UnknownEngine
from service.estimation.usual_engines import that_searches, that_serves, usual_engine

#: Formats that are named in place of one that an engine does not read.
_NEAREST = 3
_HALF_BITS = 16.0
_ENGINE, _VERSION = "/serving/engine", "/serving/engine_version"


def resolve_engine(
    reference: str,
    version: str | None,
    workload: EngineWorkload,
    pointers: tuple[str, str],
    snapshot: CatalogSnapshot,
    problems: Problems,
    weights_formats: Sequence[str] = (),
    accelerator: Accelerator | None = None,
) -> EngineRelease:
    """The release that a reference to an engine and the text of a version mean.

    Parameters
    ----------
    reference, version
        What was asked for; None for the newest generation.
    workload
        What the engine has to run.
    pointers
        Where reference and version stand in the request.
    snapshot
        The catalog.
    problems
        Takes what is wrong; the answer is then of no use.
    weights_formats
        Ids of listed formats that the newest generation reads where no version is asked for.
    accelerator
        What it runs on, where that is known: engines that do are named instead of others.
    """

    def able() -> list[str]:
        return [
            id_
            for id_, one in snapshot.engines.items()
            if workload in one.value.workloads and one.value.unestimated is None
        ]

    def engine() -> Engine:
        try:
            found = snapshot.find("engines", reference)
        except AmbiguousReference:
            raise
        except UnknownReference as unknown:
            raise UnknownEngine(unknown, workload, able()) from None
        if found.value.unestimated is not None:
            raise DocumentInvalid("", f"{found.id} cannot be estimated: {found.value.unestimated}")
        if workload in found.value.workloads:
            return found.value
        others = [] if accelerator is None else engines_on(accelerator, workload, snapshot)
        where = f" on {accelerator.name}" if accelerator is not None and others else ""
        named = ", ".join(sorted(others or able(), key=lambda id_: not id_.startswith(found.id)))
        raise DocumentInvalid(
            "", f"{found.id} is not estimated for {workload}{where}; these are: {named}"
        )

    known = problems.attempt(pointers[0], engine)
    if known is None:
        return EngineRelease(reference)
    try:
        return release_of(known, version, reference, weights_formats)
    except UnknownVersion as unknown:
        problems.add(pointers[1], str(unknown))
        return EngineRelease(known.id)


def resolve_serving_engine(
    asked: ServingRequest,
    accelerators: Sequence[Accelerator],
    weights_formats: Sequence[str],
    snapshot: CatalogSnapshot,
    problems: Problems,
    model_types: Collection[str] = (),
    *,
    searches: bool = False,
) -> EngineRelease:
    """As `resolve_engine`, for the engine that serves: the one asked for, else the usual one.

    Of several accelerators, the first whose usual engine runs on most of them decides. What comes
    in GGUF files alone, by the ids of the formats of weights, is served by the engine that made
    this form, and so are other formats that few engines read. Where that engine serves none of the
    models, by their types, it is the one that does, and where requests are decoded by a search with
    beams that it has not, one that has. Without a version it is the newest that reads the weights.
    """
    reference = asked.engine
    if reference is None:
        usual = usual_engine(accelerators, weights_formats, snapshot)
        reference = that_serves(usual, model_types, accelerators, snapshot)
        if searches:
            reference = that_searches(reference, weights_formats, accelerators, snapshot)
    pointers = (_ENGINE, _VERSION)
    listed = [one.removesuffix(OF_CHECKPOINT) for one in weights_formats]
    placed = accelerators[0] if accelerators else None
    return resolve_engine(
        reference, asked.engine_version, "inference", pointers, snapshot, problems, listed, placed
    )


def preempts(release: EngineRelease, snapshot: CatalogSnapshot) -> bool:
    """Whether a release takes pages as answers grow; engines that nobody describes do not."""
    known = snapshot.engines.get(release.engine)
    return known is not None and known.value.preempts(release.generation)


def resolve_framework(
    framework: str,
    version: str | None,
    pointer: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
    *,
    divides: bool = False,
    accelerator: Accelerator | None = None,
) -> EngineRelease:
    """As `resolve_engine`, for the framework that settings under a pointer ask for.

    A model that a layout ``divides`` by tensors or layers is run by the framework that has such
    layers, where the one asked for leaves them to another.
    """
    pointers = (f"{pointer}/framework", f"{pointer}/framework_version")
    release = resolve_engine(
        *(framework, version, "training", pointers, snapshot, problems), accelerator=accelerator
    )
    known = snapshot.engines.get(release.engine)
    if not divides or known is None or known.value.recipes.divided_by is None:
        return release
    other = snapshot.engines[known.value.recipes.divided_by].value
    try:
        return release_of(other, version, other.id)
    except UnknownVersion:  # A version of the framework that was asked for.
        return release_of(other, None, other.id)


def divided_warnings(
    framework: str, release: EngineRelease, snapshot: CatalogSnapshot
) -> Iterator[EstimateWarning]:
    """What to say where another framework than the one asked for divides the model."""
    asked = snapshot.find("engines", framework).value
    if release.engine == asked.recipes.divided_by:
        other = snapshot.engines[release.engine].value
        yield EstimateWarning(
            "framework_divides",
            f"{asked.name} leaves tensor and pipeline parallelism to {other.name}, which is "
            "estimated",
        )


def check_runs_on(
    release: EngineRelease,
    workload: EngineWorkload,
    accelerator: Accelerator,
    pointer: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> None:
    """Note it, with engines that do, if an engine does not run on an accelerator.

    Parameters
    ----------
    release, workload, accelerator
        What would run what on what.
    pointer
        Where the request names what is to be changed: the engine, or an accelerator.
    snapshot, problems
        The catalog; takes what is wrong.
    """
    engine = snapshot.engines[release.engine].value
    if engine.runs_on(accelerator.hardware):
        return
    others = engines_on(accelerator, workload, snapshot)
    detail = f"{engine.name} does not run on {accelerator.name}"
    if others:
        problems.add(pointer, f"{detail}; these do: {', '.join(others)}")
        return
    instead = (
        ". /v1/estimates/bounds tells how many hold a model, the shortest possible times, power "
        "and footprint"
    )
    problems.add(
        pointer,
        f"{detail}, nor does any other engine that the catalog knows: its maker's own software "
        f"has no published measurements to estimate with{instead * (workload == 'inference')}",
    )


def check_searched(release: EngineRelease, snapshot: CatalogSnapshot, problems: Problems) -> None:
    """Note it if searches do not try an engine."""
    engine = snapshot.engines[release.engine].value
    if engine.experts_on_host:
        problems.add(
            _ENGINE,
            f"{engine.name} computes experts on the processors of the host, which searches do not "
            "compare; ask for estimates of the machines that you consider",
        )


def engines_on(
    accelerator: Accelerator, workload: EngineWorkload, snapshot: CatalogSnapshot
) -> list[str]:
    """Ids of the engines that are known to run on an accelerator and can be estimated."""
    return [
        one.id
        for one in (entry.value for entry in snapshot.engines.values())
        if workload in one.workloads
        and one.unestimated is None
        and one.hardware.names
        and one.runs_on(accelerator.hardware)
    ]


def check_reads(
    release: EngineRelease,
    weights: NumberFormat,
    pointer: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
    hardware: Hardware | None = None,
) -> None:
    """Note it, with the nearest formats, if an engine has no kernels for a format of weights.

    The nearest are those that it has on the ``hardware``, or anywhere where none is named.
    """
    engine = snapshot.engines[release.engine].value
    if not engine.reads(weights.listed_id, release.generation):
        nearest = _nearest(_able(engine, hardware, release.generation), weights)
        problems.add(
            pointer,
            f"{engine.name} has no kernels for {weights.listed_id}; the nearest that it has: "
            f"{', '.join(nearest)}",
            nearest,
        )


def check_holds(
    release: EngineRelease,
    cache: NumberFormat,
    pointer: str,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> None:
    """Note it, with the nearest formats, if an engine holds no KV cache in a format."""
    engine = snapshot.engines[release.engine].value
    if not engine.caches.has(cache.id):
        nearest = _nearest(engine.caches.has, cache)
        problems.add(
            pointer,
            f"{engine.name} holds no KV cache in {cache.id}; the nearest that it has: "
            f"{', '.join(nearest)}",
            nearest,
        )


def lack_warnings(
    release: EngineRelease,
    weights: NumberFormat,
    model: ModelArchitecture,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
) -> Iterator[EstimateWarning]:
    """What to say of weights and models that an engine cannot run as they are asked for.

    Parameters
    ----------
    release, weights, model, accelerator
        What would run what on what.
    snapshot
        The catalog.
    """
    engine, hardware = snapshot.engines[release.engine].value, accelerator.hardware
    if engine.lacks_format(weights.listed_id, hardware):
        nearest = _nearest(_able(engine, hardware, release.generation), weights)
        named = ", ".join(nearest).upper()
        yield EstimateWarning(
            "engine_lacks_format",
            f"{engine.name} has no kernels for weights in {weights.listed_id.upper()} on "
            f"{accelerator.name}; the nearest formats that it has are {named}. "
            "The figures assume kernels that widen the weights",
        )
    lack = engine.lack_of(model.model_type)
    if lack is not None:
        advice = "" if lack.instead is None else f"; {lack.instead} serves them: name it as engine"
        yield EstimateWarning(
            "engine_lacks_model",
            f"{engine.name} does not serve models of type {model.model_type}{advice}. The figures "
            "are those of a similar engine that would",
        )


def _able(
    engine: Engine, hardware: Hardware | None, generation: str | None
) -> Callable[[str], bool]:
    """Whether a generation has kernels for weights in a format, on an accelerator if one is named.

    Formats that scale vectors are those of caches alone.
    """
    return lambda format_id: (
        not NUMBER_FORMATS[format_id].vector_scale_bytes
        and engine.formats_of(generation).has(format_id)
        and not (hardware is not None and engine.lacks_format(format_id, hardware))
    )


def _nearest(able: Callable[[str], bool], wanted: NumberFormat) -> tuple[str, ...]:
    """Formats that are able to be used, those of the most similar width first."""
    found = [one for one in NUMBER_FORMATS.values() if able(one.id)]
    found.sort(key=lambda one: abs(log(one.bits_per_element / wanted.bits_per_element)))
    return tuple(one.id for one in found[:_NEAREST])


def check_trains(
    settings: TrainingSettings,
    parallelism: Parallelism,
    snapshot: CatalogSnapshot,
    problems: Problems,
) -> None:
    """Note every setting of a run that its framework cannot train with."""
    framework = snapshot.engines[settings.framework].value
    recipes = framework.recipes
    if not recipes.trains(settings.method):
        problems.add(
            "/training/method",
            f"{framework.name} does not train by {settings.method}, but by "
            f"{', '.join(sorted(recipes.methods))}; use one of these, or another framework",
        )
    for degree in ("tensor", "pipeline", "expert", "context"):
        if getattr(parallelism, degree) > 1 and not recipes.divides(degree):
            problems.add(
                f"/parallelism/{degree}",
                f"{framework.name} has no {degree} parallelism; use 1, or another framework",
            )
    if settings.method != "full" and not recipes.adapts(settings.adapter):
        problems.add(
            "/training/adapter",
            f"{framework.name} has no {settings.adapter} adapters, but "
            f"{', '.join(sorted(recipes.adapters))}; use one of these, or another framework",
        )
    if not recipes.updates(settings.optimizer):
        problems.add(
            "/training/optimizer",
            f"{framework.name} has no {settings.optimizer}, but "
            f"{', '.join(sorted(recipes.optimizers))}; use one of these, or another framework",
        )
    _check_offload(settings.offload, framework, problems)
    _check_rounds(settings, parallelism.pipeline, framework, problems)
    if settings.attention == "flash-fp8" and not recipes.fp8_attention:
        problems.add(
            "/training/attention",
            f"{framework.name} trains no attention in 8 bit; use flash, or another framework",
        )
    if settings.prediction_layers and recipes.predicts is False:
        problems.add(
            "/training/prediction_layers",
            f"{framework.name} trains no layers of multi-token prediction; use 0, or another "
            "framework",
        )
    recipe = settings.fp8_recipe
    if recipe is not None and not recipes.scales(recipe):
        known = ", ".join(sorted(recipes.fp8_recipes))
        problems.add(
            "/training/fp8_recipe",
            f"{framework.name} has no {recipe} scaling, but {known}; use one of these, or another "
            "framework",
        )
    if settings.shard_groups(parallelism.data) > 1 and not recipes.shard_groups:
        problems.add(
            "/training/data_parallel_shard_degree",
            f"{framework.name} divides states among all data-parallel ranks; leave it out, or use "
            "another framework",
        )
    stages = recipes.zero_stages
    if stages and settings.zero_stage not in stages:
        problems.add(
            "/training/zero_stage",
            f"{framework.name} has no zero_stage {settings.zero_stage}, but "
            f"{', '.join(map(str, stages))}; use one of these, or another framework",
        )
        return
    most = recipes.most_zero_stage_in_pipeline
    if most is not None and parallelism.pipeline > 1 and settings.zero_stage > most:
        problems.add(
            "/training/zero_stage",
            f"beside a pipeline {framework.name} has at most zero_stage {most}; use that, or "
            "pipeline 1",
        )


def _check_rounds(
    settings: TrainingSettings, stages: int, framework: Engine, problems: Problems
) -> None:
    """Note micro-batches that an interleaved schedule of a framework does not take."""
    rounds, number = framework.recipes.interleaved_rounds, settings.gradient_accumulation_steps
    interleaves = settings.pipeline_schedule == "interleaved" and stages > 1
    if not interleaves or fill_rounds(number, stages, rounds):
        return
    near = int(number // stages) * stages
    working = " or ".join(str(each) for each in (near, near + stages) if each)
    problems.add(
        "/training/gradient_accumulation_steps",
        f"{framework.name} interleaves {stages} stages in {rounds} rounds of micro-batches, which "
        f"{number:.0f} do not make; use {working}, or pipeline_schedule 1f1b",
    )


def _check_offload(offload: Offload, framework: Engine, problems: Problems) -> None:
    """Note what a framework cannot keep where it is to be kept."""
    is_storage = offload.tier is not None and offload.tier.is_storage
    for part in ("optimizer", "parameters", "activations"):
        place = getattr(offload, part)
        if not framework.recipes.offloads(place, is_storage=is_storage):
            places = (*sorted(framework.recipes.offload_places or ()), "none")
            problems.add(
                f"/training/offload/{part}",
                f"{framework.name} keeps nothing in {place}; use {' or '.join(places)}, or another "
                "framework",
            )


def check_formats(
    settings: TrainingSettings, precision: Precision, snapshot: CatalogSnapshot, problems: Problems
) -> None:
    """Note formats of frozen weights and of products that the framework of a run does not have."""
    framework = snapshot.engines[settings.framework].value
    recipes, weights = framework.recipes, precision.weights
    computed = product_format(precision, settings)
    if computed.bits_per_element < _HALF_BITS and not recipes.multiplies(computed.id):
        asked = "activations" if computed is precision.activations else "weights"
        others = ", ".join(sorted(recipes.products or ()))
        problems.add(
            f"/precision/{asked}",
            f"{framework.name} has no products in {computed.id}; use "
            f"{others and others + ' or '}bf16, or another framework",
        )
    if settings.method == "full" or weights.bits_per_element >= _HALF_BITS:
        return
    if not recipes.freezes(weights.listed_id):
        problems.add(
            "/precision/weights",
            f"{framework.name} has no frozen weights in {weights.listed_id}, but in "
            f"{', '.join(sorted(recipes.bases.names))}; use one of these, or another framework",
        )


def serving_pointer(asked: ServingRequest, accelerator: str = "/accelerator") -> str:
    """What to change where engine and hardware do not go together: the engine, if one is named."""
    return accelerator if asked.engine is None else _ENGINE
