"""What ``headroom calibrate`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from service.calibration import memory, power, speed, training, training_memory
from service.calibration.documents import CalibrationEntry, differences, document_text
from service.calibration.groups import Group
from service.calibration.kinds import alike
from service.calibration.left_out import (
    FittedPart,
    digest_of,
    left_out_figures,
    with_entries,
)
from service.calibration.parts import Part
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.core.engines import EngineWorkload
from service.core.errors import InvalidInput
from service.estimation.levels import POWER_SPREADS, SPREAD_OF
from service.estimation.measurements.documents import MeasurementDocument
from service.validation.left_out import (
    LESS,
    PATH,
    LeftOutFigure,
    read_left_out,
)
from service.validation.reading import FileInvalid, read_files
from service.validation.report.assessed import assess
from service.validation.report.unsaid import said_less
from service.validation.tables import LeftOutInvalid, table_text
from service.validation.transferred import TRANSFERRED, Transferred, transferred

_FOLDER = "calibration"
MEASUREMENTS = "measurements"
#: Comparisons of every source with what constants fitted without it say, and of the same requests
#: that leave releases and recipes to defaults.
LEFT_OUT, LEFT_OUT_LESS = PATH.name, LESS.name
#: Figures that agree within this were fitted to the same rows, on another machine perhaps.
TOLERANCE_RATIO = 0.02
#: What is estimated without its source, beside what constants are fitted to.
_ALSO_COMPARED = (
    *("ttft_p95_s", "ttft_p99_s", "tpot_p95_s", "tpot_p99_s", "goodput_requests_per_s"),
    *("accelerator_energy_per_output_token_j", "accelerator_energy_per_request_j"),
    *("it_power_w", "wall_power_w", "it_energy_per_output_token_j", "it_energy_per_request_j"),
    "it_energy_per_token_j",
)


#: How a document is asked about.
_Asked: TypeAlias = Callable[[MeasurementDocument], MeasurementDocument]
#: Kind and key of what was left out whole, and its figures without it.
_LeftWhole: TypeAlias = tuple[str, str, list[LeftOutFigure]]


class CalibrationRefused(InvalidInput):
    """Measurements or catalog cannot be read."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was fitted: entries by the file that holds them.

    ``left_out`` estimates every source by constants without its own rows, which takes as long as
    the fits; its requests are asked as they are given back. ``left_whole`` does the same for
    hardware, engines, formats and loads of which nothing else is known, one at a time.
    """

    files: Mapping[str, tuple[Iterable[str], list[CalibrationEntry]]]
    left_out: Callable[[_Asked], list[LeftOutFigure]]
    left_whole: Callable[[], list[_LeftWhole]]


def calibration(
    catalog: Path,
    *,
    write: bool,
    note: Callable[[str], object],
    only: EngineWorkload | None = None,
    transfer: bool = False,
) -> list[str]:
    """Refit the catalog's efficiencies from the packaged measurements.

    Parameters
    ----------
    catalog
        Directory of the catalog's files.
    write
        Write what was fitted in place of what is there, and the comparisons beside measurements.
    note
        Takes a line about every entry.
    only
        Refit constants of inference or of training alone, power being fitted with inference. The
        others stay as they are, in comparisons too; None refits all.
    transfer
        Also estimate each kind of hardware, engine, format, model and load without any row of it,
        which takes as long again; everything has to be refitted and written.

    Returns
    -------
    list of str
        What the files say otherwise than the measurements do; empty if they agree.

    Raises
    ------
    CalibrationRefused
        If something cannot be read, or the comparison of kinds is asked for beside less than all.
    """
    if transfer and (only is not None or not write):
        raise CalibrationRefused("--transfer goes with --write, and with all constants: no --only")
    try:
        snapshot = snapshot_from_documents(packaged_documents(catalog), 0, checked=True)
        documents = packaged_measurements(catalog, snapshot)
    except (CatalogInvalid, FileInvalid, LeftOutInvalid, OSError) as invalid:
        raise CalibrationRefused(str(invalid)) from None
    found = calibrated(documents, snapshot, only)
    differing: list[str] = []
    for name, (comment, entries) in found.files.items():
        for entry in entries:
            note(f"{entry.id}: {entry.note}")
        path = catalog / _FOLDER / name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        differing += [f"{name}: {line}" for line in differences(entries, there, TOLERANCE_RATIO)]
        if write:
            path.write_text(document_text(comment, entries), encoding="utf-8")
    if write:
        asked: dict[str, _Asked] = {LEFT_OUT: lambda document: document, LEFT_OUT_LESS: said_less}
        for name, each in asked.items():
            path = catalog / MEASUREMENTS / name
            figures = found.left_out(each)
            if only is not None:
                kept = read_left_out(path)[1] if path.exists() else []
                figures = _beside(kept, figures, documents, only)
            path.write_text(
                table_text(figures, LeftOutFigure, constants_digest(catalog)), encoding="utf-8"
            )
    if transfer:
        lines = chain.from_iterable(read_files(catalog / MEASUREMENTS, snapshot).values())
        groups = transferred(found.left_whole(), assess(lines, snapshot).figures)
        text = table_text(groups, Transferred, constants_digest(catalog))
        (catalog / TRANSFERRED).write_text(text, encoding="utf-8")
    return differing


def _beside(
    kept: Iterable[LeftOutFigure],
    figures: Iterable[LeftOutFigure],
    documents: Iterable[MeasurementDocument],
    only: EngineWorkload,
) -> list[LeftOutFigure]:
    """Comparisons of one workload beside those of the other that there were, by source."""
    own = {str(document.id) for document in documents if document.kind == only}
    of_others = [figure for figure in kept if figure.id not in own]
    of_own = [figure for figure in figures if figure.id in own]
    return sorted([*of_others, *of_own], key=lambda figure: figure.source)


def packaged_measurements(catalog: Path, snapshot: CatalogSnapshot) -> list[MeasurementDocument]:
    """The measurements of a catalog, as far as they are understood.

    Raises
    ------
    FileInvalid
        If a file cannot be read.
    """
    return [
        line.document
        for lines in read_files(catalog / MEASUREMENTS, snapshot).values()
        for line in lines
        if line.document is not None
    ]


def constants_digest(catalog: Path) -> str:
    """The digest of the constants that a catalog's files hold.

    Raises
    ------
    OSError
        If there are none.
    """
    return digest_of(
        (catalog / _FOLDER / name).read_text(encoding="utf-8")
        for name in (_SPEED, _POWER, _MEMORY, _TRAINING, _TRAINING_MEMORY)
    )


_SPEED, _POWER, _MEMORY, _TRAINING, _TRAINING_MEMORY = (
    "performance.yaml",
    "power.yaml",
    "memory.yaml",
    "training_speed.yaml",
    "training_memory.yaml",
)


def calibrated(
    documents: list[MeasurementDocument],
    snapshot: CatalogSnapshot,
    only: EngineWorkload | None = None,
) -> Calibrated:
    """Constants that documents give, and how to estimate sources by those without their own rows.

    Parameters
    ----------
    documents
        What was measured.
    snapshot
        The catalog; its entries of what is fitted are not used.
    only
        What is fitted, if not all; of the rest, the catalog's entries are used.
    """
    files: dict[str, tuple[Iterable[str], list[CalibrationEntry]]] = {}
    parts: list[FittedPart] = []
    if only != "training":
        of_speed = speed.speed_part(speed.measured_speeds(documents, snapshot), snapshot)
        files[_SPEED] = (speed.COMMENT, [*of_speed.entries(), *of_speed.spreads()])
        parts.append(of_speed)
    if only != "inference":
        of_training = training.training_part(training.measured_runs(documents, snapshot), snapshot)
        files[_TRAINING] = (training.COMMENT, [*of_training.entries(), *of_training.spreads()])
        parts.append(of_training)
    if only != "training":
        # Power follows from how hard accelerators work, which the constants of speed say.
        # Nor have constants of speed seen the source whose power is to be told without it.
        of_power = _power_part(
            documents,
            _with(snapshot, files),
            lambda group: with_entries(
                snapshot, [one for part in parts for one in part.entries_without(group)]
            ),
        )
        files[_POWER] = (power.COMMENT, [*of_power.entries(), *of_power.spreads()])
        of_memory = memory.memory_part(memory.measured_memory(documents, snapshot), snapshot)
        files[_MEMORY] = (memory.COMMENT, [*of_memory.entries(), *of_memory.spreads()])
        parts += [of_power, of_memory]
    if only != "inference":
        # What the driver holds is the same in training.
        held = _with(
            snapshot, {name: files[name] for name in (_TRAINING, _MEMORY) if name in files}
        )
        of_runs = training_memory.training_memory_part(
            training_memory.measured_training_memory(documents, held), held
        )
        files[_TRAINING_MEMORY] = (
            training_memory.COMMENT,
            [*of_runs.entries(), *of_runs.spreads()],
        )
        parts.append(of_runs)

    chosen = [one for one in documents if only is None or one.kind == only]
    quantities = frozenset({*SPREAD_OF, *_ALSO_COMPARED, *training.SPEEDS, *memory.QUANTITIES})

    def left_out(asked: _Asked) -> list[LeftOutFigure]:
        found = left_out_figures(map(asked, chosen), quantities, snapshot, parts)
        return [figure for _, figures in found for figure in figures]

    def left_whole() -> list[_LeftWhole]:
        found = left_out_figures(chosen, quantities, snapshot, parts, alike(chosen, snapshot))
        return [(group.kind, group.key, figures) for group, figures in found]

    return Calibrated(files, left_out, left_whole)


def _with(
    snapshot: CatalogSnapshot, files: Mapping[str, tuple[Iterable[str], list[CalibrationEntry]]]
) -> CatalogSnapshot:
    """The catalog with what was fitted so far."""
    return with_entries(snapshot, [entry for _, entries in files.values() for entry in entries])


def _power_part(
    documents: list[MeasurementDocument],
    snapshot: CatalogSnapshot,
    without: Callable[[Group], CatalogSnapshot],
) -> Part:
    powers = power.measured_powers(documents, snapshot, without)
    return Part(
        power.TERMS,
        powers,
        power.fit_power(powers),
        snapshot,
        dict,
        lambda row: str(row.spread),
        POWER_SPREADS,
        unseen_predict=power.unseen_predictor(powers),
    )
