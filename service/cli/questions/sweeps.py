"""``headroom sweep``: every configuration of a design space as a table, with its progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from service.cli.questions.asking import client_for, tell
from service.cli.questions.bodies import misused, read_json
from service.cli.status import REFUSED, UNREACHABLE, notices
from service.client.estimator import EstimatorClient, NotReached, Refused

if TYPE_CHECKING:
    from service.client.sweeps import Told


def sweep(
    request: Annotated[
        str,
        typer.Argument(
            help="File with the request of /v1/sweeps, or of /v1/sweeps/training, which has "
            "training in it; - for standard input.",
            metavar="FILE",
        ),
    ],
    server: Annotated[
        str | None,
        typer.Option(
            envvar="HEADROOM_SERVER", help="Use this service instead of computing locally."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the table here instead of standard output.")
    ] = None,
) -> None:
    """Evaluate every configuration of a design space, and print its rows as CSV."""
    body = read_json(request, "FILE")
    try:
        with _progress() as told:
            asyncio.run(_copied(client_for(server), body, told, output))
    except Refused as refused:
        tell(refused.problem)
        raise typer.Exit(REFUSED) from None
    except NotReached as error:
        notices.print(str(error), style="red")
        raise typer.Exit(UNREACHABLE) from None


async def _copied(
    door: EstimatorClient, body: Mapping[str, Any], told: Told, output: Path | None
) -> None:
    pieces = aiter(door.sweep(body, told))
    # What is refused leaves the file of an earlier sweep as it was.
    first = await anext(pieces, "")
    with _written_to(output) as file:
        file.write(first)
        async for piece in pieces:
            file.write(piece)


@contextmanager
def _written_to(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise misused(f"--output {output}: {error.strerror}") from None


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar on standard error while there is a terminal; silence elsewhere."""
    if not notices.is_terminal:
        yield lambda done, total: None  # noqa: ARG005
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("configurations"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=notices, transient=True) as shown:
        bar = shown.add_task("", total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total)
