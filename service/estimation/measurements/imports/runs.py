"""One run as a tool's file tells it: parts of a request, figures, and where each of them stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from service.estimation.measurements.documents import Confidence
from service.estimation.measurements.imports.reading import Content, Part
from service.estimation.measurements.quantities import Kind

#: ``file``: the file says so. ``inferred``: it follows from what the file says, or is the tool's
#: usual setting, and is listed under ``assumed``.
Origin: TypeAlias = Literal["file", "inferred", "deployment"]

_LOCAL_TIME = re.compile(r"\b(\d{4})[-/]?(\d{2})[-/]?(\d{2})")


@dataclass(frozen=True, slots=True)
class Told:
    """A value, where it stands in the file, and whether the file says it in so many words."""

    value: Any
    place: str
    origin: Origin = "file"


@dataclass(slots=True)
class Run:
    """What one run of a tool says.

    ``kind`` is None where the file does not say what ran, as a meter's; ``fields`` holds parts of
    the request by their JSON pointer within the document, such as ``/request/accelerator_count``.
    """

    tool: str
    place: str
    kind: Kind | None = "inference"
    version: str | None = None
    measured_on: str | None = None
    fields: dict[str, Told] = field(default_factory=dict)
    measured: dict[str, Told] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: Parameters of the model, and the digits that they are rounded to (None: to the last one).
    parameters: float | None = None
    parameters_rounded_to: float | None = None
    #: Micro-batches of a training step over all data-parallel ranks, which the ranks divide.
    batches: int | None = None
    #: Release of the engine or framework that ran, where the file names it.
    release: str | None = None
    confidence: Confidence | None = None
    #: Whether the rest of the file is worth having without this run.
    optional: bool = False

    def tell(self, pointer: str, part: Part | None, *, inferred: bool = False) -> None:
        """Note a part of the request, below ``/request``; nothing where there is none."""
        if part is not None and part.value is not None:
            origin: Origin = "inferred" if inferred else "file"
            self.fields[f"/request{pointer}"] = Told(part.value, part.place, origin)

    def suppose(self, pointer: str, value: Any, why: str) -> None:
        """Note a part of the request that follows from something else."""
        self.fields[f"/request{pointer}"] = Told(value, why, "inferred")

    def count(self, pointer: str, part: Part | None, *, inferred: bool = False) -> None:
        """Note a whole number of at least one, rounded."""
        if part is not None and part.value > 0:
            whole = Part(max(1, round(part.value)), part.pointer, part.line)
            self.tell(pointer, whole, inferred=inferred or whole.value != part.value)

    def measure(self, name: str, part: Part | None, factor: float = 1.0) -> None:
        """Note a figure, in another unit by ``factor``; zero and less is nothing measured."""
        if part is not None and part.value > 0:
            self.measured[name] = Told(float(part.value) * factor, part.place)

    def day(self, text: str | None) -> None:
        """Note the day of a time in any of the usual forms."""
        found = None if text is None else _LOCAL_TIME.search(text)
        if found is not None and "1990" < found[1] < "2100":
            month, day = int(found[2]), int(found[3])
            if 1 <= month <= 12 and 1 <= day <= 31:
                self.measured_on = f"{found[1]}-{found[2]}-{found[3]}"

    def moment(self, seconds: float | None) -> None:
        """Note the day of a time in seconds since 1970 (UTC)."""
        if seconds is not None and 1e9 < seconds < 4e9:
            self.measured_on = datetime.fromtimestamp(seconds, UTC).date().isoformat()

    @property
    def tool_text(self) -> str:
        """The tool with its version."""
        return self.tool if self.version is None else f"{self.tool} {self.version}"[:200]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of file: how it is recognised, and how it is read.

    ``recognise`` looks at the content alone; ``read`` gives its runs or refuses the file.
    """

    id: str
    title: str
    recognise: Callable[[Content], bool]
    read: Callable[[Content], list[Run]]


def has(part: Part | None, names: Iterable[str]) -> bool:
    """Whether an object has all of these keys."""
    return part is not None and isinstance(part.value, dict) and set(names) <= part.value.keys()
