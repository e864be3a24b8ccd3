"""What accelerators are known by, and lists of them."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Accelerators by their ids, families, or the beginnings of families (``nvidia-*``)."""

    names: frozenset[str] = frozenset()

    def has(self, hardware: Hardware) -> bool:
        """Whether an accelerator is on the list."""
        if self.names & {hardware.id, hardware.family}:
            return True
        return any(
            hardware.family.startswith(name[:-1]) for name in self.names if name.endswith("*")
        )


#: A list without anything on it.
NO_HARDWARE = HardwareList()
