"""``headroom mcp``: the tools for assistants, over standard input and output."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from service.cli.status import MISUSED, notices


def mcp(
    server: Annotated[
        str | None,
        typer.Option(
            help="Use this service instead of computing locally.", envvar="HEADROOM_SERVER"
        ),
    ] = None,
) -> None:
    """Serve a few tools to assistants by the Model Context Protocol, over standard input."""
    if find_spec("mcp") is None:
        notices.print("This command needs the extra: pip install 'headroom[mcp]'")
        raise typer.Exit(MISUSED)
    from service.cli.questions.asking import client_for
    from service.mcp.server import mcp_server

    mcp_server(client_for(server)).run("stdio")
