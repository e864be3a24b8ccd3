"""``headroom detect``: which entries of the catalog this machine is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from service.cli.status import REFUSED, notices, screen

if TYPE_CHECKING:
    from service.estimation.detection.identify import Detection

_PATIENCE_S = 60.0
_MOST_BYTES = 1_000_000


def detect(
    as_json: Annotated[bool, typer.Option("--json", help="Answer as JSON.")] = False,
    read: Annotated[
        list[str] | None,
        typer.Option(
            help="TOOL=FILE: take what a tool of another machine wrote from a file, and ask "
            "nothing of this one. Repeatable; tools and files are those that are read here, such "
            "as nvidia-smi, lscpu and meminfo."
        ),
    ] = None,
) -> None:
    """Say which accelerators and platform of the catalog this machine is.

    Reads nvidia-smi, amd-smi or rocm-smi, xpu-smi, hl-smi, npu-smi, neuron-ls, tpu-info,
    system_profiler, lscpu, dmidecode, and files of the kernel, whichever there are; from files also
    what these write for people or as XML, JSON or CSV. The last part of the answer goes into a
    request as it is.
    """
    from service.catalog.files import packaged_documents
    from service.catalog.snapshot import snapshot_from_documents
    from service.estimation.detection.machine import detect as detected
    from service.settings import Settings

    outputs = _here() if read is None else dict(_of_file(one) for one in read)
    snapshot = snapshot_from_documents(
        packaged_documents(Settings().catalog_directory), 0, checked=True
    )
    found = detected(outputs, snapshot)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    if found["request"] is None:
        raise typer.Exit(REFUSED)


def _here() -> Mapping[str, str]:
    """What the tools and files of this machine say, without those that there are not."""
    from service.estimation.detection.machine import COMMANDS, FILES

    outputs = {name: _output(command) for name, command in COMMANDS.items()}
    outputs |= {name: _content(Path(path)) for name, path in FILES.items()}
    return {name: text for name, text in outputs.items() if text}


def _output(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the commands are constants
            command, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_MOST_BYTES].decode("utf-8", "replace")


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _of_file(told: str) -> tuple[str, str]:
    from service.estimation.detection.machine import COMMANDS, FILES

    tool, equals, path = told.partition("=")
    known = (*COMMANDS, *FILES)
    if not equals or tool not in known:
        raise typer.BadParameter(f"must be TOOL=FILE, with one of {', '.join(known)}")
    if not Path(path).is_file():
        raise typer.BadParameter(f"there is no file {path}")
    return tool, _content(Path(path))


def _show(found: Detection) -> None:
    table = Table("accelerator", "reported as", "count", "memory [GiB]", "power limit [W]")
    for one in found["accelerators"]:
        memory, power = one["memory_bytes"], one["power_limit_w"]
        table.add_row(
            one["accelerator"] or "not known",
            one["reported_name"],
            str(one["count"]),
            "" if memory is None else f"{memory / 2**30:.1f}",
            "" if power is None else f"{power:g}",
        )
    console = screen()
    console.print(table)
    console.print(f"platform: {found['platform'] or 'not known'}")
    for remark in found["remarks"]:
        notices.print(remark)
    if found["request"] is not None:
        print(json.dumps(found["request"]))
