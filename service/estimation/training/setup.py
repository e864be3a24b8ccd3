"""A training run, resolved: what all answers about training are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import DropoutSite, ModelArchitecture
from service.core.architecture.prediction import PREDICTORS_LEFT_OUT, can_predict, predicting
from service.core.deployment import Accelerator, Deployment, Parallelism
from service.core.engines import FALLBACK_ENGINE
from service.core.explanation import EstimateWarning
from service.core.learning import NO_CORRECTIONS, Corrections
from service.core.lightweight import computed_once
from service.core.memory.tiers import MemoryTier
from service.core.memory.training.memory import TrainingMemory, usual_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.memory.training.settings import (
    Fp8Recipe,
    MicroBatch,
    Offload,
    TrainingSettings,
)
from service.core.performance.training.pipeline import filling_virtual_stages, fills_stages
from service.core.performance.training.scaling import scales_blocks
from service.core.performance.training.work import product_format
from service.core.platform import Machine
from service.core.recipes import Recipes
from service.core.techniques.setup import TrainingSetup
from service.estimation.defaults import accelerator_warnings
from service.estimation.layouts import completed, resolve_parallelism
from service.estimation.learning.learnt import Learnt
from service.estimation.platforms import platform_warnings, resolve_placed
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import (
    Problems,
    check_precision_runs,
    resolve_model,
)
from service.estimation.software import (
    check_formats,
    check_runs_on,
    check_trains,
    divided_warnings,
    resolve_framework,
)
from service.estimation.training.batches import (
    ASSUMED,
    assumes_steps,
    batch_warning,
    fitting_batch,
    in_batches,
    shared_batch,
    steps_warning,
    taken,
    tokens_warning,
    usual_batch,
    with_steps,
)
from service.estimation.training.calibrations import TrainingFigures, setup_figures
from service.estimation.training.checks import check_capacity, check_schedule, check_settings
from service.estimation.training.formats import (
    training_precision,
    usual_weights,
    widened_warnings,
    with_base,
)
from service.estimation.training.lengths import length_warnings, within_models
from service.estimation.training.overheads import (
    measured_framework,
    training_memory_entries,
    training_memory_overheads,
)
from service.estimation.training.products import check_products, products_warnings
from service.estimation.training.requests import TrainingRequest, TrainingSettingsRequest
from service.estimation.training.shard_groups import (
    check_messages,
    check_shard_groups,
    with_shard_degree,
)
from service.estimation.training.tiers import offload_warnings, resolve_tier, tier_share
from service.estimation.training.untold import (
    SENT_BYTES,
    STATE_BYTES,
    USUAL_STATES,
    filled_in,
    laid_out,
    left_open,
    products_left_open,
    zero_stage_of,
)
from service.estimation.training.unused import unused_settings
from service.estimation.unknown_releases import release_warnings
from service.estimation.wording import named_software
from service.estimation.writing import valued

_HALF_BITS = 16.0
#: Where there is dropout by request in models whose configurations have none.
_ALL_DROPOUT: frozenset[DropoutSite] = frozenset(get_args(DropoutSite))


@dataclass(frozen=True)
class ResolvedTraining:
    """A training run with everything filled in that its request left open or referred to.

    ``calibrations`` are the ids of the catalog's calibrations of memory that apply;
    ``corrections`` are what own measurements make of all calibrations, and ``learnt`` says how
    that came about, None without any. ``tier`` is what it offloads to; ``machine`` is what the
    accelerators stand in, None where nobody knows. Of a global batch that was asked for each
    data-parallel rank takes ``shared_batch`` sequences a step.
    """

    model: Entry[ModelArchitecture]
    accelerator: Entry[Accelerator]
    asked: TrainingSettingsRequest
    setup: TrainingSetup
    overheads: TrainingOverheads
    calibrations: tuple[str, ...]
    warnings: tuple[EstimateWarning, ...]
    corrections: Corrections = NO_CORRECTIONS
    learnt: Learnt | None = None
    machine: Entry[Machine] | None = None
    tier: Entry[MemoryTier] | None = None
    shared_batch: int | None = None

    @computed_once
    def memory(self) -> TrainingMemory:
        """Its memory by the usual outcome of all that is left open: whether it fits."""
        setup = self.setup
        return usual_memory(setup.deployment, setup.micro_batch, setup.settings, self.overheads)

    def in_batches(self, size: int, sequences_each: float = 1.0) -> ResolvedTraining:
        """The same run with micro-batches of so many of what has so many sequences each."""
        setup = in_batches(self.setup, size, self.shared_batch)
        asked = taken(self.asked, setup)
        batch = replace(setup.micro_batch, sequences=sequences_each * size)
        warnings = tuple(
            batch_warning(size) if one.code == ASSUMED else one for one in self.warnings
        )
        return replace(
            self,
            warnings=warnings,
            asked=asked,
            setup=replace(setup, micro_batch=batch),
        )

    def figures(self, snapshot: CatalogSnapshot) -> TrainingFigures:
        """Figures of the framework and the hardware, as own measurements correct them."""
        found = setup_figures(self.setup, snapshot)
        if self.corrections is NO_CORRECTIONS:
            return found
        return found.corrected(self.corrections)

    def entries(self, snapshot: CatalogSnapshot) -> list[tuple[str, Entry[Any]]]:
        """Catalog entries that were used."""
        return [
            ("models", self.model),
            ("accelerators", self.accelerator),
            *(() if self.machine is None else (("platforms", self.machine),)),
            *(() if self.tier is None else (("memory-tiers", self.tier),)),
            *(("calibrations", snapshot.calibrations[id_]) for id_ in self.calibrations),
        ]


def as_told(
    request: TrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedTraining:
    """A training run with what its framework does where it is told nothing."""
    model = problems.attempt("/model", lambda: resolve_model(request.model, snapshot))
    accelerator, machine = resolve_placed(
        request.accelerator, request.platform, request.power_limit_w, snapshot, problems
    )
    named = request.training.framework or FALLBACK_ENGINE
    release = resolve_framework(
        named,
        request.training.framework_version,
        "/training",
        snapshot,
        problems,
        divides=request.parallelism is not None
        and max(request.parallelism.tensor, request.parallelism.pipeline) > 1,
        accelerator=None if accelerator is None else accelerator.value,
    )
    known = snapshot.engines.get(release.engine)
    framework = None if known is None else known.value
    recipes = Recipes() if framework is None else framework.recipes
    request = with_base(request, recipes)
    told = request.training
    if model is not None:
        told = within_models(told, (model.value,))
    weights = request.precision.weights
    if weights is None and model is not None:
        weights = usual_weights(model.value, told.method, recipes)
    layout = request.parallelism or ParallelismRequest()
    asked = completed(layout, request.accelerator_count)
    training = filled_in(
        told.model_copy(update={"framework": release.engine}),
        framework,
        release.generation,
        model.value if model is not None else None,
        weights,
        request.precision.activations,
        zero_stage=zero_stage_of(
            request.training, recipes, (asked.data or 1) * asked.context, asked.pipeline
        ),
    )
    tier = resolve_tier(training.offload, snapshot, problems)
    architecture = None
    if model is not None:
        architecture = model.value
        if can_predict(architecture):
            architecture = predicting(architecture, training.prediction_layers or 0)
    parallelism = resolve_parallelism(layout, request.accelerator_count, architecture, problems)
    shared = None
    if architecture is not None and parallelism is not None and accelerator is not None:
        shared = shared_batch(training, parallelism, problems)
        training = laid_out(
            with_steps(
                training,
                shared,
                framework,
                architecture,
                parallelism,
                float(accelerator.value.memory_bytes),
            ),
            recipes,
            None if framework is None else framework.superseded(release.generation),
            *(architecture, accelerator.value, parallelism),
        )
        training = with_shard_degree(training, recipes, parallelism, accelerator.value)
    settings = training_settings(
        training,
        release.generation,
        recipes,
        architecture,
        blocks=accelerator is not None and scales_blocks(accelerator.value),
        recomputed_layers_ratio=_recomputed_ratio(training, architecture, parallelism),
        left_open=left_open(request.training, framework, release.generation, architecture),
    )
    if architecture is not None:
        if architecture.encoder is not None:
            problems.add("/model", f"training of {architecture.model_type} models is not estimated")
        check_settings(training, architecture, problems)
        if parallelism is not None:
            tokens = float(training.sequence_length)
            check_schedule(settings, tokens, architecture, parallelism, problems)
            check_shard_groups(settings, parallelism, problems)
        precision = training_precision(request, recipes, architecture, problems)
    problems.stop_if_any()
    model, architecture = problems.resolved(model), problems.resolved(architecture)
    accelerator = problems.resolved(accelerator)
    parallelism = problems.resolved(parallelism)
    if tier is not None:
        share = tier_share(training.offload, tier.value, accelerator.value, parallelism)
        settings = replace(settings, offload=replace(settings.offload, tier=share))
    check_trains(settings, parallelism, snapshot, problems)
    if framework is not None:
        check_capacity(settings.expert_capacity_factor, framework, problems)
        check_messages(training, framework, problems)
    check_formats(settings, precision, snapshot, problems)
    check_runs_on(release, "training", accelerator.value, "/training/framework", snapshot, problems)
    for computed in {product_format(precision, settings), precision.activations}:
        check_precision_runs(replace(precision, weights=computed), accelerator.value, problems)
    problems.stop_if_any()
    check_products(settings, precision, accelerator.value, problems)
    problems.stop_if_any()
    usual = usual_batch(
        training, recipes, architecture, parallelism, float(accelerator.value.memory_bytes), shared
    )
    overheads = training_memory_overheads(snapshot)
    if request.precision.activations is None:
        narrower = products_left_open(framework, precision, accelerator.value)
        if narrower:
            settings = replace(settings, left_open=(*settings.left_open, *narrower))
    setup = TrainingSetup(
        Deployment(architecture, precision, accelerator.value, parallelism),
        MicroBatch(float(usual), float(training.sequence_length)),
        settings,
    )
    assumed: tuple[EstimateWarning, ...] = ()
    if training.micro_batch_size is None:
        setup = fitting_batch(setup, overheads, shared)
        training = taken(training, setup)
        assumed = (batch_warning(int(setup.micro_batch.sequences)),)
    steps = int(setup.settings.gradient_accumulation_steps)
    if assumes_steps(request.training, steps):
        assumed = (*assumed, steps_warning(steps))
    return ResolvedTraining(
        model=model,
        accelerator=accelerator,
        asked=training,
        setup=setup,
        overheads=overheads,
        calibrations=training_memory_entries(snapshot, settings.release),
        machine=machine,
        tier=tier,
        shared_batch=shared,
        warnings=(
            *_model_warnings(architecture, training),
            *length_warnings(request.training, training.sequence_length),
            *assumed,
            *tokens_warning(request.training, shared, parallelism),
            *release_warnings(release, snapshot),
            *divided_warnings(named, release, snapshot),
            *accelerator_warnings(accelerator),
            *platform_warnings(accelerator.value, machine, parallelism),
            *offload_warnings(training.offload, settings.offload.tier),
            *unused_settings(request, settings),
            *widened_warnings(request, precision, architecture),
            *products_warnings(settings, precision, accelerator.value),
            *_warnings(setup, measured_framework(snapshot, settings.release)),
        ),
    )


def training_settings(
    asked: TrainingSettingsRequest,
    generation: str | None,
    recipes: Recipes,
    architecture: ModelArchitecture | None,
    *,
    blocks: bool,
    **known: Any,
) -> TrainingSettings:
    """The core's value of settings that are filled in, and of others that are ``known``.

    With the framework's generation, what it recomputes, how it scales operands of 8 bits on
    hardware that scales ``blocks`` by itself or not, and where the model has dropout.
    """
    dropout = (None if architecture is None else architecture.dropout) or _ALL_DROPOUT
    return valued(
        TrainingSettings,
        asked,
        framework_generation=generation,
        dropout=dropout if asked.dropout else frozenset(),
        recomputes_last_product=recipes.recomputes_last_product,
        overlaps_zero=recipes.overlaps_zero,
        adapter_kernels=recipes.adapter_kernels,
        pads_experts=bool(asked.expert_padding),
        usual_fp8_recipe=cast("Fp8Recipe | None", recipes.usual_fp8_recipe(scales_blocks=blocks)),
        gradient_accumulation_steps=float(asked.gradient_accumulation_steps or 1),
        optimizer_state_bytes=STATE_BYTES[asked.optimizer_state_dtype or USUAL_STATES],
        gradient_bytes=STATE_BYTES[asked.gradient_dtype or recipes.gradient_dtype],
        prediction_layers=asked.prediction_layers or 0,
        attention=asked.attention or "flash",
        zero_stage=asked.zero_stage or 0,
        data_parallel_shard_degree=(
            degree if isinstance(degree := asked.data_parallel_shard_degree, int) else None
        ),
        secondary_shard_degree=(
            second if isinstance(second := asked.secondary_shard_degree, int) else None
        ),
        gathered_weight_bytes=SENT_BYTES.get(asked.weight_gather_dtype or ""),
        scattered_gradient_bytes=SENT_BYTES.get(asked.gradient_scatter_dtype or ""),
        expandable_segments=bool(asked.expandable_segments),
        pipeline_schedule=asked.pipeline_schedule or "1f1b",
        virtual_stages=asked.virtual_stages or 1,
        expert_overlap_ratio=(
            1.0
            if asked.expert_overlap_ratio is None and asked.pipeline_schedule == "dualpipe"
            else asked.expert_overlap_ratio
        ),
        gradient_sum_bytes=STATE_BYTES.get(asked.gradient_sum_dtype or "none", 0.0),
        adapter_bytes=None if asked.adapter_dtype is None else STATE_BYTES[asked.adapter_dtype],
        offload=valued(Offload, asked.offload),
        **known,
    )


def _recomputed_ratio(
    asked: TrainingSettingsRequest,
    architecture: ModelArchitecture | None,
    parallelism: Parallelism | None,
) -> float:
    """Share of the layers that are recomputed, of those that are asked of each stage [-]."""
    if asked.recomputed_layers is None or architecture is None or parallelism is None:
        return 1.0
    return min(asked.recomputed_layers * parallelism.pipeline / architecture.layer_count, 1.0)


def _idle_schedule(settings: TrainingSettings, layers: int, stages: int) -> str | None:
    """What to say of a schedule that is no other than 1f1b."""
    if stages == 1 and settings.pipeline_schedule in ("gpipe", "zero-bubble", "dualpipe"):
        return "without a pipeline its schedule changes nothing"
    if settings.pipeline_schedule == "interleaved" and settings.virtual_stages == 1:
        advice = _advice("virtual_stages", filling_virtual_stages(layers, stages))
        return f"an interleaved schedule with one stage per rank is 1f1b{advice}"
    return None


def _uneven_stages(settings: TrainingSettings, layers: int, stages: int) -> str | None:
    """What to say of stages that layers do not fill alike."""
    if stages == 1 or fills_stages(layers, stages, settings.virtual_stages):
        return None
    said = f"{layers} layers, with or without embedding and head, do not fill"
    if settings.virtual_stages > 1:
        advice = _advice("virtual_stages", filling_virtual_stages(layers, stages))
        return f"{said} {stages} × {settings.virtual_stages} stages alike{advice}"
    working = [n for n in range(2, layers + 1) if fills_stages(layers, n, 1)]
    near = sorted(sorted(working, key=lambda n: abs(n - stages))[:2])
    advice = _advice("pipeline", near)
    return f"{said} {stages} stages alike, so that all wait for the fullest{advice}"


def _advice(setting: str, values: list[int]) -> str:
    """The end of a sentence that says which values work, if any do."""
    listed = [str(value) for value in values]
    named = " or ".join([", ".join(listed[:-1]), listed[-1]]) if listed[1:] else "".join(listed)
    return f"; {setting} {named} would work" if named else ""


def _model_warnings(
    architecture: ModelArchitecture, training: TrainingSettingsRequest
) -> Iterator[EstimateWarning]:
    """What to say of the model, of whose layers that predict further ahead some may be trained."""
    for warning in architecture.warnings:
        if warning.code != PREDICTORS_LEFT_OUT:
            yield warning
        elif training.method == "full" and not training.prediction_layers:
            yield EstimateWarning(
                PREDICTORS_LEFT_OUT,
                f"The model's {architecture.prediction_layers} layers of multi-token prediction "
                "are not trained; set training.prediction_layers to train them"
                if architecture.prediction_layers > 1
                else "The model's layer of multi-token prediction is not trained; set "
                "training.prediction_layers to train it",
                about="training.prediction_layers",
            )


def _memory_of_others(framework: str, measured: str | None) -> str:
    """What to say of a framework whose memory nobody measured, or of none."""
    if framework == FALLBACK_ENGINE:
        return (
            "no framework is named: memory that it takes for itself is typical of those that were "
            "measured, and the range reaches over them; name one to narrow it"
        )
    used = "typical values of others are" if measured is None else f"that of {measured} is"
    return f"no memory use is published for {named_software(framework)}: {used} used"


def _warnings(setup: TrainingSetup, measured: str | None) -> list[EstimateWarning]:
    """What a careful colleague would say about the settings."""
    settings, parallelism = setup.settings, setup.deployment.parallelism
    ranks = parallelism.data * parallelism.context
    limit = setup.deployment.architecture.max_position_embeddings
    layers = setup.deployment.architecture.layer_count
    said = {
        "overheads_not_measured": measured != settings.framework
        and _memory_of_others(settings.framework, measured),
        "zero_divides_nothing": settings.zero_stage > 0
        and ranks == 1
        and f"ZeRO stage {settings.zero_stage} divides among data-parallel ranks, but there is "
        "only one",
        "base_not_quantised": settings.method == "qlora"
        and setup.deployment.precision.weights.bits_per_element >= _HALF_BITS
        and "QLoRA trains adapters on quantised weights, but weights in "
        f"{setup.deployment.precision.weights.id.upper()} were requested",
        "offload_needs_zero_3": settings.offload.parameters != "none"
        and settings.zero_stage < 3
        and "DeepSpeed offloads parameters only with ZeRO stage 3",
        "offload_to_same_memory": settings.offload.is_used
        and setup.deployment.accelerator.unified_memory
        and "host and accelerator share one memory, so that offloading saves none",
        "paged_nowhere": settings.paged
        and setup.deployment.accelerator.unified_memory
        and "host and accelerator share one memory, so that no optimizer states can be paged out",
        "no_expert_messages": (
            settings.expert_dispatch != "all-to-all"
            or (settings.expert_overlap_ratio is not None and not settings.from_both_ends)
        )
        and parallelism.expert <= parallelism.tensor
        and "no messages go to experts on other accelerators: how they are sent changes nothing",
        "pipeline_underfilled": settings.gradient_accumulation_steps < parallelism.pipeline
        and f"{settings.gradient_accumulation_steps:.0f} micro-batches are too few to fill "
        f"{parallelism.pipeline} pipeline stages",
        "schedule_unused": _idle_schedule(settings, layers, parallelism.pipeline),
        "stages_not_alike": _uneven_stages(settings, layers, parallelism.pipeline),
        "context_beyond_model": limit is not None
        and setup.micro_batch.tokens > limit
        and f"{setup.micro_batch.tokens:,.0f} tokens per sequence exceed the model's limit of "
        f"{limit:,}",
    }
    return [EstimateWarning(code, message) for code, message in said.items() if message]
