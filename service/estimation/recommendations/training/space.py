"""Resolves what a choice of training searches: models, variants, layouts, accelerators, places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log2

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import MixtureOfExperts, ModelArchitecture
from service.core.deployment import Parallelism
from service.core.engines import Engine, EngineRelease
from service.core.layouts import divides_heads
from service.core.memory.training.runtime import FrameworkRuntime
from service.core.memory.training.settings import (
    Checkpointing,
    Offload,
    OffloadTier,
    Place,
    Schedule,
)
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.training.scaling import scales_blocks
from service.core.recipes import Recipes
from service.core.search.training_candidates import (
    TrainingAcceleratorOption,
    TrainingDemand,
    TrainingEnvironment,
    TrainingSpace,
    TrainingVariant,
)
from service.core.search.workloads import WORKLOAD_KINDS, WorkloadKind
from service.core.years import DAYS_PER_YEAR
from service.estimation.mitigations import USUAL_HOST_BYTES
from service.estimation.recommendations.context import search_context
from service.estimation.recommendations.inference.formats import note_bits
from service.estimation.recommendations.inference.space import matrix_weights, searched_models
from service.estimation.recommendations.limits import Bounds, bounds_of
from service.estimation.recommendations.places import searched_sites
from service.estimation.recommendations.search_context import SearchContext, named_accelerators
from service.estimation.recommendations.training.requests import (
    RunLimits,
    RunRequest,
    TrainingRecommendationRequest,
    settings_of,
    tier_offload_of,
)
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import Problems, resolve_precision
from service.estimation.software import resolve_framework
from service.estimation.training.batches import MOST_STEP_TOKENS
from service.estimation.training.calibrations import training_figures
from service.estimation.training.called import Method
from service.estimation.training.checks import check_capacity, check_routes
from service.estimation.training.formats import TRAINABLE, loaded_base, usual_weights
from service.estimation.training.lengths import within_models
from service.estimation.training.overheads import training_memory_overheads
from service.estimation.training.setup import training_settings
from service.estimation.training.shard_groups import check_messages
from service.estimation.training.speed import failures_of
from service.estimation.training.tiers import resolve_tier, share_of
from service.estimation.training.untold import EXPERTS_HIDE, filled_in, left_open

#: Tokens of an optimizer step where the caller names no batch, by the operations of the run: what
#: learns most was found to be ``0.292 × operations ^ 0.3271``, within a factor of four or so.
#: Source: Bi et al., DeepSeek LLM, 2024, equation 1, https://arxiv.org/abs/2401.02954.
_STEP_TOKENS, _STEP_EXPONENT = 0.292, 0.3271
#: Operations of a parameter that is used for a token, forward and backward.
#: Source: Kaplan et al., 2020, section 2.1, https://arxiv.org/abs/2001.08361.
_OPERATIONS = 6.0
#: Fewest steps of a run, likewise: a choice of this service, so that short runs have steps at all.
_FEWEST_STEPS = 1000.0

#: Months of the longest run that is worth its time: one that starts later, on better hardware and
#: with better methods, overtakes longer ones.
#: Source: Epoch AI, Frontier LLM training runs can't get much longer, 2025,
#: https://epoch.ai/data-insights/longest-training-run (15 months by an estimate of 2022).
LONGEST_RUN_MONTHS = 9.0
_MONTHS_PER_YEAR = 12.0
#: Formats of checkpoints whose weights are trained in bf16 all the same.
_TRAINED_IN_HALF = frozenset(("fp16", "fp32", "tf32"))

#: Degrees of tensor parallelism, those beyond a server's usual eight accelerators only where fast
#: links of all that are searched reach so far.
_TENSOR_DEGREES, _WIDE_TENSOR_DEGREES = (1, 2, 4, 8), (16, 32, 64)
_PIPELINE_DEGREES = (2, 4, 8, 16)
#: Ranks among which experts are spread.
_EXPERT_DEGREES = (8, 64)
#: Ranks that share a sequence, tried where sequences are long.
_CONTEXT_DEGREES = (2, 4, 8)
_LONG_SEQUENCE_TOKENS = 32_768
_CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective-operators", "full")
#: With ranks to divide among, ZeRO stage 1 holds less than none at the same traffic, and stage 3
#: the least; stage 2 lies between.
_ZERO_STAGES = (0, 1, 3)
#: Stages a rank that an interleaved pipeline may have, where frameworks interleave it.
_VIRTUAL_STAGES = (2, 4, 8)
_INTERLEAVING = "megatron-like"


@dataclass(frozen=True, slots=True)
class ResolvedTrainingSearch:
    """A search with everything filled in that its request left open or referred to."""

    kind: WorkloadKind
    models: tuple[Entry[ModelArchitecture], ...]
    context: SearchContext
    demand: TrainingDemand
    environment: TrainingEnvironment
    spaces: tuple[TrainingSpace, ...]
    limits: RunLimits
    weights: Mapping[str, float]
    host_memory_bytes: float
    tier: OffloadTier | None
    framework: FrameworkRuntime

    def bounds(self, architecture: ModelArchitecture) -> Bounds:
        """What limits are set to, by the caller, a model and the host."""
        return bounds_of(self.limits) | {
            "context_length": architecture.max_position_embeddings,
            "host_memory_bytes": self.host_memory_bytes,
            "tier_memory_bytes": None if self.tier is None else self.tier.capacity_bytes,
        }


def within_searched(
    request: TrainingRecommendationRequest, snapshot: CatalogSnapshot
) -> TrainingRecommendationRequest:
    """The request with sequences that all its models have positions for, if it tells no length."""
    models = searched_models(request, snapshot, Problems())
    run = within_models(request.trained, (model.value for model in models))
    return request.model_copy(update={"training": run, "run": None})


def resolve_training_search(
    request: TrainingRecommendationRequest, snapshot: CatalogSnapshot
) -> ResolvedTrainingSearch:
    """Fill in a search from the catalog."""
    problems = Problems()
    models = searched_models(request, snapshot, problems)
    for model in models:
        if model.value.encoder is not None:
            pointer = "/model" if request.models is None else "/models"
            problems.add(pointer, f"training of {model.value.model_type} models is not estimated")
    release = resolve_framework(
        request.trained.framework,
        request.trained.framework_version,
        "/training",
        snapshot,
        problems,
    )
    kind = WORKLOAD_KINDS["llm-training"]
    sites = searched_sites(request.search, kind, snapshot, problems)
    context = search_context(
        request,
        request.search,
        request.limits,
        named_accelerators(request.search, snapshot, problems),
        release,
        "training",
        sites,
        snapshot,
        problems,
    )
    problems.stop_if_any()
    accelerators = context.accelerators
    joined = min((one.value.scale_up_domain_accelerators for one in accelerators), default=1)
    run = request.trained.model_copy(update={"framework": release.engine})
    request = request.model_copy(update={"training": run, "run": None})
    _check_formats(request, problems)
    framework = snapshot.engines[release.engine].value
    recipes = framework.recipes
    _check_methods(request, recipes, problems)
    _check_optimizers(request, recipes, problems)
    check_capacity(run.expert_capacity_factor, framework, problems)
    check_messages(settings_of(run), framework, problems)
    for model in models:
        check_routes(run.expert_capacity_factor, model.value, problems)
    tier = _tier(run, snapshot, problems)
    problems.stop_if_any()
    _check_bits(models, request, recipes, problems)
    problems.stop_if_any()
    figures = [training_figures(snapshot, release.key, one.value) for one in accelerators]
    options = [
        TrainingAcceleratorOption(one.value, measured.efficiency, measured.host(one.value))
        for one, measured in zip(accelerators, figures, strict=True)
    ]
    overheads = training_memory_overheads(snapshot)
    interleaving = snapshot.engines[release.engine].value.classes["training"] == _INTERLEAVING
    host = USUAL_HOST_BYTES if run.host_memory_bytes is None else run.host_memory_bytes
    return ResolvedTrainingSearch(
        kind=kind,
        models=models,
        context=context,
        demand=TrainingDemand(
            tokens=run.tokens,
            sequence_tokens=float(run.sequence_length),
            global_batch_sequences=run.global_batch_size
            or min(usual_batch(run, model.value) for model in models),
            failures=failures_of(run.failures, figures[0]),
        ),
        environment=TrainingEnvironment(overheads, context.infrastructure),
        spaces=tuple(
            TrainingSpace(
                tuple(
                    variants(
                        *(model.value, request, release, framework, tier),
                        interleaving=interleaving,
                        blocks=all(scales_blocks(one.value) for one in accelerators),
                    )
                ),
                tuple(
                    layout
                    for layout in layouts(model.value, request, joined)
                    if all(map(recipes.divides, layout.kinds - {"data"}))
                ),
                options,
                desks_apart="workstation" in (context.sites.where or ()),
            )
            for model in models
        ),
        limits=_limits(request.limits),
        weights=matrix_weights(request.weights, kind),
        host_memory_bytes=host,
        tier=tier,
        framework=overheads.of(release.key),
    )


def _limits(asked: RunLimits) -> RunLimits:
    """The caller's limits, and what runs are worth where the caller gives no days."""
    if asked.days is not None or not asked.implied:
        return asked
    return asked.model_copy(update={"days": LONGEST_RUN_MONTHS / _MONTHS_PER_YEAR * DAYS_PER_YEAR})


