"""Asks a question and tells the outcome: the answer as tables, JSON or CSV, or what is wrong."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from service.cli.questions.bodies import misused
from service.cli.status import DOES_NOT_FIT, REFUSED, UNREACHABLE, notices, screen
from service.client.estimator import EstimatorClient, NotReached, Refused
from service.settings import Settings

#: Where the API key for a server stands: other users of a machine see the options of a command.
KEY_VARIABLE = "HEADROOM_KEY"

View = Callable[[Mapping[str, Any]], Sequence[Any]]
Rows = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]


def client_for(server: str | None, key: str | None = None) -> EstimatorClient:
    """The server if one is named, with this key or the environment's; else this process."""
    if server:
        from service.client.remote import Server

        return Server(server, key or os.environ.get(KEY_VARIABLE))
    from service.client.in_process import InProcess

    return InProcess(Settings())


def ask(
    question: str, body: Mapping[str, Any], given: Mapping[str, Any], view: View, rows: Rows
) -> None:
    """Ask, and print the answer in the form that was wanted.

    Parameters
    ----------
    question, body
        As a :class:`EstimatorClient` takes them.
    given
        The command's options: ``server``, ``json``, ``csv`` and ``must_fit``.
    view
        Makes what people read of an answer.
    rows
        Makes a table's rows of an answer.

    Raises
    ------
    typer.Exit
        With the status that tells what happened, where there is no answer, or none that fits.
    """
    if given["json"] and given["csv"]:
        raise misused("--json and --csv exclude each other")
    if not given["json"]:
        body = _with_all_shown(question, body)
    try:
        with _waiting(question):
            answer = asyncio.run(client_for(given["server"]).ask(question, body))
    except Refused as refused:
        tell(refused.problem)
        raise typer.Exit(REFUSED) from None
    except NotReached as error:
        notices.print(str(error), style="red")
        raise typer.Exit(UNREACHABLE) from None
    if given["json"]:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    elif given["csv"]:
        _print_table(rows(answer))
    else:
        console = screen()
        for part in view(answer):
            console.print(part)
    if given.get("must_fit") and not _fits(answer):
        raise typer.Exit(DOES_NOT_FIT)


@contextmanager
def _waiting(question: str) -> Iterator[None]:
    """Shows on a terminal how far a search here is, and for how long it goes on; else silence."""
    if not notices.is_terminal or not question.startswith("recommendations"):
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from service.estimation.progress import watched_by

    columns = (TextColumn("searching configurations and places"), BarColumn())
    with Progress(*columns, TimeElapsedColumn(), console=notices, transient=True) as shown:
        # A service that is asked tells nothing until it has found what it looks for.
        bar = shown.add_task("", total=None)
        with watched_by(lambda done_ratio: shown.update(bar, completed=done_ratio, total=1.0)):
            yield


def _with_all_shown(question: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request with all that tables show.

    Raises
    ------
    typer.Exit
        With a complaint, if it chooses fields, of which tables may need others.
    """
    from service.estimation.use_cases import USE_CASES

    if "fields" in body:
        raise misused("fields are chosen for --json alone")
    groups = [group for group in USE_CASES[question].groups if group != "explanation"]
    return {**body, "include": [*body.get("include", ()), *groups]} if groups else body


def tell(problem: Mapping[str, Any], whole: str = "request") -> None:
    """A problem as people read it; ``whole`` is what an empty pointer stands for."""
    errors = problem.get("errors")
    if not isinstance(errors, list) or not errors:
        notices.print(problem.get("detail") or problem.get("title"), style="red")
        return
    notices.print(problem.get("title"), style="red")
    for error in errors:
        place = str(error.get("pointer", "")).removeprefix("/").replace("/", ".")
        line, column = error.get("line"), error.get("column")
        at = "" if line is None else f"line {line}, column {column}: "
        notices.print(f"  {at}{place or whole}: {error.get('detail')}")


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    from service.api.http.tables import safe_cell

    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in rows)


def _fits(answer: Mapping[str, Any]) -> bool:
    memory = answer.get("memory", answer)
    return bool(memory.get("fits", True))
