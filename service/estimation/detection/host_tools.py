"""Readers of what a machine says of itself: macOS, lscpu, /proc, the device tree and SMBIOS."""

from __future__ import annotations

import re

from service.estimation.detection.readings import Device, Host, fields, short, size_bytes

#: SMBIOS type of a notebook, which Macs do not tell.
_LAPTOP = 10
_WHOLE = re.compile(r"[0-9]{1,4}")


def system_profiler(text: str) -> tuple[tuple[Device, ...], Host]:
    """The chip and the Mac of ``system_profiler SPHardwareDataType``.

    A Mac with a processor of Intel has no device here.
    """
    held = fields(text)
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
    """Processor and sockets of ``lscpu``."""
    held = fields(text)
    sockets = held.get("socket(s)", "")
    name = held.get("model name")
    return Host(
        processor=None if name in {None, "-"} else name,
        sockets=int(sockets) if _WHOLE.fullmatch(sockets) and int(sockets) else None,
    )


def meminfo(text: str) -> Host:
    """Memory of ``/proc/meminfo``: what the kernel can use, a little less than is built in."""
    return Host(memory_bytes=size_bytes(fields(text).get("memtotal"), "kb"))


def device_tree_model(text: str) -> Host:
    """A board by ``/proc/device-tree/model``, such as a Jetson or a Raspberry Pi."""
    model = short(text.replace("\0", " "))
    return Host(model=model or None, board=bool(model))


def smbios(vendor: str, product: str, chassis: str) -> Host:
    """A machine by ``sys_vendor``, ``product_name`` and ``chassis_type`` of SMBIOS."""
    kind = chassis.strip()
    return Host(
        vendor=short(vendor) or None,
        model=short(product) or None,
        chassis=int(kind) if _WHOLE.fullmatch(kind) else None,
    )
