"""All techniques, by id: what is listed, what plans choose from."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

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

_BY_NAME: Mapping[str, Technique] = MappingProxyType(
    {name: technique for technique in TECHNIQUES for name in (technique.id, *technique.aliases)}
)


def find_technique(name: str) -> Technique | None:
    """The technique of an id or alias, if there is one."""
    return _BY_NAME.get(name.casefold())


def near_techniques(name: str) -> list[str]:
    """Ids and aliases that are spelt alike."""
    return get_close_matches(name.casefold()[:100], _BY_NAME, n=3, cutoff=0.5)
