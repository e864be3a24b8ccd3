"""Looking up in the catalog what tools said about a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NotRequired

from service.catalog.entries.engines import names_of
from service.catalog.entries.entry import Entry
from service.catalog.entries.references import MOST_CANDIDATES, loosened
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Accelerator
from service.core.platform import Machine
from service.estimation.answers import Answer
from service.estimation.detection.readings import Device, Host

#: Memory that tools show is that of the entry less what firmware and kernel hold back.
_LEAST_MEMORY_RATIO, _MOST_MEMORY_RATIO = 0.85, 1.04
#: A limit below this share of the power that a part is shipped with was set by somebody.
_LIMITED_RATIO = 0.985
#: AMD's tools limit the chip of a Radeon card, not its board: 303 of 355 W on an RX 7900 XTX, 265
#: of 315 W on an RX 7900 XT, 255 of 300 W on an RX 6900 XT.
_PACKAGE_SHARE, _RADEON = 0.85, ("amd-rx-", "amd-radeon-")
#: No part lets its power be set to more than this many times what it is shipped with.
_MOST_POWER_RATIO = 1.5
#: SMBIOS types of chassis, by kinds of platforms that they are.
_CHASSIS = {
    **dict.fromkeys((8, 9, 10, 14, 31, 32), "laptop"),
    **dict.fromkeys((3, 4, 5, 6, 7, 15, 16, 24), "desktop"),
    **dict.fromkeys((35, 36), "mini-pc"),
    **dict.fromkeys((17, 23, 25, 28, 29), "server"),
}
#: Kinds of platforms that stand in a chassis of a kind.
_STANDS_IN = {
    "laptop": {"laptop"},
    "desktop": {"desktop", "workstation", "mini-pc"},
    "mini-pc": {"mini-pc", "desktop"},
    "server": {
        *("server-8", "server-superchip", "server-pcie", "server-asic", "server-cpu", "rack"),
    },
}
#: What stands for a kind of chassis that the accelerator's usual machine is not.
_GENERAL = {"laptop": "laptop", "desktop": "desktop", "mini-pc": "mini-pc"}
#: A Mac has no power of its own beside its chip's.
_MAC_LAPTOP = "macbook"
_APPLE = "Apple"
_MOST_WORDS = 12
_GRAPHICS = re.compile(r"\s(?:w/|with)\s.*|\s-\s.*", re.IGNORECASE)
#: Lists of PCI devices name a die and, in brackets, all parts that are made of it.
_PARTS = re.compile(r"\[([^\[\]]+)\]")
#: What a name has behind the part: a board of AMD's, the share of a virtual device of NVIDIA's.
_BEHIND = re.compile(r"\s\(MCM\).*|\s(?:SXM[0-9]\s)?AC\b.*|-[0-9]{1,3}[ABCQ]\b.*", re.IGNORECASE)
_VIRTUAL = re.compile(r"-[0-9]{1,3}[ABCQ]$", re.IGNORECASE)
#: What the table of nvidia-smi puts in place of the end of a long name.
_CUT = "..."
_BRANDS = re.compile(r"^(?:nvidia|tesla|geforce)+")
#: Processors that are named by their core, by the cloud or maker of the machine.
_CORES = {
    ("amazon ec2", "neoverse-v1"): "AWS Graviton3",
    ("amazon ec2", "neoverse-v2"): "AWS Graviton4",
    ("nvidia", "neoverse-v2"): "NVIDIA Grace",
}
#: The same by the cores of a socket, in machines of others. Google's Axion has as many as Grace.
_CORES_OF_SOCKET = {("neoverse-v2", 72): "NVIDIA Grace", ("neoverse-v2", 96): "AWS Graviton4"}
_AXION_CLOUD = "google"
#: A device of a package of two dies is one of them.
_DIE = "-gcd-"


class DetectedAccelerators(Answer):
    """Accelerators of one kind in a machine.

    ``accelerator`` is null where the catalog has none, or several that it could be: ``candidates``
    are these, or the nearest.
    """

    reported_name: str
    accelerator: str | None
    candidates: list[str]
    count: int
    memory_bytes: int | None
    power_limit_w: float | None


class DetectedHost(Answer):
    """The machine around them; unknown things are null."""

    processor: str | None
    sockets: int | None
    memory_bytes: int | None
    vendor: str | None
    model: str | None


class DetectedRequest(Answer):
    """The part of a request that says what this machine is."""

    accelerator: str
    accelerator_count: int
    platform: NotRequired[str]
    power_limit_w: NotRequired[float]


class Detection(Answer):
    """What a machine is: entries of the catalog, and what to paste into a request.

    ``request`` is null where no accelerator is known for certain; ``remarks`` say why, and what
    else to look at.
    """

    accelerators: list[DetectedAccelerators]
    platform: str | None
    host: DetectedHost
    request: DetectedRequest | None
    remarks: list[str]


def detection(devices: Sequence[Device], host: Host, snapshot: CatalogSnapshot) -> Detection:
    """Entries that a machine is, from what its tools said.

    Parameters
    ----------
    devices
        Accelerators as tools named them; a machine without any is its processor, or its board.
    host
        What is around them.
    snapshot
        The catalog.
    """
    remarks: list[str] = []
    grouped: dict[Device, int] = {}
    considered = _considered(devices, host, snapshot)
    for device in considered:
        whole = replace(device, divided=False)
        grouped[whole] = grouped.get(whole, 0) + 1
    if host.processor is not None and not devices and not host.board:
        grouped = dict.fromkeys(grouped, host.sockets or 1)
    found = [
        _accelerators(device, count, host, snapshot, remarks) for device, count in grouped.items()
    ]
    found.sort(key=lambda one: (one["accelerator"] is None, -one["count"]))
    known = found[0]["accelerator"] if found else None
    entry = None if known is None else snapshot.accelerators[known]
    platform = _platform(entry, host, snapshot)
    if not found:
        remarks.append("no tool named an accelerator or a processor")
    if len(found) > 1:
        remarks.append("several kinds of accelerators: the request is of the first; ask for each")
    if any(_VIRTUAL.search(device.name) for device in grouped):
        remarks.append("a virtual device has a share of the card; the request is of the whole card")
    if any(device.divided for device in considered):
        remarks.append("MIG divides memory and compute; the request is of whole devices")
    return {
        "accelerators": found,
        "platform": None if platform is None else platform.id,
        "host": {
            "processor": host.processor,
            "sockets": host.sockets,
            "memory_bytes": host.memory_bytes,
            "vendor": host.vendor,
            "model": host.model,
        },
        "request": None if entry is None else _request(found[0], entry, platform),
        "remarks": remarks,
    }


def _considered(
    devices: Sequence[Device], host: Host, snapshot: CatalogSnapshot
) -> Sequence[Device]:
    """Devices to look up: those of tools, else the board, else the processor.

    A board or a processor with graphics is taken where it is known and what its tool says is not.
    """
    index = snapshot.references["accelerators"]
    if any(_candidates(device, snapshot) for device in devices):
        return [_in_processor(device, host, snapshot) for device in devices]
    if host.board and host.model is not None:
        named = next((name for name in _windows(host.model) if index.candidates(name)), host.model)
        return [Device(named, host.memory_bytes)]
    processor = _processor(host)
    if processor is not None and (not devices or index.candidates(processor.name)):
        return [processor]
    return devices


def _in_processor(device: Device, host: Host, snapshot: CatalogSnapshot) -> Device:
    """Graphics by the name of the processor that they are in: several have the same."""
    processor = _processor(host)
    if processor is None or not snapshot.references["accelerators"].candidates(processor.name):
        return device
    found = [snapshot.accelerators[entry_id] for entry_id in _candidates(device, snapshot)]
    if found and all(entry.value.unified_memory for entry in found):
        return replace(device, name=processor.name)
    return device


def _processor(host: Host) -> Device | None:
    if host.processor is None:
        return None
    vendor, core = (host.vendor or "").casefold(), host.processor.casefold()
    named = _CORES.get((vendor, core))
    if named is None and vendor != _AXION_CLOUD:
        named = _CORES_OF_SOCKET.get((core, host.cores or 0))
    return Device(named or _GRAPHICS.sub("", host.processor), host.memory_bytes)


def _candidates(device: Device, snapshot: CatalogSnapshot) -> list[str]:
    """Entries that a device could be by its name, or else by the parts that the name lists."""
    if device.name.endswith(_CUT):
        return _beginning(device.name.removesuffix(_CUT).strip(), snapshot)
    index = snapshot.references["accelerators"]
    found: dict[str, None] = dict.fromkeys(index.candidates(device.name))
    for name in () if found else _listed(device.name):
        found.update(dict.fromkeys(index.candidates(name)))
    if device.memory_bytes is not None:
        stems = tuple(entry_id.rpartition("-")[0] + _DIE for entry_id in found)
        if stems:
            found.update(
                dict.fromkeys(each for each in snapshot.accelerators if each.startswith(stems))
            )
    return list(found)


def _beginning(name: str, snapshot: CatalogSnapshot) -> list[str]:
    """Entries with a longer name, or an alias with a brand, than is left of one that was cut."""
    begun = _unbranded(name)
    return [
        entry_id
        for entry_id, entry in snapshot.accelerators.items()
        if any(
            _BRANDS.match(loosened(told)) and _unbranded(told).startswith(begun)
            for told in (str(entry.document["name"]), *names_of(entry.document))
        )
    ]


def _unbranded(name: str) -> str:
    """A name without the brands before it, which drivers have changed over the years."""
    return _BRANDS.sub("", loosened(name))


def _listed(name: str) -> Iterator[str]:
    """Parts of a name such as "Navi 31 [Radeon RX 7900 XT/7900 XTX]", each in full."""
    bracketed = _PARTS.search(name)
    plain = _BEHIND.sub("", bracketed[1] if bracketed else name).removeprefix("GRID ").strip()
    first, *others = [part.strip() for part in plain.split("/")]
    yield first
    words = first.split()
    for other in others:
        # What the others leave out stands in the first before its first word with a digit.
        digits = (at for at, word in enumerate(words) if any(map(str.isdigit, word)))
        yield other
        yield " ".join((*words[: next(digits, len(words))], other))


def _accelerators(
    device: Device, count: int, host: Host, snapshot: CatalogSnapshot, remarks: list[str]
) -> DetectedAccelerators:
    could_be = _candidates(device, snapshot)
    entries = [snapshot.accelerators[entry_id] for entry_id in could_be]
    fitting = _of_memory(
        _of_power(entries, device.power_limit_w), _memory_bytes(device, host, entries)
    )
    if not could_be:
        fitting_ids = _alike(device, host, snapshot)
        like = f", or take one that is like it: {', '.join(fitting_ids)}" if fitting_ids else ""
        remarks.append(
            f"the catalog has no {device.name}; describe it in the request as an object{like}"
        )
    elif len(fitting) == 1:
        fitting_ids = [fitting[0].id]
        remarks.extend(_differences(device, fitting[0], host))
    else:
        fitting_ids = [entry.id for entry in fitting or entries][:MOST_CANDIDATES]
        told = "has the memory of none of them" if not fitting else "could be any of them"
        remarks.append(f"{device.name} {told}: {', '.join(fitting_ids)}")
    return {
        "reported_name": device.name,
        "accelerator": fitting_ids[0] if could_be and len(fitting) == 1 else None,
        "candidates": [] if could_be and len(fitting) == 1 else fitting_ids,
        "count": count,
        "memory_bytes": device.memory_bytes,
        "power_limit_w": device.power_limit_w,
    }


def _alike(device: Device, host: Host, snapshot: CatalogSnapshot) -> list[str]:
    """Entries with names like that of a device; of a processor those with the host's memory.

    None for graphics without a number in their name ("Raphael"), which is like any other.
    """
    processor = _processor(host)
    alone = processor is not None and processor.name == device.name
    if not alone and not any(map(str.isdigit, device.name)):
        return []
    return [
        entry_id
        for entry_id in snapshot.references["accelerators"].suggestions(device.name)
        if not alone or snapshot.accelerators[entry_id].value.unified_memory
    ]


def _memory_bytes(device: Device, host: Host, entries: Iterable[Entry[Accelerator]]) -> int | None:
    """Memory to tell entries apart by; that of graphics in a processor is shared with the host."""
    shared = all(entry.value.unified_memory for entry in entries)
    if not shared or host.memory_bytes is None:
        return device.memory_bytes
    if device.memory_bytes is None or device.memory_bytes == host.memory_bytes:
        return host.memory_bytes
    named = {entry.value.vendor for entry in entries}
    # The kernel does not count what is set apart for graphics of AMD and Intel.
    return device.memory_bytes + (host.memory_bytes if named <= {"AMD", "Intel"} else 0)


def _of_memory(
    entries: list[Entry[Accelerator]], memory_bytes: int | None
) -> list[Entry[Accelerator]]:
    """Those with so much memory; all where it is not known, and a single one in any case."""
    if memory_bytes is None or len(entries) < 2:
        return entries
    ratios = {entry.id: memory_bytes / float(_sold_bytes(entry)) for entry in entries}
    near = [
        entry for entry in entries if _LEAST_MEMORY_RATIO <= ratios[entry.id] <= _MOST_MEMORY_RATIO
    ]
    best = min((abs(1.0 - ratios[entry.id]) for entry in near), default=0.0)
    return [entry for entry in near if abs(1.0 - ratios[entry.id]) <= best + 1e-9]


def _of_power(entries: list[Entry[Accelerator]], limit_w: float | None) -> list[Entry[Accelerator]]:
    """Those whose power can be set to a limit; all where that is none of them."""
    if limit_w is None:
        return entries
    shipped = ((entry, _shipped_power_w(entry)) for entry in entries)
    able = [entry for entry, w in shipped if w is None or limit_w <= _MOST_POWER_RATIO * w]
    return able or entries


def _sold_bytes(entry: Entry[Accelerator]) -> float:
    return float(entry.document["figures"]["memory_bytes"]["value"])


def _differences(device: Device, entry: Entry[Accelerator], host: Host) -> Iterator[str]:
    memory_bytes = _memory_bytes(device, host, [entry])
    sold = _sold_bytes(entry)
    if memory_bytes is None or memory_bytes <= 0:
        return
    if not _LEAST_MEMORY_RATIO <= memory_bytes / sold <= _MOST_MEMORY_RATIO:
        yield (
            f"{device.name} has {memory_bytes / 2**30:.1f} GiB and {entry.id} has "
            f"{sold / 2**30:.1f} GiB"
        )


def _platform(
    entry: Entry[Accelerator] | None, host: Host, snapshot: CatalogSnapshot
) -> Entry[Machine] | None:
    """The machine by its maker's name, else the accelerator's usual one if the chassis fits."""
    index = snapshot.references["platforms"]
    for name in _machine_names(host):
        found = index.find(name)
        if found is not None:
            return snapshot.platforms[found]
    kind = _CHASSIS.get(host.chassis or 0)
    usual = None if entry is None else snapshot.platforms.get(entry.value.platform.id)
    if kind is None or (usual is not None and usual.value.platform.kind in _STANDS_IN[kind]):
        return usual
    mac = kind == "laptop" and host.vendor == _APPLE
    general = _MAC_LAPTOP if mac else _GENERAL.get(kind)
    return usual if general is None else snapshot.platforms.get(general)


def _machine_names(host: Host) -> Iterator[str]:
    if host.model is None:
        return
    if host.vendor == _APPLE:
        yield f"{host.model} {(host.processor or '').removeprefix(_APPLE)}"
        return
    yield f"{host.vendor or ''} {host.model}"
    yield from (run for run in _windows(host.model) if any(map(str.isdigit, run)))


def _windows(text: str) -> Iterator[str]:
    """Runs of words of a name, the longest first."""
    words = text.split()[:_MOST_WORDS]
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def _request(
    found: DetectedAccelerators, entry: Entry[Accelerator], platform: Entry[Machine] | None
) -> DetectedRequest:
    request: DetectedRequest = {"accelerator": entry.id, "accelerator_count": found["count"]}
    if platform is not None:
        request["platform"] = platform.id
    limit, most = found["power_limit_w"], _shipped_power_w(entry)
    of_board = _PACKAGE_SHARE if entry.id.startswith(_RADEON) else 1.0
    if limit is not None and most is not None and limit < _LIMITED_RATIO * of_board * most:
        request["power_limit_w"] = round(limit / of_board, 1)
    return request


def _shipped_power_w(entry: Entry[Accelerator]) -> float | None:
    power = entry.value.thermal_design_power_w
    return None if power is None else float(power)
