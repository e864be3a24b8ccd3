"""The project's own measurements, names and remarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.validation.report.peers import ANSWERS, Peer, read_peers
from service.validation.report.remarks import Remark, read_remarks
from service.validation.rows.tables import Tables, read_directory
from service.validation.rows.vocabulary import Vocabulary, read_vocabulary

FOLDER = "validation"


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that an assessment needs beside the measurements themselves."""

    snapshot: CatalogSnapshot
    vocabulary: Vocabulary
    remarks: tuple[Remark, ...]
    peers: tuple[Peer, ...]


def read_bench(catalog: Path) -> Bench:
    """The catalog of a directory, with the names and remarks that lie in it.

    Raises
    ------
    CatalogInvalid
        If the catalog is unsound.
    """
    folder = catalog / FOLDER
    return Bench(
        snapshot=snapshot_from_documents(packaged_documents(catalog), 0),
        vocabulary=read_vocabulary(folder / "names.yaml"),
        remarks=read_remarks(folder / "remarks.yaml"),
        peers=read_peers(folder / ANSWERS),
    )


def read_measurements(catalog: Path, directory: Path | None) -> Tables:
    """The measurements of a directory, or the catalog's own.

    Raises
    ------
    TableInvalid
        If they cannot be read.
    """
    return read_directory(directory or catalog / FOLDER)
