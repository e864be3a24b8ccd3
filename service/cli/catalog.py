"""``headroom catalog``: commands that mind the catalog's files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from service.cli.status import REFUSED
from service.settings import Settings

catalog_app = typer.Typer(help="Mind the catalog's files.", no_args_is_help=True)


@catalog_app.command("validate")
def validate_catalog(
    directory: Annotated[
        Path | None, typer.Argument(help="Folder of catalog files; the packaged ones if left out.")
    ] = None,
) -> None:
    """Check catalog files: form, sources, names, figures; lists everything that is wrong."""
    from service.catalog.documents import CatalogInvalid
    from service.catalog.files import packaged_documents

    folder = directory or Settings().catalog_directory
    try:
        documents = packaged_documents(folder)
    except CatalogInvalid as invalid:
        print(invalid, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    counts = ", ".join(f"{len(entries)} {name}" for name, entries in sorted(documents.items()))
    print(f"{folder} is sound: {counts}")
