"""Readers of what a machine says of itself: macOS, lscpu, /proc, the device tree and SMBIOS."""

from __future__ import annotations

import re
from collections.abc import Mapping

from service.estimation.detection.readings import (
    MOST_CHARACTERS,
    Device,
    Host,
    fields,
    json_document,
    short,
    size_bytes,
)

#: SMBIOS type of a notebook, which Macs do not tell.
_LAPTOP = 10
_MOST_FIELDS = 1000
#: Keys of ``system_profiler -json`` with the names of the same without.
_MAC_KEYS = {
    "chip_type": "chip",
    "cpu_type": "processor name",
    "machine_name": "model name",
    "physical_memory": "memory",
}
#: What dmidecode calls the types of chassis of SMBIOS (DMTF DSP0134, 7.4.1).
_CHASSIS_TYPES = {
    "desktop": 3,
    "mini tower": 6,
    "tower": 7,
    "laptop": 9,
    "notebook": 10,
    "all in one": 13,
    "main server chassis": 17,
    "rack mount chassis": 23,
    "blade": 28,
    "mini pc": 35,
}
_WHOLE = re.compile(r"[0-9]{1,4}")


def system_profiler(text: str) -> tuple[tuple[Device, ...], Host]:
    """The chip and the Mac of ``system_profiler SPHardwareDataType``, with ``-json`` or without.

    A Mac with a processor of Intel has no device here.
    """
    held = _of_mac(text) or fields(text)
    chip, memory = held.get("chip"), size_bytes(held.get("memory"))
    model = held.get("model name")
    host = Host(
        processor=chip or held.get("processor name"),
        memory_bytes=memory,
        vendor="Apple" if held else None,
        model=model,
        chassis=_LAPTOP if model is not None and model.startswith("MacBook") else None,
    )
    return (() if chip is None else (Device(chip, memory),)), host


def lscpu(text: str) -> Host:
    """Processor, sockets and their cores of ``lscpu``, with ``-J`` or without."""
    held = _of_fields(text) or fields(text)
    name = held.get("model name")
    return Host(
        processor=None if name in {None, "-"} else name,
        sockets=_count(held.get("socket(s)", "")),
        cores=_count(held.get("core(s) per socket", "")),
    )


def _count(text: str) -> int | None:
    return int(text) or None if _WHOLE.fullmatch(text) else None


def meminfo(text: str) -> Host:
    """Memory of ``/proc/meminfo``: what the kernel can use, a little less than is built in."""
    return Host(memory_bytes=size_bytes(fields(text).get("memtotal"), "kb"))


def device_tree_model(text: str) -> Host:
    """A board by ``/proc/device-tree/model``, such as a Jetson or a Raspberry Pi."""
    model = short(text.replace("\0", " "))
    return Host(model=model or None, board=bool(model))


def dmidecode(text: str) -> Host:
    """A machine by ``dmidecode``: what it says of system and chassis."""
    sections = re.split(r"\n(?=Handle 0x)|\n\s*\n", text[:MOST_CHARACTERS])
    named = {
        heading: fields(section)
        for section in sections
        for heading in ("System Information", "Chassis Information")
        if heading in section
    }
    system = named.get("System Information", {})
    kind = named.get("Chassis Information", {}).get("type", "").casefold()
    return Host(
        vendor=system.get("manufacturer"),
        model=system.get("product name"),
        chassis=_CHASSIS_TYPES.get(kind),
    )


def _of_mac(text: str) -> dict[str, str]:
    """The fields of ``system_profiler -json`` by the names that it has without."""
    document = json_document(text)
    listed = document.get("SPHardwareDataType") if isinstance(document, Mapping) else None
    told = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(told, Mapping):
        return {}
    return {name: short(told[key]) for key, name in _MAC_KEYS.items() if key in told}


def _of_fields(text: str) -> dict[str, str]:
    """The fields of ``lscpu -J``, which nests them."""
    document = json_document(text)
    found: dict[str, str] = {}
    left = document.get("lscpu") if isinstance(document, Mapping) else None
    waiting = list(left) if isinstance(left, list) else []
    while waiting and len(found) < _MOST_FIELDS:
        one = waiting.pop(0)
        if not isinstance(one, Mapping):
            continue
        found.setdefault(short(one.get("field", "")).rstrip(":").casefold(), short(one.get("data")))
        children = one.get("children")
        waiting += children if isinstance(children, list) else []
    return found


def smbios(vendor: str, product: str, chassis: str) -> Host:
    """A machine by ``sys_vendor``, ``product_name`` and ``chassis_type`` of SMBIOS."""
    kind = chassis.strip()
    return Host(
        vendor=short(vendor) or None,
        model=short(product) or None,
        chassis=int(kind) if _WHOLE.fullmatch(kind) else None,
    )
