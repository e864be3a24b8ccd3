"""What a training framework takes beside states and activations, as measured distributions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.core.interval import Interval
from service.core.memory.inference.runtime import FALLBACK_ENGINE


@dataclass(frozen=True, slots=True)
class FrameworkRuntime:
    """Runtime memory of one training framework, per accelerator.

    ``context`` is what driver and libraries hold outside the allocator [B], ``collectives`` what
    communication adds between accelerators [B]. ``fragmentation_ratio`` is what the allocator
    reserves beyond the temporary tensors it hands out, ``activation_ratio`` these over their
    formula. ``bytes_per_logit`` is what the plain loss holds at once per logit: logits and their
    gradients in 16 and 32 bit [B]. With states in 32 bit the optimizer's step holds
    ``step_bytes_per_element`` beside states and gradients [B], for at most ``step_elements`` at
    once; with narrower ones as much less. Products with 4-bit weights
    keep ``quantised_input_bytes`` per element of their input [B].
    """

    framework: str
    calibration: str
    context: Interval
    collectives: Interval
    fragmentation_ratio: Interval
    activation_ratio: Interval
    bytes_per_logit: float
    step_bytes_per_element: float
    step_elements: float
    quantised_input_bytes: float


@dataclass(frozen=True, slots=True)
class TrainingOverheads:
    """Runtime memory by training framework."""

    frameworks: Mapping[str, FrameworkRuntime]

    def of(self, framework: str) -> FrameworkRuntime:
        """Figures of a framework, or the fallback's where it has none of its own."""
        return self.frameworks.get(framework) or self.frameworks[FALLBACK_ENGINE]


def training_overheads(documents: Iterable[Mapping[str, Any]]) -> TrainingOverheads:
    """Read runtime memory of training from calibration documents.

    Parameters
    ----------
    documents
        ``{"id", "applies_to": {"framework"}, "figures": {name: {"value", "low"?, "high"?}}}``, the
        names being the fields of :class:`FrameworkRuntime`, with ``_bytes`` where they are sizes.

    Returns
    -------
    TrainingOverheads
        The same as values.

    Raises
    ------
    KeyError
        If a document lacks a figure, or none is for the fallback framework.
    """
    read = (_framework_runtime(document) for document in documents)
    frameworks = {framework.framework: framework for framework in read}
    if FALLBACK_ENGINE not in frameworks:
        raise KeyError(FALLBACK_ENGINE)
    return TrainingOverheads(frameworks)


def _framework_runtime(document: Mapping[str, Any]) -> FrameworkRuntime:
    figures: Mapping[str, Mapping[str, Any]] = document["figures"]

    def interval(name: str) -> Interval:
        figure = figures[name]
        value = float(figure["value"])
        return Interval(value, float(figure.get("low", value)), float(figure.get("high", value)))

    def number(name: str) -> float:
        return float(figures[name]["value"])

    return FrameworkRuntime(
        framework=str(document["applies_to"]["framework"]),
        calibration=str(document["id"]),
        context=interval("context_bytes"),
        collectives=interval("collectives_bytes"),
        fragmentation_ratio=interval("fragmentation_ratio"),
        activation_ratio=interval("activation_ratio"),
        bytes_per_logit=number("bytes_per_logit"),
        step_bytes_per_element=number("step_bytes_per_element"),
        step_elements=number("step_elements"),
        quantised_input_bytes=number("quantised_input_bytes"),
    )
