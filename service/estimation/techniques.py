"""Use case: the techniques that save memory, as they are listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.core.techniques.registry import TECHNIQUES, find_technique, near_techniques
from service.core.techniques.technique import STORAGE_CLASSES, Technique

#: Fields that a list can be narrowed by, with the values that they take.
FILTERS: Mapping[str, tuple[str, ...]] = {
    "applies_to": ("training", "inference"),
    "category": tuple(sorted({technique.category for technique in TECHNIQUES})),
    "reach": tuple(sorted({technique.reach for technique in TECHNIQUES})),
    "saves": tuple(STORAGE_CLASSES),
}


class UnknownTechnique(LookupError):  # noqa: N818 - the name says what happened to the caller
    """No technique has that id or alias; ``suggestions`` are spelt alike."""

    def __init__(self, suggestions: list[str]) -> None:
        self.suggestions = suggestions
        super().__init__(", ".join(suggestions))


def techniques_answer(wanted: Mapping[str, str]) -> dict[str, Any]:
    """All techniques, or those with the wanted values of :data:`FILTERS`."""
    return {
        "items": [
            technique_answer(technique) for technique in TECHNIQUES if _matches(technique, wanted)
        ]
    }


def named_technique_answer(name: str) -> dict[str, Any]:
    """One technique by its id or alias.

    Raises
    ------
    UnknownTechnique
        If there is none.
    """
    technique = find_technique(name)
    if technique is None:
        raise UnknownTechnique(near_techniques(name))
    return technique_answer(technique)


def technique_answer(technique: Technique) -> dict[str, Any]:
    """A technique as it goes over the wire."""
    proposals = {"training": technique.training, "inference": technique.inference}
    return {
        "id": technique.id,
        "name": technique.name,
        "aliases": list(technique.aliases),
        "category": technique.category,
        "applies_to": list(technique.applies_to),
        "reach": technique.reach,
        "saves": [
            {"part": part, "storage_class": STORAGE_CLASSES[part]} for part in technique.saves
        ],
        "formula": technique.formula,
        "saving": technique.saving,
        "time_cost": technique.time_cost,
        "quality": technique.quality,
        "use_when": technique.use_when,
        "avoid_when": technique.avoid_when,
        "set_by": list(technique.set_by),
        "planned_for": [kind for kind, found in proposals.items() if found is not None],
        "references": [
            {"title": reference.title, "year": reference.year, "url": reference.url}
            for reference in technique.references
        ],
    }


def _matches(technique: Technique, wanted: Mapping[str, str]) -> bool:
    has: Mapping[str, tuple[str, ...]] = {
        "applies_to": technique.applies_to,
        "category": (technique.category,),
        "reach": (technique.reach,),
        "saves": technique.saves,
    }
    return all(value in has[field] for field, value in wanted.items())
