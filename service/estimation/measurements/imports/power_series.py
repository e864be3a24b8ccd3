"""Power over time: ``nvidia-smi --query-gpu … --format=csv`` and ``dcgmi dmon``.

Accelerators idle before and after a run. Busy is a sample of at least half utilisation, or, where
none is logged, of at least half way from the least to the most power; what counts is the time from
the first busy sample to the last.

References
----------
NVIDIA, nvidia-smi documentation, ``--query-gpu``; NVIDIA, DCGM documentation, ``dcgmi dmon``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from service.estimation.measurements.imports.reading import Content, Part, parsed_number, refused
from service.estimation.measurements.imports.runs import FileFormat, Run

_BUSY_PERCENT = 50.0
_POWER = ("power.draw.instant", "power.draw.average", "power.draw")
_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_NUMBER = re.compile(r"^\s*(-?[\d.]+)\s*(?:W|MiB|%)?\s*$")
_LONGEST_CELL = 100
_MIB = 1_048_576.0
_DCGM_ROW = re.compile(r"^\s*(?:GPU|GPU-I)\s+(\d+)[\s,]+(.*)$")
_DCGM_POWER = ("POWER", "POWR", "PWR")
_DCGM_BUSY = ("GPUTL", "GPUT", "UTIL")
_DCGM_USED = ("FBUSD", "FBUS")
#: Of most power over least power below which an accelerator was as busy all the time.
_EVEN_RATIO = 1.3
_MOST_SAMPLES = 2_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one accelerator; what was not logged is None."""

    device: str
    power_w: float
    busy_percent: float | None
    used_bytes: float | None
    line: int
    time: str | None
    name: str | None


def _recognise_smi(content: Content) -> bool:
    columns = {_plain(name) for name in content.header}
    return bool(columns & set(_POWER)) and content.text is not None


def _read_smi(content: Content) -> list[Run]:
    return _run(content, "nvidia-smi", _smi_samples)


def _plain(column: str) -> str:
    return _UNIT.sub("", column[:_LONGEST_CELL]).strip()


def _smi_samples(content: Content) -> Iterator[Sample]:
    for row in content.rows():
        cells = {_plain(name): value for name, value in row.value.items()}
        power = next((cells[name] for name in _POWER if name in cells), "")
        watts = _reading(power, row)
        if watts is None:
            continue
        used = _reading(cells.get("memory.used", ""), row)
        device = cells.get("index") or cells.get("uuid") or cells.get("pci.bus_id") or "0"
        yield Sample(
            device,
            watts,
            _reading(cells.get("utilization.gpu", ""), row),
            None if used is None else used * _MIB,
            row.line or 0,
            cells.get("timestamp"),
            cells.get("name"),
        )


def _reading(cell: str, row: Part) -> float | None:
    """A number with or without its unit; None where the driver has none ("[N/A]")."""
    if not cell or cell.startswith("[") or cell in ("N/A", "Not Supported"):
        return None
    found = _NUMBER.match(cell[:_LONGEST_CELL])
    value = None if found is None else parsed_number(found[1])
    if value is None or not 0.0 <= value < 1e9:
        raise row.fault(f"{cell[:40]!r} is not a reading")
    return value


def _recognise_dcgm(content: Content) -> bool:
    return content.text is not None and _dcgm_header(content) is not None


def _dcgm_header(content: Content) -> list[str] | None:
    for number, line in content.lines():
        if line.lstrip().startswith("#Entity"):
            columns = re.split(r"[\s,]+", line.strip().removeprefix("#Entity").strip(" ,"))
            return columns if set(columns) & set(_DCGM_POWER) else None
        if number > 50:
            break
    return None


def _read_dcgm(content: Content) -> list[Run]:
    return _run(content, "dcgmi dmon", _dcgm_samples)


def _dcgm_samples(content: Content) -> Iterator[Sample]:
    header = _dcgm_header(content) or []

    def cell(cells: list[str], names: tuple[str, ...], row: Part) -> float | None:
        at = next((header.index(name) for name in names if name in header), None)
        return None if at is None else _reading(cells[at], row)

    for number, line in content.lines():
        found = _DCGM_ROW.match(line)
        if found is None:
            continue
        cells = re.split(r"[\s,]+", found[2].strip(" ,"))
        row = Part(line, line=number)
        if len(cells) != len(header):
            raise row.fault(f"the row has {len(cells)} figures, the header {len(header)}")
        watts = cell(cells, _DCGM_POWER, row)
        if watts is None:
            continue
        used = cell(cells, _DCGM_USED, row)
        busy = cell(cells, _DCGM_BUSY, row)
        yield Sample(
            found[1], watts, busy, None if used is None else used * _MIB, number, None, None
        )


def _run(content: Content, tool: str, read: Callable[[Content], Iterator[Sample]]) -> list[Run]:
    samples: list[Sample] = []
    for sample in read(content):
        samples.append(sample)
        if len(samples) > _MOST_SAMPLES:
            raise refused(f"has more than {_MOST_SAMPLES:,} readings")
    if not samples:
        raise refused("has no reading of power")
    by_device: dict[str, list[Sample]] = {}
    for sample in samples:
        by_device.setdefault(sample.device, []).append(sample)
    threshold = _busy_power(samples)
    busy = {
        device: kept
        for device, readings in by_device.items()
        if (kept := _busy_window(readings, threshold))
    }
    if not busy:
        raise refused("no accelerator was busy: none reached half utilisation")
    run = Run(tool, "the file", kind=None)
    kept = [sample for readings in busy.values() for sample in readings]
    first = min(kept, key=lambda one: one.line)
    last = max(kept, key=lambda one: one.line)
    means = [fmean(one.power_w for one in readings) for readings in busy.values()]
    run.measure("accelerator_power_w", Part(fmean(means), line=first.line))
    used = [one for one in kept if one.used_bytes is not None]
    if used:
        most = max(used, key=lambda one: one.used_bytes or 0.0)
        run.measure("process_bytes", Part(most.used_bytes, line=most.line))
    names = {sample.name for sample in kept if sample.name}
    if len(names) == 1:
        run.tell("/accelerator", Part(names.pop(), line=first.line))
    place = f"lines {first.line} to {last.line}: {len(busy)} of {len(by_device)} were busy"
    run.suppose("/accelerator_count", len(busy), place)
    run.day(first.time)
    between = "" if first.time is None else f", {first.time} to {last.time}"
    run.notes.append(
        f"busy from line {first.line} to {last.line}{between}: mean of {len(kept):,} of "
        f"{len(samples):,} readings; accelerators {', '.join(sorted(busy)[:64])}"
    )
    return [run]


def _busy_power(samples: list[Sample]) -> float:
    """Power that is half way from idle to full load, over all accelerators [W]."""
    least, most = min(s.power_w for s in samples), max(s.power_w for s in samples)
    return 0.0 if most < _EVEN_RATIO * least else (least + most) / 2.0


def _busy_window(readings: list[Sample], threshold_w: float) -> list[Sample]:
    logged = any(one.busy_percent is not None for one in readings)
    at = [
        index
        for index, one in enumerate(readings)
        if ((one.busy_percent or 0.0) >= _BUSY_PERCENT if logged else one.power_w >= threshold_w)
    ]
    return readings[at[0] : at[-1] + 1] if at else []


NVIDIA_SMI = FileFormat("nvidia-smi", "nvidia-smi CSV", _recognise_smi, _read_smi)
DCGM = FileFormat("dcgm", "dcgmi dmon", _recognise_dcgm, _read_dcgm)
