"""Lists of number formats that engines say they have kernels for, or hold caches in."""

from __future__ import annotations

from dataclasses import dataclass

#: Number formats that say how wide weights are, but not how they are packed.
WIDTHS = frozenset({"int4", "int8"})
#: Beginnings of formats that engines read only where they say so.
_PARTICULAR = ("exl2-", "exl3-", "mlx-", "awq-int4-gemv")


def is_particular(format_id: str) -> bool:
    """Whether engines read a format only where they say so."""
    return format_id.startswith(_PARTICULAR)


@dataclass(frozen=True, slots=True)
class FormatList:
    """Number formats by their ids, or the beginnings of ids (``gguf-*``).

    If there are none, any but those that engines read only where they say so.
    """

    names: frozenset[str] = frozenset()

    def has(self, format_id: str) -> bool:
        """Whether a format is on the list."""
        if not self.names:
            return not is_particular(format_id)
        return self.states(format_id)

    def states(self, format_id: str) -> bool:
        """Whether the list says so, which is never where there is none."""
        return format_id in self.names or any(
            format_id.startswith(name[:-1]) for name in self.names if name.endswith("*")
        )


#: No list: any format, but those that engines read only where they say so.
ANY_FORMAT = FormatList()
