"""What to say where documented defaults stand in for figures that nobody published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.catalog.entries.entry import Entry
from service.core.deployment import Accelerator
from service.core.explanation import EstimateWarning
from service.estimation.wording import unpublished

#: Figures of accelerators that memory and speed do not depend on.
_OF_MAKING = frozenset({"embodied_kgco2e", "mass_kg"})


def default_warnings(
    entry: Entry[Any], names: Iterable[str] | None = None
) -> list[EstimateWarning]:
    """A warning about an entry's stand-ins, if any: about all, or those of the given names."""
    stood_in = tuple(entry.stood_in if names is None else names)
    if not stood_in:
        return []
    told = f"{unpublished(stood_in, entry.id)}: documented defaults are used"
    return [EstimateWarning("assumed_figure", told, stood_in[0])]


def assumed_for_speed(accelerator: Entry[Accelerator]) -> list[str]:
    """Names of stand-ins that memory and speed depend on."""
    return [name for name in accelerator.stood_in if name not in _OF_MAKING]


def accelerator_warnings(accelerator: Entry[Accelerator]) -> list[EstimateWarning]:
    """About stand-ins that memory and speed depend on, and about figures only announced."""
    told = default_warnings(accelerator, assumed_for_speed(accelerator))
    if accelerator.document.get("announced", False):
        told.append(
            EstimateWarning(
                "announced_accelerator",
                f"{accelerator.id} was announced and not yet delivered when it was entered; its "
                "figures are those of the announcement",
            )
        )
    return told


def making_default_warnings(accelerator: Entry[Accelerator]) -> list[EstimateWarning]:
    """Those that a footprint depends on."""
    return default_warnings(accelerator, [n for n in accelerator.stood_in if n in _OF_MAKING])
