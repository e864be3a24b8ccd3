"""``headroom measurements list``, ``report`` and ``withdraw``: reports that a service keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from service.cli.questions.asking import KEY_VARIABLE, tell
from service.cli.questions.bodies import misused, read_json
from service.cli.status import REFUSED, UNREACHABLE, notices, screen
from service.client.estimator import NotReached, Refused

if TYPE_CHECKING:
    from service.client.remote import Server

ServerOption = Annotated[
    str | None,
    typer.Option(envvar="HEADROOM_SERVER", help="The service that keeps reports.", metavar="URL"),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar=KEY_VARIABLE,
        help="API key: reports are those of its organisation. Others of this machine see it here, "
        "not in the variable.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the whole answer.")]


def list_reports(
    server: ServerOption = None,
    key: KeyOption = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The newest so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show reports with their errors, newest first: your organisation's and everybody's."""
    items = _answered(_service(server, key).look_up("measurements", "", limit))
    if as_json:
        print(json.dumps(items, indent=2, ensure_ascii=False))
        return
    table = Table("report", "whose", "model", "accelerator", "figure", "measured", "error")
    for item in items:
        for figure in item["figures"]:
            table.add_row(
                str(item["id"]),
                item["organisation"] or "everybody's",
                item["model"],
                item["accelerator"],
                figure["metric"],
                f"{figure['measured']:.4g}",
                "far off" if figure["implausible"] else f"{figure['error_ratio']:+.1%}",
            )
    screen().print(table)


def report(
    file: Annotated[
        Path,
        typer.Argument(help="A measurement: a file with one JSON document, - for standard input."),
    ],
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report a measurement, from which your organisation's estimates learn."""
    document = read_json(str(file), "FILE")
    told = sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    answer = _answered(_service(server, key).report(document, told))
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    notices.print(f"Stored as report {answer['id']}.")
    for figure in answer["figures"]:
        notices.print(
            f"  {figure['metric']}: measured {figure['measured']:.4g}, estimated "
            f"{figure['estimate']:.4g} ({figure['error_ratio']:+.1%})",
        )
    for refused in answer.get("refused", ()):
        notices.print(f"  {refused['metric']}: {refused['reason']}")


def withdraw(
    number: Annotated[int, typer.Argument(min=1, help="Number of the report.")],
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Withdraw a report of your organisation: it corrects nothing from then on."""
    _answered(_service(server, key).withdraw(number))
    notices.print(f"Report {number} is withdrawn.")


def _service(server: str | None, key: str | None) -> Server:
    if not server:
        raise misused("reports are with a service: give --server")
    from service.client.remote import Server

    return Server(server, key)


def _answered(asked: Coroutine[Any, Any, Any]) -> Any:
    """What the service answers.

    Raises
    ------
    typer.Exit
        With the status that tells what happened, where it answers nothing.
    """
    try:
        return asyncio.run(asked)
    except Refused as refused:
        tell(refused.problem)
        raise typer.Exit(REFUSED) from None
    except NotReached as error:
        notices.print(str(error), style="red")
        raise typer.Exit(UNREACHABLE) from None
