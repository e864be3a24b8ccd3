"""Use case: the techniques that save memory, as they are listed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from service.catalog.entries.texts import Text, packaged_texts
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.technique import REACHES, Reach, Technique
from service.estimation.answers import Answer

Part: TypeAlias = Literal[
    "weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "runtime"
]
#: What may be done with a part of memory: it is needed all the time; it is needed for a moment; it
#: can be computed again from something smaller; it can wait elsewhere until it is needed.
StorageClass: TypeAlias = Literal["permanent", "temporary", "recomputable", "deferrable"]

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

Kind = Literal["training", "inference"]


class SavedPart(Answer):
    """A part of memory that shrinks, and what may be done with it."""

    part: Part
    """The part of memory."""
    storage_class: StorageClass
    """permanent: needed all the time; temporary: needed for a moment; recomputable: can be computed
    again from something smaller; deferrable: can be kept elsewhere until it is needed."""


class TechniqueReference(Answer):
    """A document that a formula, a saving or a cost is taken from."""

    title: str
    year: int
    url: str


class TechniqueEntry(Answer):
    """A technique that saves memory or time."""

    id: str
    name: str
    aliases: list[str]
    category: str
    """What it belongs with."""
    applies_to: list[Kind]
    """What it can be used for."""
    reach: Reach
    """same-result: the same result on the same accelerators; near-same-result: almost the same
    result; more-accelerators: the same result on more accelerators; other-recipe: another recipe,
    workload or model."""
    saves: list[SavedPart]
    formula: str
    """Size or time of what it changes."""
    saving: str
    """What it saves, in words."""
    time_cost: str
    """What it costs in time, in words."""
    quality: str
    """Effect on the results."""
    use_when: str
    """When it is worth its cost."""
    avoid_when: str
    """When it is not."""
    set_by: list[str]
    """Request fields that turn it on."""
    planned_for: list[Kind]
    """Estimates whose plans may choose it. Elsewhere it depends on facts that only the caller
    knows."""
    references: list[TechniqueReference]


class TechniquePage(Answer):
    """Techniques, in the order in which they are usually tried."""

    items: list[TechniqueEntry]


#: Fields that a list can be narrowed by, with the values that they take.
FILTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "applies_to": ("training", "inference"),
        "category": (
            "adapters",
            "batching",
            "cache",
            "hardware",
            "kernel",
            "model",
            "offload",
            "optimizer",
            "precision",
            "recomputation",
            "scheduling",
            "sharding",
        ),
        "reach": tuple(sorted(REACHES)),
        "saves": tuple(STORAGE_CLASSES),
    }
)

_TECHNIQUES = {technique.id: technique for technique in TECHNIQUES}


def techniques_answer(wanted: Mapping[str, str]) -> TechniquePage:
    """All techniques, or those with the wanted values of :data:`FILTERS`."""
    texts = packaged_texts()["techniques"].by_id
    return {
        "items": [
            _answer(technique, texts[technique.id])
            for technique in TECHNIQUES
            if _matches(technique, texts[technique.id], wanted)
        ]
    }


def named_technique_answer(name: str) -> TechniqueEntry:
    """One technique by its id or alias.

    Raises
    ------
    UnknownReference
        If there is none.
    """
    texts = packaged_texts()["techniques"]
    technique_id = texts.find(name)
    return _answer(_TECHNIQUES[technique_id], texts.by_id[technique_id])


def _answer(technique: Technique, text: Text) -> TechniqueEntry:
    """A technique as it goes over the wire."""
    fields = text.fields
    proposals: dict[Kind, object] = {
        "training": technique.training,
        "inference": technique.inference,
    }
    return {
        "id": technique.id,
        "name": fields["name"],
        "aliases": fields.get("aliases", []),
        "category": fields["category"],
        "applies_to": fields["applies_to"],
        "reach": technique.reach,
        "saves": [
            {"part": part, "storage_class": STORAGE_CLASSES[part]}
            for part in fields.get("saves", ())
        ],
        "formula": fields["formula"],
        "saving": fields["saving"],
        "time_cost": fields["time_cost"],
        "quality": fields["quality"],
        "use_when": fields["use_when"],
        "avoid_when": fields["avoid_when"],
        "set_by": fields.get("set_by", []),
        "planned_for": [kind for kind, propose in proposals.items() if propose is not None],
        "references": [
            {
                "title": f"{source['publisher']}, {source['title']}",
                "year": source["year"],
                "url": source["url"],
            }
            for source in text.sources
        ],
    }


def _matches(technique: Technique, text: Text, wanted: Mapping[str, str]) -> bool:
    has = {
        "applies_to": text.fields["applies_to"],
        "category": (text.fields["category"],),
        "reach": (technique.reach,),
        "saves": text.fields.get("saves", ()),
    }
    return all(value in has[field] for field, value in wanted.items())
