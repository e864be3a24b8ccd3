"""``headroom catalog``: commands that mind the catalog, in files and in the database."""

from __future__ import annotations

import asyncio
import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from service.cli.status import REFUSED, notices, screen
from service.cli.upkeep.database import on_database
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.catalog.database.importer import Applied
    from service.catalog.entries.documents import DocumentSet
    from service.catalog.exchange.reading import Form
    from service.catalog.snapshot import CatalogSnapshot

catalog_app = typer.Typer(help="Maintain the catalog.", no_args_is_help=True)
refresh_app = typer.Typer(help="Read anew what changes by the day.", no_args_is_help=True)
catalog_app.add_typer(refresh_app, name="refresh")

#: Stands for the database's newest revision where a state of the catalog is asked for.
NEWEST = "newest"
#: Columns of a table that nobody's terminal bounds.
_WIDE = 200
_FORMS: dict[str, Form] = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".csv": "csv"}

State = Annotated[
    str | None,
    typer.Argument(
        help="A folder of catalog files, a revision number, or newest (both from the database); "
        "default: the packaged files."
    ),
]


@catalog_app.command("validate")
def validate_catalog(
    directory: Annotated[
        Path | None, typer.Argument(help="Folder of catalog files; default: the packaged ones.")
    ] = None,
) -> None:
    """Check catalog files (schema, sources, names, figures) and list all errors."""
    folder = directory or Settings().catalog_directory
    documents = _files(folder, with_texts=True)
    counts = ", ".join(f"{len(entries)} {name}" for name, entries in sorted(documents.items()))
    print(f"{folder} is valid: {counts}")


@catalog_app.command("schemas")
def schemas(write: Annotated[bool, typer.Option("--write", help="Write them.")] = False) -> None:
    """Compare the JSON Schemas of the catalog's files and of measurements with the code."""
    from service.catalog.files import declared_schemas
    from service.estimation.measurements.schema import PATH, document_schema

    folder = Settings().catalog_directory
    stale = []
    for path, text in (*declared_schemas(folder), (folder / PATH, document_schema())):
        if path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if write:
                path.write_text(text, encoding="utf-8")
    print(f"{'wrote' if write else 'differ'}: {', '.join(stale) or 'none'}")
    if stale and not write:
        raise typer.Exit(REFUSED)


@catalog_app.command("diff")
def differences_between(
    older: Annotated[str, typer.Argument(help="A folder, a revision number, or newest.")],
    newer: State = None,
) -> None:
    """Compare two states of the catalog, figure by figure."""
    from service.catalog.differences import differences

    print_differences(differences(_state(older), _state(newer)))


