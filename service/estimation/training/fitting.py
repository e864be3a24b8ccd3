"""How a run is made to fit where a request does not say: by the least that does it.

Who does not say what is recomputed and what ranks divide is taken to run as the framework does
without being told. Where that does not fit, it is not what runs: people divide states, which costs
little, before they recompute layers, which costs a third of the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from service.core.architecture.model import LatentAttention, ModelArchitecture
from service.core.engines import Engine
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.memory.training.settings import LeftOpen, TrainingSettings
from service.core.techniques.setup import TrainingSetup
from service.estimation.rejection import Rejected
from service.estimation.training.requests import TrainingSettingsRequest
from service.estimation.training.shard_groups import GROUPED
from service.estimation.training.usual_layouts import DIVIDES_MODELS

RECOMPUTED, DIVIDED = "activation_checkpointing", "zero_stage"
_LAYERS, _OF_LAYERS = "recomputed_layers", "recomputed_layers_ratio"
#: Settings that decide what is held without being recomputed: by their names in the core.
HELD = {
    "gradient_dtype": "gradient_bytes",
    "gradient_sum_dtype": "gradient_sum_bytes",
    "cross_entropy": "cross_entropy",
    "fused_kernels": "fused_kernels",
}
#: Settings that a run is made to fit by, by their names in the core, with those of requests.
_MADE_TO_FIT = {RECOMPUTED: RECOMPUTED, _OF_LAYERS: RECOMPUTED, DIVIDED: DIVIDED} | {
    core: told for told, core in HELD.items()
}
_MOST_DIVIDED = 3
#: Beside a model that is divided by tensors and layers, people divide states alone.
_MOST_BESIDE_A_DIVIDED_MODEL = 1
#: Part of layers to recompute up to which a run is nearer to one that recomputes none [-].
_NEARER_TO_NONE = 0.5
#: Runs that were published, and so did fit, lack up to a quarter by the estimate: they recompute
#: single operators, or keep less than their framework does without being told [-].
_UNSURE = 1.25


class Run(Protocol):
    """A training run that is resolved: what is trained how, and measured overheads of memory."""

    @property
    def setup(self) -> TrainingSetup: ...  # noqa: D102

    @property
    def overheads(self) -> TrainingOverheads: ...  # noqa: D102

    @property
    def memory(self) -> TrainingMemory: ...  # noqa: D102

    def in_batches(self, size: int) -> Self: ...  # noqa: D102


Resolved = TypeVar("Resolved", bound=Run)


@dataclass(frozen=True, slots=True)
class Fitted(Generic[Resolved]):
    """A run by the least that fits, what may have been done else, and what to say of it."""

    run: Resolved
    left_open: tuple[LeftOpen, ...] = ()
    warnings: tuple[EstimateWarning, ...] = ()


def least_that_fits(
    run: Resolved,
    asked: TrainingSettingsRequest,
    framework: Engine,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Fitted[Resolved]:
    """A run as it is without being told more or, if that does not fit, by the least that does.

    Where people have a framework recompute in part, it is the least that fits, unless copies of the
    whole model are far from fitting. Elsewhere whichever is nearer to the part that it takes, none
    or all layers, is estimated. Whether it is done stays open where the estimate cannot tell, and
    where a part suffices. What nothing makes fit is what lacks least.

    Parameters
    ----------
    run
        The run with what its framework does without being told.
    asked, framework
        What was asked, and the framework.
    resolved
        The same run with other settings; may raise `Rejected`.
    """
    usual = run
    run, asked = _of_all_ranks(run, asked, resolved)
    stages = further_stages(asked, run.setup, framework)
    kept = _dividing(run, stages, asked, resolved)
    memory = kept.memory
    if memory.fits or not _may_recompute(asked, run.setup.settings):
        return _fitted(usual, kept, ())
    ways = (
        {DIVIDED: stage, RECOMPUTED: "full"} for stage in (run.setup.settings.zero_stage, *stages)
    )
    other = _first(kept, ways, asked, resolved)
    # What is saved is that of one micro-batch: where nobody told it, a larger one fills the room.
    alike = other.in_batches(int(kept.setup.micro_batch.sequences))
    recomputed = alike.memory
    missing, is_near = _missing_bytes(memory), _may_keep_all(kept)
    if not recomputed.fits:
        lacks_little = not is_near and _may_keep_all(alike)
        return _fitted(usual, other, (kept,)) if lacks_little else _fitted(usual, kept, ())
    parallelism = run.setup.deployment.parallelism
    if missing > 0.0 and (is_near or parallelism.replica_accelerators > 1):
        divided = asked.model_copy(update={DIVIDED: kept.setup.settings.zero_stage})
        lean = _holding_less(kept, divided, framework, resolved) if is_near else divided
        part = _in_part(alike, divided, lean, framework, resolved)
        if part is not None:
            return _fitted(usual, part, (alike, resolved(lean)) if is_near else (alike,))
    saved = float(memory.total_bytes.value - recomputed.total_bytes.value)
    nearer_to_none = saved <= 0.0 or missing < _NEARER_TO_NONE * saved
    if not is_near:
        return _fitted(usual, other, (kept,) if nearer_to_none else ())
    return _fitted(usual, *((kept, (alike,)) if nearer_to_none else (alike, (kept,))))


def untold_that_fits(
    run: Resolved,
    asked: TrainingSettingsRequest,
    framework: Engine,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Fitted[Resolved] | None:
    """A run that fits by what its framework does untold and what ranks divide; None if none does.

    The parameters are those of :func:`least_that_fits`.
    """
    whole, asked = _of_all_ranks(run, asked, resolved)
    stages = further_stages(asked, whole.setup, framework)
    if is_beyond(whole.memory, stages):
        return None
    kept = _dividing(whole, stages, asked, resolved)
    return _fitted(run, kept, ()) if kept.memory.fits else None


def is_beyond(memory: TrainingMemory, stages: Sequence[int]) -> bool:
    """Whether what none of some ZeRO stages divides is more than there is by itself.

    The first one divides states of the optimizer alone. A run that does not fit has the smallest
    of micro-batches, which take room of their own where the framework keeps gradients throughout.
    """
    if any(stage > 1 for stage in stages):
        return False
    least = memory.weights_bytes.value + memory.gradients_bytes.value
    if memory.framework.keeps_gradients:
        least = least + memory.activations_bytes.value + memory.logits_bytes.value
    return bool(least > memory.usable_bytes)


def _of_all_ranks(
    run: Resolved,
    asked: TrainingSettingsRequest,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> tuple[Resolved, TrainingSettingsRequest]:
    """The run and what was asked, with all ranks as one group where groups untold are too small."""
    untold = asked.data_parallel_shard_degree is None
    if not untold or run.setup.settings.data_parallel_shard_degree is None or run.memory.fits:
        return run, asked
    ranks = run.setup.deployment.parallelism.data
    told = asked.model_copy(update={GROUPED: ranks})
    return resolved(told), told


def _dividing(
    run: Resolved,
    stages: Iterable[int],
    asked: TrainingSettingsRequest,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Resolved:
    """The run by the first of further ZeRO stages that makes it fit, or saves most."""
    return _first(run, ({DIVIDED: stage} for stage in stages), asked, resolved)


def _may_keep_all(run: Run) -> bool:
    """Whether a run that does not fit by the estimate may have run as it is.

    What products of 8 bit hold beside a frozen base nobody has measured.
    """
    setup = run.setup
    memory = training_memory(setup.deployment, setup.micro_batch, setup.settings, run.overheads)
    near = _missing_bytes(memory) <= (_UNSURE - 1.0) * memory.usable_bytes
    return bool(memory.fits_certainty != "no" or near or _frozen_copies_bytes(memory) > 0.0)


def _holding_less(
    run: Resolved,
    asked: TrainingSettingsRequest,
    framework: Engine,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> TrainingSettingsRequest:
    """What was asked, with what else people have the framework hold that takes less.

    That costs no time, so that it comes before anything is recomputed.
    """
    weights = run.setup.deployment.precision.weights
    most = run.memory.headroom_bytes.value
    for one in framework.recipes.also_usual:
        names = tuple(one.settings)
        opened = any(
            choice.names == names and choice.is_open(run.setup.settings, weights)
            for choice in run.setup.settings.left_open
        )
        if not opened or not set(names) <= HELD.keys():
            continue
        otherwise = asked.model_copy(update=dict(one.settings))
        headroom = resolved(otherwise).memory.headroom_bytes.value
        if headroom > most:
            asked, most = otherwise, headroom
    return asked


def _in_part(
    whole: Resolved,
    asked: TrainingSettingsRequest,
    lean: TrainingSettingsRequest,
    framework: Engine,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Resolved | None:
    """The run by the least of what its framework recomputes in part that fits; None if none does.

    ``whole`` recomputes all layers, and fits; ``lean`` holds no more than what was ``asked``. Of
    layers it is the least number of each stage.
    """
    batch = int(whole.setup.micro_batch.sequences)

    def by(told: TrainingSettingsRequest, **way: Any) -> Resolved | None:
        try:
            found = resolved(told.model_copy(update=way)).in_batches(batch)
        except Rejected:
            return None
        return found if found.memory.fits else None

    in_part = framework.recipes.recomputes_in_part
    architecture = whole.setup.deployment.architecture
    by_modules = has_modules(architecture)
    single = [w for w in in_part if w != "layers" and (w != "selective-modules" or by_modules)]
    for told in (asked,) if lean is asked else (asked, lean):
        if told is lean and (found := by(told)):
            return found
        for way in single:
            if found := by(told, **{RECOMPUTED: way}):
                return found
    if "layers" not in in_part:
        return None
    fewest = None
    few, many = 0, -(-architecture.layer_count // whole.setup.deployment.parallelism.pipeline)
    while many - few > 1:
        number = (few + many) // 2
        if found := by(lean, **{RECOMPUTED: "full", _LAYERS: number}):
            fewest, many = found, number
        else:
            few = number
    return fewest


def has_modules(architecture: ModelArchitecture) -> bool:
    """Whether a model has modules that frameworks recompute by themselves.

    Megatron Core recomputes activations of experts and up-projections of latents, but those of a
    dense layer with its products.

    References
    ----------
    NVIDIA/Megatron-LM, megatron/core/transformer/transformer_config.py, recompute_modules, 2025
    """
    latent = any(isinstance(group.mixer, LatentAttention) for group in architecture.groups)
    return architecture.routes or latent


def fits(run: Run) -> bool:
    """Whether a run fits into each accelerator's memory."""
    return bool(run.memory.fits)


