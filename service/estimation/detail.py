"""How much of an answer is made: what most people read by default, the rest for those who ask.

A request names groups of figures in ``include``; parts of answers that belong to a group are typed
dictionaries declared with :func:`part_of`, and are neither computed nor written without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from service.estimation.references import separated

Group = Literal[
    "provenance",
    "explanation",
    "deployment",
    "memory.by_class",
    "memory.stages",
    "remedies",
    "latency.breakdown",
    "energy.breakdown",
    "impacts.breakdown",
    "cost.breakdown",
    "estimates",
    "front",
    "compared",
    "kubernetes",
]
GROUPS: tuple[Group, ...] = get_args(Group)

#: What each group adds, for descriptions.
_ADDS: Mapping[str, str] = {
    "provenance": "every figure that was used with its source, year and kind",
    "explanation": "every formula with its inputs and result, as explain does",
    "deployment": "every setting as it was understood",
    "memory.by_class": "what weights and runtime memory consist of, memory as tools show it, and "
    "where everything is placed",
    "memory.stages": "memory of every pipeline stage",
    "remedies": "what would make it fit, if it does not",
    "latency.breakdown": "what the time of a step consists of",
    "energy.breakdown": "power and energy by part",
    "impacts.breakdown": "impacts by part, waste, primary energy and depletion, on every basis",
    "cost.breakdown": "costs of a request, of a year and of the period",
    "estimates": "the whole estimate of each choice",
    "front": "all candidates that no other one beats",
    "compared": "each metric of a choice against the best candidate, and what nearly won",
    "kubernetes": "a manifest for each choice",
}

#: Figures of the catalog of which estimates make nothing but this group's.
_FOR_IMPACTS_BY_PART = frozenset(
    {
        "adpe_kgsbeq_per_kwh",
        "e_waste_batteries_ratio",
        "e_waste_boards_ratio",
        "e_waste_collected_ratio",
        "embodied_adpe_kgsbeq",
        "embodied_primary_energy_mj",
        "mass_kg",
        "primary_energy_mj_per_kwh",
    }
)

Part = TypeVar("Part", bound=type)
_GROUP_OF: dict[type, str] = {}


def part_of(group: Group) -> Callable[[Part], Part]:
    """Declares fields of answers, a typed dictionary, as present only with their group."""

    def note(part: Part) -> Part:
        _GROUP_OF[part] = group
        return part

    return note


def grouped_fields(answer: type) -> dict[str, str]:
    """Fields of an answer that belong to a group, with the group; those it inherits included."""
    found: dict[str, str] = {}
    for base in getattr(answer, "__orig_bases__", ()):
        found |= grouped_fields(base)
    group = _GROUP_OF.get(answer)
    if group is None:
        return found
    return found | dict.fromkeys(answer.__annotations__, group)


@dataclass(frozen=True, slots=True)
class Detail:
    """Groups that an answer has."""

    groups: frozenset[str]

    def has(self, group: Group) -> bool:
        """Whether the answer has the parts of a group."""
        return group in self.groups

    @property
    def untold(self) -> frozenset[str]:
        """Figures of the catalog of which an estimate in this detail tells nothing."""
        return frozenset() if self.has("impacts.breakdown") else _FOR_IMPACTS_BY_PART

    def without(self, group: Group) -> Detail:
        """The same but for a group."""
        return Detail(self.groups - {group})


#: All groups but explanations, which requests ask for by ``explain`` as well.
WHOLE = Detail(frozenset(GROUPS) - {"explanation"})
#: What an answer has by default.
SMALL = Detail(frozenset())


def including(*groups: Group) -> Any:
    """The type of a request's list of groups, each one of those given."""

    def known(given: object) -> object:
        names = separated(given)
        if isinstance(names, tuple):
            for name in names:
                _check_known(name, groups)
        return names

    listed = "; ".join(f"{group}: {_ADDS[group]}" for group in groups)
    told = f"What the answer has beyond the usual. {listed}."
    one: Any = Literal.__getitem__(groups)
    return Annotated[
        tuple[one, ...],
        Field(max_length=2 * len(GROUPS), description=told),
        BeforeValidator(known, json_schema_input_type=list[one]),
    ]


def _check_known(name: object, groups: tuple[str, ...]) -> None:
    if not isinstance(name, str) or name in groups:
        return
    near = [group for group in groups if name and group.startswith(name)]
    near = near or get_close_matches(name[:60], groups, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise PydanticCustomError(
        "unknown_group",
        "{text}",
        {"text": f"nothing of that name{hint} (known: {', '.join(groups)})", "suggestions": near},
    )


if TYPE_CHECKING:
    #: Groups of answers that have no other.
    Grounded: TypeAlias = tuple[str, ...]
    Sourced: TypeAlias = tuple[str, ...]
else:
    Grounded = including("provenance", "explanation")
    Sourced = including("provenance")

#: Paths of fields of the answer, such as ``memory.total_bytes``.
FieldPaths = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
    Field(
        max_length=200,
        description="Answer just these fields: their paths in the answer, with dots, such as "
        "memory.total_bytes.",
        examples=[["memory.total_bytes", "latency.tpot_s"]],
    ),
    BeforeValidator(
        separated,
        json_schema_input_type=list[Annotated[str, Field(min_length=1, max_length=200)]],
    ),
]
