"""Requests out of what was typed: options, ``--set`` and ``--request``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from service.cli.questions.options import Option
from service.cli.status import MISUSED, notices
from service.estimation.formatting import megabytes

_MOST_BYTES = 10_000_000


def misused(complaint: str) -> typer.Exit:
    """Says what is wrong with the command line; to be raised."""
    notices.print(complaint, style="red")
    return typer.Exit(MISUSED)


def body_from(given: Mapping[str, Any], options: Iterable[Option]) -> dict[str, Any]:
    """The request that options spell: ``--set`` wins over options, and these over ``--request``.

    Raises
    ------
    typer.Exit
        With a complaint, if a file or a ``--set`` cannot be read.
    """
    body = read_json(given["request"], "--request") if given.get("request") else {}
    for option in options:
        value = given.get(option.dest)
        # Zero equals False, and is said.
        if option.place and value is not None and value is not False and value != []:
            put(body, option.place, value, option.flags[0])
    for setting in given.get("set") or ():
        place, equals, text = setting.partition("=")
        if not place or not equals:
            raise misused(f"--set {setting}: must be FIELD=VALUE, e.g. serving.kv_block_tokens=32")
        put(body, tuple(place.split(".")), value_of(text), f"--set {place}")
    return body


def put(body: dict[str, Any], place: tuple[str, ...], value: Any, spelled: str) -> None:
    """Set a part of a request; ``spelled`` is how the user named it.

    Raises
    ------
    typer.Exit
        With a complaint, if a part around it is no object.
    """
    holder: Any = body
    for part in place[:-1]:
        holder = holder.setdefault(part, {})
        if not isinstance(holder, dict):
            raise misused(f"{spelled}: {part} is not an object in the request")
    holder[place[-1]] = value


def value_of(text: str) -> Any:
    """JSON where it is some, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_json(name: str, flag: str) -> dict[str, Any]:
    """The object in a JSON file, - for standard input; ``flag`` is the option that names it.

    Raises
    ------
    typer.Exit
        With a complaint, if there is none.
    """
    from service.estimation.bodies import repeated_keys

    try:
        if name == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise misused(f"{flag} {name}: larger than {megabytes(_MOST_BYTES)}")
        body = json.loads(content)
        twice = next(repeated_keys(content), None)
        if twice is not None:
            raise misused(f"{flag} {name}: {twice} is given more than once; keep one of them")
    except OSError as error:
        raise misused(f"{flag} {name}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise misused(f"{flag} {name}: not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise misused(f"{flag} {name}: must be a JSON object")
    return body
