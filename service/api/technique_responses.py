"""Shapes of answers about techniques."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.responses import Answer, Reach

Kind = Literal["training", "inference"]


class SavedPart(Answer):
    """A part of memory that shrinks, and what may be done with it."""

    part: Literal[
        "weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "runtime"
    ]
    storage_class: Literal["permanent", "temporary", "recomputable", "deferrable"] = Field(
        description="Needed all the time; needed for a moment; can be computed again from less; "
        "can wait elsewhere until it is needed."
    )


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
    applies_to: list[Kind]
    reach: Reach = Field(
        description="The same result on the same accelerators, nearly the same, more accelerators, "
        "or another recipe, load or model."
    )
    saves: list[SavedPart]
    formula: str = Field(description="Bytes of what it changes.")
    saving: str
    time_cost: str
    quality: str = Field(description="What becomes of results.")
    use_when: str
    avoid_when: str
    set_by: list[str] = Field(description="Fields of a request that ask for it.")
    planned_for: list[Kind] = Field(
        description="Estimates whose plans may choose it; elsewhere it needs what only the caller "
        "knows."
    )
    references: list[TechniqueReference]


class TechniquePage(Answer):
    """Techniques, in the order in which they are usually tried."""

    items: list[TechniqueEntry]
