"""``headroom ask``: any question of the service by its path, with fields as they stand there."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.questions.bodies import body_from, misused


def _questions(incomplete: str) -> list[str]:
    """Questions that begin like this."""
    from service.estimation.use_cases import USE_CASES

    return [path for path in USE_CASES if path.startswith(incomplete)]


def ask(
    question: Annotated[
        str,
        typer.Argument(
            help="Path below /v1, such as social-licence or memory/transfers.",
            autocompletion=_questions,
            show_default=False,
        ),
    ],
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A field of the request: FIELD=VALUE, e.g. region=aws/us-east-1."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(help="JSON file with the request (- reads standard input)."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="Use this service instead of computing locally.", envvar="HEADROOM_SERVER"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the figures as a CSV table.")
    ] = False,
) -> None:
    """Ask any question of the service, by its path and the names of its fields."""
    from service.cli.questions import asking
    from service.cli.views.figures import view
    from service.estimation.tables import figure_rows
    from service.estimation.use_cases import USE_CASES

    path = question.strip("/").removeprefix("v1/")
    if path not in USE_CASES:
        raise misused(f"no such question: {question}; there are {', '.join(sorted(USE_CASES))}")
    body = body_from({"request": request, "set": assignments}, ())
    given = {"server": server, "json": as_json, "csv": as_csv}
    asking.ask(path, body, given, view, figure_rows)
