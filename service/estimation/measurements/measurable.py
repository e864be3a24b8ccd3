"""What a quantity is, and the views of a computed configuration that it is read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from service.core.errors import InvalidInput
from service.core.estimate.inference import InferenceEstimate
from service.core.estimate.training import TrainingSpeed
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval
from service.core.memory.training.memory import TrainingMemory

#: What a measurement is about: serving, training, or plain energy and accelerator time.
Kind: TypeAlias = Literal["inference", "training", "impacts"]


class NotEstimated(InvalidInput):
    """A quantity that no estimate gives for what was run, and why."""


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment as the core computed it.

    ``limits`` are what the highest rate of requests has to keep, by name of a quantity.
    """

    estimate: InferenceEstimate
    infrastructure: Infrastructure
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training run as the core computed it.

    ``told_batch`` says whether the request decides the batch of a step.
    """

    memory: TrainingMemory
    speed: TrainingSpeed
    infrastructure: Infrastructure
    told_batch: bool = True


#: ``impacts`` are read from the answer's period: they are figures of a place, not of the core.
Spent: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be measured.

    ``served``, ``trained`` and ``spent`` read it from what is computed about inference, training
    and impacts; where one is None, the quantity means nothing there. ``aliases`` are names that
    files use for the same. ``is_time`` quantities can be limits. Those ``of_batch`` are of the
    sequences of a step, and mean nothing of a run whose micro-batch nobody told.
    """

    name: str
    unit: str
    meaning: str
    served: Callable[[Served], Interval] | None = None
    trained: Callable[[Trained], Interval] | None = None
    spent: Callable[[Spent], Interval] | None = None
    aliases: tuple[str, ...] = ()
    of_batch: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it can be measured of."""
        readers: Mapping[Kind, object] = {
            "inference": self.served,
            "training": self.trained,
            "impacts": self.spent,
        }
        return tuple(kind for kind, reader in readers.items() if reader is not None)

    @property
    def is_time(self) -> bool:
        """Whether it is a time that users wait, which a limit can be set on."""
        return self.unit == "s" and self.served is not None

    def of_served(self, served: Served) -> Interval:
        """Its estimate for a deployment.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.served is None:
            raise NotEstimated(f"{self.name} is not a quantity of inference")
        return self.served(served)

    def of_trained(self, trained: Trained) -> Interval:
        """Its estimate for a training run.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.trained is None:
            raise NotEstimated(f"{self.name} is not a quantity of training")
        if self.of_batch and not trained.told_batch:
            raise NotEstimated(
                f"{self.name} needs training.global_batch_size, or micro_batch_size and "
                "gradient_accumulation_steps"
            )
        return self.trained(trained)

    def of_spent(self, spent: Spent) -> Interval:
        """Its estimate for plain energy or accelerator time.

        Raises
        ------
        NotEstimated
            If there is none.
        """
        if self.spent is None:
            raise NotEstimated(f"{self.name} is not a quantity of impacts")
        return self.spent(spent)
