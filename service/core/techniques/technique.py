"""A technique: how it changes a setup. What it saves and costs is said in the catalog's texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques.setup import InferenceSetup, TrainingSetup

Setup = TypeVar("Setup")

#: How far a technique goes: the same result on the same accelerators; the same within what is
#: usually measured; more accelerators; another recipe, load or model.
Reach: TypeAlias = Literal["same-result", "near-same-result", "more-accelerators", "other-recipe"]

#: From what is done first to what is done last when a plan is made.
REACHES: tuple[Reach, ...] = (
    "same-result",
    "near-same-result",
    "more-accelerators",
    "other-recipe",
)


@dataclass(frozen=True, slots=True)
class Change(Generic[Setup]):
    """One way to apply a technique to a setup: in words, and as a function.

    ``reach`` is the technique's own unless this way of applying it goes further or less far.
    """

    summary: str
    apply: Callable[[Setup], Setup]
    reach: Reach | None = None


TrainingChange: TypeAlias = Change[TrainingSetup]
InferenceChange: TypeAlias = Change[InferenceSetup]
TrainingProposals: TypeAlias = Callable[[TrainingMemory], Iterable[TrainingChange]]
InferenceProposals: TypeAlias = Callable[[InferenceMemory], Iterable[InferenceChange]]


@dataclass(frozen=True, slots=True)
class Technique:
    """A technique as plans use it.

    ``training`` and ``inference`` propose changes to a setup whose memory is known, the least
    drastic first; they are None where no change can be computed from a setup alone, because it
    needs what only the caller knows.
    """

    id: str
    reach: Reach
    training: TrainingProposals | None = None
    inference: InferenceProposals | None = None