def _tier(run: RunRequest, snapshot: CatalogSnapshot, problems: Problems) -> OffloadTier | None:
    """An accelerator's share of the memory tier that states may go to, if one is named."""
    if run.memory_tier is None:
        return None
    asked = tier_offload_of(run)
    entry = resolve_tier(asked, snapshot, problems, "/training/memory_tier")
    return None if entry is None else share_of(asked, entry.value)


def _check_formats(request: TrainingRecommendationRequest, problems: Problems) -> None:
    """Note formats that no optimizer can update, where all weights are to be trained."""
    if "full" not in request.trained.methods:
        return
    for at, name in enumerate(request.search.precisions or ()):
        if name not in TRAINABLE:
            problems.add(
                f"/search/precisions/{at}",
                f"{name} weights cannot be updated; use {', '.join(TRAINABLE)} with method full",
            )


def _check_methods(
    request: TrainingRecommendationRequest, recipes: Recipes, problems: Problems
) -> None:
    """Note methods that the framework does not train by."""
    for at, method in enumerate(request.trained.methods):
        if not recipes.trains(method):
            problems.add(
                f"/training/methods/{at}",
                f"{request.trained.framework} does not train by {method}, but by "
                f"{', '.join(sorted(recipes.methods))}",
            )


def _check_optimizers(
    request: TrainingRecommendationRequest, recipes: Recipes, problems: Problems
) -> None:
    """Note optimizers that the framework does not have."""
    for at, optimizer in enumerate(request.trained.optimizers):
        if not recipes.updates(optimizer):
            problems.add(
                f"/run/optimizers/{at}",
                f"{request.trained.framework} has no {optimizer}, but "
                f"{', '.join(sorted(recipes.optimizers))}",
            )