def headroom_bytes(run: Run) -> float:
    """Memory that a run leaves free on each accelerator, or lacks if negative [B]."""
    return float(run.memory.headroom_bytes.value)


def _first(
    run: Resolved,
    ways: Iterable[Mapping[str, Any]],
    asked: TrainingSettingsRequest,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Resolved:
    """The run if it fits, else by the first of the ways that makes it fit, or saves most."""
    found, most = run, run.memory
    for way in ways:
        if most.fits:
            break
        try:
            other = resolved(asked.model_copy(update=way))
        except Rejected:
            continue
        memory = other.memory
        if memory.headroom_bytes.value > most.headroom_bytes.value:
            found, most = other, memory
    return found


def further_stages(
    asked: TrainingSettingsRequest, setup: TrainingSetup, framework: Engine
) -> Sequence[int]:
    """ZeRO stages that divide more than the run does without being told."""
    parallelism = setup.deployment.parallelism
    if asked.zero_stage is not None or parallelism.data * parallelism.context == 1:
        return ()
    divides = framework.classes.get("training") == DIVIDES_MODELS
    most = _MOST_BESIDE_A_DIVIDED_MODEL if divides else _MOST_DIVIDED
    return range(setup.settings.zero_stage + 1, most + 1)


def _may_recompute(asked: TrainingSettingsRequest, settings: TrainingSettings) -> bool:
    """Whether whole layers may be recomputed although nobody said so."""
    return asked.activation_checkpointing is None and settings.activation_checkpointing != "full"


def _missing_bytes(memory: TrainingMemory) -> float:
    """What is missing of memory after what is held in vain [B].

    A frozen base whose products run in 8 bit need not be held in 16 bit beside copies in 8.
    """
    missing = -float(memory.headroom_bytes.value)
    copies = _frozen_copies_bytes(memory)
    return missing - copies - float(memory.weights_bytes.value) / 2.0 if copies else missing


def _frozen_copies_bytes(memory: TrainingMemory) -> float:
    """Copies in 8 bit of a frozen base [B]."""
    if memory.settings.method == "full":
        return 0.0
    return float(memory.communication_parts_bytes.get("narrowed_weights", 0.0))


def _fitted(usual: Resolved, run: Resolved, near: Sequence[Resolved]) -> Fitted[Resolved]:
    settings = run.setup.settings
    return Fitted(
        run,
        tuple(_left_open(settings, [one.setup.settings for one in near])),
        tuple(
            made_to_fit(usual.setup.settings, settings, fitting=fits(run) or any(map(fits, near)))
        ),
    )


def _left_open(settings: TrainingSettings, near: list[TrainingSettings]) -> Iterator[LeftOpen]:
    """The choice between a run's settings and others that fit, or not, by a narrow margin."""
    names = [
        name
        for name in _MADE_TO_FIT
        if any(getattr(one, name) != getattr(settings, name) for one in near)
    ]
    if names:
        others = tuple(tuple((name, getattr(one, name)) for name in names) for one in near)
        told = dict.fromkeys(_MADE_TO_FIT[name] for name in names)
        yield LeftOpen(tuple(told), others, to_fit=True)


def made_to_fit(
    usual: TrainingSettings, settings: TrainingSettings, *, fitting: bool = True
) -> Iterator[EstimateWarning]:
    """What to say where a run is taken to be made fit by what nobody told, or to come near."""
    done = []
    if settings.zero_stage != usual.zero_stage:
        done.append((DIVIDED, f"ZeRO stage {settings.zero_stage}"))
    if settings.data_parallel_shard_degree != usual.data_parallel_shard_degree:
        done.append((GROUPED, "states divided among all data-parallel ranks"))
    if settings.gradient_bytes != usual.gradient_bytes:
        done.append(("gradient_dtype", "gradients in 16 bit"))
    if settings.gradient_sum_bytes != usual.gradient_sum_bytes:
        done.append(("gradient_sum_dtype", "gradients that are summed as they are"))
    if settings.cross_entropy != usual.cross_entropy:
        done.append(("cross_entropy", f"a loss that is {settings.cross_entropy}"))
    if settings.fused_kernels != usual.fused_kernels:
        done.append(("fused_kernels", "fused norms and activations"))
    if settings.activation_checkpointing != usual.activation_checkpointing:
        done.append((RECOMPUTED, _said(settings)))
    if done:
        yield EstimateWarning(
            "made_to_fit",
            "the run does not fit with the framework's defaults: the estimate is for "
            f"{_listed([said for _, said in done])}, which the request leaves open"
            + ("" if fitting else " and which comes nearest to fitting"),
            about=f"training.{done[0][0]}",
        )


def _listed(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas and an and."""
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else ()), parts[-1]])


def _said(settings: TrainingSettings) -> str:
    """What is recomputed, in words."""
    if settings.activation_checkpointing == "selective-modules":
        return "recomputation of norms, activations and up-projections of latents"
    if settings.recomputed_layers_ratio < 1.0:
        return f"recomputation of {settings.recomputed_layers_ratio:.0%} of all layers"
    return "recomputation of whole layers"
