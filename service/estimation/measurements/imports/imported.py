"""Use case: what a tool's file says, as measurements beside their estimates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation import answers
from service.estimation.answers import warning_entries
from service.estimation.measurements.answers import measured_figure
from service.estimation.measurements.compared import ComparedDocument, compared
from service.estimation.measurements.imports.answers import (
    ImportedDocument,
    ImportedFigure,
    ImportedPart,
    ImportFault,
    MeasurementImport,
)
from service.estimation.measurements.imports.completing import Remark, Understood, completed
from service.estimation.measurements.imports.reading import Content, FileFault, FileRefused
from service.estimation.measurements.imports.registry import read_runs
from service.estimation.measurements.imports.runs import FileFormat, Told
from service.estimation.measurements.requests import MeasurementRequest
from service.estimation.rejection import Rejected
from service.estimation.remarks import told

_NOT_OF_AN_ID = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run as it was understood, beside its estimate where it is whole."""

    understood: Understood
    found: ComparedDocument | None
    faults: tuple[FileFault, ...]
    remarks: tuple[answers.Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that was read: its format, its runs, and what keeps it from being stored."""

    format: FileFormat
    runs: tuple[ImportedRun, ...]
    warnings: tuple[Remark, ...]

    @property
    def documents(self) -> tuple[MeasurementRequest | None, ...]:
        """The document of each run, None where something is missing."""
        return tuple(run.understood.document for run in self.runs)

    @property
    def faults(self) -> tuple[FileFault, ...]:
        """What is wrong, with pointers into the list of documents."""
        return tuple(
            FileFault(fault.detail, f"/documents/{index}{fault.pointer}", fault.position)
            for index, run in enumerate(self.runs)
            for fault in run.faults
        )


def understood_file(
    data: bytes,
    deployment: Mapping[str, Any],
    snapshot: CatalogSnapshot,
    *,
    name: str = "file",
    format_id: str | None = None,
) -> ImportedFile:
    """What a file says, completed by what the user says of the deployment; no estimates yet.

    Parameters
    ----------
    data
        The file.
    deployment
        What the user says, in the form of a request; it wins over the file.
    snapshot
        The catalog.
    name
        The file's name, for ids and places.
    format_id
        Id of the format; None to recognise it.

    Raises
    ------
    FileRefused
        If the file is broken or of no known format.
    """
    chosen, runs = read_runs(Content(data, name), format_id)
    stem = _NOT_OF_AN_ID.sub("-", name.rsplit("/", 1)[-1].casefold()).strip("-.")[:100] or "file"
    found, warnings = [], []
    for index, run in enumerate(runs, 1):
        id_ = stem if len(runs) == 1 else f"{stem}-{index}"
        understood = completed(run, deployment, snapshot, id_=id_, file=name)
        if understood is None:
            message = f"{run.place} has more figures, if the deployment names the model"
            warnings.append(Remark("left_out", message))
            continue
        found.append(ImportedRun(understood, None, understood.faults))
    if not found:
        detail = "the figures of the file need the model, which the deployment must name"
        raise FileRefused(FileFault(detail, "/deployment/model"))
    return ImportedFile(chosen, tuple(found), tuple(warnings))


def with_estimates(
    file: ImportedFile, documents: Sequence[MeasurementRequest | None], snapshot: CatalogSnapshot
) -> ImportedFile:
    """The file with the estimate of each run that is whole.

    Parameters
    ----------
    file
        The file.
    documents
        The documents of its runs, in order, with what they refer to on the Hub; None where
        something is missing.
    snapshot
        The catalog.
    """
    runs = (
        run if document is None else _compared(run.understood, document, snapshot)
        for run, document in zip(file.runs, documents, strict=True)
    )
    return replace(file, runs=tuple(runs))


def _compared(
    understood: Understood, document: MeasurementRequest, snapshot: CatalogSnapshot
) -> ImportedRun:
    try:
        found = compared(document, snapshot)
    except Rejected as rejected:
        faults = [FileFault(one.detail, f"/request{one.pointer}") for one in rejected.errors]
        return ImportedRun(understood, None, tuple(faults))
    reasons = found.refused.items() if found.is_empty else ()
    faults = [FileFault(reason, f"/measured/{name}") for name, reason in reasons]
    warned: answers.Warned = {"warnings": warning_entries(found.computed.warnings)}
    remarks = told(warned, answers.Warned, document, snapshot)["warnings"]
    for one in remarks:
        one["pointer"] = f"/document{one['pointer']}"
    return ImportedRun(understood, found, tuple(faults), tuple(remarks))


def import_answer(
    file: ImportedFile, *, dry_run: bool, stored: Sequence[int] = ()
) -> MeasurementImport:
    """An imported file for the wire; ``stored`` are the numbers of its reports, in order."""
    return {
        "dry_run": dry_run,
        "format": file.format.id,
        "title": file.format.title,
        "stored": list(stored),
        "documents": [_document(run) for run in file.runs],
        "faults": [_fault(fault) for fault in file.faults],
        "warnings": _remarks(file.warnings, "/documents"),
    }


def _document(run: ImportedRun) -> ImportedDocument:
    understood, found = run.understood, run.found
    document = understood.document
    return {
        "place": understood.place,
        "document": (
            None
            if document is None
            else document.model_dump(mode="json", exclude_defaults=True) | {"kind": document.kind}
        ),
        "parts": [_part(pointer, told) for pointer, told in sorted(understood.fields.items())],
        "measured": [_figure(name, told) for name, told in understood.measured.items()],
        "figures": [] if found is None else [measured_figure(one) for one in found.figures],
        "refused": (
            []
            if found is None
            else [{"metric": name, "reason": why} for name, why in found.refused.items()]
        ),
        "warnings": [
            *_remarks(understood.warnings, "/parts"),
            *run.remarks,
        ],
    }


def _part(pointer: str, told: Told) -> ImportedPart:
    return {"pointer": pointer, "value": told.value, "origin": told.origin, "place": told.place}


def _figure(name: str, told: Told) -> ImportedFigure:
    return {"metric": name, "value": float(told.value), "place": told.place}


def _remarks(remarks: Iterable[Remark], pointer: str) -> list[answers.Remark]:
    return [{"code": one.code, "pointer": pointer, "message": one.message} for one in remarks]


def _fault(fault: FileFault) -> ImportFault:
    line, column = fault.position or (None, None)
    return {"pointer": fault.pointer, "detail": fault.detail, "line": line, "column": column}
