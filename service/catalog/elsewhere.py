"""Names of machines where an accelerator is asked for: what is in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.entries.references import (
    MOST_CANDIDATES,
    ReferenceIndex,
    UnknownReference,
)


class NameOfMachine(UnknownReference):
    """No accelerator goes by this name, but a machine does.

    ``suggestions`` are accelerators that it holds; ``what`` says which machine it is.
    """

    def __init__(self, reference: str, what: str, suggestions: tuple[str, ...]) -> None:
        super().__init__("accelerators", reference, suggestions)
        self.what = what

    @property
    def hint(self) -> str:
        """Which machine it is and what is in it, to be put after what is wrong."""
        held = ", ".join(self.suggestions)
        return f"; it is {self.what}, with {held}" if held else f"; it is {self.what}"


def name_of_machine(
    reference: str,
    references: Mapping[str, ReferenceIndex],
    instances: Mapping[str, Entry[Any]],
    platforms: Mapping[str, Entry[Any]],
    accelerators: Collection[str],
) -> NameOfMachine | None:
    """The error that says which machine was named in place of an accelerator, if one was.

    Parameters
    ----------
    reference
        What was given as an accelerator.
    references
        Names of all collections.
    instances, platforms
        What a cloud rents out, and what stands in a room, by id.
    accelerators
        Ids of all accelerators.
    """
    rented = references["instances"].could_be(reference)
    if rented:
        held = dict.fromkeys(str(instances[id_].document["accelerator"]) for id_ in rented)
        what = f"the instance {rented[0]}" if len(rented) == 1 else "a series of instances"
        return NameOfMachine(reference, what, tuple(held))
    machine = references["platforms"].find(reference)
    if machine is None:
        return None
    patterns = platforms[machine].document.get("default_for") or ()
    usual = sorted(id_ for id_ in accelerators if any(fnmatchcase(id_, one) for one in patterns))
    return NameOfMachine(reference, f"the platform {machine}", tuple(usual[:MOST_CANDIDATES]))
