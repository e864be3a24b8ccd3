"""Answers about files of tools: what was understood, and what is missing."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from service.estimation.answers import Answer, AskedAs, Remark
from service.estimation.measurements.answers import MeasuredFigure, RefusedFigure


class ImportedPart(Answer):
    """A part of a request, and where it came from."""

    pointer: str
    """JSON pointer into the document."""
    value: JsonValue
    """What was read."""
    origin: Literal["file", "inferred", "deployment"]
    """file: the file says so; inferred: it follows from the file and is listed as assumed;
    deployment: you say so."""
    place: str
    """Where it stands in the file, or how it follows."""


class ImportedFigure(Answer):
    """A measured figure, and where it stands in the file."""

    metric: str
    value: float
    """What was measured, in the unit of the metric's name."""
    place: str
    """Where it stands in the file."""


class ImportedDocument(Answer):
    """A run of the file as a measurement."""

    place: str
    """Where the run stands in the file."""
    document: AskedAs | None
    """The measurement, as POST /v1/measurements takes it; null while something is missing."""
    parts: list[ImportedPart]
    measured: list[ImportedFigure]
    figures: list[MeasuredFigure]
    """What was measured beside its estimate."""
    refused: list[RefusedFigure]
    """Figures that are kept, and of which there is no estimate."""
    warnings: list[Remark]


class ImportFault(Answer):
    """What keeps the file from being stored."""

    pointer: str
    """JSON pointer into this answer, such as /documents/0/request/model."""
    detail: str
    """What is wrong."""
    line: int | None
    """Line of the file, counted from 1; null where none can be named."""
    column: int | None
    """Column of the line, counted from 1; null where none can be named."""


class MeasurementImport(Answer):
    """What a tool's file says, and what became of it."""

    dry_run: bool
    format: str
    """Id of the format."""
    title: str
    """The tool, and what it wrote."""
    stored: list[int]
    """Numbers of the reports that were stored; empty after a dry run."""
    documents: list[ImportedDocument]
    faults: list[ImportFault]
    warnings: list[Remark]
