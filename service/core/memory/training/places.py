"""Where the state of a training run is kept: on the accelerator, or elsewhere."""

from __future__ import annotations

from typing import get_args

from service.core.elementwise import Number, maximum, minimum
from service.core.interval import Interval
from service.core.lightweight import lightweight
from service.core.memory.training.settings import Place, TrainingSettings
from service.core.memory.training.state import StageState


@lightweight
class Places:
    """Where the parts of a rank's state are kept, ``away_bytes`` by place and part [B]."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: Number
    away_bytes: dict[Place, dict[str, Number]]


def places_of(state: StageState, settings: TrainingSettings) -> Places:
    """Divide a state among accelerator, host memory, NVMe and memory tier.

    With an offloaded optimizer gradients follow their states as soon as they are divided (ZeRO 2
    and 3): the accelerator keeps one bucket of them. What is fixed of weights stays.
    """
    weights, gradients, optimizer = (
        state.weights_bytes,
        state.gradients_bytes,
        state.optimizer_bytes,
    )
    if settings.optimizer_in_backward:
        # The largest gradient is there while its tensor is updated.
        gradients = min(gradients, state.largest_trained_elements * settings.gradient_bytes)
    # What goes to "none" stays, and is nothing.
    away: dict[Place, dict[str, Number]] = {place: {} for place in get_args(Place)}
    if settings.offload.optimizer != "none":
        away[settings.offload.optimizer]["optimizer"] = optimizer
        optimizer = 0.0
        if settings.zero_stage >= 2:
            away["cpu"]["gradients"] = gradients
            gradients = min(gradients, settings.bucket_elements * settings.gradient_bytes)
    if settings.offload.parameters != "none":
        away[settings.offload.parameters]["parameters"] = weights - state.fixed_bytes
        weights = state.fixed_bytes
    return Places(weights, gradients, optimizer, away)


def paged_total(total: Interval, rest: Interval, usable: Number) -> Interval:
    """All that is held where states give way: no more than there is, but for what cannot [B]."""
    pairs = ((total.value, rest.value), (total.low, rest.low), (total.high, rest.high))
    return Interval(*(minimum(held, maximum(usable, least)) for held, least in pairs))
