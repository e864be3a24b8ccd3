"""What accelerators are known by, and lists of them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

#: Vendor of accelerators that are described without one.
UNKNOWN_VENDOR = "unknown"


@dataclass(frozen=True, slots=True)
class Hardware:
    """What an accelerator is known by: its id, its family and who makes it."""

    id: str
    family: str
    vendor: str

    @property
    def unknown(self) -> bool:
        """Whether nobody said who makes it."""
        return self.vendor == UNKNOWN_VENDOR


@dataclass(frozen=True, slots=True)
class HardwareList:
    """Accelerators by ids, families, beginnings of families (``nvidia-*``), or patterns of ids.

    A pattern of ids has a star before its end: ``nvidia-*-laptop-*``.
    """

    names: frozenset[str] = frozenset()

    def has(self, hardware: Hardware) -> bool:
        """Whether an accelerator is on the list."""
        if hardware.family in self.names or self.names_one(hardware):
            return True
        return any(
            hardware.family.startswith(name[:-1]) for name in self.names if name.endswith("*")
        )

    def names_one(self, hardware: Hardware) -> bool:
        """Whether an accelerator is on the list by its id, rather than by its family."""
        if hardware.id in self.names:
            return True
        return any(fnmatchcase(hardware.id, name) for name in self.names if "*" in name[:-1])


#: A list without anything on it.
NO_HARDWARE = HardwareList()
