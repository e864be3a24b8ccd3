"""What ``--model`` means: an id, a model of the Hub, or files on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from service.cli.status import REFUSED, notices

_FILES = (".json", ".safetensors")
_PATHS = ("/", "./", "../", "~")


def model_reference(given: str) -> str | dict[str, Any]:
    """The model as a request refers to it.

    What looks like a path is one; so is what exists under that name and is a file, or a folder with
    a ``config.json``. Everything else is a name, that of a file of llama.cpp's which is not here,
    too.

    Raises
    ------
    typer.Exit
        With a complaint, if files cannot be understood.
    """
    path = Path(given).expanduser()
    named = given.startswith(_PATHS) or path.suffix.lower() in _FILES
    if not named and not path.is_file() and not (path / "config.json").is_file():
        return given
    from service.checkpoints.local import local_model
    from service.checkpoints.reading import CheckpointUnreadable

    try:
        return local_model(path)
    except CheckpointUnreadable as error:
        notices.print(str(error), style="red")
        raise typer.Exit(REFUSED) from None