@catalog_app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="YAML, JSON or CSV.")],
    reason: Annotated[str, typer.Option(help="Reason, for the audit trail.")],
    collection: Annotated[
        str | None, typer.Option(help="Collection of the entries of a list or a table.")
    ] = None,
    organisation: Annotated[
        str | None,
        typer.Option(help="Organisation whose own entries they are; default: shared entries."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would change.")
    ] = False,
) -> None:
    """Import a file of entries into the database, all of it or nothing."""
    from service.catalog.database.connection import migrate
    from service.catalog.database.importer import Change, apply_change, import_package
    from service.catalog.entries.documents import CatalogInvalid
    from service.catalog.exchange.reading import FileInvalid, read_catalog_file
    from service.catalog.files import packaged_documents, read_schemas

    if file.suffix.lower() not in _FORMS:
        raise typer.BadParameter("must end in .yaml, .json or .csv", param_hint="FILE")
    folder = Settings().catalog_directory
    schemas = read_schemas(folder)
    try:
        read = read_catalog_file(
            file.read_bytes(), _FORMS[file.suffix.lower()], collection, schemas
        )
    except FileInvalid as bad:
        print(bad, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    who = f"{getpass.getuser()} on the command line"
    change = Change(read.entries, who, reason, organisation=organisation)

    async def act(engine: AsyncEngine) -> Applied:
        await migrate(engine)
        async with engine.begin() as connection:
            await import_package(connection, packaged_documents(folder), "import by command line")
        async with engine.begin() as connection:
            return await apply_change(connection, change, schemas, dry_run=dry_run)

    try:
        applied = on_database(act)
    except CatalogInvalid as unsound:
        print(read.located(unsound.errors), file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    print_differences(applied.differences)
    if applied.revision is not None:
        notices.print(f"Created revision {applied.revision}.")


@catalog_app.command("export")
def export_file(
    state: State = None,
    collection: Annotated[
        list[str] | None, typer.Option(help="Only these collections. Repeatable.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="yaml, json or csv.")] = "yaml",
    output: Annotated[
        Path | None, typer.Option(help="File to write; default: standard output.")
    ] = None,
) -> None:
    """Write a state of the catalog as one file that can be imported again."""
    from service.catalog.entries.documents import COLLECTIONS
    from service.catalog.exchange.writing import catalog_file
    from service.catalog.files import read_schemas

    chosen = tuple(collection or COLLECTIONS)
    unknown = [name for name in chosen if name not in COLLECTIONS]
    if unknown:
        known = ", ".join(COLLECTIONS)
        raise typer.BadParameter(
            f"there is no {unknown[0]}; choose from {known}", param_hint="--collection"
        )
    if form not in _FORMS.values():
        raise typer.BadParameter("must be yaml, json or csv", param_hint="--format")
    if form == "csv" and len(chosen) != 1:
        raise typer.BadParameter("a table needs exactly one --collection", param_hint="--format")
    documents = _state(state)
    schemas = read_schemas(Settings().catalog_directory)
    text = catalog_file(documents, _FORMS[f".{form}"], chosen, schemas)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8", newline="")


@catalog_app.command("stats")
def statistics(state: State = None) -> None:
    """Count the entries of a state of the catalog, and how well they are sourced."""
    from service.catalog.statistics import collection_statistics

    kinds_of_figures = ("datasheet", "measured", "derived", "assumed")
    table = Table(
        Column("collection", no_wrap=True), "entries", "figures", "ranges", *kinds_of_figures, "to"
    )
    for held in collection_statistics(_state(state)):
        kinds = (str(held.kinds.get(kind, 0)) for kind in kinds_of_figures)
        table.add_row(
            held.collection,
            *(str(held.entries), str(held.figures), str(held.with_range)),
            *kinds,
            str(held.newest_year or ""),
        )
    screen().print(table)


@refresh_app.command("prices")
def refresh_prices(
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="Only this one; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change; write nothing.")
    ] = False,
) -> None:
    """Ask providers' public price lists, which need no key, and renew the tables of offers.

    What a list does not have keeps its price and date. A provider that does not answer leaves its
    table as it is, and the command fails once the others are done.
    """
    from service.catalog.snapshot import snapshot_from_documents
    from service.prices.refresh import PROVIDERS

    asked = tuple(dict.fromkeys(name.casefold() for name in provider or PROVIDERS))
    unknown = [name for name in asked if name not in PROVIDERS]
    if unknown:
        known = ", ".join(PROVIDERS)
        raise typer.BadParameter(
            f"{unknown[0]} has no price list to ask; known are {known}", param_hint="--provider"
        )
    folder = Settings().catalog_directory
    snapshot = snapshot_from_documents(_files(folder), 0)
    failed = asyncio.run(refresh_tables(asked, snapshot, None if dry_run else folder / "offers"))
    if failed:
        raise typer.Exit(REFUSED)


async def refresh_tables(
    providers: Sequence[str], snapshot: CatalogSnapshot, folder: Path | None
) -> bool:
    """Renew tables in a folder, or none; whether any provider could not be asked."""
    from datetime import UTC, datetime

    from service.prices.reading import PricesUnavailable, price_client
    from service.prices.refresh import refreshed, write_offers

    today, failed = datetime.now(UTC).date().isoformat(), False
    async with price_client() as client:
        for name in providers:
            try:
                found = await refreshed(name, snapshot, client, today)
            except PricesUnavailable as error:
                print(f"{name}: {error}; its prices stay as they are", file=sys.stderr)
                failed = True
                continue
            print(f"{name}: {found.new} new, {found.changed} changed, {found.same} as before")
            if found.unknown_regions:
                left = ", ".join(found.unknown_regions)
                notices.print(f"{name}: left out are regions that the catalog lacks: {left}")
            for offer in found.doubted:
                told = f"{offer.instance} in {offer.region or 'all regions'}, {offer.kind}"
                notices.print(
                    f"{name}: left out is a price over four times as dear or cheap as before:"
                    f" {told}, {offer.usd_per_hour:g} USD/h"
                )
            if folder is not None:
                try:
                    write_offers(folder, name, found.rows)
                except OSError as error:
                    print(f"{name}: {error}; its prices stay as they are", file=sys.stderr)
                    failed = True
    return failed


@catalog_app.command("staleness")
def staleness(
    state: State = None,
    year: Annotated[
        int | None,
        typer.Option(min=1990, max=2200, help="Reference year; default: the current year."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if there are any.")] = False,
) -> None:
    """List figures and rules that are past their shelf life, oldest first."""
    from datetime import UTC, datetime

    from service.catalog.entries.shelf_life import stale_figures

    present = year or datetime.now(UTC).year
    found = sorted(stale_figures(_state(state), present), key=lambda one: (one.year, one.entry_id))
    names = ("of", "good for", "collection", "entry", "figure")
    table = Table(*(Column(name, no_wrap=True) for name in names))
    for one in found:
        life = f"{one.shelf_life_years:g} years"
        table.add_row(str(one.year), life, one.collection, one.entry_id, one.name)
    # Into a file or another program, at its full width.
    screen(None if sys.stdout.isatty() else _WIDE).print(table)
    notices.print(f"{len(found)} are past their shelf life in {present}.")
    if found and strict:
        raise typer.Exit(REFUSED)


def _state(named: str | None) -> DocumentSet:
    """The documents of a folder, of a revision in the database, or of the packaged files."""
    if named is None:
        return _files(Settings().catalog_directory)
    if named == NEWEST or named.isdecimal():
        return _recorded(None if named == NEWEST else int(named))
    if not Path(named).is_dir():
        raise typer.BadParameter(f"{named} is neither a folder, a revision number nor {NEWEST}")
    return _files(Path(named))


def _files(folder: Path, *, with_texts: bool = False) -> DocumentSet:
    from service.catalog.entries.documents import CatalogInvalid
    from service.catalog.files import checked_files, packaged_documents

    try:
        return checked_files(folder) if with_texts else packaged_documents(folder)
    except CatalogInvalid as invalid:
        print(invalid, file=sys.stderr)
        raise typer.Exit(REFUSED) from None


def _recorded(revision: int | None) -> DocumentSet:
    from service.catalog.database.connection import migrate
    from service.catalog.database.revisions import RevisionUnknown, load_snapshot

    async def act(engine: AsyncEngine) -> DocumentSet:
        await migrate(engine)
        async with engine.connect() as connection:
            return (await load_snapshot(connection, revision)).documents()

    try:
        return on_database(act)
    except RevisionUnknown:
        told = "is empty" if revision is None else f"has no revision {revision}"
        print(f"The catalog in the database {told}.", file=sys.stderr)
        raise typer.Exit(REFUSED) from None


def print_differences(changes: Any) -> None:
    """What a change changes, entry by entry and figure by figure."""
    count = 0
    for change in changes:
        count += 1
        print(f"{change.change} {change.collection} {change.entry_id}")
        for field in change.fields:
            before = "missing" if field.missing == "before" else repr(field.before)
            after = "missing" if field.missing == "after" else repr(field.after)
            print(f"  {field.pointer}: {before} -> {after}")
    if not count:
        notices.print("Nothing differs.")
