"""What tools and files of a machine say, before it is looked up in the catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import orjson

#: Longer outputs are cut: no tool writes a thousandth of it about one machine.
MOST_CHARACTERS = 1_000_000
MOST_DEVICES = 1024
_LONGEST_NAME = 200
_NUMBER = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{0,9})?)\s*([A-Za-z]*)\s*")
_BYTES = {"b": 1} | {
    f"{prefix}{ending}": 1024**power
    for power, prefix in enumerate("kmgt", start=1)
    for ending in ("b", "ib")
}


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator as a tool names it, with its memory [B] and limit of power [W] if known."""

    name: str
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    divided: bool = False


_LACKED = ("processor", "sockets", "cores", "memory_bytes", "vendor", "model", "chassis")


@dataclass(frozen=True, slots=True)
class Host:
    """The machine around the accelerators.

    ``model`` is what its maker calls it, ``vendor`` who that is, ``board`` whether it is a board
    that is one device, ``chassis`` its SMBIOS type, ``cores`` those of one socket. Unknown things
    are None.
    """

    processor: str | None = None
    sockets: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    vendor: str | None = None
    model: str | None = None
    board: bool = False
    chassis: int | None = None

    def with_missing(self, other: Host) -> Host:
        """The same host, with what it lacks as the other says it."""
        found = {name: getattr(other, name) for name in _LACKED if getattr(self, name) is None}
        return replace(self, board=self.board or other.board, **found)


def short(text: object) -> str:
    """A name as one line of printable characters, cut to what a name can be."""
    plain = "".join(each if each.isprintable() else " " for each in str(text)[: 4 * _LONGEST_NAME])
    return " ".join(plain.split())[:_LONGEST_NAME]


def size_bytes(text: object, unit: str = "b") -> int | None:
    """Bytes of "81559 MiB" or "64 GB", which are binary; None for what is no positive size.

    ``unit`` is that of a bare number.
    """
    parsed = _NUMBER.fullmatch(str(text))
    if parsed is None:
        return None
    scale = _BYTES.get((parsed[2] or unit).casefold())
    found = 0 if scale is None else round(float(parsed[1]) * scale)
    return found or None


def watts(text: object) -> float | None:
    """Watts of "700.00 W" or "750"; None for what is no positive power."""
    parsed = _NUMBER.fullmatch(str(text))
    if parsed is None or parsed[2].casefold() not in {"", "w"}:
        return None
    return float(parsed[1]) or None


def fields(text: str) -> dict[str, str]:
    """The first value of each ``key: value`` line, keys without regard to case."""
    found: dict[str, str] = {}
    for line in text[:MOST_CHARACTERS].splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(short(key).casefold(), short(value))
    return found


def json_document(text: str) -> Any:
    """The document in a text that may have lines of warnings before it; None where there is none.

    Tools write those to standard output, too.
    """
    whole = text[:MOST_CHARACTERS]
    starts = [at for at in (whole.find("{"), whole.find("[")) if at >= 0]
    for at in sorted(starts):
        try:
            return orjson.loads(whole[at : whole.rfind("}" if whole[at] == "{" else "]") + 1])
        except orjson.JSONDecodeError:
            continue
    return None
