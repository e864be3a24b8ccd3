"""All techniques, in the order in which they are usually tried."""

from __future__ import annotations

from service.core.techniques import (
    hardware,
    inference_load,
    inference_model,
    parallelism,
    training_activations,
    training_states,
)
from service.core.techniques.technique import Technique

TECHNIQUES: tuple[Technique, ...] = (
    *training_activations.TECHNIQUES,
    *training_states.TECHNIQUES,
    *parallelism.TECHNIQUES,
    *inference_load.TECHNIQUES,
    *inference_model.TECHNIQUES,
    *hardware.TECHNIQUES,
)