def usual_batch(run: RunRequest, architecture: ModelArchitecture) -> int:
    """Sequences of a step, where the caller names none: a power of two [-]."""
    operations = _OPERATIONS * architecture.active_parameters * run.tokens
    learning_most = _STEP_TOKENS * operations**_STEP_EXPONENT
    tokens = min(learning_most, MOST_STEP_TOKENS, run.tokens / _FEWEST_STEPS)
    return int(2 ** max(0, floor(log2(max(tokens / run.sequence_length, 1.0)))))


def variants(
    architecture: ModelArchitecture,
    request: TrainingRecommendationRequest,
    release: EngineRelease,
    framework: Engine,
    tier: OffloadTier | None = None,
    *,
    interleaving: bool,
    blocks: bool = False,
) -> Iterator[TrainingVariant]:
    """Formats and settings to try with a framework's release, and whether it interleaves stages.

    Optimizer states may lie in a memory ``tier``; all hardware may scale ``blocks`` by itself.
    """
    run, recipes = request.trained, framework.recipes
    places: tuple[Place, ...] = ("none", "cpu", "nvme", "tier") if run.offload else ("none",)
    offloads = [
        Offload(optimizer=place, tier=tier if place == "tier" else None)
        for place in places
        if place != "tier" or tier is not None
        if recipes.offloads(place, is_storage=tier is not None and tier.is_storage)
    ]
    for method in run.methods:
        for weights in _fine_weights(architecture, method, request, recipes):
            precision = resolve_precision(PrecisionRequest(weights=weights), architecture)
            for optimizer in run.optimizers:
                common = settings_of(run).model_copy(
                    update={"method": method, "optimizer": optimizer}
                )
                # Every candidate says what it recomputes.
                said = common.model_copy(update={"activation_checkpointing": _CHECKPOINTING[0]})
                stages_of_zero = recipes.zero_stages or _ZERO_STAGES
                filled = {
                    stage: filled_in(
                        common,
                        framework,
                        release.generation,
                        architecture,
                        weights,
                        zero_stage=stage,
                    )
                    for stage in stages_of_zero
                }
                bases = {
                    stage: replace(
                        training_settings(
                            asked, release.generation, recipes, architecture, blocks=blocks
                        ),
                        left_open=left_open(said, framework, release.generation, architecture),
                    )
                    for stage, asked in filled.items()
                }
                predicted = filled[stages_of_zero[0]].prediction_layers or 0
                until = framework.superseded(release.generation)
                hiding = {
                    stage: recipes.untold(method, stage, until, routes=architecture.routes).get(
                        EXPERTS_HIDE
                    )
                    for stage in stages_of_zero
                }
                for checkpointing in _CHECKPOINTING:
                    for zero_stage in stages_of_zero:
                        for offload in offloads:
                            settings = replace(
                                bases[zero_stage],
                                prediction_layers=predicted if method == "full" else 0,
                                activation_checkpointing=checkpointing,
                                zero_stage=zero_stage,
                                offload=offload,
                                far_experts_hide_ratio=hiding[zero_stage],
                            )
                            most = recipes.most_zero_stage_in_pipeline
                            degrees = recipes.tried_degrees(method)
                            for schedule, stages in _schedules(run, interleaving=interleaving):
                                scheduled = replace(
                                    settings, pipeline_schedule=schedule, virtual_stages=stages
                                )
                                yield TrainingVariant(
                                    precision, scheduled, most, degrees, recipes.interleaved_rounds
                                )


