"""Cross-validation: how well estimates predict rows that no constant was fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from service.calibration.command import FILES, CalibrationFile, CalibrationRefused, refitted
from service.calibration.documents import CalibrationEntry, document_text
from service.catalog.entries.documents import CatalogInvalid, Document, DocumentSet, canonical
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.validation.former.compared import TableOutcome, assess
from service.validation.former.document import targets_table
from service.validation.packaged import Bench, read_bench, read_measurements
from service.validation.rows.tables import Row, RowRefused, TableInvalid, Tables
from service.validation.rows.vocabulary import accelerator_of

_COLLECTION = "calibrations"

_INTRODUCTION = """\
<!-- Written by `./headroom cross-validate --write-docs`; do not edit by hand. -->

# What no constant was fitted to

[Accuracy](accuracy.md) holds estimates against measurements that their constants were fitted to.
Here the constants are fitted anew without the rows that they are held against, as if these had
been measured afterwards: by `./headroom cross-validate`, in a quarter of an hour. Memory sizes
are not fitted to these rows and are not part of this page.

Columns are those of [Accuracy](accuracy.md), with the same targets. **Bold** falls short.
"""
_MODELS = """\
## Models

Models are dealt out among five parts, in the order of their names, and every part is estimated by
what the four others teach. Engines that few models were measured with suffer most: where only a
small and a large one were, each is predicted from the other.
"""
_FAMILIES = """\
## Hardware families

Each family is estimated by what all others teach, like hardware of which nothing was measured,
and with the wide intervals that such estimates have.
"""
#: Parts that models are left out in.
_PARTS = 5

#: Names the part that a row belongs to; None keeps it out of the comparison.
PartOf = Callable[[Row], str | None]


def holdout_document(
    models: Mapping[str, TableOutcome], families: Mapping[str, TableOutcome]
) -> str:
    """The page in Markdown, from outcomes with models and with families left out."""
    parts = [_INTRODUCTION, _MODELS, *targets_table(models), _FAMILIES, *targets_table(families)]
    return "\n".join(parts).rstrip() + "\n"


def fitted_rows(tables: Tables) -> Tables:
    """Only the tables that constants are fitted to."""
    names = {name for file in FILES for name in file.tables}
    return replace(tables, rows={name: tables.rows[name] for name in tables.rows if name in names})


def by_model(tables: Tables) -> PartOf:
    """Models dealt out among a few parts, in the order of their names."""
    models = sorted({row.text("model") for rows in tables.rows.values() for row in rows})
    parts = {model: str(at % _PARTS) for at, model in enumerate(models)}
    return lambda row: parts.get(row.text("model"))


def by_family(bench: Bench) -> PartOf:
    """Every hardware family by itself."""

    def family(row: Row) -> str | None:
        try:
            known = accelerator_of(row, bench.vocabulary, bench.snapshot)
        except RowRefused:
            return None
        return bench.snapshot.accelerators[known].value.family

    return family


def cross_validate(catalog: Path, note: Callable[[str], object]) -> str:
    """The page about a catalog and its own measurements.

    Parameters
    ----------
    catalog
        Directory of the catalog's files.
    note
        Takes a line about every refit.

    Raises
    ------
    CalibrationRefused
        If something cannot be read.
    """
    try:
        bench = read_bench(catalog)
        tables = fitted_rows(read_measurements(catalog, None))
        documents = packaged_documents(catalog)
    except (TableInvalid, CatalogInvalid, OSError) as invalid:
        raise CalibrationRefused(str(invalid)) from None
    models = holdout_outcomes(documents, bench, tables, by_model(tables), note)
    return holdout_document(
        models, holdout_outcomes(documents, bench, tables, by_family(bench), note)
    )


def holdout_outcomes(
    documents: DocumentSet,
    bench: Bench,
    tables: Tables,
    part_of: PartOf,
    note: Callable[[str], object],
) -> dict[str, TableOutcome]:
    """Rows compared with estimates by constants that were fitted to all other parts.

    Parameters
    ----------
    documents, bench
        The catalog, and names of the rows.
    tables
        Measurements; constants are fitted to all of these but the part left out.
    part_of
        Says which rows are left out together.
    note
        Takes a line about every part.

    Returns
    -------
    dict
        Outcome by table, of all parts together.
    """
    parts = sorted(
        {part for rows in tables.rows.values() for row in rows if (part := part_of(row))}
    )
    found: dict[str, list[TableOutcome]] = {name: [] for name in tables.rows}
    for part in parts:
        note(f"without {part}")
        known = _chosen(tables, lambda row, part=part: part_of(row) != part)  # type: ignore[misc]
        left_out = _chosen(tables, lambda row, part=part: part_of(row) == part)  # type: ignore[misc]
        snapshot = _refit(documents, bench, known)
        for name, outcome in assess(left_out, bench.vocabulary, snapshot).items():
            found[name].append(outcome)
    return {name: _together(outcomes) for name, outcomes in found.items()}


def _chosen(tables: Tables, wanted: Callable[[Row], bool]) -> Tables:
    rows = {name: tuple(filter(wanted, listed)) for name, listed in tables.rows.items()}
    return replace(tables, rows=rows)


def _refit(documents: DocumentSet, bench: Bench, known: Tables) -> CatalogSnapshot:
    """The catalog with constants fitted to the known rows; each file's before the next one's."""
    snapshot = bench.snapshot
    for file in FILES:
        rows = [row for table in file.tables for row in known.rows.get(table, ())]
        entries = refitted(file, rows, replace(bench, snapshot=snapshot))
        if entries:
            documents = _with(documents, entries, file)
            snapshot = snapshot_from_documents(documents, 0)
    return snapshot


def _with(
    documents: DocumentSet, entries: Iterable[CalibrationEntry], file: CalibrationFile
) -> DocumentSet:
    """The catalog with the entries in place of those that a file has."""
    fitted: dict[str, Document] = {
        document["id"]: document
        for document in canonical(yaml.safe_load(document_text(file.comment, entries)))
    }
    others = {
        id_: document for id_, document in documents[_COLLECTION].items() if not file.holds(id_)
    }
    return {**documents, _COLLECTION: {**others, **fitted}}


def _together(outcomes: Iterable[TableOutcome]) -> TableOutcome:
    listed = tuple(outcomes)
    refusals: Counter[str] = Counter()
    for one in listed:
        refusals.update(one.refusals)
    return TableOutcome(
        sum(one.rows for one in listed),
        tuple(entry for one in listed for entry in one.compared),
        tuple(entry for one in listed for entry in one.sanity),
        dict(refusals),
        tuple(test for one in listed for test in one.fit_tests),
    )
