"""What a training framework takes beside states and activations, as measured distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.core.engines import FALLBACK_ENGINE
from service.core.figures import Figures, from_figures
from service.core.interval import Interval
from service.core.learning import Correction

#: What ids of calibrations begin with that hold figures of a framework.
CALIBRATIONS = "memory-training/"


@dataclass(frozen=True, slots=True)
class FrameworkRuntime:
    """Runtime memory of one training framework, per accelerator.

    ``context_bytes`` is what driver and libraries hold outside the allocator [B],
    ``collectives_bytes`` what communication adds between accelerators [B].
    ``fragmentation_ratio`` is what the allocator reserves beyond the temporary tensors it hands
    out, ``activation_ratio`` these over their formula. ``bytes_per_logit`` is what the plain loss
    holds at once per logit: logits and their gradients in 16 and 32 bit [B]. With states in 32 bit
    the optimizer's step holds ``step_bytes_per_element`` beside states and gradients [B], for at
    most ``step_elements`` at once; with narrower ones as much less. Products with 4-bit weights
    keep ``quantised_input_bytes`` per element of their input [B].
    """

    framework: str
    calibration: str
    context_bytes: Interval
    collectives_bytes: Interval
    fragmentation_ratio: Interval
    activation_ratio: Interval
    bytes_per_logit: float
    step_bytes_per_element: float
    step_elements: float
    quantised_input_bytes: float

    def corrected(self, correction: Correction) -> FrameworkRuntime:
        """The same with what is measured corrected."""
        return replace(
            self,
            context_bytes=correction.of(self.context_bytes),
            collectives_bytes=correction.of(self.collectives_bytes),
            fragmentation_ratio=correction.of(self.fragmentation_ratio),
            activation_ratio=correction.of(self.activation_ratio),
        )


@dataclass(frozen=True, slots=True)
class TrainingOverheads:
    """Runtime memory by training framework."""

    frameworks: Mapping[str, FrameworkRuntime]

    def of(self, framework: str) -> FrameworkRuntime:
        """Figures of a framework, or the fallback's where it has none of its own."""
        return self.frameworks.get(framework) or self.frameworks[FALLBACK_ENGINE]

    def corrected(self, framework: str, correction: Correction) -> TrainingOverheads:
        """The same with the figures of a framework corrected."""
        return TrainingOverheads(
            {**self.frameworks, framework: self.of(framework).corrected(correction)}
        )


def training_overheads(figures: Mapping[str, Figures]) -> TrainingOverheads:
    """Runtime memory of training from the figures of each framework.

    Raises
    ------
    KeyError
        If a framework lacks a figure, or there are none for the fallback.
    """
    frameworks = {
        name: from_figures(
            FrameworkRuntime, held, framework=name, calibration=f"{CALIBRATIONS}{name}"
        )
        for name, held in figures.items()
    }
    if FALLBACK_ENGINE not in frameworks:
        raise KeyError(FALLBACK_ENGINE)
    return TrainingOverheads(frameworks)
