"""Energy of runs: ZeusMonitor's log and CodeCarbon's ``emissions.csv``.

References
----------
ml-energy/zeus, zeus/monitor/energy.py, 2026; mlco2/codecarbon, ``EmissionsData``, 3.3.
"""

from __future__ import annotations

import re

from service.estimation.measurements.imports.reading import Content, Part
from service.estimation.measurements.imports.runs import FileFormat, Run

_ZEUS = ("start_time", "window_name", "elapsed_time")
_GPU_ENERGY = re.compile(r"gpu\d+_energy")
_CODECARBON = ("duration", "emissions", "energy_consumed", "codecarbon_version")
_GPUS = re.compile(r"^\s*(\d+) x (.+?)\s*$")
_JOULES_PER_KWH = 3.6e6
_GRAMS_PER_KG = 1e3


def _recognise_zeus(content: Content) -> bool:
    return content.header[: len(_ZEUS)] == _ZEUS


def _read_zeus(content: Content) -> list[Run]:
    runs = []
    for row in content.rows():
        run = Run("Zeus", row.place, kind=None)
        columns = [name for name in row.value if _GPU_ENERGY.fullmatch(name)]
        energies = [part for name in columns if (part := row.number(name)) is not None]
        seconds = row.number("elapsed_time")
        if seconds is None or seconds.value <= 0:
            raise row.fault("elapsed_time must be greater than 0")
        window = row.text("window_name")
        run.notes.append(f"window {window.value if window else ''} of {seconds.value:g} s")
        if energies:
            joules = sum(part.value for part in energies)
            mean = joules / seconds.value / len(energies)
            run.measure("accelerator_power_w", Part(mean, energies[0].pointer, row.line))
            run.suppose("/accelerator_count", len(energies), f"{row.place}: columns of energy")
        began = row.number("start_time")
        run.moment(None if began is None else float(began.value))
        runs.append(run)
    return runs


def _recognise_codecarbon(content: Content) -> bool:
    return set(_CODECARBON) <= set(content.header)


def _read_codecarbon(content: Content) -> list[Run]:
    return [run for row in content.rows() for run in _of_codecarbon(row)]


def _of_codecarbon(row: Part) -> list[Run]:
    """Its emissions as a document of a place, and the power of its accelerators, if it has any."""
    version = row.text("codecarbon_version")
    emitted = Run("CodeCarbon", row.place, kind="impacts")
    powered = Run("CodeCarbon", row.place, kind=None, optional=True)
    energy, seconds = row.number("energy_consumed"), row.number("duration")
    if energy is None or energy.value < 0 or seconds is None or seconds.value <= 0:
        raise row.fault("lacks energy_consumed or duration")
    place = row.text("country_iso_code")
    emitted.tell("/energy_kwh", Part(float(energy.value), energy.pointer, row.line))
    if place is not None:
        emitted.tell("/region", Part(place.value, place.pointer, row.line))
    emitted.measure("operational_gco2e", row.number("emissions"), _GRAMS_PER_KG)
    emitted.measure("water_l", row.number("water_consumed"))
    emitted.notes.append("emissions are CodeCarbon's own estimate from its energy")
    emitted.confidence = "low"
    gpus = row.text("gpu_model")
    found = None if gpus is None else _GPUS.match(gpus.value)
    accelerators = row.number("gpu_energy")
    if gpus is not None and found is not None and accelerators is not None:
        count = max(1, int(found[1][:6]))
        powered.tell("/accelerator", Part(found[2], gpus.pointer, row.line))
        powered.tell("/accelerator_count", Part(count, gpus.pointer, row.line), inferred=True)
        joules = accelerators.value * _JOULES_PER_KWH
        mean = Part(joules / seconds.value / count, accelerators.pointer, row.line)
        powered.measure("accelerator_power_w", mean)
        powered.notes.append(f"mean over {seconds.value:g} s, from start to stop of the tracker")
    when = row.text("timestamp")
    runs = [run for run in (powered, emitted) if run.measured]
    for run in runs:
        run.version = None if version is None else version.value[:50]
        run.day(None if when is None else when.value)
    if not runs:
        raise row.fault("tells neither emissions nor energy of accelerators")
    return runs


ZEUS = FileFormat("zeus", "ZeusMonitor log", _recognise_zeus, _read_zeus)
CODECARBON = FileFormat(
    "codecarbon", "CodeCarbon emissions.csv", _recognise_codecarbon, _read_codecarbon
)
