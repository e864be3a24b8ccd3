"""Names of machines, or of several accelerators, where one is asked for: what is in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.entries.references import (
    MOST_CANDIDATES,
    ReferenceIndex,
    UnknownReference,
)

_LONGEST = 200
#: A number before or behind a name: "8x H100", "H100 x8".
_SEVERAL = (
    re.compile(r"(?P<number>\d{1,5})\s*[x×*]\s*(?P<name>.{3,})", re.IGNORECASE),
    re.compile(r"(?P<name>.+?)\s*[x×*]\s*(?P<number>\d{1,5})", re.IGNORECASE),
)
#: A slice of TPUs by its size: "v5e-16".
_SLICE = re.compile(r"(?P<name>.*v\d[a-z]*)-(?P<number>\d{1,5})", re.IGNORECASE)
_OF_SLICES = "google-tpu-"
#: What SageMaker puts before the names of AWS's instances.
_OF_SAGEMAKER = re.compile(r"^\s*ml\.", re.IGNORECASE)
#: Generations whose slices are named by TensorCores, two a chip; others by chips (Google Cloud,
#: Cloud TPU documentation, TPU versions, 2025).
_BY_CORES = ("google-tpu-v2", "google-tpu-v3", "google-tpu-v4", "google-tpu-v5p")


class SeveralAccelerators(UnknownReference):
    """A name with a number of accelerators; ``suggestions`` are those that it could mean."""

    def __init__(self, reference: str, number: int, suggestions: tuple[str, ...]) -> None:
        super().__init__("accelerators", reference, suggestions)
        self.number = number

    @property
    def hint(self) -> str:
        """How to ask for that many, to be put after what is wrong."""
        return (
            f"; name one accelerator, {' or '.join(self.suggestions)}, and give their number apart "
            f"(accelerator_count {self.number})"
        )


def several_accelerators(reference: str, known: ReferenceIndex) -> SeveralAccelerators | None:
    """The error that says how to ask for several accelerators, if a name says how many."""
    for pattern in _SEVERAL:
        found = pattern.fullmatch(reference.strip()[:_LONGEST])
        named = () if found is None else known.could_be(found["name"])
        if found is not None and named:
            return SeveralAccelerators(reference, int(found["number"]), named[:MOST_CANDIDATES])
    return None


def slice_of_tpus(reference: str, known: ReferenceIndex) -> SeveralAccelerators | None:
    """The error that says how to ask for a slice of TPUs, if a name is that of one."""
    found = _SLICE.fullmatch(reference.strip()[:_LONGEST])
    named = () if found is None else known.could_be(found["name"])
    if found is None or len(named) != 1 or not named[0].startswith(_OF_SLICES):
        return None
    cores = 2 if named[0] in _BY_CORES else 1
    return SeveralAccelerators(reference, max(int(found["number"]) // cores, 1), named)


class NameOfMachine(UnknownReference):
    """No accelerator goes by this name, but a machine does.

    ``suggestions`` are accelerators that it holds; ``what`` says which machine it is, and
    ``number`` how many are in it, where that is told.
    """

    def __init__(
        self, reference: str, what: str, suggestions: tuple[str, ...], number: int | None = None
    ) -> None:
        super().__init__("accelerators", reference, suggestions)
        self.what = what
        self.number = number

    @property
    def hint(self) -> str:
        """Which machine it is and what is in it, to be put after what is wrong."""
        held = ", ".join(self.suggestions)
        if self.number is not None:
            return (
                f"; it is {self.what}, with {self.number} × {held}: name that accelerator and "
                f"accelerator_count {self.number}"
            )
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
    rented = references["instances"].could_be(_OF_SAGEMAKER.sub("", reference))
    if rented:
        held = dict.fromkeys(str(instances[id_].document["accelerator"]) for id_ in rented)
        if len(rented) > 1:
            return NameOfMachine(reference, "a series of instances", tuple(held))
        number = int(instances[rented[0]].document["accelerators"])
        return NameOfMachine(reference, f"the instance {rented[0]}", tuple(held), number)
    machine = references["platforms"].find(reference)
    if machine is None:
        return None
    patterns = platforms[machine].document.get("default_for") or ()
    usual = sorted(id_ for id_ in accelerators if any(fnmatchcase(id_, one) for one in patterns))
    return NameOfMachine(reference, f"the platform {machine}", tuple(usual[:MOST_CANDIDATES]))
