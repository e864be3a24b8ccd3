"""The project's own measurements, remarks, and what other estimators answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.validation.left_out import (
    FORMER,
    LESS,
    PATH,
    FormerFigure,
    LeftOutFigure,
    read_former,
    read_left_out,
)
from service.validation.reading import Line, read_files
from service.validation.report.peers import ANSWERS, Peer, read_peers
from service.validation.report.remarks import Remark, read_remarks
from service.validation.tables import read_table
from service.validation.transferred import TRANSFERRED, Transferred

MEASUREMENTS = "measurements"


@dataclass(frozen=True, slots=True)
class Packaged:
    """Everything that an assessment needs beside the measurements themselves.

    ``left_out`` are comparisons by constants fitted without the source, None where nobody wrote
    them yet, and ``less_left_out`` the same of requests that say less; ``former`` are those of a
    former engine, and ``transferred`` are estimates by constants fitted without any row of the
    same hardware, software, format, kind of model or load, empty where nobody wrote them.
    """

    snapshot: CatalogSnapshot
    remarks: tuple[Remark, ...]
    peers: tuple[Peer, ...]
    left_out: tuple[LeftOutFigure, ...] | None
    less_left_out: tuple[LeftOutFigure, ...] | None = None
    former: tuple[FormerFigure, ...] = ()
    transferred: tuple[Transferred, ...] = ()


def read_packaged(catalog: Path) -> Packaged:
    """The catalog of a directory, with what lies beside its measurements.

    Raises
    ------
    CatalogInvalid
        If the catalog is unsound.
    LeftOutInvalid
        If the left-out comparisons are.
    """
    folder, former = catalog / MEASUREMENTS, catalog / FORMER
    transferred = catalog / TRANSFERRED
    return Packaged(
        snapshot=snapshot_from_documents(packaged_documents(catalog), 0, checked=True),
        remarks=read_remarks(folder / "remarks.yaml"),
        peers=read_peers(folder / ANSWERS),
        left_out=_left_out(catalog / PATH),
        less_left_out=_left_out(catalog / LESS),
        former=tuple(read_former(former)) if former.exists() else (),
        transferred=tuple(read_table(transferred, Transferred)[1]) if transferred.exists() else (),
    )


def _left_out(path: Path) -> tuple[LeftOutFigure, ...] | None:
    return tuple(read_left_out(path)[1]) if path.exists() else None


def packaged_lines(catalog: Path, snapshot: CatalogSnapshot) -> dict[str, tuple[Line, ...]]:
    """The packaged measurements by file.

    Raises
    ------
    FileInvalid
        If they cannot be read.
    """
    return read_files(catalog / MEASUREMENTS, snapshot)
