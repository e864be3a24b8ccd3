"""PyTorch's memory: snapshots of the allocator, pickled or as JSON, and ``memory_stats``.

A pickle can run any code when it is read as Python does. Here its instructions are read one by
one, those that make plain values alone; anything else is refused.

References
----------
pytorch/pytorch, torch/cuda/memory.py ``_dump_snapshot``, ``memory_snapshot`` and
``memory_stats``, 2.13; Python, pickletools.
"""

from __future__ import annotations

from service.estimation.measurements.imports.pickles import PICKLE_MARK, plain_pickle
from service.estimation.measurements.imports.reading import Content, Part, refused
from service.estimation.measurements.imports.runs import FileFormat, Run, has

_SEGMENT = ("total_size", "allocated_size", "device")
_PEAKS = {
    "allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
}
#: Segments and events that are looked at; a list that stands in many places costs no file space.
_MOST_VISITS = 5_000_000


def _recognise(content: Content) -> bool:
    if content.data[:1] == PICKLE_MARK:
        return b"device_traces" in content.data or b"total_size" in content.data
    whole = content.whole
    return whole is not None and (has(whole, _PEAKS.values()) or _segments(whole) is not None)


def _segments(whole: Part) -> Part | None:
    listed = whole if isinstance(whole.value, list) else whole.part("segments")
    first = None if listed is None else listed.part(0)
    return listed if has(first, _SEGMENT) else None


def _read(content: Content) -> list[Run]:
    pickled = content.data[:1] == PICKLE_MARK
    whole = Part(plain_pickle(content.data)) if pickled else content.json
    run = Run("PyTorch memory snapshot", "the file", kind=None)
    if has(whole, _PEAKS.values()):
        run.tool = "torch.cuda.memory_stats"
        for name, key in _PEAKS.items():
            run.measure(name, whole.number(key))
        return [run]
    listed = _segments(whole)
    if listed is None:
        raise refused("has no segments, in which the allocator keeps its memory")
    held = _held(listed)
    device = max(held, key=lambda one: held[one][1])
    allocated, reserved = held[device]
    peak_allocated, peak_reserved, events = _peaks(whole, device, allocated, reserved)
    run.measure("allocated_bytes", Part(float(peak_allocated), "/segments"))
    run.measure("reserved_bytes", Part(float(peak_reserved), "/segments"))
    others = "" if len(held) == 1 else f", the one of {len(held)} that holds most"
    run.notes.append(f"device {device}{others}")
    told = f"peak over the last {events:,} events" if events else "no events: as it was at the end"
    run.notes.append(told)
    return [run]


def _held(listed: Part) -> dict[int, tuple[int, int]]:
    """Bytes that are allocated and reserved at the end, by device."""
    held: dict[int, tuple[int, int]] = {}
    if len(listed.value) > _MOST_VISITS:
        raise listed.fault("has too many segments")
    for segment in listed.parts():
        sizes = [segment.number(name) for name in ("allocated_size", "total_size", "device")]
        if any(size is None or size.value < 0 for size in sizes):
            raise segment.fault("lacks total_size, allocated_size or device")
        allocated, reserved, device = (int(size.value) for size in sizes if size is not None)
        before = held.get(device, (0, 0))
        held[device] = before[0] + allocated, before[1] + reserved
    return held


def _peaks(whole: Part, device: int, allocated: int, reserved: int) -> tuple[int, int, int]:
    """Largest sizes on the way back from the end through what was recorded, and how many events."""
    traces = whole.part("device_traces", device) if isinstance(whole.value, dict) else None
    if traces is None or not isinstance(traces.value, list):
        return allocated, reserved, 0
    if len(traces.value) > _MOST_VISITS:
        raise traces.fault("has too many events")
    most_allocated, most_reserved = allocated, reserved
    for event in reversed(traces.value):
        size = event.get("size") if isinstance(event, dict) else None
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            continue
        match event.get("action"):
            case "alloc":
                allocated -= size
            case "free_completed":
                allocated += size
            case "segment_alloc" | "segment_map":
                reserved -= size
            case "segment_free" | "segment_unmap":
                reserved += size
            case _:
                continue
        most_allocated = max(most_allocated, allocated)
        most_reserved = max(most_reserved, reserved)
    return most_allocated, most_reserved, len(traces.value)


MEMORY_SNAPSHOT = FileFormat(
    "torch-memory", "PyTorch memory snapshot or memory_stats", _recognise, _read
)
