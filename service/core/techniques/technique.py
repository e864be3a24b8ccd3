"""A technique: what it saves, what it costs, when to use it, and how it changes a setup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Literal, TypeAlias, TypeVar

from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.training.memory import TrainingMemory
from service.core.techniques.setup import InferenceSetup, TrainingSetup

Setup = TypeVar("Setup")

Kind: TypeAlias = Literal["training", "inference"]
#: How far a technique goes: the same result on the same accelerators; the same within what is
#: usually measured; more accelerators; another recipe, load or model.
Reach: TypeAlias = Literal["same-result", "near-same-result", "more-accelerators", "other-recipe"]
Category: TypeAlias = Literal[
    "recomputation",
    "batching",
    "optimizer",
    "precision",
    "sharding",
    "offload",
    "adapters",
    "kernel",
    "cache",
    "scheduling",
    "model",
    "hardware",
]
Part: TypeAlias = Literal[
    "weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "runtime"
]
#: What may be done with a part of memory: it is needed all the time; it is needed for a moment; it
#: can be computed again from something smaller; it can wait elsewhere until it is needed.
StorageClass: TypeAlias = Literal["permanent", "temporary", "recomputable", "deferrable"]

#: From what is done first to what is done last when a plan is made.
REACHES: tuple[Reach, ...] = (
    "same-result",
    "near-same-result",
    "more-accelerators",
    "other-recipe",
)

STORAGE_CLASSES: Mapping[Part, StorageClass] = MappingProxyType(
    {
        "weights": "permanent",
        "gradients": "temporary",
        "optimizer": "deferrable",
        "activations": "recomputable",
        "logits": "recomputable",
        "kv_cache": "recomputable",
        "runtime": "permanent",
    }
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A document that a formula, a saving or a cost is taken from."""

    title: str
    year: int
    url: str


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
    """A technique as it is listed and as plans use it.

    ``saves`` names the parts of memory that shrink, ``formula`` their bytes, ``saving`` what that
    amounts to, ``time_cost`` what it costs, ``quality`` what becomes of results, ``set_by`` the
    fields of a request that ask for it. ``training`` and ``inference`` propose changes to a setup
    whose memory is known, the least drastic first; they are None where no change can be computed
    from a setup alone, because it needs what only the caller knows.
    """

    id: str
    name: str
    category: Category
    applies_to: tuple[Kind, ...]
    reach: Reach
    saves: tuple[Part, ...]
    formula: str
    saving: str
    time_cost: str
    quality: str
    use_when: str
    avoid_when: str
    set_by: tuple[str, ...]
    references: tuple[Reference, ...]
    aliases: tuple[str, ...] = ()
    training: TrainingProposals | None = None
    inference: InferenceProposals | None = None
