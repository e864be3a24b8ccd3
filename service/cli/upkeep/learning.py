"""The command about how much estimates learn from reports."""

import sys
from typing import Annotated

import typer

from service.cli.status import REFUSED, notices
from service.settings import Settings


def learning(
    write: Annotated[
        bool, typer.Option("--write", help="Fit how alike deployments are, and write it first.")
    ] = False,
) -> None:
    """Show what own reports do to estimates of sources that nobody fitted; takes a minute."""
    from service.calibration.learning import LearningRefused
    from service.calibration.learning import learning as curves

    try:
        section = curves(Settings().catalog_directory, write=write, note=notices.print)
    except LearningRefused as refused:
        print(refused, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    print(section)
