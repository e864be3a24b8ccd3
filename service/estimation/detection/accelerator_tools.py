"""Readers of the tools of accelerators' makers; each takes text and answers with devices."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from service.estimation.detection.readings import (
    MOST_CHARACTERS,
    MOST_DEVICES,
    Device,
    short,
    size_bytes,
    watts,
)

#: Where amd-smi's releases have put the limit of power, the newest first.
_AMD_LIMITS = ("socket_power", "socket_power_limit", "power_cap", "max_power", "ppt0")
_AMD_NAMES = (("asic", "market_name"), ("board", "product_name"))


def nvidia_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``nvidia-smi --query-gpu=… --format=csv``, its columns in any order.

    A header has to name them; "[N/A]" and the like are unknown.
    """
    rows = csv.reader(text[:MOST_CHARACTERS].splitlines(), skipinitialspace=True)
    names: list[str] = []
    found: list[Device] = []
    for row in _sound(rows):
        heads = [short(each).partition(" [")[0].casefold() for each in row]
        if not names:
            names = heads if "name" in heads else []
            continue
        held = dict(zip(names, row, strict=False))
        name = short(held.get("name", ""))
        if name and len(found) < MOST_DEVICES:
            found.append(
                Device(
                    name,
                    size_bytes(held.get("memory.total"), "mib"),
                    watts(held.get("power.limit")),
                    divided=short(held.get("mig.mode.current", "")).casefold() == "enabled",
                )
            )
    return tuple(found)


def amd_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``amd-smi static --asic --board --vram --limit --json``."""
    document = _json(text)
    listed = document.get("gpu_data") if isinstance(document, Mapping) else document
    found: list[Device] = []
    for one in (listed if isinstance(listed, list) else [])[:MOST_DEVICES]:
        names = [_text(one, *path) for path in _AMD_NAMES]
        name = next((each for each in names if each), None)
        if name is not None:
            limits = [_quantity(_at(one, "limit", key)) for key in _AMD_LIMITS]
            power = next((each for each in limits if watts(each) is not None), None)
            memory = size_bytes(_quantity(_at(one, "vram", "size")), "mb")
            found.append(Device(name, memory, None if power is None else watts(power)))
    return tuple(found)


def rocm_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``rocm-smi --showproductname --showmeminfo vram --showmaxpower --json``."""
    document = _json(text)
    found: list[Device] = []
    for card, told in (document if isinstance(document, Mapping) else {}).items():
        if not str(card).startswith("card") or not isinstance(told, Mapping):
            continue
        held = {short(key).casefold(): short(value) for key, value in told.items()}
        names = (held.get(key, "") for key in ("card series", "device name", "card model"))
        name = next((each for each in names if each and not each.startswith("0x")), None)
        if name is not None and len(found) < MOST_DEVICES:
            found.append(
                Device(
                    name,
                    size_bytes(held.get("vram total memory (b)")),
                    watts(held.get("max graphics package power (w)")),
                )
            )
    return tuple(found)


def xpu_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``xpu-smi discovery -j``."""
    document = _json(text)
    listed = document.get("device_list") if isinstance(document, Mapping) else None
    found: list[Device] = []
    for one in (listed if isinstance(listed, list) else [])[:MOST_DEVICES]:
        name = _text(one, "device_name")
        if name is not None:
            found.append(Device(name, size_bytes(_at(one, "memory_physical_size_byte"))))
    return tuple(found)


def _sound(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows up to the first that is none."""
    while True:
        try:
            yield next(rows)
        except (StopIteration, csv.Error):
            return


def _json(text: str) -> Any:
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


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(value: Any, *path: str) -> str | None:
    found = _at(value, *path)
    plain = short(found) if isinstance(found, str) else ""
    return plain if plain and plain.casefold() != "n/a" else None


def _quantity(value: Any) -> str:
    """A number with its unit as one text: ``{"value": 750, "unit": "W"}`` or "750 W"."""
    if not isinstance(value, Mapping):
        return str(value)
    cap = value.get("socket_power_limit")  # limits of several kinds, in the newest releases
    if cap is not None:
        return _quantity(cap) if not isinstance(cap, Mapping) or "value" in cap else ""
    return f"{value.get('value')} {value.get('unit', '')}"
