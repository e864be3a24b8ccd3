"""Readers of what accelerators' tools write for people: tables, lists, XML and indented text.

The forms are those of nvidia-smi 450 to 590, hl-smi 1.15 to 1.24, npu-smi 23 to 25, tpu-info,
neuron-ls and amd-smi as their users publish them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from service.estimation.detection.readings import (
    MOST_CHARACTERS,
    MOST_DEVICES,
    Device,
    short,
    size_bytes,
    watts,
)

_LONGEST_LINE = 400
_LISTED = re.compile(r"GPU \d{1,4}: (.{1,200}?) \(UUID: [^)]{1,80}\)")
_MIG = re.compile(r"\s+MIG \S{1,40}\s+Device\s")
#: A row of nvidia-smi or hl-smi that names a device, and the one below with its power and memory.
_NAMED = re.compile(r"\|\s*\d{1,4}\s{2}(.{1,60}?)\s+(?:On|Off|N/A)\s*\|\s*[0-9A-Fa-f:.]{7,20}\s")
_USED = re.compile(
    r"\|.*?(?:[\d.]{1,8}W|N/A)\s*/\s*(?P<power>[\d.]{1,8}W|N/A)\s*\|"
    r"\s*\d{1,9}MiB\s*/\s*(?P<memory>\d{1,9}MiB)\s*\|"
)
_NPU = re.compile(
    r"\|\s*\d{1,4}\s+([0-9A-Za-z]{1,20})\s*\|\s*[A-Za-z]{1,12}\s*\|\s*(?:[\d.]+|NA|-)\s"
)
_USAGE = re.compile(r"\d{1,9}\s*/\s*(\d{1,9})")
_TPU = re.compile(r"[│|]\s*/dev/\S{1,40}\s*[│|]\s*TPU ?(v?\d\w{0,4}) chip\s*[│|]")
_INSTANCE = re.compile(r"instance-type:\s*([a-z0-9-]{1,20})\.")
_NEURON = re.compile(r"\|\s*\d{1,4}\s*\|\s*\d{1,3}\s*\|.*?\|?\s*(\d{1,5} [GM]B)\s*\|")
#: Chips of AWS by the family of the instance, which neuron-ls names in their place.
_CHIPS = {
    "inf1": "AWS Inferentia1",
    "inf2": "AWS Inferentia2",
    "trn1": "AWS Trainium1",
    "trn1n": "AWS Trainium1",
    "trn2": "AWS Trainium2",
    "trn2u": "AWS Trainium2",
    "trn3": "AWS Trainium3",
}


def nvidia_xml(text: str) -> tuple[Device, ...]:
    """Devices of ``nvidia-smi -q -x``."""
    return tuple(
        Device(
            name,
            size_bytes(_element(_element(gpu, "fb_memory_usage"), "total")),
            watts(_element(gpu, "current_power_limit") or _element(gpu, "power_limit")),
            divided=_element(gpu, "current_mig").casefold() == "enabled",
        )
        for gpu in map(_whole, re.split("<gpu[ >]", text[:MOST_CHARACTERS])[1 : MOST_DEVICES + 1])
        if (name := _element(gpu, "product_name"))
    )


def nvidia_report(text: str) -> tuple[Device, ...]:
    """Devices of ``nvidia-smi -q``, whose figures stand indented below their headings."""
    found: list[dict[str, str]] = []
    headings: list[tuple[int, str]] = []
    for line in _lines(text):
        key, colon, value = line.partition(" : ")
        indent = len(line) - len(line.lstrip())
        while headings and headings[-1][0] >= indent:
            headings.pop()
        if not colon:
            if re.fullmatch(r"GPU [0-9A-Fa-f:.]{7,20}", line.strip()):
                found.append({})
            headings.append((indent, line.strip().casefold()))
        elif found and not any(name.startswith("mig device") for _, name in headings):
            heading = headings[-1][1] if headings else ""
            found[-1].setdefault(f"{heading}/{key.strip().casefold()}", short(value))
            found[-1].setdefault(f"*/{key.strip().casefold()}", short(value))
    return tuple(
        Device(
            gpu["*/product name"],
            size_bytes(gpu.get("fb memory usage/total")),
            watts(gpu.get("*/current power limit") or gpu.get("*/power limit")),
            divided=gpu.get("mig mode/current", "").casefold() == "enabled",
        )
        for gpu in found[:MOST_DEVICES]
        if gpu.get("*/product name")
    )


def nvidia_list(text: str) -> tuple[Device, ...]:
    """Devices of ``nvidia-smi -L``, with their divisions below them."""
    found: list[Device] = []
    for line in _lines(text):
        listed = _LISTED.match(line)
        if listed is not None and len(found) < MOST_DEVICES:
            found.append(Device(short(listed[1])))
        elif found and _MIG.match(line):
            found[-1] = Device(found[-1].name, divided=True)
    return tuple(found)


def table(text: str) -> tuple[Device, ...]:
    """Devices of the table that ``nvidia-smi`` and ``hl-smi`` print when asked for nothing.

    Older releases of nvidia-smi cut long names and end them with dots.
    """
    found: list[Device] = []
    name = None
    for line in _lines(text):
        named, used = _NAMED.match(line), _USED.match(line)
        if named is not None:
            name = short(named[1])
        elif used is not None and name is not None and len(found) < MOST_DEVICES:
            found.append(Device(name, size_bytes(used["memory"]), watts(used["power"])))
            name = None
        elif found and re.match(r"\|.*\|\s+Enabled \|", line):
            found[-1] = _divided(found[-1])
    return tuple(found)


def _divided(device: Device) -> Device:
    return Device(device.name, device.memory_bytes, device.power_limit_w, divided=True)


def npu_smi(text: str) -> tuple[Device, ...]:
    """Ascend devices of ``npu-smi info``, whose last memory of a chip is its own."""
    found: list[Device] = []
    name = None
    for line in _lines(text):
        named = _NPU.match(line)
        if named is not None:
            name = f"Ascend {named[1]}"
            continue
        sizes = _USAGE.findall(line) if name is not None and line.startswith("|") else []
        if sizes and name is not None and len(found) < MOST_DEVICES:
            found.append(Device(name, size_bytes(sizes[-1], "mb")))
            name = None
    return tuple(found)


def tpu_info(text: str) -> tuple[Device, ...]:
    """Chips of ``tpu-info``."""
    kinds = _TPU.findall(text[:MOST_CHARACTERS])
    return tuple(Device(f"TPU {kind}") for kind in kinds[:MOST_DEVICES])


def neuron_ls(text: str) -> tuple[Device, ...]:
    """Chips of ``neuron-ls``, by the family of the instance that it names."""
    cut = text[:MOST_CHARACTERS]
    instance = _INSTANCE.search(cut)
    chip = None if instance is None else _CHIPS.get(instance[1])
    if chip is None:
        return ()
    rows = (_NEURON.match(line.strip()) for line in _lines(cut))
    sizes = [size_bytes(row[1]) for row in rows if row is not None]
    return tuple(Device(chip, size) for size in sizes[:MOST_DEVICES])


def indented(text: str) -> Iterator[dict[str, object]]:
    """The devices of ``amd-smi static``, whose figures are indented below headings in capitals."""
    levels: list[tuple[int, dict[str, object]]] = []
    current: dict[str, object] | None = None
    for line in _lines(text):
        key, colon, value = line.partition(":")
        indent = len(line) - len(line.lstrip())
        name = key.strip().casefold()
        if not colon or not name:
            continue
        if indent == 0 and name == "gpu":
            if current is not None:
                yield current
            current = {}
            levels = [(0, current)]
            continue
        while len(levels) > 1 and levels[-1][0] >= indent:
            levels.pop()
        if not levels:
            continue
        if value.strip():
            levels[-1][1][name] = short(value)
        else:
            below: dict[str, object] = {}
            levels[-1][1][name] = below
            levels.append((indent, below))
    if current is not None:
        yield current


def _lines(text: str) -> list[str]:
    """Lines of a text, none longer than any tool writes."""
    return [line[:_LONGEST_LINE] for line in text[:MOST_CHARACTERS].splitlines()]


def _whole(gpu: str) -> str:
    """A device of the XML without its divisions, which have memory of their own."""
    return gpu.replace(_element(gpu, "mig_devices") or "\0", "")


def _element(text: str, name: str) -> str:
    """The content of the first element of a name, "" where there is none."""
    start = text.find(f"<{name}>")
    end = text.find(f"</{name}>", start)
    return "" if start < 0 or end < 0 else text[start + len(name) + 2 : end].strip()