def _schedules(run: RunRequest, *, interleaving: bool) -> Iterator[tuple[Schedule, int]]:
    """Orders of micro-batches in pipelines, with the stages of a rank."""
    asked = run.pipeline_schedule
    if asked != "interleaved":
        yield asked or "1f1b", 1
    if asked == "interleaved" or (asked is None and interleaving):
        for stages in _VIRTUAL_STAGES:
            yield "interleaved", stages


def _weights(
    architecture: ModelArchitecture,
    method: Method,
    requested: Sequence[str] | None,
    recipes: Recipes,
) -> Sequence[str]:
    """Formats of weights: of a base that stays as it is, or of what is trained."""
    if method == "lora" and requested is not None:
        return tuple(loaded_base(name, recipes) for name in requested)
    if method != "qlora" and requested is not None:
        return requested
    usual = usual_weights(architecture, method, recipes)
    shipped = usual_weights(architecture, method, Recipes())
    return ("bf16" if usual == shipped and usual in _TRAINED_IN_HALF else usual,)


def _fine_weights(
    architecture: ModelArchitecture,
    method: Method,
    request: TrainingRecommendationRequest,
    recipes: Recipes,
) -> list[str]:
    """The same, without those of fewer bits than the caller's limit."""
    least = request.limits.weight_bits_at_least or 0.0
    found = _weights(architecture, method, request.search.precisions, recipes)
    return [name for name in found if NUMBER_FORMATS[name].bits_per_element >= least]


def _check_bits(
    models: Sequence[Entry[ModelArchitecture]],
    request: TrainingRecommendationRequest,
    recipes: Recipes,
    problems: Problems,
) -> None:
    """Note a limit on the bits of weights that no format which would be tried meets."""
    least, asked = request.limits.weight_bits_at_least or 0.0, request.search.precisions
    for model in models:
        tried = [
            NUMBER_FORMATS[name]
            for method in request.trained.methods
            for name in _weights(model.value, method, asked, recipes)
        ]
        widest = max(tried, key=lambda one: one.bits_per_element)
        if widest.bits_per_element < least:
            named = "search.precisions" if asked is not None else "training.methods"
            note_bits(least, widest, named, problems)


def layouts(
    architecture: ModelArchitecture, request: TrainingRecommendationRequest, joined: int
) -> Iterator[Parallelism]:
    """Layouts of whole runs: tensor parallelism within a node, stages beyond, the rest data.

    Fast links reach ``joined`` accelerators of each kind at least.
    """
    experts = min(
        (
            group.feed_forward.experts
            for group in architecture.groups
            if isinstance(group.feed_forward, MixtureOfExperts)
        ),
        default=1,
    )
    usual = [tensor for tensor in _TENSOR_DEGREES if divides_heads(architecture, tensor)]
    wide = (n for n in _WIDE_TENSOR_DEGREES if n <= joined and divides_heads(architecture, n))
    tensors = [*usual, *wide]
    contexts = (1, *_context_degrees(request.trained.sequence_length))
    for count in request.search.tried_counts:
        for tensor in tensors:
            # Stages help what one tensor-parallel group cannot hold, or what has no fast links.
            deep = tensor in (1, usual[-1], tensors[-1])
            for pipeline in (1, *_PIPELINE_DEGREES) if deep else (1,):
                for context in contexts:
                    ranks = tensor * pipeline * context
                    if count % ranks or pipeline > architecture.layer_count:
                        continue
                    data = count // ranks
                    yield Parallelism(tensor=tensor, pipeline=pipeline, data=data, context=context)
                    for spread in _EXPERT_DEGREES:
                        if experts % spread == 0 and (tensor * data) % spread == 0:
                            yield Parallelism(
                                tensor=tensor,
                                pipeline=pipeline,
                                data=data,
                                context=context,
                                expert=spread,
                            )


def _context_degrees(sequence_tokens: int) -> tuple[int, ...]:
    if sequence_tokens < _LONG_SEQUENCE_TOKENS:
        return ()
    return tuple(degree for degree in _CONTEXT_DEGREES if sequence_tokens % degree == 0)
