"""How a run is made to fit where a request does not say: by the least that does it.

Who does not say what is recomputed and what ranks divide is taken to run as the framework does
without being told. Where that does not fit, it is not what runs: people divide states, which costs
little, before they recompute layers, which costs a third of the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from service.core.engines import Engine
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.memory.training.settings import LeftOpen, TrainingSettings
from service.core.techniques.setup import TrainingSetup
from service.estimation.rejection import Rejected
from service.estimation.training.requests import TrainingSettingsRequest
from service.estimation.training.usual_layouts import DIVIDES_MODELS

RECOMPUTED, DIVIDED = "activation_checkpointing", "zero_stage"
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

    Layers can be recomputed in part: whichever is nearer to the part that it takes, none or all of
    them, is estimated. Whether it is done stays open where the estimate cannot tell, and where a
    part suffices. What nothing makes fit is left as it is.

    Parameters
    ----------
    run
        The run with what its framework does without being told.
    asked, framework
        What was asked, and the framework.
    resolved
        The same run with other settings; may raise `Rejected`.
    """
    stages = further_stages(asked, run.setup, framework)
    kept = _first(run, ({DIVIDED: stage} for stage in stages), asked, resolved)
    memory = _memory(kept)
    if memory.fits or not _may_recompute(asked, run.setup.settings):
        return _fitted(run, kept if memory.fits else run, ())
    ways = (
        {DIVIDED: stage, RECOMPUTED: "full"} for stage in (run.setup.settings.zero_stage, *stages)
    )
    other = _first(kept, ways, asked, resolved)
    # What is saved is that of one micro-batch: where nobody told it, a larger one fills the room.
    alike = other.in_batches(int(kept.setup.micro_batch.sequences))
    recomputed = _memory(alike)
    if not recomputed.fits:
        return Fitted(run)
    saved = float(memory.total_bytes.value - recomputed.total_bytes.value)
    if saved <= 0.0 or _missing_bytes(memory) < _NEARER_TO_NONE * saved:
        return _fitted(run, kept, (alike,))
    if memory.fits_certainty != "no" or memory.total_bytes.value <= _UNSURE * memory.usable_bytes:
        return _fitted(run, alike, (kept,))
    return _fitted(run, other, ())


def fits(run: Run) -> bool:
    """Whether a run fits into each accelerator's memory."""
    return bool(_memory(run).fits)


def _first(
    run: Resolved,
    ways: Iterable[Mapping[str, Any]],
    asked: TrainingSettingsRequest,
    resolved: Callable[[TrainingSettingsRequest], Resolved],
) -> Resolved:
    """The run if it fits, else by the first of the ways that makes it fit, or saves most."""
    found, most = run, _memory(run)
    for way in ways:
        if most.fits:
            break
        try:
            other = resolved(asked.model_copy(update=way))
        except Rejected:
            continue
        memory = _memory(other)
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
    copies = memory.communication_parts_bytes.get("narrowed_weights", 0.0)
    if memory.settings.method == "full" or not copies:
        return missing
    return missing - copies - float(memory.weights_bytes.value) / 2.0


def _fitted(usual: Resolved, run: Resolved, near: Sequence[Resolved]) -> Fitted[Resolved]:
    settings = run.setup.settings
    return Fitted(
        run,
        tuple(_left_open(settings, [one.setup.settings for one in near])),
        tuple(made_to_fit(usual.setup.settings, settings)),
    )


def _left_open(settings: TrainingSettings, near: list[TrainingSettings]) -> Iterator[LeftOpen]:
    """The choice between a run's settings and others that fit, or not, by a narrow margin."""
    names = [
        name
        for name in (RECOMPUTED, DIVIDED)
        if any(getattr(one, name) != getattr(settings, name) for one in near)
    ]
    if names:
        others = tuple(tuple((name, getattr(one, name)) for name in names) for one in near)
        yield LeftOpen(tuple(names), others)


def made_to_fit(usual: TrainingSettings, settings: TrainingSettings) -> Iterator[EstimateWarning]:
    """What to say where a run is taken to be made fit by what nobody told."""
    done = []
    if settings.zero_stage != usual.zero_stage:
        done.append((DIVIDED, f"ZeRO stage {settings.zero_stage}"))
    if settings.activation_checkpointing != usual.activation_checkpointing:
        done.append((RECOMPUTED, "recomputation of whole layers"))
    if done:
        yield EstimateWarning(
            "made_to_fit",
            "the run does not fit with the framework's defaults: the estimate is for "
            f"{' and '.join(said for _, said in done)}, which the request leaves open",
            about=f"training.{done[0][0]}",
        )


def _memory(run: Run) -> TrainingMemory:
    setup = run.setup
    return training_memory(setup.deployment, setup.micro_batch, setup.settings, run.overheads)
