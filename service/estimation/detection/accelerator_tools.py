"""Readers of the tools of accelerators' makers; each takes text and answers with devices."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from service.estimation.detection.readings import (
    MOST_CHARACTERS,
    MOST_DEVICES,
    Device,
    json_document,
    short,
    size_bytes,
    watts,
)
from service.estimation.detection.tables import (
    indented,
    nvidia_list,
    nvidia_report,
    nvidia_xml,
    table,
)

_XPU_NAME = re.compile(r"Device Name:\s*([^|\n]{1,200})")
_ROCM_LINE = re.compile(
    r"^GPU\[(\d{1,4})\][ \t]{0,40}:[ \t]{0,40}([^:\n]{1,80}):[ \t]{0,40}([^\n]{1,200})$",
    re.MULTILINE,
)
#: Rows of the table that ``rocm-smi`` prints when asked for nothing, by the id of the device.
_ROCM_ROW = re.compile(
    r"^\d{1,4}[ ]{1,20}\d{1,4}[ ]{1,20}(0x[0-9a-f]{4}),[^\n]{0,200}?"
    r"[ ](?P<power>[\d.]{1,10})W(?:[ ]{1,20}\d{1,3}%){2}[ ]{0,20}$",
    re.MULTILINE | re.IGNORECASE,
)
#: Ids that belong to one accelerator each (the PCI ID Repository).
_AMD_IDS = {
    "0x738c": "Instinct MI100",
    "0x740f": "Instinct MI210",
    "0x74a0": "Instinct MI300A",
    "0x74a1": "Instinct MI300X",
    "0x74a2": "Instinct MI308X",
    "0x74a5": "Instinct MI325X",
    "0x75a0": "Instinct MI350X",
    "0x75a3": "Instinct MI355X",
}
#: Where amd-smi's releases have put the limit of power, the newest first.
_AMD_LIMITS = ("socket_power", "socket_power_limit", "power_cap", "max_power", "ppt0")
_AMD_NAMES = (("asic", "market_name"), ("board", "product_name"))


def nvidia_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``nvidia-smi`` in any of its forms: CSV, XML, report, list or table."""
    readers = (_columns, nvidia_xml, nvidia_report, nvidia_list, table)
    return next(filter(None, (reader(text) for reader in readers)), ())


def _columns(text: str) -> tuple[Device, ...]:
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
    """Devices of ``amd-smi static --asic --board --vram --limit``, as JSON or for people."""
    document = json_document(text)
    listed = document.get("gpu_data") if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        listed = list(indented(text))
    found: list[Device] = []
    for one in listed[:MOST_DEVICES]:
        names = [_text(one, *path) for path in _AMD_NAMES]
        name = next((each for each in names if each), None)
        if name is not None:
            limits = [_quantity(_at(one, "limit", key)) for key in _AMD_LIMITS]
            power = next((each for each in limits if watts(each) is not None), None)
            memory = size_bytes(_quantity(_at(one, "vram", "size")), "mb")
            found.append(Device(name, memory, None if power is None else watts(power)))
    return tuple(found)


def rocm_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``rocm-smi --showproductname --showmeminfo vram``: JSON, CSV or for people."""
    document = _lines_by_device(text) or json_document(text) or _rows_by_device(text)
    found: list[Device] = []
    for card, told in (document if isinstance(document, Mapping) else {}).items():
        if not str(card).startswith("card") or not isinstance(told, Mapping):
            continue
        held = {short(key).casefold(): short(value) for key, value in told.items()}
        names = (held.get(key, "") for key in ("card series", "device name", "card model"))
        name = next((one for one in names if one not in ("", "N/A") and one[:2] != "0x"), None)
        if name is not None and len(found) < MOST_DEVICES:
            found.append(
                Device(
                    name,
                    size_bytes(held.get("vram total memory (b)")),
                    watts(held.get("max graphics package power (w)")),
                )
            )
    return tuple(found) or tuple(_by_id(text))


def _by_id(text: str) -> Iterator[Device]:
    """Devices of the short table of ``rocm-smi``, which tells their ids and limits of power."""
    for row in islice(_ROCM_ROW.finditer(text[:MOST_CHARACTERS]), MOST_DEVICES):
        name = _AMD_IDS.get(row[1].casefold())
        if name is not None:
            yield Device(name, power_limit_w=watts(row["power"]))


def _rows_by_device(text: str) -> dict[str, dict[str, str]]:
    """Rows of a table in CSV by their first column, "device"; none where there is no such."""
    rows = _sound(csv.reader(text[:MOST_CHARACTERS].splitlines()))
    names = next((row for row in rows if row and row[0] == "device"), [])
    return {row[0]: dict(zip(names[1:], row[1:], strict=False)) for row in rows if row}


def _lines_by_device(text: str) -> dict[str, dict[str, str]]:
    """What "GPU[0] : Card Series: …" and lines like it say, by device."""
    found: dict[str, dict[str, str]] = {}
    for number, key, value in _ROCM_LINE.findall(text[:MOST_CHARACTERS]):
        found.setdefault(f"card{number}", {})[key] = value
    return found


def xpu_smi(text: str) -> tuple[Device, ...]:
    """Devices of ``xpu-smi discovery``, as JSON or for people."""
    document = json_document(text)
    listed = document.get("device_list") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        names = _XPU_NAME.findall(text[:MOST_CHARACTERS])[:MOST_DEVICES]
        return tuple(Device(short(name)) for name in names)
    found: list[Device] = []
    for one in listed[:MOST_DEVICES]:
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
