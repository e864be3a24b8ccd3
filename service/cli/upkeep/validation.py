"""Commands that mind the database, the contract and the accuracy."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from service.cli.status import REFUSED, notices
from service.cli.upkeep.checkout import checkout
from service.settings import Settings


def migrate_schema(
    target: Annotated[str, typer.Argument(help="A migration's id, or head.")] = "head",
) -> None:
    """Bring the database's schema to a migration; serve does this by itself when it starts."""
    from service.catalog.database.connection import migrate
    from service.cli.upkeep.database import on_database

    on_database(lambda engine: migrate(engine, target))


def openapi() -> None:
    """Print the OpenAPI document."""
    from service.api.app import create_app

    print(json.dumps(create_app().openapi(), indent=2))


def validate(
    data: Annotated[
        Path | None,
        typer.Option(
            help="File of measurements, one JSON document a line, or a folder of them; default: "
            "the packaged ones."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    write_docs: Annotated[
        bool, typer.Option(help="Write docs/accuracy.md from the packaged measurements.")
    ] = False,
) -> None:
    """Hold estimates against published measurements: errors, coverage, what was refused."""
    from service.validation.command import ValidationRefused, validation

    try:
        validation(
            Settings().catalog_directory,
            data,
            as_json=as_json,
            document=checkout() / "docs" / "accuracy.md" if write_docs else None,
            note=lambda line: print(line, file=sys.stderr),
        )
    except ValidationRefused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(REFUSED) from None


def calibrate(
    write: Annotated[
        bool, typer.Option("--write/--check", help="Write the fitted constants, or only compare.")
    ] = False,
    only: Annotated[
        Literal["inference", "training"] | None,
        typer.Option(help="Refit constants of one of them alone; power belongs to inference."),
    ] = None,
    transfer: Annotated[
        bool,
        typer.Option(
            "--transfer",
            help="With --write, estimate hardware, engines, formats and loads without their rows.",
        ),
    ] = False,
) -> None:
    """Refit efficiencies to the packaged measurements; fails if the catalog says otherwise."""
    from service.calibration.command import CalibrationRefused, calibration

    try:
        differing = calibration(
            Settings().catalog_directory,
            write=write,
            note=notices.print,
            only=only,
            transfer=transfer,
        )
    except CalibrationRefused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    for line in differing:
        print(line)
    if differing and not write:
        raise typer.Exit(REFUSED)
