"""``headroom catalog rollback``: a new revision that says what an older one said."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.status import REFUSED, notices
from service.cli.upkeep.catalog import print_differences
from service.cli.upkeep.database import on_database
from service.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.catalog.database.importer import Applied


def roll_back(
    revision: Annotated[int, typer.Argument(min=1, help="The last good revision.")],
    reason: Annotated[str, typer.Option(help="Reason, for the audit trail.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would change.")
    ] = False,
) -> None:
    """Make the shared catalog say again what it said at a revision, in a new revision.

    Nothing is taken out of history: estimates that name the bad revision can still be repeated.
    """
    from service.catalog.database.connection import migrate
    from service.catalog.database.importer import Change, apply_change
    from service.catalog.database.revisions import (
        RevisionUnknown,
        documents_at,
        newest_revision,
        read_revision,
    )
    from service.catalog.entries.documents import CatalogInvalid
    from service.catalog.files import read_schemas

    schemas = read_schemas(Settings().catalog_directory)
    who = f"{getpass.getuser()} on the command line"

    async def act(engine: AsyncEngine) -> Applied:
        await migrate(engine)
        async with engine.begin() as connection:
            await read_revision(connection, revision)
            newest = await newest_revision(connection)
            number = revision if newest is None else newest.revision
            held = await documents_at(connection, number)
            good = await documents_at(connection, revision)
            entries = {
                (collection, entry_id): good.get(collection, {}).get(entry_id)
                for documents in (held, good)
                for collection, of_collection in documents.items()
                for entry_id in of_collection
            }
            change = Change(entries, who, reason, expected_revision=number)
            return await apply_change(connection, change, schemas, dry_run=dry_run)

    try:
        applied = on_database(act)
    except RevisionUnknown:
        print(f"The catalog in the database has no revision {revision}.", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    except CatalogInvalid as unsound:
        print(f"Revision {revision} is not valid for this release:\n{unsound}", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    print_differences(applied.differences)
    if applied.revision is not None:
        notices.print(f"Created revision {applied.revision}.")
